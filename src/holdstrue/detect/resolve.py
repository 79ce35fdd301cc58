"""A batch of changes against the rows there are: what goes, what comes, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import arrow_of, python_value
from holdstrue.data.changes import DELETE, INSERT, OP_NAMES, UPDATE, UPSERT, Changes
from holdstrue.detect.engine import Incoming
from holdstrue.errors import ChangeError
from holdstrue.index.arrays import MOST_SLOTS, Numbering, all_true, no_slots
from holdstrue.index.rows import Rows
from holdstrue.kernels import bounds
from holdstrue.kernels import netting as kernels
from holdstrue.kernels.hashing import repeats
from holdstrue.typing import I32, I64, U8, U64

OnConflict: TypeAlias = Literal["error", "upsert", "ignore"]
MANY = 32
"""From this part of all slots on, they are ordered by writing each to its place: 200,000 of as many are sorted in 22,
and written and read in 1 ms."""
KeyDigest: TypeAlias = Callable[[pa.Table], tuple[U64, U64]]


def resolve(
    changes: Changes, rows: Rows, key: Sequence[str], digest: KeyDigest, on_conflict: OnConflict = "error"
) -> Incoming:
    """Net the changes of each key and find the row versions they replace; nothing is changed yet.

    Complexity: O(changes).
    """
    table = fitted(changes, rows.schema, key)
    hi, lo = digest(table)
    numbers = rows.numbers(hi, lo)
    slots = rows.current(numbers)
    once = slots.size < 2 or not repeats(lo)
    if not slots.size or (once and slots.max() < 0 and not changes.ops.any()):
        # only inserts, all of new keys
        return Incoming(table, no_slots(0), no_slots(slots.size), (hi, lo), numbers)
    if once:
        came, went = _net_once(changes, table, key, slots, rows.size, on_conflict)
        old, updates = slots[went], slots if came.size == slots.size else slots[came]
    else:
        final = net(changes, table, key, slots, Numbering().assign(hi, lo, all_true(hi.size)), on_conflict)
        comes, goes = final[:, 1] >= 0, final[:, 0] >= 0
        came, went, updates = final[comes, 1], final[goes, 2], final[comes, 0].astype(np.int32)
        order = np.argsort(final[goes, 0], kind="stable")
        went, old = went[order], final[goes, 0][order].astype(np.int32)
    # where each key changes once, changes come in their order
    whole = came.size == table.num_rows and (once or bool((came == np.arange(came.size)).all()))
    return Incoming(
        values=table if whole else table.take(arrow_of(came)),
        old=old,
        updates=updates,
        keys=(hi, lo) if whole else (hi[came], lo[came]),
        numbers=numbers if whole else numbers[came],
        old_numbers=numbers[went],
    )


def _net_once(
    changes: Changes, table: pa.Table, key: Sequence[str], slots: I32, size: int, on_conflict: OnConflict
) -> tuple[I32, I32]:
    """As `net` where every key changes once: which changes bring a row, and which take one along, by its slot."""
    came, went = np.empty((2, slots.size), dtype=np.int32)
    ops = np.require(changes.ops, requirements="W")  # of which feeds give views of what they were given
    clash, coming, going = kernels.net_once(ops, slots, _POLICIES[on_conflict], came, went)
    if clash >= 0:
        raise _conflict(changes, table, key, clash)
    came, went = came[:coming], went[:going]
    if going * MANY < size:
        return came, went[np.argsort(slots[went], kind="stable")]
    ordered = np.empty(going, dtype=np.int32)
    kernels.by_slot(slots, went, np.full(size, -1, dtype=np.int32), ordered)
    return came, ordered


_POLICIES = {"error": kernels.REFUSE, "upsert": kernels.MAKE_FIT, "ignore": kernels.SKIP}


def unfit(part: Incoming, alive: U8, key: Sequence[str]) -> str | None:
    """Why a batch that comes out of a log cannot have been resolved against rows of which these slots live.

    None where it can. Complexity: O(batch * log batch).
    """
    old, updates = part.old, part.updates
    if updates.size != part.values.num_rows:
        return f"it tells of {updates.size} rows what they replace, and brings {part.values.num_rows}"
    if bounds.outside(old, 0, alive.size - 1) >= 0 or bounds.unsorted(old, True) >= 0 or not alive[old].all():
        return "it removes rows that are not there"
    if any(part.values.column(name).null_count for name in key):
        return "a key of it is NULL"
    replaced = updates[updates >= 0]
    places = np.searchsorted(old, replaced)
    known = replaced.size <= old.size and bool((np.append(old, -1)[places] == replaced).all())
    if not known or bounds.outside(updates, -1, MOST_SLOTS) >= 0 or np.unique(places).size < places.size:
        return "it replaces rows that it does not remove"
    return None


def fitted(changes: Changes, schema: pa.Schema, key: Sequence[str]) -> pa.Table:
    """The kept columns in order; a change other than a delete must have all of them."""
    try:
        table = changes.rows.select(schema.names)
    except KeyError:
        table = _completed(changes, schema, key).select(schema.names)
    if not table.schema.equals(schema):
        try:
            table = table.cast(schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ChangeError(
                f"the changes do not have the table's types: {error}",
                hint=f"the table has {', '.join(f'{f.name} {f.type}' for f in schema)}",
            ) from error
    for name in key:
        column = table.column(name)
        if column.null_count:
            row = column.to_pylist().index(None)
            raise ChangeError(
                f"{changes.place(row)}: the key column {name!r} is NULL",
                hint="every row needs a key to be told from the others",
            )
    return table


def _completed(changes: Changes, schema: pa.Schema, key: Sequence[str]) -> pa.Table:
    """Deletes that hold the key alone, with the other columns as NULL."""
    table = changes.rows
    writes = np.flatnonzero(changes.ops != DELETE)
    for name in schema.names:
        if name in table.column_names:
            continue
        if name in key or writes.size:
            where = changes.place(int(writes[0])) if writes.size else "the changes"
            raise ChangeError(
                f"{where}: no column {name!r}",
                hint=f"give the columns {', '.join(schema.names)}; only deletes may hold the key alone",
            )
        table = table.append_column(schema.field(name), pa.nulls(table.num_rows, schema.field(name).type))
    return table


def net(
    changes: Changes, table: pa.Table, key: Sequence[str], slots: I32, number: I32, on_conflict: OnConflict = "error"
) -> I64:
    """Per key that changes: (slot that goes or -1, row with the new image or -1, row that names the key).

    `number` tells the keys of the changes apart, `slots` are those that their rows have now. Complexity: O(changes),
    O(n log n) where a key changes more than once.

    >>> rows = pa.table({"id": [7, 7, 8]})
    >>> changes = Changes(rows, np.array([INSERT, UPDATE, DELETE], dtype=np.uint8))
    >>> net(changes, rows, ["id"], np.array([-1, -1, 5]), np.array([0, 0, 1])).tolist()
    [[-1, 1, 0], [5, -1, 2]]
    """
    ops = changes.ops
    if number.size == 0 or int(number.max()) + 1 == number.size:
        exists = slots >= 0
        clash = (exists & (ops == INSERT)) | (~exists & ((ops == UPDATE) | (ops == DELETE)))
        keep = np.ones(ops.size, dtype=np.bool_)
        if clash.any():
            if on_conflict == "error":
                raise _conflict(changes, table, key, int(np.flatnonzero(clash)[0]))
            keep = ~clash if on_conflict == "ignore" else ~(clash & (ops == DELETE))
        position = np.arange(ops.size, dtype=np.int64)
        image = np.where(ops == DELETE, np.int64(-1), position)
        return np.stack((slots.astype(np.int64), image, position), axis=1)[keep]
    if on_conflict != "error":
        return _net_in_order(changes, slots, number, on_conflict)
    order = np.argsort(number, kind="stable")
    ops = changes.ops[order]
    first = np.diff(number[order], prepend=-1) != 0
    # whether the row is there when its change comes
    there = np.empty(ops.size, dtype=np.bool_)
    there[1:] = ops[:-1] != DELETE
    there[first] = slots[order[first]] >= 0
    clash = (ops != UPSERT) & (there == (ops == INSERT))
    if clash.any():
        raise _conflict(changes, table, key, int(order[clash].min()))
    start, end = order[first], order[np.roll(first, -1)]
    image = np.where(changes.ops[end] == DELETE, np.int64(-1), end)
    rows = np.stack((slots[start].astype(np.int64), image, start), axis=1)
    return rows[(rows[:, 0] >= 0) | (image >= 0)]


def _net_in_order(changes: Changes, slots: I32, number: I32, on_conflict: OnConflict) -> I64:
    """The same where changes that do not fit are skipped or made to fit: they are followed one after the other."""
    now: dict[int, list[int]] = {}
    for i, (which, op) in enumerate(zip(number.tolist(), changes.ops.tolist(), strict=True)):
        # slot at the start, current image (-2: the stored row), a row that names the key
        state = now.setdefault(which, [int(slots[i]), -2 if slots[i] >= 0 else -1, i])
        fits = op == UPSERT or (state[1] != -1) == (op != INSERT)
        if fits or (on_conflict == "upsert" and op != DELETE):
            state[1] = -1 if op == DELETE else i
    rows = [(slot, image, at) for slot, image, at in now.values() if image != -2 and not (slot < 0 and image < 0)]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _conflict(changes: Changes, table: pa.Table, key: Sequence[str], row: int) -> ChangeError:
    shown = ", ".join(f"{name}={python_value(table.column(name)[row])!r}" for name in key)
    said = "exists already" if changes.ops[row] == INSERT else "does not exist"
    return ChangeError(
        f"{changes.place(row)}: {OP_NAMES[changes.ops[row]]} of {shown}, which {said}; nothing was applied",
        hint="on conflict upsert makes it fit (insert or update as needed), on conflict ignore skips such rows",
    )
