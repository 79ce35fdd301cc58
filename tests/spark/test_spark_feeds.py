"""Every kind of feed as a data frame: what one process makes of the same rows, and the same refusals."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdstrue
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.spark import Monitor
from holdstrue.state.files import StateFiles
from laws import debezium
from laws.test_detection import found
from spark.frames import assert_same, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = ["zip -> city", "key(code)", "not(t.zip = s.zip and t.size > s.size and t.cost < s.cost)", "not null(city)"]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("zip", pa.string()),
        ("city", pa.string()),
        ("code", pa.int32()),
        ("size", pa.int64()),
        ("cost", pa.float64()),
        ("note", pa.string()),
    ]
)
Row = dict[str, Any]


def row(key: int, **changed: Any) -> Row:
    """A row of the table; `note` is read by no rule and so not kept."""
    image = {"id": key, "zip": f"z{key % 4}", "city": f"Köln {key % 4}", "code": key, "size": key, "cost": float(key)}
    return image | {"note": "n"} | changed


FIRST = [row(i) for i in range(11)] + [row(11, city="Ulm"), row(12, code=3), row(13, cost=-1.0), row(14, city=None)]


def table(rows: list[Row]) -> pa.Table:
    """Rows with the table's types, and whatever stands beside them."""
    beside = [(name, pa.array([row.get(name) for row in rows])) for name in rows[0] if name not in SCHEMA.names]
    own = pa.Table.from_pylist(rows, schema=pa.schema([field for field in SCHEMA if field.name in rows[0]]))
    for name, values in beside:
        own = own.append_column(name, values)
    return own


@pytest.fixture(scope="module")
def base(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state of some rows, to be copied."""
    path = tmp_path_factory.mktemp("base") / "state"
    Monitor(spark, path, RULES, key="id", data=frame(spark, table(FIRST)), shards=3, tasks=2)
    return path


@pytest.fixture
def path(base: Path, tmp_path: Path) -> Path:
    """A state of its own for each test."""
    return Path(shutil.copytree(base, tmp_path / "state"))


def in_one(path: Path) -> holdstrue.Monitor:
    """A monitor of one process over a copy of the state."""
    return holdstrue.Monitor.open(shutil.copytree(path, path.parent / "one"))


def assert_agree(
    spark: SparkSession, path: Path, changes: pa.Table, cut: int = 0, *, one_task: bool = False, **options: Any
) -> None:
    """Both engines make the same of a batch, which does something, and the state then holds it."""
    with in_one(path) as one:
        wanted = one.apply(changes, limit=None, **options)
        delta = Monitor(spark, path, tasks=2).apply(
            frame(spark, changes, cut), limit=None, one_task=one_task, **options
        )
        assert_same(delta, wanted)
        assert wanted.added
        assert wanted.removed or options.get("feed") == "append"
        with holdstrue.Monitor.open(path, read_only=True) as after:
            assert found(after.violations()) == found(one.violations())
            assert after.counts() == one.counts()
            assert after.rows == one.rows


APPENDED = [row(20, city="Ulm"), row(21), row(22, code=1)]
OPS = [
    row(20, city="Ulm", op="insert"),
    row(11, op="UPDATE"),
    row(20, city="Bonn", op="u"),
    row(13, op="delete"),
    row(12, code=4, op="upsert"),
    row(21, code=5, op="upsert"),
]


def test_append(spark: SparkSession, path: Path) -> None:
    assert_agree(spark, path, table(APPENDED), 1, feed="append")


def test_plain_rows_are_recognised(spark: SparkSession, path: Path) -> None:
    delta = Monitor(spark, path).apply(frame(spark, table(APPENDED)))
    assert sum(step.added for step in delta.counts.values()) == len(delta.added) > 3


@pytest.mark.parametrize(("cut", "one_task"), [(0, False), (2, False), (2, True), (3, True)])
def test_ops(spark: SparkSession, path: Path, cut: int, one_task: bool) -> None:
    """Changes of one key follow each other, also from partition to partition."""
    assert_agree(spark, path, table(OPS), cut, one_task=one_task)


def test_ops_in_a_column_of_another_name(spark: SparkSession, path: Path) -> None:
    assert_agree(spark, path, table([{"what": row.pop("op")} | row for row in map(dict, OPS)]), op_column="what")


def test_deletes_may_hold_the_key_alone(spark: SparkSession, path: Path) -> None:
    with in_one(path) as one:
        changes = pa.table({"id": [11, 13], "op": ["delete", "d"]})
        delta = Monitor(spark, path).apply(frame(spark, changes))
        assert_same(delta, one.apply(changes))
        assert delta.removed


ENVELOPES: list[dict[str, Any]] = [
    {"op": "c", "before": None, "after": row(20, city="Ulm")},
    {"op": "u", "before": row(11, city="Ulm"), "after": row(11)},
    {"op": "d", "before": row(13), "after": None},
    # an update that changes the key
    {"op": "u", "before": row(12), "after": row(30, code=30, city="Hof")},
    {"op": "r", "before": None, "after": row(21, code=5)},
]


def envelopes(events: list[dict[str, Any]]) -> pa.Table:
    """Debezium's events with images as structs."""
    image = pa.struct(list(SCHEMA))
    types = {"op": pa.string(), "before": image, "after": image, "ts_ms": pa.int64()}
    return pa.table({name: pa.array([event.get(name) for event in events], type_) for name, type_ in types.items()})


@pytest.mark.parametrize(("cut", "one_task"), [(0, False), (2, False), (4, True)])
def test_debezium_envelopes(spark: SparkSession, path: Path, cut: int, one_task: bool) -> None:
    assert_agree(spark, path, envelopes(ENVELOPES), cut, one_task=one_task)


def test_debezium_flattened(spark: SparkSession, path: Path) -> None:
    rows = [
        row(20, city="Ulm", __op="c", __deleted="false", __ts_ms=1),
        row(11, __op="u", __deleted="false", __ts_ms=2),
        row(13, __op="d", __deleted="true", __ts_ms=3),
        row(20, city="Bonn", __op="u", __deleted="false", __ts_ms=4),
    ]
    assert_agree(spark, path, table(rows), 2)


TYPED = ["key(price)", "day -> price", "not(t.id < s.id and t.at > s.at)", "key(raw)"]
HOW = {name: debezium.COLUMNS[column].ways[0] for name, column in
       (("raw", "b"), ("price", "d"), ("day", "day"), ("at", "ts"))}  # fmt: skip


def typed_row(key: int, **changed: Any) -> Row:
    """A row of types that JSON does not have."""
    at = dt.datetime(2024, 1, 1) + dt.timedelta(days=key)
    image = {"id": key, "raw": bytes([key, 0]), "price": Decimal(key) / 8, "day": at.date(), "at": at}
    return image | changed


@pytest.mark.parametrize("known", [True, False])
def test_debezium_events_with_schema_blocks(spark: SparkSession, tmp_path: Path, known: bool) -> None:
    """Spark reads the lines as structs, blocks and all; a table may also begin with them."""
    first = [typed_row(i) for i in range(5)]
    steps: list[tuple[str, Row | None, Row | None]] = [("c", None, row) for row in ([] if known else first)]
    steps += [
        ("c", None, typed_row(9, day=first[1]["day"], raw=first[2]["raw"])),
        ("u", first[3], typed_row(3, price=first[4]["price"], at=dt.datetime(1969, 12, 31))),
        ("d", first[0], None),
    ]
    events = [debezium.envelope(*step, HOW, typed=True) for step in steps]
    path = tmp_path / "events.json"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    schema = pa.schema([("id", pa.int64()), ("raw", pa.binary()), ("price", pa.decimal128(12, 3)),
                        ("day", pa.date32()), ("at", pa.timestamp("us"))])  # fmt: skip
    start = pa.Table.from_pylist(first, schema)
    many = Monitor(spark, tmp_path / "state", TYPED, key="id", data=frame(spark, start) if known else None, tasks=2)
    one = holdstrue.Monitor(TYPED, key="id", data=start if known else None)
    wanted = one.apply(path, limit=None)
    # Spark's timestamps have a zone, Debezium's have none: that they are in UTC must be said
    read = {"units": {"at": "ms"}} if known else None
    assert_same(many.apply(spark.read.json(str(path)), limit=None, read=read), wanted)
    assert wanted.added
    assert many.counts() == one.counts()
    with holdstrue.Monitor.open(tmp_path / "state", read_only=True) as after:
        assert found(after.violations()) == found(one.violations())


def test_debezium_numbers_without_schema_blocks(spark: SparkSession, tmp_path: Path) -> None:
    """Days and base64 are told by the table's types; the unit of a timestamp must be given."""
    first = [typed_row(i) for i in range(5)]
    schema = pa.schema([("id", pa.int64()), ("raw", pa.binary()), ("day", pa.date32()), ("at", pa.timestamp("us"))])
    start = pa.Table.from_pylist(first, schema)
    rules = ["key(raw)", "key(day)", "not(t.id < s.id and t.at > s.at)"]
    many = Monitor(spark, tmp_path / "state", rules, key="id", data=frame(spark, start), tasks=2)
    one = holdstrue.Monitor(rules, key="id", data=start)
    how = {name: way for name, way in HOW.items() if name != "price"}
    row = typed_row(9, day=first[1]["day"], raw=first[2]["raw"], at=dt.datetime(1969, 12, 31))
    path = tmp_path / "events.json"
    path.write_text(json.dumps(debezium.envelope("c", None, row, how, typed=False)) + "\n")
    units: dict[str, Any] = {"units": {"at": "ms"}}
    for source, feed in ((spark.read.json(str(path)), "auto"), (many.files([path]), "files")):
        with pytest.raises(ChangeError, match="milliseconds, microseconds or nanoseconds"):
            many.apply(source, feed=feed)
    wanted = one.apply(path, limit=None, **units)
    assert_same(many.apply(spark.read.json(str(path)), limit=None, read=units), wanted)
    assert len(wanted.added) > 2


def logged(kind: str, order: str, rows: list[tuple[str, int, Row]]) -> pa.Table:
    """Rows of a changelog."""
    return table([row | {kind: what, order: at} for what, at, row in rows])


DELTA_LOG = [
    ("insert", 5, row(20, city="Ulm")),
    ("update_preimage", 6, row(11, city="Ulm")),
    ("update_postimage", 6, row(11)),
    ("delete", 4, row(13, cost=-1.0)),
    ("update_preimage", 7, row(20, city="Ulm")),
    ("update_postimage", 7, row(20, city="Bonn")),
    # an update that changes the key
    ("update_preimage", 7, row(12, code=3)),
    ("update_postimage", 7, row(30, code=30, city="Hof")),
    # deleted, and back in a later commit
    ("delete", 8, row(14, city=None)),
    ("insert", 9, row(14)),
]


@pytest.mark.parametrize(("cut", "one_task"), [(0, False), (1, False), (5, False), (5, True)])
def test_delta_lake(spark: SparkSession, path: Path, cut: int, one_task: bool) -> None:
    """A pair of images is one update, also where a partition ends between the two."""
    assert_agree(spark, path, logged("_change_type", "_commit_version", DELTA_LOG), cut, one_task=one_task)


def test_delta_lake_without_before_images(spark: SparkSession, path: Path) -> None:
    log = [(what, at, row) for what, at, row in DELTA_LOG if what != "update_preimage" and row["id"] != 30]
    assert_agree(spark, path, logged("_change_type", "_commit_version", log), 2)


def test_delta_lake_rows_of_a_table_not_seen_before(spark: SparkSession, tmp_path: Path) -> None:
    changes = logged("_change_type", "_commit_version", [("insert", 1, row(1)), ("insert", 2, row(5, city="Ulm"))])
    changes = changes.append_column("_commit_timestamp", pa.array([1, 2], pa.timestamp("us", "UTC")))
    delta = Monitor(spark, tmp_path / "state", RULES, key="id").apply(frame(spark, changes))
    assert_same(delta, holdstrue.Monitor(RULES, key="id").apply(changes))
    assert delta.added


def test_iceberg(spark: SparkSession, path: Path) -> None:
    log = [
        ("insert", 1, row(20, city="Ulm")),
        ("delete", 1, row(13, cost=-1.0)),
        ("update_before", 0, row(11, city="Ulm")),
        ("update_after", 0, row(11)),
        # an update as two rows
        ("delete", 2, row(12, code=3)),
        ("insert", 2, row(12, code=5)),
    ]
    rows = logged("_change_type", "_change_ordinal", log).append_column("_commit_snapshot_id", pa.array([7] * 6))
    assert_agree(spark, path, rows, 3)


def test_files(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """Each file is read in a task as one process reads it, whatever its form; they follow each other."""
    pq.write_table(table(OPS), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("id,zip,city,code,size,cost,op\n40,z1,Ulm,40,1,1.5,insert\n20,z0,Hof,7,1,2,u\n")
    event = {"op": "u", "before": row(14, city=None), "after": row(14) | {"code": 1}}
    (tmp_path / "c.jsonl").write_text(json.dumps(event) + "\n")
    files = sorted(tmp_path.glob("?.*"))
    assert len(files) == 3
    monitor = Monitor(spark, path, tasks=2)
    with in_one(path) as one:
        for file in files:
            one.apply(file)
        delta = monitor.apply(monitor.files(files), feed="files")
        assert delta.added and delta.removed
        with holdstrue.Monitor.open(path, read_only=True) as after:
            assert found(after.violations()) == found(one.violations())
            assert after.counts() == one.counts()
            assert after.rows == one.rows


def test_files_by_address(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """Spark names files by address, as in the column that its file sources offer."""
    pq.write_table(table(OPS), tmp_path / "a.parquet")
    monitor = Monitor(spark, path)
    source = spark.read.parquet(str(tmp_path / "a.parquet")).selectExpr("_metadata.file_path as path").distinct()
    assert source.toArrow().column("path").to_pylist()[0].startswith("file:")
    assert monitor.apply(source, feed="files").added


# --- what is refused -----------------------------------------------------------------------------

GOOD = [row(20, city="Ulm", op="insert"), row(11, op="update")]
REFUSED: dict[str, tuple[pa.Table, str]] = {
    "insert of an existing key": (table([*GOOD, row(10, op="insert")]), "insert of id=10, which exists already"),
    "insert of a key twice": (table([*GOOD, row(20, op="insert")]), "insert of id=20, which exists already"),
    "delete of a missing key": (table([row(99, op="delete"), *GOOD]), "delete of id=99, which does not exist"),
    "update of a missing key": (table([*GOOD, row(98, op="update")]), "update of id=98, which does not exist"),
    "unknown operation": (table([*GOOD, row(21, op="explode")]), "unknown operation 'explode' in column 'op'"),
    "no operation": (table([*GOOD, row(21, op=None)]), "no operation in column 'op'"),
    "no key": (table([*GOOD, row(21, op="insert") | {"id": None}]), "key column 'id'"),
    "no key column": (table(GOOD).drop_columns(["id"]), "key column 'id'"),
    "missing column": (table(GOOD).drop_columns(["city"]), "no column 'city'"),
    "text for a number": (
        table(GOOD).set_column(3, "code", pa.array(["seven", "seven"])),
        "'seven'",
    ),
    "number out of range": (table(GOOD).set_column(3, "code", pa.array([7, 2**40])), str(2**40)),
    "fraction for a whole number": (table(GOOD).set_column(4, "size", pa.array([7.0, 7.25])), "7.25"),
    "truncated table": (envelopes([*ENVELOPES, {"op": "t"}]), "the table was truncated"),
    "delete without its image": (envelopes([*ENVELOPES, {"op": "d"}]), "op 'd' without its 'before' image"),
    "placeholder": (
        envelopes([{"op": "c", "after": row(21, city="__debezium_unavailable_value")}]),
        "column 'city' holds Debezium's placeholder",
    ),
    "unknown change type": (
        logged("_change_type", "_commit_version", [("moved", 1, row(21))]),
        "unknown change type 'moved'",
    ),
    "log without its order": (
        logged("_change_type", "_commit_version", DELTA_LOG).drop_columns(["_commit_version"]),
        "'_commit_version'",
    ),
    "log that does not fit": (
        logged("_change_type", "_commit_version", [*DELTA_LOG, ("insert", 9, row(10))]),
        "insert of id=10, which exists already",
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_does_not_fit_is_refused_whole(spark: SparkSession, path: Path, case: str) -> None:
    """Both engines name the value that is wrong; nothing changes, and the batch can come again without it."""
    changes, message = REFUSED[case]
    before = StateFiles(path).manifest()
    monitor = Monitor(spark, path, tasks=2)
    with in_one(path) as one:
        with pytest.raises(ChangeError) as theirs:
            one.apply(changes, batch_id="b")
        with pytest.raises(ChangeError) as ours:
            monitor.apply(frame(spark, changes, 1), "b")
        assert message in theirs.value.message
        assert message in ours.value.message
        assert StateFiles(path).manifest() == before
        delta = monitor.apply(frame(spark, table(GOOD)), "b", limit=None, one_task=True)
        assert_same(delta, one.apply(table(GOOD), batch_id="b", limit=None))
        assert delta.added and delta.removed and not delta.duplicate


@pytest.mark.parametrize("case", ["insert of an existing key", "unknown operation", "delete without its image"])
def test_few_changes_are_refused_whole_too(spark: SparkSession, path: Path, case: str) -> None:
    changes, message = REFUSED[case]
    before = StateFiles(path).manifest()
    with pytest.raises(ChangeError) as told:
        Monitor(spark, path, tasks=2).apply(frame(spark, changes, 1), "b", one_task=True)
    assert message in told.value.message
    assert StateFiles(path).manifest() == before


def test_columns_that_no_rule_reads_may_come(spark: SparkSession, path: Path) -> None:
    assert_agree(spark, path, table([image | {"zipp": 1} for image in GOOD]), 1)


@pytest.mark.parametrize("choice", ["upsert", "ignore"])
def test_conflicts_may_be_settled(spark: SparkSession, path: Path, choice: Any) -> None:
    changes = table([*GOOD, row(10, city="Hof", op="insert"), row(99, op="delete"), row(98, code=1, op="update")])
    assert_agree(spark, path, changes, 2, on_conflict=choice)


def test_a_feed_that_is_not_known(spark: SparkSession, path: Path) -> None:
    monitor = Monitor(spark, path)
    changes = frame(spark, table(GOOD))
    with pytest.raises(HoldstrueError, match="unknown feed 'flink'"):
        monitor.apply(changes, feed="flink")
    with pytest.raises(HoldstrueError, match="on_conflict is 'guess'"):
        monitor.apply(changes, on_conflict="guess")  # type: ignore[arg-type]
    with pytest.raises(HoldstrueError, match="no table 'others'"):
        monitor.apply({"others": changes})


def test_first_rows_twice_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """The first rows of a state go straight to their shards; those that repeat a key are found there."""
    monitor = Monitor(spark, tmp_path / "state", RULES, key="id")
    with pytest.raises(ChangeError, match="insert of id=3, which exists already"):
        monitor.apply(frame(spark, table([*FIRST, row(3)]), 2), feed="append")
    assert monitor.batches == 0
    monitor.apply(frame(spark, table(FIRST), 2), feed="append")
    assert monitor.rows == {"data": len(FIRST)}
