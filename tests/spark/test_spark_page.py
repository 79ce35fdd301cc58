"""The code of the page on Spark runs as it stands there."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import holdstrue.spark as hs
from docs.pages import ROOT, Block, blocks_of
from spark.conftest import MODE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PEOPLE = [(1, "z1", "Bonn"), (2, "z1", "Ulm"), (3, "z2", "Kiel")]
CHANGES = [("insert", 4, "z2", "Kyiv"), ("update", 2, "z1", "Bonn")]


def _python() -> list[Block]:
    """What the page has in Python: an overview, suspects, the walk."""
    return [block for block in blocks_of((ROOT / "docs/spark.md").read_text("utf-8")) if block.language == "python"]


@pytest.mark.skipif(MODE == "standalone", reason="the page keeps its state in a folder that workers need not share")
def test_the_page_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hs, "start", lambda master: spark)
    Path("rules.yaml").write_text("rules: [zip -> city]\n", encoding="utf-8")
    Path("arriving").mkdir()
    Path("arriving/day.json").write_text('{"op": "insert", "id": 5, "zip": "z1", "city": "Hof"}\n', encoding="utf-8")
    people = "id long, zip string, city string"
    names: dict[str, Any] = {
        "frame": spark.createDataFrame(PEOPLE, people),
        "orders": spark.createDataFrame([(1, 7), (2, 8)], "id long, customer long"),
        "customers": spark.createDataFrame([(7,), (8,)], "id long"),
        "changes_stream": spark.readStream.schema("op string, id long, zip string, city string").json(
            str(tmp_path / "arriving")
        ),
    }
    changes = {
        "people": spark.createDataFrame(CHANGES, f"op string, {people}"),
        "orders": spark.createDataFrame([("insert", 3, 9)], "op string, id long, customer long"),
    }
    block, _, _ = _python()
    # Java keeps the folder it was started in; and the page says `changes` of two tables, one after the other
    text = block.text.replace('Parquet("violations")', f"Parquet({str(tmp_path / 'violations')!r})")
    first, begun, rest = text.partition("found = ")
    names["changes"] = changes["people"]
    exec(first, names)
    assert names["report"].total == 1
    delta = names["delta"]
    assert [[(v.t, v.s) for v in part] for part in (delta.added, delta.removed)] == [[(3, 4)], [(1, 2)]]
    names["changes"] = changes["orders"]
    exec(begun + rest, names)
    query = names["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert names["monitor"].counts()["zip -> city"].open == 3
    assert sorted(
        row["t"] for row in spark.read.parquet(str(tmp_path / "violations")).where("change = 1").collect()
    ) == [1, 2]


@pytest.mark.skipif(MODE == "standalone", reason="the test keeps its state in a folder that workers need not share")
def test_suspects_run_as_the_page_has_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.yaml").write_text("rules: [zip -> city]\n", encoding="utf-8")
    rows = [(1, "z1", "Bonn"), (2, "z1", "Bonn"), (3, "z1", "Bonn"), (4, "z1", "Bomn")]
    frame = spark.createDataFrame(rows, "id long, zip string, city string")
    monitor = hs.Monitor(spark, str(tmp_path / "state"), ["zip -> city"], key="id", data=frame)
    names: dict[str, Any] = {"hs": hs, "frame": frame, "monitor": monitor}
    _, block, _ = _python()
    exec(block.text, names)
    assert names["found"].columns == {"city": 1}
    assert not monitor.counts()["zip -> city"].open


@pytest.mark.skipif(MODE != "local", reason="the example starts a session of its own kind")
def test_the_walk_runs_and_the_page_shows_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """From a table to a stream with quarantine: the example asserts its own answers, the page has lines of it."""
    example = ROOT / "examples/spark/table_to_stream.py"
    monkeypatch.setattr(hs, "start", lambda master: spark)
    runpy.run_path(str(example), run_name="__main__")
    printed = capfd.readouterr().out
    assert "0 open" in printed and "1 open" in printed
    text = example.read_text("utf-8")
    _, _, walk = _python()
    missing = [line for line in walk.text.splitlines() if line.strip() and line not in text]
    assert missing == []
