"""The changes between an old and a new state of a table, found by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.buffers import flags, known
from holdstrue.data.changes import DELETE, INSERT, UPDATE, Changes, Places
from holdstrue.data.notes import Notes
from holdstrue.errors import ChangeError, DataError
from holdstrue.rules.types import Declared
from holdstrue.sources.datafiles import ReadOptions
from holdstrue.sources.feeds.changelog import number_rows
from holdstrue.sources.feeds.target import Target
from holdstrue.sources.read import Loaded, declared_types, load
from holdstrue.typing import I64, Mask


def diff_tables(
    old: Any,
    new: Any,
    key: Sequence[str],
    *,
    schema: pa.Schema | None = None,
    encoding: str = "utf8",
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    null_values: Sequence[str] = (),
    types: Mapping[str, str | Declared] | None = None,
    needed: Iterable[str] | None = None,
    notes: Notes | None = None,
) -> Changes:
    """What turns `old` into `new`: deletes in the old order, then inserts and updates in the new order.

    Only rows that differ are updates; NULL equals NULL and NaN equals NaN here. Both sides are
    anything `read_table` reads; the new one is read with the types of the old one. Where the columns
    that are `needed` are given, others may be in one of them only, and are left out with a note.

    Runtime complexity: O((old + new) x columns), column by column.

    Examples
    --------
    >>> old = pa.table({"id": [1, 2, 3], "zip": ["a", "b", "c"]})
    >>> new = pa.table({"id": [2, 3, 4], "zip": ["b", "x", "d"]})
    >>> changes = diff_tables(old, new, ["id"])
    >>> changes.rows.column("id").to_pylist(), changes.ops.tolist()
    ([1, 3, 4], [2, 1, 0])
    """
    key = (key,) if isinstance(key, str) else tuple(key)
    options = ReadOptions(None, schema, encoding, delimiter, tuple(null_values), declared_types(types), notes)
    try:
        before = load(old, options, format, name="the old table")
        after = load(new, replace(options, schema=before.table.schema), format, name="the new table")
    except DataError as error:
        raise ChangeError(error.message, hint=error.hint) from error
    old_rows, new_rows = _aligned(before, after, None if needed is None else set(needed), notes)
    for rows, places in ((old_rows, before.places), (new_rows, after.places)):
        Target(key).changes(rows, np.zeros(rows.num_rows, np.uint8), places)

    both = [pa.chunked_array([*old_rows.column(k).chunks, *new_rows.column(k).chunks],
                             type=new_rows.column(k).type) for k in key]  # fmt: skip
    numbers = number_rows(both)
    n = old_rows.num_rows
    in_old = _positions(numbers[:n], numbers, before, old_rows, key)
    in_new = _positions(numbers[n:], numbers, after, new_rows, key)

    gone = np.flatnonzero(in_new[numbers[:n]] < 0)
    origin = in_old[numbers[n:]]  # per new row: the old row of that key, or -1
    kept = np.flatnonzero(origin >= 0)
    changed = kept[_differing(old_rows, new_rows, origin[kept], kept)]
    ops = np.full(new_rows.num_rows, 255, np.uint8)
    ops[origin < 0] = INSERT
    ops[changed] = UPDATE
    came = np.flatnonzero(ops != 255)
    rows = pa.concat_tables([old_rows.take(pa.array(gone)), new_rows.take(pa.array(came))])
    places = Places(before.places.sources + after.places.sources, np.concatenate([gone, came + n]))
    return Changes(rows, np.concatenate([np.full(len(gone), DELETE, np.uint8), ops[came]]), places)


def _aligned(before: Loaded, after: Loaded, needed: set[str] | None, notes: Notes | None) -> tuple[pa.Table, pa.Table]:
    """Both tables with the same columns, in the same order, of the same types."""
    old, new = before.table, after.table
    for name in sorted(set(old.column_names) ^ set(new.column_names)):
        has, lacks = (before, after) if name in old.column_names else (after, before)
        said = f"{lacks.places.sources[0].name} has no column {name!r}, {has.places.sources[0].name} has"
        if needed is None or name in needed:
            raise ChangeError(said, hint="compare tables that have the same columns")
        if notes is not None:
            notes.add(f"{said}: left out, since no rule reads it")
    both = [name for name in old.column_names if name in new.column_names]
    old, new = old.select(both), new.select(both)
    return old.cast(new.schema), new


def _positions(part: I64, numbers: I64, loaded: Loaded, rows: pa.Table, key: tuple[str, ...]) -> I64:
    """Per number: the row that has it, or -1; a number that two rows have is an error."""
    found = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int64)
    at = np.arange(len(part))
    found[part] = at
    repeated = np.flatnonzero(found[part] != at)
    if len(repeated):
        first = int(repeated[0])
        other = int(np.flatnonzero(part == part[first])[1])
        values = ", ".join(f"{name}={rows.column(name)[first].as_py()!r}" for name in key)
        raise ChangeError(
            f"{loaded.places.place(other)} repeats the key {values} of {loaded.places.place(first)}",
            hint="a key names one row: remove one of them or choose another key",
        )
    return found


def _differing(old: pa.Table, new: pa.Table, old_at: I64, new_at: I64) -> Mask:
    differ = np.zeros(len(old_at), bool)
    for name in new.column_names:
        differ |= values_differ(_taken(old.column(name), old_at), _taken(new.column(name), new_at))
    return differ


def _taken(column: Any, at: I64) -> Any:
    if len(at) == len(column) and np.array_equal(at, np.arange(len(at))):
        return column
    return column.take(pa.array(at))


def values_differ(one: Any, other: Any) -> Mask:
    """Where two columns differ, with NULL = NULL and NaN = NaN."""
    if pa.types.is_float16(one.type):  # Arrow does not compare these
        one, other = pc.cast(one, pa.float32()), pc.cast(other, pa.float32())
    try:
        differ = _holds(pc.not_equal(one, other))
    except pa.ArrowNotImplementedError:  # structs, lists and maps
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.fromiter((a != b for a, b in pairs), bool, len(one))
    if pa.types.is_floating(one.type):
        differ &= ~_holds(pc.and_(pc.is_nan(one), pc.is_nan(other)))
    if one.null_count or other.null_count:
        differ |= _by_chunk(one, known) ^ _by_chunk(other, known)
    return differ


def _holds(column: pa.ChunkedArray | pa.Array) -> Mask:
    """Where a condition is true, which it is not where it is unknown."""
    return _by_chunk(column, lambda chunk: flags(chunk) & known(chunk) if chunk.null_count else flags(chunk))


def _by_chunk(column: pa.ChunkedArray | pa.Array, masked: Callable[[pa.Array], Mask]) -> Mask:
    if isinstance(column, pa.Array):
        return masked(column)
    return np.concatenate([np.empty(0, bool), *(masked(chunk) for chunk in column.chunks)])
