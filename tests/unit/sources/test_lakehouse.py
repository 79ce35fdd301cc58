"""Tables of Delta Lake and Iceberg are read as tables, or refused by name; never as the files in their directories."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdstrue
from holdstrue.errors import DataError
from holdstrue.sources.lakehouse import LakeTable, lake_table
from holdstrue.sources.read import read_table, schema_of
from unit.cli.runs import run

ROWS = pa.table({"id": [1, 2, 3], "zip": ["a", "a", "b"]})


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """What a Delta table looks like from outside."""
    path = tmp_path / "delta"
    (path / "_delta_log").mkdir(parents=True)
    (path / "_delta_log" / f"{0:020}.json").write_text(json.dumps({"commitInfo": {}}))
    pq.write_table(ROWS, path / "part-0.parquet")
    (path / "zip=a").mkdir()
    pq.write_table(ROWS, path / "zip=a" / "part-1.parquet")
    return path


@pytest.fixture
def iceberg(tmp_path: Path) -> Path:
    """What an Iceberg table looks like from outside."""
    path = tmp_path / "iceberg"
    (path / "metadata").mkdir(parents=True)
    (path / "data").mkdir()
    pq.write_table(ROWS, path / "data" / "0.parquet")
    for version in (1, 2, 10):
        (path / "metadata" / f"v{version}.metadata.json").write_text("{}")
    return path


def test_without_its_library_every_command_refuses_delta_by_name(
    delta: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    rule, state = ("--rule", "key(zip)"), tmp_path / "state"
    assert run("init", state, *rule, "--key", "id").exit_code == 0
    for args in (
        ("check", delta, *rule), ("check", delta.as_uri(), *rule), ("explain", delta, *rule), ("discover", delta),
        ("init", tmp_path / "new", *rule, "--key", "id", "--data", delta), ("apply", state, delta),
        ("apply", state, delta, "--against", delta), ("discover", f"a={delta}", "--kind", "ind"),
    ):  # fmt: skip
        result = run(*args)
        assert result.exit_code == 2, (args, result.output)
        assert "a table of Delta Lake" in result.stderr, (args, result.stderr)
        assert "holdstrue[delta]" in result.stderr
    result = run("watch", state, delta)
    assert result.exit_code == 2
    assert "a table of Delta Lake" in result.stderr


def test_without_its_library_iceberg_is_refused_by_name(iceberg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    for read in (read_table, schema_of, lambda source: holdstrue.check(source, "key(zip)")):
        with pytest.raises(DataError, match="a table of Iceberg") as caught:
            read(iceberg)
        assert "holdstrue[iceberg]" in str(caught.value.hint)


def test_what_lies_inside_a_table_is_refused(delta: Path, iceberg: Path, tmp_path: Path) -> None:
    for source in (
        delta / "zip=a", delta / "*.parquet", delta / "**/*.parquet", iceberg / "data", iceberg / "data/*.parquet",
        tmp_path / "*/*.parquet", tmp_path / "*" / "*" / "*.parquet",
    ):  # fmt: skip
        with pytest.raises(DataError, match="lies inside"):
            read_table(source)
    with pytest.raises(DataError, match="give it alone"):
        read_table([delta, delta / "part-0.parquet"])


def test_a_file_that_is_named_is_a_file(delta: Path) -> None:
    assert read_table(delta / "part-0.parquet").num_rows == 3


def test_partitions_without_a_log_stay_as_they_are(tmp_path: Path) -> None:
    for zip_ in ("a", "b"):
        (tmp_path / f"zip={zip_}").mkdir()
        pq.write_table(pa.table({"id": [1]}), tmp_path / f"zip={zip_}" / "0.parquet")
    assert read_table(tmp_path / "**/*.parquet").num_rows == 2
    assert read_table(tmp_path / "zip=a").num_rows == 1
    with pytest.raises(DataError, match="no data files directly in it"):
        read_table(tmp_path)


def test_which_metadata_counts(iceberg: Path) -> None:
    from holdstrue.sources.lakehouse import _newest

    folder = iceberg / "metadata"
    assert _newest(folder).name == "v10.metadata.json"
    (folder / "version-hint.text").write_text("2\n")
    assert _newest(folder).name == "v2.metadata.json"
    (folder / "version-hint.text").write_text("7")
    with pytest.raises(DataError, match="no such metadata"):
        _newest(folder)
    (folder / "version-hint.text").unlink()
    (folder / "00010-abc.metadata.json").write_text("{}")
    with pytest.raises(DataError, match="two files of version 10"):
        _newest(folder)
    assert lake_table(folder / "v2.metadata.json") == LakeTable(iceberg, "iceberg", folder / "v2.metadata.json")


def test_delta_is_read_as_a_table(tmp_path: Path) -> None:
    import deltalake

    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, ROWS)
    deltalake.DeltaTable(path).delete("id = 2")
    assert read_table(path).to_pydict() == {"id": [1, 3], "zip": ["a", "b"]}
    assert read_table([path], columns=["zip"]).to_pydict() == {"zip": ["a", "b"]}
    assert schema_of(path).names == ["id", "zip"]
    assert holdstrue.check(path, "key(zip)").total == 0
    with pytest.raises(DataError, match="has no column 'city'"):
        read_table(path, columns=["city"])
    monitor = holdstrue.Monitor("key(zip)", key="id", data=path)
    deltalake.write_deltalake(str(tmp_path / "more"), pa.table({"id": [4], "zip": ["b"]}), partition_by=["zip"])
    assert monitor.apply(tmp_path / "more").counts["key(zip)"].added == 1


def test_a_damaged_delta_table(delta: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_table(delta)


def test_iceberg_is_read_as_a_table(tmp_path: Path) -> None:
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("test", warehouse=tmp_path.as_uri())
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=ROWS.schema)
    table.append(ROWS)
    table.delete("id = 2")
    path = table.location()
    assert read_table(path).to_pydict() == {"id": [1, 3], "zip": ["a", "b"]}
    assert read_table(path, columns=["zip"]).to_pydict() == {"zip": ["a", "b"]}
    assert holdstrue.check(path, "key(zip)").total == 0
    first = next(Path(path.removeprefix("file://")).glob("metadata/00001-*.metadata.json"))
    assert read_table(first).num_rows == 3
