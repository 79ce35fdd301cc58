"""Numbers that a text file writes out in full and that no double holds: they become decimals.

A value such as 0.1 is a double as usual, as it is everywhere; so is 1e300. But 12345678901234567, in a column
that fractions make one of doubles, would become 12345678901234568, and a key would be called violated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.errors import DataError
from holdstrue.rules.types import Declared
from holdstrue.sources.declared import declared_column

EXACT_BELOW = 2.0**53
"""Doubles from here on do not hold every whole number."""

_WHOLE = r"^\s*[+-]?[0-9]{1,38}\s*$"
_IN_FULL = r"^\s*[+-]?[0-9]+(\.[0-9]*)?\s*$"


_LONGEST = 300
"""Digits of a whole number up to which Python's float of it is finite."""
_SHOWN = 60


def needs_second_look(column: Any) -> bool:
    """Whether doubles may stand for numbers that they do not hold. Runtime complexity: O(n), one pass without text."""
    if isinstance(column, pa.ChunkedArray) and not len(column):
        return False
    extremes = pc.min_max(column).as_py()
    return any(value is not None and abs(value) >= EXACT_BELOW for value in extremes.values())


def exact_numbers(column: Any, text: Any, *, name: str, place: Callable[[int], str]) -> Any:
    """Doubles as they are, or the decimals that their text says where a double does not hold it.

    >>> text = pa.chunked_array([["12345678901234567", "0.5"]])
    >>> exact_numbers(pc.cast(text, pa.float64()), text, name="id", place=str).to_pylist()
    [Decimal('12345678901234567.0'), Decimal('0.5')]
    """
    if pc.all(pc.match_substring_regex(text, _WHOLE)).as_py():
        return pc.cast(pc.utf8_trim_whitespace(text), pa.decimal128(38, 0))
    large = pc.fill_null(pc.greater_equal(pc.abs(column), EXACT_BELOW), False)
    in_full = pc.fill_null(pc.match_substring_regex(text, _IN_FULL), False)
    suspects = pc.indices_nonzero(pc.and_(large, in_full)).to_pylist()
    row = next((row for row in suspects if not _is_double(text[row].as_py())), None)
    if row is None:
        return column
    try:
        return declared_column(text, Declared("decimal"), name=name, place=place)
    except DataError as error:
        cell = text[row].as_py()
        shown = cell if len(cell) <= _SHOWN else f"{cell[:_SHOWN]}… ({len(cell)} characters)"
        raise DataError(
            f"{place(row)}: column {name!r} holds {shown}, which no double holds exactly; "
            f"as a decimal: {error.message}",
            hint=f"declare --type {name}=text, or {name}=number where the last digits do not matter",
        ) from None


def _is_double(cell: str) -> bool:
    """Whether a double from 2^53 on, which has no fraction, is the very number that is written."""
    whole, _, fraction = cell.strip().partition(".")
    if len(whole) > _LONGEST:
        return False
    return not fraction.strip("0") and int(float(whole)) == int(whole)
