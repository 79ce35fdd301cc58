"""A Parquet file read for rules that look at some of its rows: first what tells these, then the rest of them alone.

Row groups whose least and greatest values say that no rule looks at a row of them are not read. In the others the
columns that tell the rows are read first. Of the further columns only row groups with such rows are, and where these
rows are few only their values (`page_reader.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import arrow_of
from holdstrue.data.validity import validate_column
from holdstrue.plan.filter import holds
from holdstrue.plan.wanted import Bounds, RowRange
from holdstrue.rules.model import Condition
from holdstrue.rules.terms import condition_columns
from holdstrue.sources.page_reader import PageReader, chunk_bytes
from holdstrue.threads import each
from holdstrue.typing import I32

LATE_FROM = 1 << 15
"""Rows from which on it is worth to read in two steps. Chosen, not tuned."""
FEW = 8
"""Where fewer than one row of so many is looked at, pages are read value by value. Chosen, not tuned."""
MOST = 4
"""Where more than one row of so many is looked at, all are kept: to leave the others out takes longer."""


@dataclass
class WantedRows:
    """Which rows of a file are looked at, and which those were found to be."""

    rows: RowRange
    schema: pa.Schema
    """The types that the conditions were made for."""
    threads: int
    origin: I32 | None = None
    """The numbers of the rows that were read; None where all were."""
    whole: int = 0
    """How many rows the file has."""


class LateColumns:
    """The columns of one Parquet file, of which rules look at some rows.

    Parameters
    ----------
    opened
        The file, for what it says of itself.
    again
        Opens it once more, to be read by one thread.
    path
        Where it lies.
    names, dictionaries
        The columns to read, and those of text that come as dictionaries.
    """

    def __init__(
        self,
        opened: Any,
        again: Callable[[], Any],
        path: Path,
        names: Sequence[str],
        dictionaries: Sequence[str],
    ) -> None:
        self._again, self._path = again, path
        self._schema: pa.Schema = opened.schema_arrow
        self._columns, self._metadata = opened.schema, opened.metadata
        self._names, self._dictionaries = list(names), list(dictionaries)
        self._threads = 1
        self._told: dict[tuple[int, str], PageReader] = {}
        """The readers of columns that told rows."""
        self._groups = range(self._metadata.num_row_groups)
        self._sizes = [self._metadata.row_group(group).num_rows for group in self._groups]

    def read(self, wanted: WantedRows) -> pa.Table | None:
        """The rows that rules look at, or all of them; None where the file is not read in two steps."""
        flat = len(self._schema) == self._metadata.num_columns
        known = all(self._schema.field(name).type == wanted.schema.field(name).type for name in wanted.rows.columns)
        whole = sum(self._sizes)
        if not flat or not known or whole < LATE_FROM:
            return None
        sizes = {name: self._chunk(0, name).total_compressed_size for name in self._names}
        rows = wanted.rows.narrowed(self._bounds(0, wanted.rows.columns), sizes)
        groups = [group for group in self._groups if rows.possible(self._bounds(group, rows.columns))]
        if len(groups) == len(self._sizes) and set(self._names) <= set(rows.columns):
            return None
        self._threads = wanted.threads
        first: dict[tuple[int, str], pa.ChunkedArray] = {}
        found = each(lambda group: self._chosen(rows, first, group), groups, wanted.threads, tasks=True)
        chosen = dict(zip(groups, found, strict=True))
        several = sum(own.size for own in chosen.values())
        if several * MOST > whole:
            chosen = {group: np.arange(size, dtype=np.int32) for group, size in enumerate(self._sizes)}
        else:
            starts = list(accumulate(self._sizes, initial=0))
            numbers = [own + np.int32(starts[group]) for group, own in chosen.items()]
            wanted.origin = np.concatenate([np.empty(0, dtype=np.int32), *numbers])
            wanted.whole = whole

        def read(task: tuple[int, str]) -> pa.ChunkedArray:
            return self._taken(*task, chosen[task[0]], first.get(task))

        tasks = [(group, name) for name in self._names for group in chosen]
        parts = dict(zip(tasks, each(read, tasks, wanted.threads, tasks=True), strict=True))
        columns = {
            name: pa.chunked_array([chunk for group in chosen for chunk in parts[group, name].chunks], self._type(name))
            for name in self._names
        }
        if len(chosen) > 1 and wanted.origin is not None and several * FEW < whole:
            # every piece of a table costs some calls, and every dictionary a look at all its values
            columns = {name: _in_one_piece(column) for name, column in columns.items()}
        return pa.table(columns)

    def _all(self, group: int, name: str) -> pa.ChunkedArray:
        with self._again() as opened:
            column = opened.read_row_group(group, columns=[name], use_threads=False).column(0)
        if len(column) != self._sizes[group]:
            raise pa.ArrowInvalid(f"column {name!r} has {len(column)} of {self._sizes[group]} values")
        validate_column(column)  # before anything is looked up by it
        return column if column.type == self._type(name) else column.cast(self._type(name))

    def _chosen(self, rows: RowRange, read: dict[tuple[int, str], pa.ChunkedArray], group: int) -> I32:
        """The rows of a row group that rules look at; columns that were decoded for it are kept in `read`."""
        found = [self._matching(condition, group) for condition in rows.conditions]
        if len(found) == 1 and found[0] is not None:
            return found[0]
        told = np.zeros(self._sizes[group], dtype=np.bool_)
        for condition, own in zip(rows.conditions, found, strict=True):
            if own is not None:
                told[own] = True
                continue
            for name in condition_columns(condition):
                if (group, name) not in read:
                    read[group, name] = self._all(group, name)
            told |= holds(condition, lambda name: _joined(read[group, name]), told.size)
        return np.flatnonzero(told).astype(np.int32)

    def _matching(self, condition: Condition, group: int) -> I32 | None:
        """The rows that satisfy a condition on one column, judged page by page; None where it cannot be."""
        columns = condition_columns(condition)
        pages = self._pages(group, columns[0]) if len(columns) == 1 else None
        if pages is not None:
            self._told[group, columns[0]] = pages
        return (
            None if pages is None else pages.satisfying(lambda values: holds(condition, lambda _: values, len(values)))
        )

    def _pages(self, group: int, name: str) -> PageReader | None:
        """What reads pages of a column of a row group; None where it is not plain enough."""
        type_, chunk = self._schema.field(name).type, self._chunk(group, name)
        column = self._columns.column(self._schema.get_field_index(name))
        as_text = type_ == pa.string() and name not in self._dictionaries
        if as_text or not PageReader.reads(chunk, column, type_):
            return None
        start, length = chunk_bytes(chunk)
        with self._path.open("rb", buffering=0) as file:
            file.seek(start)
            return PageReader(file.read(length) or b"", chunk, column, type_, self._threads)

    def _taken(self, group: int, name: str, rows: I32, read: pa.ChunkedArray | None) -> pa.ChunkedArray:
        """Some rows of a column of a row group."""
        if not rows.size:
            return pa.chunked_array([], self._type(name))
        if read is None:
            read = self._few(group, name, rows)
            if len(read) == rows.size:
                return read
        return read if len(read) == rows.size else read.take(arrow_of(rows))

    def _few(self, group: int, name: str, rows: I32) -> pa.ChunkedArray:
        """The same as far as they can be read alone; else all rows."""
        pages = (
            self._told.get((group, name)) or self._pages(group, name) if rows.size * FEW <= self._sizes[group] else None
        )
        found = None if pages is None else pages.taken(rows)
        return self._all(group, name) if found is None else pa.chunked_array([found], self._type(name))

    def _type(self, name: str) -> pa.DataType:
        type_ = self._schema.field(name).type
        return pa.dictionary(pa.int32(), type_) if name in self._dictionaries else type_

    def _chunk(self, group: int, name: str) -> Any:
        return self._metadata.row_group(group).column(self._schema.get_field_index(name))

    def _bounds(self, group: int, names: Sequence[str]) -> dict[str, Bounds]:
        """What the file says of the values of columns in a row group."""
        found = {}
        for name in names:
            stored = self._chunk(group, name).statistics
            if stored is None:
                continue
            type_ = self._schema.field(name).type
            nulls = stored.null_count if stored.has_null_count else None
            found[name] = Bounds(_ends(stored, type_), nulls, self._sizes[group], type_)
        return found


def _ends(stored: Any, type_: pa.DataType) -> tuple[Any, Any] | None:
    """The least and greatest value of a column as Arrow has them; None for types that tell them in another way."""
    if not stored.has_min_max:
        return None
    try:
        least, greatest = stored.min, stored.max
        if not type(least) is type(greatest) is _AS_THEY_ARE.get(type_):
            least, greatest = pa.array([least, greatest], type_).to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return None if least is None or greatest is None else (least, greatest)


_AS_THEY_ARE: dict[pa.DataType, type] = {
    pa.int64(): int, pa.int32(): int, pa.string(): str, pa.large_string(): str
}  # fmt: skip
"""Types of which a file's own values need not be tried."""


def _in_one_piece(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column of few rows as one array, whose dictionary has the values that occur.

    >>> first, second = pa.array(["a", "b", "c"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()
    >>> found = _in_one_piece(pa.chunked_array([first[:1], second]))
    >>> found.dictionary.to_pylist(), found.indices.to_pylist()
    (['a', 'b'], [0, 1])
    """
    if not pa.types.is_dictionary(column.type):
        return column.combine_chunks()
    return column.cast(column.type.value_type).combine_chunks().dictionary_encode()


def _joined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
