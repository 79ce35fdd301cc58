"""Numbers that a database sends as text, as exact decimals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.errors import DataError
from holdstrue.rules.types import MOST_DIGITS, Declared
from holdstrue.sources.declared import declared_column
from holdstrue.sources.fit import fit_column

_WIDEST = 76
"""Digits of the widest decimal."""

UNSIZED = pa.decimal128(38, 9)
"""What stands for a decimal whose size its values will tell, where only the kind of a column is asked."""


def exact_numbers(table: pa.Table, types: Mapping[str, pa.DataType | None], where: str) -> pa.Table:
    """The table with columns of text as decimals, of a type that is known or of the size that holds all values.

    >>> exact_numbers(pa.table({"n": ["1.50", None]}), {"n": None}, "t").column("n").to_pylist()
    [Decimal('1.50'), None]
    """
    for name, type_ in types.items():
        at = table.column_names.index(name)
        column = pc.cast(table.column(at), pa.string())
        _require_numbers(column, name, where)
        table = table.set_column(at, name, _decimals(column, type_, name, where))
    return table


def _decimals(column: Any, type_: pa.DataType | None, name: str, where: str) -> Any:
    def place(row: int) -> str:
        return f"row {row + 1} of {where}"

    if type_ is not None:
        return fit_column(column, type_, name=name, place=place)
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), UNSIZED)])
    parts = pc.extract_regex(column, r"^[+-]?(?P<whole>[0-9]*)\.?(?P<fraction>[0-9]*)$")
    whole, fraction = (pc.max(pc.binary_length(pc.struct_field(parts, name))).as_py() for name in ("whole", "fraction"))
    if MOST_DIGITS < (whole or 0) + (fraction or 0) <= _WIDEST:
        return fit_column(column, pa.decimal256(whole + fraction, fraction), name=name, place=place)
    return declared_column(column, Declared("decimal"), name=name, place=place)


def _require_numbers(column: Any, name: str, where: str) -> None:
    odd = pc.match_substring_regex(column, r"(?i)nan|inf")
    at = pc.index(odd, True).as_py() if pc.any(odd).as_py() else -1
    if at >= 0:
        raise DataError(
            f"row {at + 1} of {where}: column {name!r} holds {column[at].as_py()}, which no decimal is",
            hint="leave such rows out with ?query=SELECT ... WHERE ..., or cast the column to double precision there",
        )
