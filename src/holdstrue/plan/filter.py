"""Conditions on single rows, evaluated over whole columns in three-valued logic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import known, plain, spread
from holdstrue.data.compare import lengths, with_column, with_number, with_shape, with_text
from holdstrue.data.values import common_families
from holdstrue.errors import HoldstrueError
from holdstrue.plan.constants import constant_for
from holdstrue.rules.model import All, Any, Comparison, Condition, Constant, IsNull, Length, Matches, Not, Op
from holdstrue.rules.shapes import translated
from holdstrue.typing import Mask

ColumnOf = Callable[[str], pa.Array]


@dataclass(frozen=True)
class Truth:
    """Where a condition is known to hold and where it is known not to."""

    true: Mask
    false: Mask


def holds(condition: Condition | None, columns: ColumnOf, rows: int) -> Mask:
    """Where the condition is known to hold; everywhere when there is none."""
    if condition is None:
        return np.ones(rows, dtype=np.bool_)
    return _known_to_be(condition, columns, holding=True)


def evaluate(condition: Condition, columns: ColumnOf) -> Truth:
    """Evaluate over columns: comparisons with NULL are unknown, `and`, `or` and `not` as in SQL."""
    return Truth(*(_known_to_be(condition, columns, holding=holding) for holding in (True, False)))


def _known_to_be(condition: Condition, columns: ColumnOf, *, holding: bool) -> Mask:
    """Where the condition is known to hold, or known not to: only one of both is worked out. May be written to."""
    match condition:
        case Comparison(column, op, Constant() as constant):
            array = columns(column)
            return _decided(array, _by_value(array, partial(_with_constant, column, op, constant)), holding)
        case Comparison(column, op, str(other)):
            left, right = columns(column), columns(other)
            if common_families([left.type, right.type]) is None:
                raise incomparable(column, left.type, other, right.type)
            return _decided(left, _decided(right, with_column(left, right, op), holding), True)
        case IsNull(column, negated):
            return known(columns(column)) if negated == holding else ~known(columns(column))
        case Matches(column, shape):
            array = columns(column)
            return _decided(array, _by_value(array, lambda a: with_shape(a, translated(shape, "re2"))), holding)
        case Length(column, op, size):
            array = columns(column)
            return _decided(array, _by_value(array, lambda a: with_number(lengths(a), op, Fraction(size))), holding)
        case Not(operand):
            return _known_to_be(operand, columns, holding=not holding)
        case All(operands) | Any(operands):
            together = np.logical_and if isinstance(condition, All) == holding else np.logical_or
            found = _known_to_be(operands[0], columns, holding=holding)
            for operand in operands[1:]:
                together(found, _known_to_be(operand, columns, holding=holding), out=found)
            return found
    raise TypeError(f"not a condition: {condition!r}")


def _decided(array: pa.Array, result: Mask, holding: bool) -> Mask:
    """Where a result is as asked for and the value that it is about is known."""
    if not holding:
        result = ~result
    return result & known(array) if array.null_count or _may_hide_nulls(array.type) else result


def _may_hide_nulls(type_: pa.DataType) -> bool:
    return pa.types.is_null(type_) or pa.types.is_dictionary(type_)


def _by_value(array: pa.Array, judge: Callable[[pa.Array], Mask]) -> Mask:
    """What is judged of each value; of a dictionary once a value that it holds."""
    if not pa.types.is_dictionary(array.type):
        return judge(array)
    return spread(judge(plain(array.dictionary)), array)


def _with_constant(name: str, op: Op, constant: Constant, array: pa.Array) -> Mask:
    point = constant_for(constant, array.type, ordered=op.is_order)
    if point is None:
        raise incomparable(name, array.type, repr(constant.value), None)
    if pa.types.is_null(array.type):
        return known(array)
    if isinstance(point, str | bytes):
        return with_text(array, op, point)
    return with_number(array, op, point)


def incomparable(left: str, left_type: pa.DataType, right: str, right_type: pa.DataType | None) -> HoldstrueError:
    """The error for two sides that do not compare."""
    other = right if right_type is None else f"{right} ({right_type})"
    return HoldstrueError(
        f"{left} ({left_type}) cannot be compared with {other}",
        hint="compare numbers with numbers, text with text, dates with dates; cast the column first",
    )
