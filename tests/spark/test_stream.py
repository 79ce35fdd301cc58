"""Streams: every micro-batch once, whatever is stopped and started again, and what the sinks get of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import holdstrue
from holdstrue.detect.delta import Delta
from holdstrue.errors import HoldstrueError
from holdstrue.shards.facts import HISTORY
from holdstrue.spark import Monitor
from holdstrue.spark.sinks import Call, Parquet, Sink, Write, console
from holdstrue.state.journal import Journal
from laws.test_detection import assert_counts, found, nonempty
from spark.checkpoints import forget_last
from spark.conftest import MODE
from spark.frames import Truth, added, listed
from translate import expected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RULES = holdstrue.load_rules(["zip -> city", "not(t.zip = s.zip and t.size < s.size and t.cost > s.cost)", "key(code)"])
DDL = "op string, id long, zip string, city string, size long, cost double, code long"
Row = dict[str, Any]
Change = tuple[str, Row]


def row(key: int, **changed: Any) -> Row:
    image = {"id": key, "zip": f"z{key % 3}", "city": f"c{key % 3}", "size": key, "cost": float(key), "code": key}
    return image | changed


BATCHES: list[list[Change]] = [
    [("insert", row(i)) for i in range(6)] + [("insert", row(6, city="Ulm"))],
    [("insert", row(7, code=1)), ("update", row(6)), ("update", row(3, cost=-1.0)), ("delete", row(0))],
    [("delete", row(1)), ("insert", row(0, city="Hof")), ("insert", row(8, zip="z0"))],
]


class Source:
    """A folder of files, each one micro-batch, and what its changes amount to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.tables: list[dict[int, Row]] = [{}]

    def add(self, changes: Sequence[Change]) -> None:
        """Write one more file; the files of a source are read in the order of their times."""
        number = len(self.tables) - 1
        after = dict(self.tables[-1])
        for op, image in changes:
            after.pop(image["id"], None)
            if op != "delete":
                after[image["id"]] = image
        self.tables.append(after)
        waiting = self.folder / f".{number}.json"
        waiting.write_text("\n".join(json.dumps({"op": op} | image) for op, image in changes))
        os.utime(waiting, (1_700_000_000 + number, 1_700_000_000 + number))
        waiting.rename(self.folder / f"{number}.json")

    def truth(self, batches: int) -> Truth:
        """The oracle's violations after so many batches."""
        rows = self.tables[batches]
        return expected(RULES, list(rows.values()), list(rows))


def run(monitor: Monitor, source: Source, sinks: Sequence[Sink] = (), **options: Any) -> None:
    """Apply everything that the source has and end."""
    stream = monitor.spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(source.folder))
    query = monitor.stream(stream, sinks, trigger={"availableNow": True}, **options)
    query.awaitTermination()
    assert query.exception() is None


def into(file: Path) -> Call:
    """A sink that writes each delta as a line; it may run in another process."""

    def write(delta: Delta) -> None:
        with file.open("a") as lines:
            lines.write(json.dumps(delta.to_dict()) + "\n")

    return Call(write)


def deltas(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def violations_of(listed_: list[dict[str, Any]]) -> Truth:
    """Violations in a delta as JSON, as the oracle names them."""
    by_rule: Truth = {}
    for violation in listed_:
        named = (violation["t"], violation["s"]) if "s" in violation else (violation["t"],)
        by_rule.setdefault(violation["rule"], set()).add(named)
    return by_rule


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "source")


@pytest.fixture
def monitor(spark: SparkSession, tmp_path: Path) -> Monitor:
    return Monitor(spark, tmp_path / "state", RULES, key="id", shards=3, tasks=2)


def test_every_sink_gets_every_batch(
    monitor: Monitor, source: Source, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def write(changed: DataFrame) -> None:
        changed.write.mode("append").parquet(str(tmp_path / "written"))

    for batch in BATCHES:
        source.add(batch)
    sinks: list[Sink] = [console, Parquet(tmp_path / "parquet"), into(tmp_path / "called"), Write(write)]
    run(monitor, source, sinks)
    called = deltas(tmp_path / "called")
    names = [delta["batch"] for delta in called]
    assert [name.rsplit("-", 1)[1] for name in names] == ["0", "1", "2"]
    assert [line.batch for line in monitor.history()][:: len(RULES)] == names
    written = monitor.spark.read.parquet(str(tmp_path / "written")).toArrow().to_pylist()
    parquet = monitor.spark.read.parquet(str(tmp_path / "parquet")).toArrow().to_pylist()
    for number, delta in enumerate(called):
        before, after = source.truth(number), source.truth(number + 1)
        came, went = added(before, after), added(after, before)
        assert came or went, "a batch that changes nothing proves nothing"
        assert violations_of(delta["added"]) == came
        assert violations_of(delta["removed"]) == went
        for rows in (written, parquet):
            own = [row for row in rows if row["batch"] == delta["batch"]]
            assert violations_of([row for row in own if row["change"] == 1]) == came
            assert violations_of([row for row in own if row["change"] == -1]) == went
            assert all(row["pair"] for row in own)
    assert len(parquet) == len(written)
    assert found(listed(monitor.violations())) == nonempty(source.truth(3))
    assert_counts(monitor.counts(), source.truth(3))
    # with Connect the batches are applied beside the server, which prints elsewhere
    if MODE != "connect":
        printed = capfd.readouterr().out.splitlines()
        assert [line.split(":")[0] for line in printed] == names
        assert f": +{len(called[0]['added'])} new, -0 resolved, {len(called[0]['added'])} open" in printed[0]


def test_a_stream_goes_on_where_it_stopped(monitor: Monitor, source: Source, tmp_path: Path) -> None:
    source.add(BATCHES[0])
    run(monitor, source, [into(tmp_path / "called")])
    run(monitor, source, [into(tmp_path / "called")])
    assert len(deltas(tmp_path / "called")) == 1, "nothing came in between"
    source.add(BATCHES[1])
    source.add(BATCHES[2])
    run(monitor, source, [into(tmp_path / "called")])
    names = [delta["batch"] for delta in deltas(tmp_path / "called")]
    assert [line.batch for line in monitor.history()][:: len(RULES)] == names
    assert len(set(names)) == monitor.batches == 3
    assert found(listed(monitor.violations())) == nonempty(source.truth(3))


def test_a_batch_that_comes_again_changes_nothing_and_reaches_the_sinks(
    monitor: Monitor, source: Source, tmp_path: Path
) -> None:
    """As after a crash between the commit of a batch and Spark's own note of it."""
    for batch in BATCHES[:2]:
        source.add(batch)
    run(monitor, source, [into(tmp_path / "called"), Parquet(tmp_path / "parquet")])
    forget_last(Path(monitor.path) / "streams" / "stream")
    run(monitor, source, [into(tmp_path / "called"), Parquet(tmp_path / "parquet")])
    first, second, again = deltas(tmp_path / "called")
    assert again == second | {"duplicate": again["duplicate"]}
    assert monitor.batches == 2
    rows = monitor.spark.read.parquet(str(tmp_path / "parquet")).toArrow().to_pylist()
    assert len(rows) == sum(len(delta[side]) for delta in (first, second) for side in ("added", "removed"))
    assert found(listed(monitor.violations())) == nonempty(source.truth(2))
    source.add(BATCHES[2])
    run(monitor, source)
    assert found(listed(monitor.violations())) == nonempty(source.truth(3))


def test_a_batch_reaches_the_sinks_although_others_came_since(monitor: Monitor, source: Source, tmp_path: Path) -> None:
    """As after a crash before its sinks had it, when another stream's batches are applied before it comes again."""
    source.add(BATCHES[0])
    run(monitor, source, [into(tmp_path / "called"), Parquet(tmp_path / "parquet")])
    shutil.rmtree(tmp_path / "parquet")
    for key in (2, 3):
        monitor.apply(monitor.spark.createDataFrame([("delete", *row(key).values())], DDL))
    forget_last(Path(monitor.path) / "streams" / "stream")
    run(monitor, source, [into(tmp_path / "called"), Parquet(tmp_path / "parquet")])
    first, again = deltas(tmp_path / "called")
    assert again == first | {"duplicate": again["duplicate"]}
    assert violations_of(again["added"]) == nonempty(source.truth(1))
    rows = monitor.spark.read.parquet(str(tmp_path / "parquet")).toArrow().to_pylist()
    assert len(rows) == len(first["added"]) > 0
    assert monitor.batches == 3


def test_a_batch_of_long_ago_is_not_handed_over_again(
    monitor: Monitor, source: Source, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a batch did is known as long as its version is kept."""
    source.add(BATCHES[0])
    run(monitor, source)
    monitor.apply(monitor.spark.createDataFrame([("delete", *row(2).values())], DDL))
    with Journal.open(monitor.path, "monitor", HISTORY) as journal:
        journal.vacuum()
    forget_last(Path(monitor.path) / "streams" / "stream")
    with caplog.at_level("WARNING", "holdstrue"):
        run(monitor, source, [into(tmp_path / "called")])
    assert not (tmp_path / "called").exists()
    assert monitor.batches == 2
    if MODE != "connect":  # a stream is a process of its own there
        assert "no longer kept: sinks may lack it" in caplog.text


def test_a_checkpoint_made_anew_counts_from_the_start(monitor: Monitor, source: Source) -> None:
    """Its batch 0 is another one than that of the checkpoint before, and so not taken for done."""
    source.add(BATCHES[0])
    run(monitor, source)
    shutil.rmtree(Path(monitor.path) / "streams" / "stream" / "spark")
    run(monitor, source, on_conflict="ignore")
    assert monitor.batches == 2
    assert len({line.batch for line in monitor.history()}) == 2
    assert found(listed(monitor.violations())) == nonempty(source.truth(1))


def test_two_streams_into_two_tables(spark: SparkSession, tmp_path: Path) -> None:
    rules = holdstrue.load_rules([{"name": "known", "rule": "orders.customer in customers.id"}])
    monitor = Monitor(spark, tmp_path / "state", rules, key={"orders": "id", "customers": "id"})
    for name, lines in {
        "orders": [{"op": "insert", "id": i, "customer": i % 4} for i in range(8)],
        "customers": [{"op": "insert", "id": i} for i in range(3)],
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.json").write_text("\n".join(json.dumps(line) for line in lines))
        ddl = "op string, id long, customer long" if name == "orders" else "op string, id long"
        stream = spark.readStream.schema(ddl).json(str(tmp_path / name))
        monitor.stream(stream, table=name, name=name, trigger={"availableNow": True}).awaitTermination()
    assert monitor.rows == {"orders": 8, "customers": 3}
    assert found(listed(monitor.violations())) == {"known": {(3,), (7,)}}


def test_a_batch_that_does_not_fit_stops_the_stream(monitor: Monitor, source: Source) -> None:
    source.add(BATCHES[0])
    source.add([("insert", row(20)), ("insert", row(2))])
    with pytest.raises(Exception, match="insert of id=2, which exists already"):
        run(monitor, source)
    assert monitor.batches == 1
    assert found(listed(monitor.violations())) == nonempty(source.truth(1))
    run(monitor, source, on_conflict="upsert")
    assert found(listed(monitor.violations())) == nonempty(source.truth(2))


def test_a_stream_into_a_bucket(spark: SparkSession, bucket: str, source: Source, tmp_path: Path) -> None:
    """The state is at a URL, where the stream stands on the driver's own disk."""
    monitor = Monitor(spark, bucket, RULES, key="id", shards=3, tasks=2)
    source.add(BATCHES[0])
    with pytest.raises(HoldstrueError, match="needs a place of its own") as told:
        run(monitor, source)
    assert told.value.hint is not None and "checkpoint=" in told.value.hint
    kept = tmp_path / "kept here"
    for batch in BATCHES[1:]:
        run(monitor, source, [into(tmp_path / "called")], checkpoint=kept)
        source.add(batch)
    forget_last(kept)
    run(monitor, source, [into(tmp_path / "called")], checkpoint=kept)
    called = deltas(tmp_path / "called")
    assert [delta["batch"].rsplit("-", 1)[1] for delta in called] == ["0", "1", "1", "2"], "one was handed over twice"
    assert called[2] == called[1] | {"duplicate": called[2]["duplicate"]}
    assert monitor.batches == 3
    assert found(listed(monitor.violations())) == nonempty(source.truth(3))


@pytest.mark.skipif(MODE != "local", reason="the file system is set up in this session")
def test_a_checkpoint_at_a_url(monitor: Monitor, source: Source, tmp_path: Path) -> None:
    """Spark alone can write there; its id of the checkpoint tells the batches of one from those of another."""
    spark, url = monitor.spark, "viewfs://here/kept"
    (tmp_path / "kept").mkdir()
    spark.conf.set("fs.viewfs.mounttable.here.link./kept", (tmp_path / "kept").as_uri())
    try:
        source.add(BATCHES[0])
        run(monitor, source, checkpoint=url)
        source.add(BATCHES[1])
        run(monitor, source, checkpoint=url)
        assert monitor.batches == 2
        assert found(listed(monitor.violations())) == nonempty(source.truth(2))
        shutil.rmtree(tmp_path / "kept" / "spark")
        run(monitor, source, checkpoint=url, on_conflict="ignore")
        assert monitor.batches == 4, "its first batch is another one than before"
        with pytest.raises(HoldstrueError, match="change files keeps their order"):
            run(monitor, source, checkpoint=url, feed="files")
    finally:
        spark.conf.unset("fs.viewfs.mounttable.here.link./kept")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"feed": "frob"}, "unknown feed 'frob'"),
        ({"table": "nope"}, "no table 'nope'"),
        ({"name": "../x"}, "cannot be called '../x'"),
    ],
)
def test_a_stream_with_wrong_options_does_not_start(monitor: Monitor, options: dict[str, Any], said: str) -> None:
    with pytest.raises(HoldstrueError, match=said):
        monitor.stream(monitor.spark.readStream.format("rate").load(), on_bad_batch="skip", **options)


def test_rows_that_do_not_stream_are_refused(monitor: Monitor) -> None:
    with pytest.raises(HoldstrueError, match="the changes are not a stream") as told:
        monitor.stream(monitor.spark.createDataFrame([("delete", 1)], "op string, id long"))
    assert told.value.hint is not None and "apply" in told.value.hint


def test_quarantine_behind_a_stream(monitor: Monitor, source: Source, tmp_path: Path) -> None:
    """A sink that splits the table after every batch: each row is where the oracle puts it."""
    table, clean, dirty = (str(tmp_path / name) for name in ("table", "clean", "dirty"))

    def split(batch: Any) -> None:
        rows = batch.monitor.spark.read.parquet(table)
        good, bad = batch.monitor.quarantine(rows)
        good.write.mode("overwrite").parquet(clean)
        bad.write.mode("overwrite").parquet(dirty)

    for number, batch in enumerate(BATCHES):
        source.add(batch)
        rows = [{**image, "more": "x"} for image in source.tables[-1].values()]
        monitor.spark.createDataFrame(rows).write.mode("overwrite").parquet(table)
        run(monitor, source, [split])
        truth = source.truth(number + 1)
        wanted = {key: partners(key, truth) for key in source.tables[-1]}
        good = monitor.spark.read.parquet(clean).toArrow().to_pylist()
        bad = monitor.spark.read.parquet(dirty).toArrow().to_pylist()
        by_id = {row["id"]: row for row in rows}
        assert {row["id"]: row for row in good} == {key: by_id[key] for key, some in wanted.items() if not some}
        assert {row["id"] for row in bad} == {key for key, some in wanted.items() if some}
        for found_ in bad:
            said = [(entry["rule"], entry["partner"]) for entry in found_.pop("_violations")]
            assert said == wanted[found_["id"]]
            assert found_ == by_id[found_["id"]]


def partners(key: int, truth: Truth) -> list[tuple[str, str | None]]:
    """The violations of a row: by rule the other row."""
    found_: list[tuple[str, str | None]] = []
    for rule, violations in truth.items():
        for violation in violations:
            if key in violation:
                others = [other for other in violation if other != key]
                found_.append((rule, str(others[0]) if others else None))
    return sorted(found_)
