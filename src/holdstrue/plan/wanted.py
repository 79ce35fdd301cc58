"""Which rows of a table the rules look at (paper 002, RANGE), so that a file need not be read where they look at none.

A rule with constants looks at the rows that satisfy its condition. Of a conjunction one part is enough to tell most of
the others, which need no further column. What is not read is NULL, of which no such condition is known to hold.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.values import family_of
from holdstrue.operators import ABOVE, BELOW, EQUAL
from holdstrue.plan.checks import GroupCheck, MeasureCheck, ReferenceCheck
from holdstrue.plan.compile import Plan
from holdstrue.plan.filter import ColumnOf, holds
from holdstrue.rules.model import All, Comparison, Condition, Constant, IsNull, Op
from holdstrue.rules.terms import condition_columns
from holdstrue.typing import Mask

MOST = 16
"""Conditions up to which rows are told by them: each looks at whole columns."""

_COMPARED: dict[Op, Callable[[int, int], bool]] = {
    Op.LT: operator.lt, Op.LE: operator.le, Op.GT: operator.gt, Op.GE: operator.ge
}  # fmt: skip

_BOUNDED = frozenset({"integer", "text", "date"})
"""Families whose least and greatest values say what lies between; floats may have NaN beside them."""


@dataclass(frozen=True)
class Bounds:
    """What a file says of the values of a column in some of its rows; `ends` is None where it does not say."""

    ends: tuple[Any, Any] | None
    """The least and the greatest value, which the type can hold."""
    nulls: int | None
    rows: int
    type: pa.DataType


@dataclass(frozen=True)
class RowRange:
    """Rows that satisfy one of some conditions; each is a conjunction, of which one part tells enough.

    Examples
    --------
    >>> wanted = RowRange((Comparison("a", Op.EQ, Constant(7)),))
    >>> wanted.among({"a": pa.array([7, None, 8])}.__getitem__, 3).tolist()
    [True, False, False]
    >>> known = [Bounds(ends, 0, 3, pa.int64()) for ends in ((1, 5), (1, 9))]
    >>> wanted.possible({"a": known[0]}), wanted.possible({"a": known[1]})
    (False, True)
    """

    conditions: tuple[Condition, ...]

    @staticmethod
    def of(plan: Plan, table: str) -> RowRange | None:
        """The rows of a table that the checks of a plan look at; None where that may be all of them."""
        found: dict[Condition, None] = {}
        for check in plan.checks:
            if isinstance(check, ReferenceCheck | MeasureCheck):
                if table in _tables(check):
                    return None
            elif check.table == table:
                for condition in (check.member,) if isinstance(check, GroupCheck) else check.conditions:
                    if condition is None:
                        return None
                    found[condition] = None
        wanted, schema = RowRange(tuple(found)), plan.schemas[table]
        # a row without any value stands for all that is not read
        nothing = wanted.among(lambda name: pa.nulls(1, schema.field(name).type), 1)
        return wanted if 0 < len(found) <= MOST and not nothing[0] else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell the rows."""
        return tuple(dict.fromkeys(name for condition in self.conditions for name in condition_columns(condition)))

    def narrowed(self, bounds: Mapping[str, Bounds], sizes: Mapping[str, int]) -> RowRange:
        """The parts of the conditions that let the fewest rows through, of those that are as good the least to read."""
        return RowRange(tuple(min(_parts(c), key=lambda part: _price(part, bounds, sizes)) for c in self.conditions))

    def among(self, columns: ColumnOf, rows: int) -> Mask:
        """Which of some rows are looked at."""
        found = np.zeros(rows, dtype=np.bool_)
        for condition in self.conditions:
            found |= holds(condition, columns, rows)
        return found

    def possible(self, bounds: Mapping[str, Bounds]) -> bool:
        """Whether rows within these bounds may be looked at."""
        return any(_possible(condition, bounds) for condition in self.conditions)


def _tables(check: ReferenceCheck | MeasureCheck) -> set[str]:
    if isinstance(check, ReferenceCheck):
        return {check.table, check.ref_table}
    return {measure.table for measure in check.measures}


def _parts(condition: Condition) -> Sequence[Condition]:
    return [part for own in condition.operands for part in _parts(own)] if isinstance(condition, All) else [condition]


def _possible(condition: Condition, bounds: Mapping[str, Bounds]) -> bool:
    """Whether a condition may hold of some row; True where that cannot be told."""
    match condition:
        case All(operands):
            return all(_possible(operand, bounds) for operand in operands)
        case IsNull(column, negated) if column in bounds:
            known = bounds[column]
            return known.nulls is None or (known.nulls < known.rows if negated else known.nulls > 0)
        case Comparison(column, op, Constant(value)) if column in bounds:
            known = bounds[column]
            family = None if known.ends is None else family_of(known.type)
            if known.ends is not None and family in _BOUNDED:
                return any(_reached(condition, op, value, known.ends, known.type, text=family == "text"))
    return True


def _reached(
    condition: Comparison, op: Op, value: Any, ends: tuple[Any, Any], type_: pa.DataType, *, text: bool
) -> list[bool]:
    """For each outcome of a comparison that satisfies it, whether some value between the ends has it."""

    def end(at: int, asked: Op) -> bool:
        if type(value) is int and type(ends[at]) is int:
            return _COMPARED[asked](ends[at], value)
        array = pa.array([ends[at]], type_)
        return bool(holds(Comparison(condition.column, asked, condition.right), lambda _: array, 1)[0])

    # text has no order with constants of other kinds, and is asked for equality alone
    found = []
    if BELOW in op.outcomes:
        found.append(text or end(0, Op.LT))
    if ABOVE in op.outcomes:
        found.append(text or end(1, Op.GT))
    if EQUAL in op.outcomes:
        found.append(_text_between(value, ends) if text else end(0, Op.LE) and end(1, Op.GE))
    return found


def _text_between(value: Any, ends: tuple[Any, Any]) -> bool:
    if not isinstance(value, str):
        return True
    least, greatest = ends
    # by code points, which is the order of UTF-8
    return bool(least <= value <= greatest)


_GUESSED = {True: 0.05, False: 0.5}
"""The share of rows that satisfy an equality, and anything else of which nothing is known."""


def _price(part: Condition, bounds: Mapping[str, Bounds], sizes: Mapping[str, int]) -> tuple[float, int]:
    size = sum(sizes.get(name, 0) for name in condition_columns(part))
    if not isinstance(part, Comparison) or not isinstance(part.right, Constant):
        return 1.0, size
    known = bounds.get(part.column)
    value = part.right.value
    share = _GUESSED[part.op is Op.EQ]
    if part.op.is_order and known is not None and known.ends is not None and isinstance(value, int | float):
        least, greatest = known.ends
        if isinstance(least, int | float) and greatest > least:
            below = min(max((value - least) / (greatest - least), 0.0), 1.0)
            share = below if BELOW in part.op.outcomes else 1.0 - below
    return round(share, 2), size
