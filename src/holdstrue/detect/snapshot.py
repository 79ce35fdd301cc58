"""What a new picture of a table changes in the rows there are: found by key, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import arrow_of, python_value
from holdstrue.data.changes import OP_NAMES, UPSERT, Changes
from holdstrue.detect.engine import Incoming
from holdstrue.detect.resolve import KeyDigest, fitted
from holdstrue.errors import ChangeError
from holdstrue.index.rows import Rows
from holdstrue.kernels.hashing import repeats
from holdstrue.sources.feeds.diff import values_differ
from holdstrue.typing import I32, I64, U64, Mask


def differences(new: Changes, rows: Rows, key: Sequence[str], digest: KeyDigest, *, whole: bool) -> Incoming:
    """What brings the rows there are to those of a snapshot; nothing is changed yet.

    Rows whose kept columns are as they were are left out; NULL equals NULL and NaN equals NaN here.

    Parameters
    ----------
    new
        The rows of the snapshot, all as inserts; two rows of one key are refused.
    whole
        Whether rows that are not in it are gone; otherwise it holds some of the table's rows only.

    Complexity: O((rows + snapshot) x columns).
    """
    table = fitted(new, rows.schema, key)
    hi, lo = digest(table)
    _require_different(new, table, key, hi, lo)
    numbers = rows.numbers(hi, lo)
    slots = rows.current(numbers)
    there = np.flatnonzero(slots >= 0)
    comes = slots < 0
    comes[there] = _differing(table, there, rows, slots[there])
    came = np.flatnonzero(comes)
    updates = slots[came]
    updating = updates >= 0
    old, old_numbers = updates[updating], numbers[came[updating]]
    if whole:
        left = rows.alive[: rows.size].copy()
        left[slots[there]] = 0
        gone = np.flatnonzero(left).astype(np.int32)
        old = np.concatenate((old, gone))
        old_numbers = np.concatenate((old_numbers, rows.numbers(*digest(rows.take(gone, key)))))
    order = np.argsort(old, kind="stable")
    return Incoming(
        values=_taken(table, came),
        old=old[order],
        updates=updates,
        keys=(hi[came], lo[came]),
        numbers=numbers[came],
        old_numbers=old_numbers[order],
    )


def changed_rows(batches: Iterable[Incoming]) -> dict[str, int]:
    """How many rows batches insert, update and delete in all.

    >>> came, went = np.array([-1, 4], dtype=np.int32), np.array([3, 4, 7], dtype=np.int32)
    >>> changed_rows([Incoming(pa.table({"id": [1, 2]}), went, came)])
    {'insert': 1, 'update': 1, 'delete': 2}
    """
    found = dict.fromkeys(OP_NAMES[:UPSERT], 0)
    for batch in batches:
        updated = int(np.count_nonzero(batch.updates >= 0))
        found["insert"] += batch.updates.size - updated
        found["update"] += updated
        found["delete"] += batch.old.size - updated
    return found


def _differing(table: pa.Table, there: I64, rows: Rows, slots: I32) -> Mask:
    """Which of the rows with a known key have other values than the ones at their slots."""
    differ = np.zeros(len(there), bool)
    order = slots.size and bool((np.diff(slots) == 1).all())
    for name in table.column_names:
        before: Any = rows.take(slots, [name]).column(0) if not order else _run(rows, slots, name)
        differ |= values_differ(before, _taken(table.select([name]), there).column(0))
    return differ


def _run(rows: Rows, slots: I32, name: str) -> Any:
    """A column of row versions whose slots follow each other, without copying it."""
    return rows.values().column(name).slice(int(slots[0]), slots.size)


def _taken(table: pa.Table, at: I64) -> pa.Table:
    return table if len(at) == table.num_rows else table.take(arrow_of(at))


def _require_different(new: Changes, table: pa.Table, key: Sequence[str], hi: U64, lo: U64) -> None:
    if lo.size < 2 or not repeats(lo):
        return
    seen: dict[tuple[int, int], int] = {}
    for row, word in enumerate(zip(hi.tolist(), lo.tolist(), strict=True)):
        first = seen.setdefault(word, row)
        if first != row:
            values = ", ".join(f"{name}={python_value(table.column(name)[row])!r}" for name in key)
            raise ChangeError(
                f"{new.place(row)} repeats the key {values} of {new.place(first)}; nothing was applied",
                hint="a key names one row: remove one of them or choose another key",
            )
