"""A Parquet file of which rules look at some rows: what is found is what is found in the whole table."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import check
from holdstrue.errors import DataError
from holdstrue.sources import late_columns
from holdstrue.sources.page_reader import PageReader, chunk_bytes

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
MOST_NAMED = 20_000
RULES = [
    "[a = 3, b] -> c", "[c = 'v1', a] -> d", "[c = 'v1', b = 2] -> a", "not(t.a < 2 and t.d > 0.5)", "not(t.a > 900)",
    "not(t.e > '2024-02-01' and t.a = 1)", "not(t.c = 'v2' and t.a != 4)", "not(t.n = 1 and t.a = 3)",
    "not(t.c = 'v3' and s.c = 'v3' and t.a < s.a and t.d > s.d)", "not(t.a = t.b and t.c = 'v4')",
]  # fmt: skip


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_columns, "LATE_FROM", 1)


def table_of(rng: np.random.Generator, rows: int, spread: int, unknown: float, ordered: bool) -> pa.Table:
    a = rng.integers(0, spread, rows)
    if ordered:
        a.sort()

    def column(values: Any, type_: pa.DataType) -> pa.Array:
        return pa.array(values, type_, mask=rng.random(rows) < unknown, from_pandas=False)

    days = [dt.date(2024, 1, 1) + dt.timedelta(int(day)) for day in a % 90]
    return pa.table({
        "a": column(a, pa.int64()), "b": column(a % 5, pa.int32()), "c": column([f"v{v}" for v in a % 7], pa.string()),
        "d": column(rng.random(rows).round(2), pa.float64()), "e": column(days, pa.date32()),
        "n": pa.array(np.ones(rows), pa.int64(), mask=a % 3 == 0), "f": column(a % 11, pa.float32()),
    })  # fmt: skip


def answers(data: Any, rules: list[str], **options: Any) -> Any:
    """Counts, and all violations where they are not millions of pairs."""
    report = check(data, [f"r{i} := {text}" for i, text in enumerate(rules)], limit=0, **options)
    found = sorted(map(str, report.violations())) if report.total <= MOST_NAMED else []
    return found, {r.rule.name: r.counts for r in report.results}, report.rows


@SETTINGS
@given(data=st.data())
def test_as_in_memory(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    rows = data.draw(st.sampled_from([1, 40, 3_000, 20_000]))
    table = table_of(
        rng,
        rows,
        data.draw(st.sampled_from([4, 60, 1_000])),
        data.draw(st.sampled_from([0.0, 0.1])),
        data.draw(st.booleans()),
    )
    path = tmp_path_factory.mktemp("parquet") / "t.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=data.draw(st.sampled_from([7, 1_000, 100_000])) if rows < 5_000 else 6_000,
        compression=data.draw(st.sampled_from(["snappy", "zstd", "gzip", "none", "lz4"])),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
        use_dictionary=data.draw(st.sampled_from([True, False, ["a", "c"]])),
        data_page_size=data.draw(st.sampled_from([64, 1 << 20])),
        write_statistics=data.draw(st.sampled_from([True, False, ["a"]])),
    )
    rules = data.draw(st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique=True))
    threads = data.draw(st.sampled_from([1, 2]))
    assert answers(path, rules, threads=threads) == answers(table, rules)
    with_key = table.append_column("id", pa.array(np.arange(rows) // 2))
    pq.write_table(with_key, path, row_group_size=5_000)
    assert answers(path, rules, key="id") == answers(with_key, rules, key="id")


def test_only_what_is_looked_at_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups that cannot have such rows are not read, and of further columns no more than these rows."""
    rows = 10_000
    table = pa.table({"day": np.arange(rows) // 100, "zip": np.arange(rows) % 50, "city": np.arange(rows) % 50})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=1_000)
    read: list[tuple[int, str]] = []
    pages = late_columns.LateColumns._pages

    def noted(own: Any, group: int, name: str) -> Any:
        read.append((group, name))
        return pages(own, group, name)

    monkeypatch.setattr(late_columns.LateColumns, "_pages", noted)
    monkeypatch.setattr(late_columns.LateColumns, "_all", lambda *_: pytest.fail("a column was read as a whole"))
    report = check(path, ["[day = 42, zip] -> city"])
    assert {group for group, _ in read} == {4}
    assert list(report.rows.values()) == [rows]
    assert not list(report.violations())


def test_damaged_pages_are_left_to_arrow(tmp_path: Path) -> None:
    """Any byte of a column chunk may be wrong: what is read is the same, nothing, or an error in words."""
    rng = np.random.default_rng(5)
    table = pa.table({"a": rng.integers(0, 40, 3_000), "b": [f"v{i}" for i in rng.integers(0, 9, 3_000)]})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression="none")
    whole = path.read_bytes()
    opened = pq.ParquetFile(path)
    chunk, column = opened.metadata.row_group(0).column(1), opened.schema.column(1)
    start, size = chunk_bytes(chunk)
    some = np.array([0, 7, 2_999], dtype=np.int32)
    wanted = [table.column("b")[int(row)].as_py() for row in some]
    reader = PageReader(whole[start : start + size], chunk, column, pa.string(), 1)
    taken = reader.taken(some)
    assert taken is not None and taken.to_pylist() == wanted
    for at in range(0, size, 3):
        data = bytearray(whole[start : start + size])
        data[at] ^= int(rng.integers(1, 256))
        broken = PageReader(bytes(data), chunk, column, pa.string(), 1)
        found = broken.taken(some)
        assert found is None or len(found) == 3
        matched = PageReader(bytes(data), chunk, column, pa.string(), 1).satisfying(lambda v: np.ones(len(v), np.bool_))
        assert matched is None or matched.size == 3_000
        path.write_bytes(whole[:start] + bytes(data) + whole[start + size :])
        try:
            check(path, ["[b = 'v1'] -> [a = 2]"])
        except DataError as error:
            assert str(path) in str(error) or "t.parquet" in str(error)
