"""Rows of a whole table by the constants that rules name: each constant is one look-up (paper 002, GROUP and MATCH).

A thousand patterns compare a column with a thousand constants. Instead of a thousand passes its rows are listed by
value once, and what else a pattern asks is judged of the rows that its rarest constant has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from threading import Lock

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import arrow_of, known, numbers, plain
from holdstrue.data.values import family_of
from holdstrue.plan.constants import constant_for
from holdstrue.plan.filter import holds
from holdstrue.rules.model import All, Any, Comparison, Condition, Constant, Not, Op
from holdstrue.rules.terms import condition_columns
from holdstrue.typing import I32, Mask

LOOKED_UP_FROM = 16
"""Comparisons of a column with constants from which on its rows are listed by value. Listing takes as long as some ten
passes."""

_LISTED = frozenset({"text", "bytes", "integer", "bool"})
"""Families whose values Python tells apart as rules do."""


class ValueLists:
    """The rows of a column by value.

    Examples
    --------
    >>> lists = ValueLists(pa.chunked_array([["b", "a", None, "b"]]))
    >>> lists.rows("b").tolist(), lists.rows("z").tolist(), lists.codes.tolist()
    ([0, 3], [], [0, 1, -1, 0])
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        coded = plain(column).dictionary_encode()
        self.codes: I32 = numbers(coded.indices, np.int32).copy()
        """By row the number of its value; -1 for NULL."""
        if coded.indices.null_count:
            self.codes[~known(coded.indices)] = -1
        self._numbers = {value: number for number, value in enumerate(coded.dictionary.to_pylist())}
        self._order = np.argsort(self.codes, kind="stable").astype(np.int32)
        counts = np.bincount(self.codes + 1, minlength=len(self._numbers) + 1)
        self._ends = np.cumsum(counts)

    def number(self, value: str | bytes | Fraction | float) -> int:
        """The number of a value, -2 where no row has it."""
        return self._numbers.get(value, -2)

    def rows(self, value: str | bytes | Fraction | float) -> I32:
        """Rows with a value, ascending. Complexity: O(1)."""
        number = self.number(value)
        return self._order[self._ends[number] : self._ends[number + 1]] if number >= 0 else self._order[:0]


class ConstantRows:
    """Which rows of a table satisfy conditions that compare with constants, as far as these are looked up."""

    def __init__(self, values: pa.Table, conditions: Iterable[Condition | None]) -> None:
        self._values = values
        compared = Counter(
            part.column for condition in conditions if condition is not None for part in _constants(condition)
        )
        self._columns = {
            name
            for name, count in compared.items()
            if count >= LOOKED_UP_FROM and family_of(self._type(name)) in _LISTED
        }
        self._lists: dict[str, ValueLists] = {}
        self._lock = Lock()

    def satisfying(self, condition: Condition) -> I32 | None:
        """Rows that are known to satisfy a condition, ascending; None where no constant leads to them.

        Complexity: O(rows with the rarest constant).
        """
        match condition:
            case Comparison(column, Op.EQ, Constant() as constant) if column in self._columns:
                point = self._point(column, constant)
                return None if point is None else self._listed(column).rows(point)
            case All(operands):
                found = [(rows, part) for part in operands if (rows := self.satisfying(part)) is not None]
                if not found:
                    return None
                fewest, leading = min(found, key=lambda pair: pair[0].size)
                for part in operands:
                    if part is not leading and fewest.size:
                        fewest = fewest[self._judged(part, fewest)]
                return fewest
            case Any(operands):
                parts = [self.satisfying(part) for part in operands]
                lists = [rows for rows in parts if rows is not None]
                return np.unique(np.concatenate(lists)) if len(lists) == len(parts) else None
        return None

    def _judged(self, condition: Condition, rows: I32) -> Mask:
        """Which of some rows satisfy a condition."""
        match condition:
            case Comparison(column, Op.EQ | Op.NE as op, Constant() as constant) if column in self._columns:
                point = self._point(column, constant)
                if point is not None:
                    lists = self._listed(column)
                    own, number = lists.codes[rows], lists.number(point)
                    return own == number if op is Op.EQ else (own != number) & (own >= 0)
        taken = self._values.select(sorted(condition_columns(condition))).take(arrow_of(rows))
        return holds(condition, lambda name: plain(taken.column(name)), rows.size)

    def _point(self, column: str, constant: Constant) -> str | bytes | Fraction | None:
        """What a value must be to equal a constant; None where that is left to those who say why it cannot."""
        point = constant_for(constant, self._type(column), ordered=False)
        return None if isinstance(point, float) else point

    def _type(self, column: str) -> pa.DataType:
        type_ = self._values.schema.field(column).type
        return type_.value_type if pa.types.is_dictionary(type_) else type_

    def _listed(self, column: str) -> ValueLists:
        with self._lock:
            if column not in self._lists:
                self._lists[column] = ValueLists(self._values.column(column))
            return self._lists[column]


def _constants(condition: Condition) -> Iterator[Comparison]:
    """The comparisons with constants, by equality, that a condition is made of."""
    match condition:
        case Comparison(_, Op.EQ | Op.NE, Constant()):
            yield condition
        case Not(operand):
            yield from _constants(operand)
        case All(operands) | Any(operands):
            for operand in operands:
                yield from _constants(operand)
