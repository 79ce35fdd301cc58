"""Changes that come late: of each key the change with the highest sequence counts, whenever it arrives.

A living row carries its sequence in a column of its own. A deleted one leaves its key and sequence in a table beside
its own (`gone_of`), so that an older change does not bring it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.buffers import arrow_of
from holdstrue.data.changes import DELETE, UPSERT, Changes
from holdstrue.detect.resolve import KeyDigest, fitted
from holdstrue.errors import ChangeError, DataError
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.index.rows import Rows
from holdstrue.typing import I32, I64

MOST_GONE = 1_000_000
"""Deleted keys of a table that a shard remembers, some 30 MB; beyond, the older half of them is forgotten."""

_GONE = ":gone "


def gone_of(table: str) -> str:
    """The name of the table that remembers the deleted keys of another one.

    >>> gone_of("orders"), is_gone(gone_of("orders")), is_gone("orders")
    (':gone orders', True, False)
    """
    return _GONE + table


def is_gone(table: str) -> bool:
    """Whether a table remembers deleted keys, and so is none that people know of."""
    return table.startswith(_GONE)


def sequence_of(schemas: Mapping[str, pa.Schema], table: str) -> str | None:
    """The column by which the changes of a table are ordered; None where they count as they come."""
    beside = schemas.get(gone_of(table))
    return None if beside is None else str(beside.names[-1])


def gone_schema(table: str, schema: pa.Schema, key: Sequence[str], column: str) -> pa.Schema:
    """The columns that are remembered of deleted rows: their key, and last their sequence."""
    if column not in schema.names:
        raise DataError(
            f"table {table!r} has no column {column!r} to order its changes by",
            hint=f"sequence_by is one of {', '.join(schema.names)}",
        )
    type_ = schema.field(column).type
    if column in key or not _ordered(type_):
        said = "is part of the key" if column in key else f"holds {type_}"
        raise DataError(
            f"column {column!r} of table {table!r} cannot order changes: it {said}",
            hint="sequence_by is a column of whole numbers, decimals, dates or times that grows with every change",
        )
    return pa.schema([*(schema.field(name) for name in key), schema.field(column)])


def _ordered(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_timestamp, pa.types.is_date, pa.types.is_time)
    return pa.types.is_null(type_) or any(kind(type_) for kind in kinds)


@dataclass(frozen=True)
class Kept:
    """Rows there are, and who tells their keys apart."""

    rows: Rows
    digest: KeyDigest


@dataclass(frozen=True)
class Sequenced:
    """What is left of a batch: the changes that count, what becomes of the remembered deletes, how many were late."""

    changes: Changes
    gone: Changes
    late: int


def in_sequence(changes: Changes, living: Kept, gone: Kept, key: Sequence[str], column: str) -> Sequenced:
    """The newest change of each key, unless something newer is there or was deleted.

    Of equal sequences the one that comes later counts, in a batch and between batches, so that it does not matter
    how changes are cut into batches. Inserts and updates are upserts, since what they follow may come after them.

    Complexity: O(n log n) of the changes.
    """
    table = fitted(changes, living.rows.schema, key)
    if table.column(column).null_count:
        row = table.column(column).to_pylist().index(None)
        raise ChangeError(
            f"{changes.place(row)}: no value in {column!r}, by which changes are ordered",
            hint="every change needs it, deletes too",
        )
    hi, lo = living.digest(table)
    slots, left = living.rows.find(hi, lo), gone.rows.find(*gone.digest(table))
    known = (_taken(living.rows, slots, column), _taken(gone.rows, left, column))
    new, held, was = _ranks([table.column(column).combine_chunks(), *known])
    last = _newest(Numbering().assign(hi, lo, all_true(hi.size)), new)
    wins = last[(new[last] >= held[last]) & (new[last] >= was[last])]
    deletes = changes.ops[wins] == DELETE
    ops = np.where(deletes, DELETE, UPSERT).astype(np.uint8)
    counts = ~deletes | (slots[wins] >= 0)
    marks = deletes | (left[wins] >= 0)
    names = gone.rows.schema.names
    rows = table.take(arrow_of(wins))
    kept = Changes(rows.filter(pa.array(counts)), ops[counts])
    marked = Changes(
        rows.select(names).cast(gone.rows.schema).filter(pa.array(marks)),
        np.where(deletes[marks], UPSERT, DELETE).astype(np.uint8),
    )
    return Sequenced(kept, _bounded(marked, gone, column), hi.size - wins.size)


def _newest(number: I32, rank: I64) -> I64:
    """Of each key the row with the highest rank, the last of those that share it.

    >>> _newest(np.array([0, 1, 0, 0]), np.array([5, 1, 7, 6])).tolist()
    [2, 1]
    """
    order = np.lexsort((rank, number))
    ends = np.flatnonzero(np.diff(number[order], append=-1) != 0)
    return order[ends]


def _taken(rows: Rows, slots: I32, column: str) -> pa.Array:
    """A column by slot, NULL where there is no row."""
    found = rows.take(slots[slots >= 0], [column]).column(0).combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.nulls(0, found.type)
    at = np.cumsum(slots >= 0) - 1
    return found.take(pa.array(at, mask=slots < 0))


def _ranks(columns: Sequence[pa.Array]) -> tuple[I64, I64, I64]:
    """Several columns of one type by rank among all their values; NULL is below all others."""
    type_ = columns[0].type
    arrays = [
        chunk for column in columns for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    ]
    every = pa.chunked_array([array.cast(type_) for array in arrays], type=type_)
    rank = np.asarray(pc.rank(every, sort_keys="ascending", tiebreaker="dense").to_numpy()).astype(np.int64)
    rank[every.is_null().to_numpy()] = -1
    n = len(columns[0])
    return rank[:n], rank[n : 2 * n], rank[2 * n :]


def _bounded(marked: Changes, gone: Kept, column: str) -> Changes:
    """The same, and where too many deletes would be remembered also those that are forgotten."""
    rows, came = gone.rows, int((marked.ops == UPSERT).sum())
    if rows.living + came <= MOST_GONE:
        return marked
    slots = rows.living_slots()
    held = rows.take(slots)
    order = pc.sort_indices(held.column(column).combine_chunks()).to_numpy()
    many = min(slots.size, rows.living + came - MOST_GONE // 2)
    oldest = held.take(pa.array(np.sort(order[:many])))
    # what the batch itself marks or lifts is not touched
    own = Numbering()
    own.assign(*gone.digest(marked.rows), all_true(len(marked)))
    other = own.find(*gone.digest(oldest), all_true(oldest.num_rows)) < 0
    oldest = oldest.filter(pa.array(other))
    deletes = np.full(oldest.num_rows, DELETE, np.uint8)
    return Changes(pa.concat_tables([marked.rows, oldest]), np.concatenate([marked.ops, deletes]))
