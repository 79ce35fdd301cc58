"""Random databases of a few tables whose columns share values, and random changes of their rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from holdstrue.discovery.inclusions.attributes import Changes, RowChanges
from holdstrue.discovery.inclusions.contents import comparable
from holdstrue.rules.model import Inclusion
from oracle_inclusions import Database, Pair

SCHEMAS = {
    "one": pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.int8())]),
    "two": pa.schema([("e", pa.float32()), ("f", pa.decimal128(12, 2)), ("g", pa.large_string()), ("h", pa.int64())]),
    "three": pa.schema([("i", pa.timestamp("ms")), ("j", pa.timestamp("us")), ("k", pa.bool_()), ("l", pa.uint64())]),
}
COLUMNS = {name: schema.names for name, schema in SCHEMAS.items()}

_small = st.integers(0, 3)
_texts = st.sampled_from(["x", "y", "xy", ""])
_times = st.sampled_from([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 5000)])
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": _small,
    "b": st.sampled_from([0.0, -0.0, 1.0, 2.5, float("nan")]),
    "c": _texts,
    "d": _small,
    "e": st.sampled_from([1.0, 2.5, 3.0]),
    "f": st.sampled_from([Decimal("1.00"), Decimal("2.50"), Decimal("0.00")]),
    "g": _texts,
    "h": st.sampled_from([0, 1, 2, 2**53 + 1]),
    "i": _times,
    "j": _times,
    "k": st.booleans(),
    "l": _small,
}


def row_of(table: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.one_of(_VALUES[name], st.none()) for name in COLUMNS[table]})


@st.composite
def databases(draw: st.DrawFn, rows: int = 5) -> Database:
    return {name: draw(st.lists(row_of(name), max_size=rows)) for name in SCHEMAS}


def as_tables(database: Database) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows, schema=SCHEMAS[name]) for name, rows in database.items()}


@st.composite
def changes(draw: st.DrawFn, database: Database) -> tuple[Changes, Database]:
    """A batch on some tables, and the database after it."""
    batch: dict[str, RowChanges] = {}
    after: Database = dict(database)
    for name, rows in database.items():
        if draw(st.booleans()):
            continue
        going = draw(st.sets(st.integers(0, len(rows) - 1), max_size=3)) if rows else set()
        coming = draw(st.lists(row_of(name), max_size=3))
        removed = pa.Table.from_pylist([rows[i] for i in sorted(going)], schema=SCHEMAS[name])
        added = pa.Table.from_pylist(coming, schema=SCHEMAS[name])
        batch[name] = RowChanges(removed if going else None, added)
        after[name] = [row for i, row in enumerate(rows) if i not in going] + coming
    return batch, after


def compares(one: str, a: str, other: str, b: str) -> bool:
    return comparable(SCHEMAS[one].field(a).type, SCHEMAS[other].field(b).type, "types")


def as_pairs(bodies: Any) -> set[Pair]:
    pairs = set()
    for body in bodies:
        assert isinstance(body, Inclusion)
        pairs.add(((str(body.table), body.columns), (body.ref_table, body.ref_columns)))
    return pairs
