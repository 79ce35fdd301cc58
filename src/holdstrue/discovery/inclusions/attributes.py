"""The attributes that inclusions relate: columns, or tuples of columns, of named tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.data.values import family_of
from holdstrue.discovery.inclusions.contents import Compare, Content, comparable, content_of, tuple_of
from holdstrue.errors import ChangeError
from holdstrue.rules.model import Inclusion
from holdstrue.typing import Mask


@dataclass(frozen=True)
class Attribute:
    """One column of a table, or several whose values are taken together."""

    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class RowChanges:
    """Rows of one table that a batch removes and adds, as values; an updated row is in both."""

    removed: pa.Table | None = None
    added: pa.Table | None = None


Changes = Mapping[str, RowChanges]
"""What a batch does, by table."""


def inclusion(left: Attribute, right: Attribute) -> Inclusion:
    """The rule that every value of `left` is one of `right`."""
    return Inclusion(left.table, left.columns, right.table, right.columns)


def columns_of(schemas: Mapping[str, pa.Schema]) -> tuple[Attribute, ...]:
    """Every column whose values can be compared (not lists, structs, maps), table by table."""
    return tuple(
        Attribute(table, (field.name,))
        for table, schema in schemas.items()
        for field in schema
        if family_of(field.type) is not None
    )


def comparisons(schemas: Mapping[str, pa.Schema], attributes: Sequence[Attribute], compare: Compare) -> Mask:
    """`[A, B]`: A and B are two columns whose types can be compared. Complexity: O(attributes squared)."""
    types = [schemas[attribute.table].field(attribute.columns[0]).type for attribute in attributes]
    kinds = list(dict.fromkeys(types))
    table = np.array([[comparable(a, b, compare) for b in kinds] for a in kinds], dtype=np.bool_)
    table = table.reshape(len(kinds), len(kinds))
    numbers = np.array([kinds.index(data_type) for data_type in types], dtype=np.int64)
    found: Mask = table[np.ix_(numbers, numbers)]
    np.fill_diagonal(found, val=False)
    return found


class Contents:
    """The digests of a table's columns, each made once, and of tuples of them."""

    def __init__(self, table: pa.Table, compare: Compare, seed: Seed) -> None:
        self._table = table
        self._seed = seed
        self._compare: Compare = compare
        self._known: dict[str, Content] = {}

    def of(self, columns: tuple[str, ...]) -> Content:
        """The digests of a tuple of columns. Complexity: O(rows)."""
        for name in columns:
            if name not in self._known:
                self._known[name] = content_of(self._table.column(name), self._compare, self._seed)
        return tuple_of([self._known[name] for name in columns], self._seed)


def batch_contents(
    changes: Changes, numbers: Mapping[Attribute, int], compare: Compare, seed: Seed
) -> list[tuple[int, Content, int]]:
    """By numbered attribute the digests of what a batch takes (-1) and brings (+1). Complexity: O(cells)."""
    parts = []
    for name, change in changes.items():
        for rows, step in ((change.removed, -1), (change.added, 1)):
            if rows is not None:
                contents = Contents(rows, compare, seed)
                own = (attribute for attribute in numbers if attribute.table == name)
                parts += [(numbers[attribute], contents.of(attribute.columns), step) for attribute in own]
    return parts


def fitting(name: str, schemas: Mapping[str, pa.Schema], rows: pa.Table) -> pa.Table:
    """Rows of a batch, refused when they do not fit the table they were meant for."""
    if name not in schemas:
        raise ChangeError(f"no table {name!r} is looked at", hint=f"the tables are: {', '.join(schemas)}")
    for field in schemas[name]:
        if field.name not in rows.column_names:
            raise ChangeError(
                f"the changes of table {name!r} have no column {field.name!r}",
                hint="give the whole rows that go and come",
            )
        found, expected = rows.schema.field(field.name).type, field.type
        if family_of(found) not in (family_of(expected), "null") and family_of(expected) is not None:
            raise ChangeError(
                f"column {field.name!r} of the changes of table {name!r} is {found}, the table has {expected}",
                hint="cast the column to the table's type",
            )
    return rows
