"""Small states of every kind with everything that one can hold, and what a user does with each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from holdstrue import Monitor, discover
from holdstrue.discovery.discovery import Discovery
from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.durable import DurableInclusions
from holdstrue.discovery.inclusions.unary import StructureKind, UnaryInclusions, ValueLayout
from holdstrue.fragments import Relation, Site
from holdstrue.monitor import checkpoint
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards import hot, shard
from holdstrue.shards.lists import ADDED, violation_of
from holdstrue.shards.runner import Sizing
from holdstrue.shards.shard import POOL
from holdstrue.state import runs as state_runs
from laws.shards import Loops

RULES = [
    "key(code)", "zip -> city", "zip -> city, view", "[zip='z1'] -> [view]", "[city='c3', zip] -> [code]",
    "not(t.zip = s.zip and t.size > s.size and t.cost < s.cost)", "not(t.name > s.name and t.size < s.size)",
    "not(t.price > s.price and t.day < s.day)", "not(t.size = s.cost and t.id != s.id)", "not(t.size < 0)",
    "not null(view)", "not(t.flag = s.flag and t.zip = s.zip and t.size > s.size)",
]  # fmt: skip
MEASURES = [
    "count() < 100", "count(view) > 0", "data.sum(size) > zips.count()", "sum(cost) < 5", "sum(price) >= 7",
    "max(price) < 20", "min(cost) <= max(size)", "fresh(day) < 2 days",
]  # fmt: skip
"""Rules about whole tables."""
REFERENCE = {"name": "known zip", "rule": "data.zip in zips.zip"}
MANY = 90
"""Rows that a group needs for a chain are 64."""


def table(start: int, count: int) -> pa.Table:
    """Rows with texts, numbers, times and NULLs, of which some break every rule."""
    rows = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "zip": [None if i % 31 == 7 else f"z{i % 3}" for i in rows],
            "city": [f"c{i % 3 if i % 17 else 9}" for i in rows],
            "view": [None if i % 13 == 5 else f"Straße {i % 3 if i % 19 else 8}" for i in rows],
            "code": [i if i % 23 else 0 for i in rows],
            "size": [(i * 37) % 101 - (3 if i % 41 == 0 else 0) for i in rows],
            "cost": [float((i * 37) % 101) if i % 29 else 500.0 for i in rows],
            "name": [f"n{(i * 7) % 50:02}" if i % 11 else None for i in rows],
            "price": pa.array([Decimal((i * 37) % 101) / 4 for i in rows], pa.decimal128(30, 2)),
            "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta((i * 37) % 101) for i in rows], pa.date32()),
            "flag": [i % 2 == 0 for i in rows],
        }
    )


def ops(op: str, start: int, count: int) -> pa.Table:
    """Rows with what is done to them."""
    rows = table(start, count)
    return rows.append_column("_op", pa.array([op] * count))


def batch(start: int) -> pa.Table:
    """Rows that come, change and go."""
    changed = ops("update", start, 6).set_column(5, "size", [[900, -5, 900, 2, 3, 4]])
    changed = pa.concat_tables([changed, ops("delete", start + 10, 4), ops("insert", 1000 + start, 5)])
    return changed.combine_chunks()


ZIPS = pa.table({"zip": ["z0", "z1", "z5"], "land": ["a", "b", None]})


@contextmanager
def checkpoints_from(rows: int) -> Iterator[None]:
    """Runs of so many rows cause a checkpoint."""
    before = state_runs.CHECKPOINT_FROM
    state_runs.CHECKPOINT_FROM = rows
    try:
        yield
    finally:
        state_runs.CHECKPOINT_FROM = before


@dataclass(frozen=True)
class KeptState:
    """A kind of state: how one is made, and what is done with it."""

    make: Callable[[Path], None]
    use: Callable[[Path], None]


# --- monitors ------------------------------------------------------------------------------------


def one_piece(index: Any) -> KeptState:
    """A monitor in one piece: a checkpoint and two batches."""
    # the papers' indexes are built anew from rows: there is less to damage
    rules = [*RULES, *MEASURES, REFERENCE] if index == "blocks" else [RULES[1], RULES[5], RULES[6]]

    def make(path: Path) -> None:
        data = {"data": table(0, MANY), "zips": ZIPS} if index == "blocks" else table(0, MANY)
        key: Any = {"data": "id", "zips": "zip"} if index == "blocks" else "id"
        monitor = Monitor.create(path, rules, key=key, index=index)
        monitor.apply(data)
        monitor.apply(batch(20), feed="ops", op_column="_op")
        with checkpoints_from(0):
            list(monitor.violations())
            monitor.apply(batch(40), feed="ops", op_column="_op")
        monitor.apply(table(2000, 3), "a batch")
        monitor.apply(batch(60), feed="ops", op_column="_op")
        monitor.close()

    return KeptState(make, use_monitor)


def row_by_row() -> KeptState:
    """A monitor whose log holds single rows, as text."""

    def make(path: Path) -> None:
        monitor = Monitor.create(path, [*RULES, *MEASURES, REFERENCE], key={"data": "id", "zips": "zip"})
        monitor.apply({"data": table(0, MANY), "zips": ZIPS})
        monitor.apply(table(2002, 1), "a batch")
        for change in (table(2000, 1), ops("update", 20, 1), ops("delete", 21, 1), table(2001, 1)):
            monitor.apply(change.rename_columns(["op" if name == "_op" else name for name in change.column_names]))
        monitor.apply({"id": 21, "op": "insert", **{n: v for n, v in table(21, 1).to_pylist()[0].items() if n != "id"}})
        monitor.close()

    return KeptState(make, use_monitor)


def with_moved_rows() -> KeptState:
    """A monitor whose checkpoint left out removed rows, with batches that name the slots of before."""

    @mock.patch.object(checkpoint.Checkpointer, "tend")  # the one checkpoint beside the work is made here
    def make(path: Path, _: Any) -> None:
        monitor = Monitor.create(path, [*RULES, *MEASURES, REFERENCE], key={"data": "id", "zips": "zip"})
        monitor.apply({"data": table(0, MANY), "zips": ZIPS})
        monitor.apply(batch(20), feed="ops", op_column="_op")
        piece = monitor._here()
        assert piece.journal is not None
        mark = piece.journal.mark()
        monitor.apply(batch(40), feed="ops", op_column="_op")
        with mock.patch.object(shard, "COMPACT_FROM", -1_000_000):
            base = checkpoint.write(str(path), mark.version)
        piece.journal.commit(piece.journal.rebase(base, mark, piece.now().to_dict()))
        monitor.apply(table(2000, 3), "a batch")
        monitor.apply(batch(60), feed="ops", op_column="_op")
        assert piece.journal.runs.renumbering
        monitor.close()

    return KeptState(make, use_monitor)


def use_monitor(path: Path) -> None:
    """Open, read, change and read a monitor."""
    monitor = Monitor.open(path)
    try:
        read_monitor(monitor)
        monitor.row(3)
        changes = pa.concat_tables([batch(0), ops("update", 2000, 3)])
        monitor.apply(changes, feed="ops", op_column="_op", limit=None)
        monitor.apply(table(0, 4), "a batch")
        read_monitor(monitor)
    finally:
        monitor.close()


def read_monitor(monitor: Monitor) -> None:
    """Everything that can be asked of a monitor."""
    monitor.counts()
    assert all(count >= 0 for count in monitor.rows.values())
    list(monitor.violations(limit=2000))
    list(monitor.groups(monitor.rules.rules[1].name, limit=5))
    monitor.offenders()
    monitor.history()


def in_shards() -> KeptState:
    """A monitor in shards, with hot places and rows that move."""

    def make(path: Path) -> None:
        hot.SEEN_AT_LEAST = 2
        sizing = Sizing(shards=2, blocks=2, tasks=1, hot_from=0)
        rules = [*RULES[:2], RULES[5], RULES[9], *MEASURES, REFERENCE]
        monitor = Sharded(Loops(1), path, rules, {"data": "id", "zips": "zip"}, sizing=sizing)
        monitor.apply({"data": [table(0, 40), table(40, 30)], "zips": [ZIPS]})
        monitor.apply([batch(20)], feed="ops", op_column="_op")
        monitor.apply([table(2000, 3)], "a batch")
        POOL.empty()

    return KeptState(make, use_sharded)


def use_sharded(path: Path) -> None:
    """Open, read, change and read a monitor in shards, then in one process."""
    POOL.empty()
    monitor = Sharded(Loops(1), path)
    read_sharded(monitor)
    monitor.apply([batch(0)], feed="ops", op_column="_op", limit=None)
    monitor.last()
    read_sharded(monitor)
    POOL.empty()
    gathered = Monitor.open(path, read_only=True)
    try:
        read_monitor(gathered)
    finally:
        gathered.close()


def read_sharded(monitor: Sharded) -> None:
    """Counts, history and all violations."""
    monitor.counts()
    monitor.history()
    listing = monitor.listing()
    assert listing is not None
    tables = listing.tables(list(range(listing.job.tasks)))
    assert all(violation_of(row) for found in tables for row in found.to_pylist() if row["change"] == ADDED)


# --- discoveries ---------------------------------------------------------------------------------

FOUND_IN = ["id", "zip", "city", "view", "size", "price", "flag"]


def discovery(**choices: Any) -> KeptState:
    """Rules found and kept: a checkpoint and a batch."""
    keyed = choices.pop("keyed", True)

    def make(path: Path) -> None:
        rows = table(0, 40).select(FOUND_IN)
        tables: Any = {"data": rows, "zips": ZIPS.append_column("no", pa.array([0, 1, 3]))}
        found = discover(tables, key={"data": "id", "zips": "zip"} if keyed else None, state=path, **choices)
        with checkpoints_from(0):
            found.apply(table(200, 3).select(FOUND_IN))
        found.apply(ops("delete", 30, 2).select([*FOUND_IN, "_op"]), feed="ops", op_column="_op")
        found.close()

    return KeptState(make, use_discovery)


def use_discovery(path: Path) -> None:
    """Open, read, change and read a discovery."""
    found = Discovery.open(path)
    try:
        assert all(rule.text for rule in found.rules)
        found.explain()
        found.history()
        changed = pa.concat_tables([ops("delete", 5, 3), ops("insert", 300, 3)]).select([*FOUND_IN, "_op"])
        found.apply(changed, feed="ops", op_column="_op")
        assert all(rule.text for rule in found.rules)
        found.near_misses()
    finally:
        found.close()


# --- inclusions ----------------------------------------------------------------------------------

_LEFT = ["zip", "city", "code", "size"]


def inclusions(structure: StructureKind) -> KeptState:
    """Counted values: a checkpoint and a batch."""

    def make(path: Path) -> None:
        tables = {"data": table(0, 60).select(_LEFT), "zips": ZIPS}
        core = UnaryInclusions.load(tables, ValueLayout(structure=structure, shards=2))
        with DurableInclusions.create(path, core) as kept:
            kept.apply({"data": RowChanges(table(3, 2).select(_LEFT), table(70, 9).select(_LEFT))})
            kept.checkpoint()
            kept.apply({"data": RowChanges(table(5, 2).select(_LEFT), table(80, 9).select(_LEFT))})

    return KeptState(make, use_inclusions)


def use_inclusions(path: Path) -> None:
    """Open, read, change and read inclusions."""
    with DurableInclusions.open(path) as kept:
        kept.core.rules()
        kept.core.structure.shared_rows()
        kept.apply({"data": RowChanges(table(10, 3).select(_LEFT), table(90, 5).select(_LEFT))})
        kept.core.rules(0.5, "rows")
        kept.checkpoint()
        kept.core.rules()


# --- sites ---------------------------------------------------------------------------------------

_SITE_RULES = ["zip -> city", "[zip='z1'] -> [view]", "[city='c9'] -> [code=0]", "city -> view"]
_PARTS = (("zip", "city"), ("view", "code"))


def _relation(path: Path) -> Relation:
    rows = table(0, 40).select(["id", "zip", "city", "view", "code"])
    sites = [
        Site(f"s{at}", columns, source=rows.select(["id", *columns]), state=path / f"s{at}")
        for at, columns in enumerate(_PARTS)
    ]
    return Relation(sites, _SITE_RULES, "id")


def _changed_part(start: int) -> pa.Table:
    columns = ["id", "zip", "city", "view", "code", "_op"]
    return pa.concat_tables(
        [ops("update", start, 3), ops("delete", start + 5, 2), ops("insert", 500 + start, 3)]
    ).select(columns)


def make_sites(path: Path) -> None:
    """A relation over two sites, each with a state: a checkpoint and a batch."""
    with _relation(path) as relation:
        with checkpoints_from(0):
            relation.load()
            relation.apply(_changed_part(10), feed="ops", op_column="_op")
        relation.apply(_changed_part(20), feed="ops", op_column="_op")


def use_sites(path: Path) -> None:
    """Open, read, change and read a relation."""
    with _relation(path) as relation:
        relation.counts()
        relation.violations()
        relation.apply(_changed_part(0), feed="ops", op_column="_op")
        relation.counts()
        relation.sizes()
        relation.check()


STATES: dict[str, KeptState] = {
    "monitor": one_piece("blocks"),
    "monitor by lt_tree": one_piece("lt_tree"),
    "monitor by chains": one_piece("chains"),
    "monitor row by row": row_by_row(),
    "monitor whose rows moved": with_moved_rows(),
    "monitor in shards": in_shards(),
    "discovery": discovery(kinds=("dc", "fd", "key", "cfd", "ind"), arity=2, support=3, confidence=0.8, cross=False),
    "discovery with an error": discovery(kinds=("fd", "key", "ind"), error=0.1, keyed=False),
    "discovery by index": discovery(kinds=("dc",), sample=20, max_predicates=3, cross=False),
    "inclusions by counters": inclusions("counters"),
    "inclusions by clusters": inclusions("clusters"),
    "sites": KeptState(make_sites, use_sites),
}
"""By name the states that are damaged."""
