"""The table that changes are for, and the checks that every feed ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdstrue.data.changes import DELETE, Changes, Places
from holdstrue.data.notes import Notes
from holdstrue.errors import ChangeError
from holdstrue.sources.datafiles import spelling_hint
from holdstrue.sources.fit import fit_column
from holdstrue.typing import U8

UNITS = ("ms", "us", "ns")
"""What numbers in columns of times may count."""


@dataclass(frozen=True)
class Target:
    """What is known of the table: its key, its columns and what to do with columns it does not have."""

    key: tuple[str, ...]
    schema: pa.Schema | None = None
    extra: Literal["error", "ignore"] = "error"
    units: Mapping[str, str] = field(default_factory=dict)
    """What numbers count in columns of times (ms, us or ns), where the feed does not say."""
    needed: frozenset[str] | None = None
    """The columns that must be there; where this is known, others may be missing, and new ones are left out."""
    notes: Notes | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.schema is not None and any(read_type(type_) != type_ for type_ in self.schema.types):
            plain = pa.schema([field.with_type(read_type(field.type)) for field in self.schema])
            object.__setattr__(self, "schema", plain)

    def type_of(self, name: str) -> pa.DataType | None:
        """The type that the table is known to have for a column; None for one that was never seen with a value."""
        if self.schema is None or name not in self.names:
            return None
        type_ = self.schema.field(name).type
        return None if pa.types.is_null(type_) else type_

    def check_units(self) -> None:
        """Refuse units that are none, and those of columns that the table does not have."""
        for name, unit in self.units.items():
            if unit not in UNITS:
                raise ChangeError(f"unknown unit {unit!r} of column {name!r}", hint=f"one of {', '.join(UNITS)}")
            if self.schema is not None and name not in self.names and self.extra == "error":
                raise ChangeError(
                    f"a unit was given for column {name!r}, which the table does not have",
                    hint=spelling_hint(name, self.schema.names),
                )

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns the table is known to have, which are data then and not about the change."""
        return frozenset() if self.schema is None else frozenset(self.schema.names)

    def without(self, name: str) -> Target:
        """The target when `name` is not one of its columns after all."""
        if self.schema is None or name not in self.schema.names:
            return self
        return replace(self, schema=pa.schema([f for f in self.schema if f.name != name]))

    def empty(self, places: Places) -> Changes:
        """No changes."""
        rows = pa.table({name: pa.nulls(0) for name in self.key})
        if self.schema is not None:
            rows = pa.Table.from_batches([], schema=self.schema)
        return Changes(rows, np.zeros(0, np.uint8), places)

    def changes(self, rows: pa.Table, ops: U8, places: Places) -> Changes:
        """The changes with columns and types of the table, or an error that names the row.

        Runtime complexity: O(rows x columns), column by column.
        """
        present = rows.column_names
        for name in self.key:
            if name not in present:
                raise ChangeError(
                    f"the changes in {places.sources[0].name} have no key column {name!r}",
                    hint=spelling_hint(name, present),
                )
        if self.schema is not None and self.needed is not None:
            rows = self._settled(rows, ops, places)
        rows = self._typed(rows, places)
        for name in self.key:
            column = rows.column(name)
            if pa.types.is_nested(column.type):
                raise ChangeError(
                    f"{places.sources[0].name}: key column {name!r} is {column.type}, which cannot tell rows apart",
                    hint="choose columns of plain values as the key",
                )
            if column.null_count:
                row = int(np.flatnonzero(column.is_null().to_numpy())[0])
                raise ChangeError(
                    f"{places.place(row)}: no value in key column {name!r}",
                    hint="every change must carry the whole key of its row",
                )
        return Changes(rows, ops, places)

    def _settled(self, rows: pa.Table, ops: U8, places: Places) -> pa.Table:
        """The columns that the table has; those that no rule reads may come and go, which a note says."""
        present = rows.column_names
        new = [name for name in present if name not in self.names]
        writes = np.flatnonzero(ops != DELETE)
        missing = [name for name in self.names if name not in present] if writes.size else []
        for name in sorted(set(missing) & (self.needed or set())):
            raise ChangeError(
                f"{places.place(int(writes[0]))}: no column {name!r}, which the rules read",
                hint=f"{spelling_hint(name, present)}; only deletes may hold the key alone",
            )
        where = places.sources[0].name
        if self.notes is not None and new:
            self.notes.add(f"{where} has {_listed(new)}, which the table did not have: left out, no rule reads it")
        if self.notes is not None and missing:
            self.notes.add(f"{where} does not have {_listed(sorted(missing))}, which no rule reads")
        return rows.drop_columns(new) if new else rows

    def _typed(self, rows: pa.Table, places: Places) -> pa.Table:
        if self.schema is None or rows.schema.equals(self.schema):
            return rows
        present = rows.column_names
        for name in present:
            if name not in self.names and self.extra == "error":
                raise ChangeError(
                    f"{places.place(_first_filled(rows.column(name)))}: unknown column {name!r}"
                    if rows.num_rows else f"{places.sources[0].name}: unknown column {name!r}",
                    hint=spelling_hint(name, self.schema.names),
                )  # fmt: skip
        names = [name for name in self.schema.names if name in present]
        columns = []
        for name in names:
            column, type_ = rows.column(name), self.schema.field(name).type
            if column.type != type_ and not pa.types.is_null(type_):
                column = fit_column(column, type_, name=name, place=places.place, error=ChangeError)
            columns.append(column)
        return pa.table(columns, names=names)


def read_type(type_: pa.DataType) -> pa.DataType:
    """The type of a column when its values are laid out plainly, as they are read.

    >>> read_type(pa.dictionary(pa.int8(), pa.string_view()))
    DataType(string)
    """
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return read_type(type_.value_type)
    if pa.types.is_string_view(type_):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(type_) else type_


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"{'column' if len(names) == 1 else 'columns'} {shown}"


def read_words(
    column: Any, words: dict[str, int], name: str, places: Places, what: str = "operation", more: str = ""
) -> U8:
    """The codes of a column of words, in any case, or an error for the first row that has none of them."""
    codes = match_words(column, words)
    if codes is None or codes.min(initial=0) < 0:
        row = 0 if codes is None else int(np.argmin(codes))
        value = column[row].as_py()
        met = f"no {what}" if value is None else f"unknown {what} {value!r}"
        raise ChangeError(f"{places.place(row)}: {met} in column {name!r}", hint=f"one of {', '.join(words)}{more}")
    return codes.astype(np.uint8)


FEW = 8
"""Words up to which Python looks them up: Arrow's four calls take 100 us, whatever they are asked."""


def match_words(column: Any, words: dict[str, int]) -> NDArray[np.int16] | None:
    """The codes of a column of words, -1 where it has none of them; None where it holds no text."""
    if pa.types.is_null(column.type):
        return np.full(len(column), -1, np.int16)
    if len(column) <= FEW and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        said = ("" if word is None else word.strip().lower() for word in column.to_pylist())
        return np.array([words.get(word, -1) for word in said], np.int16)
    try:
        # there are few different words, which are looked at once each
        coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
        chunks = coded.chunks if isinstance(coded, pa.ChunkedArray) else [coded]
        return np.concatenate([np.empty(0, np.int16), *(_matched(chunk, words) for chunk in chunks)])
    except pa.ArrowNotImplementedError:
        return None


def _matched(coded: pa.DictionaryArray, words: dict[str, int]) -> NDArray[np.int16]:
    """The codes of the words of a dictionary column."""
    text = pc.utf8_lower(pc.utf8_trim_whitespace(coded.dictionary))
    found = pc.fill_null(pc.index_in(text, value_set=pa.array(list(words))), len(words))
    codes: NDArray[np.int16] = np.array([*words.values(), -1], np.int16)[found.to_numpy(zero_copy_only=False)]
    # NULL is none of the words, and stands for the last place
    places = pc.fill_null(coded.indices.cast(pa.int64()), len(codes)).to_numpy(zero_copy_only=False)
    return np.append(codes, np.int16(-1))[places]


def _first_filled(column: Any) -> int:
    filled = np.flatnonzero(column.is_valid().to_numpy())
    return int(filled[0]) if len(filled) else 0
