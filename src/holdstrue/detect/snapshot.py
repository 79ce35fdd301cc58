"""What a new picture of a table changes in the rows there are: found by key, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import arrow_of, python_value
from holdstrue.data.changes import DELETE, INSERT, UPDATE, Changes, Origin, Places
from holdstrue.detect.resolve import KeyDigest, fitted
from holdstrue.errors import ChangeError
from holdstrue.index.rows import Rows
from holdstrue.kernels.hashing import repeats
from holdstrue.sources.feeds.diff import values_differ
from holdstrue.typing import I32, I64, U64, Mask


def differences(new: Changes, rows: Rows, key: Sequence[str], digest: KeyDigest, *, whole: bool) -> Changes:
    """The changes that bring the rows there are to those of a snapshot: deletes first, then the rest in its order.

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
    slots = rows.find(hi, lo)
    there = np.flatnonzero(slots >= 0)
    changed = there[_differing(table, there, rows, slots[there])]
    ops = np.full(table.num_rows, 255, np.uint8)
    ops[slots < 0] = INSERT
    ops[changed] = UPDATE
    came = np.flatnonzero(ops != 255)
    places = new.places or Places((Origin("the snapshot", len(new)),))
    if not whole:
        return Changes(_taken(table, came), ops[came], places.take(came))
    left = rows.alive[: rows.size].copy()
    left[slots[there]] = 0
    gone = np.flatnonzero(left)
    origin = Origin("the rows that the snapshot lacks", len(gone))
    at = np.concatenate([np.arange(len(gone)), places.take(came).positions + len(gone)])  # type: ignore[operator]
    return Changes(
        pa.concat_tables([rows.take(gone), _taken(table, came)]),
        np.concatenate([np.full(len(gone), DELETE, np.uint8), ops[came]]),
        Places((origin, *places.sources), at),
    )


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
