"""Conditions on single rows, evaluated over whole columns in three-valued logic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import known
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
    return evaluate(condition, columns).true


def evaluate(condition: Condition, columns: ColumnOf) -> Truth:
    """Evaluate over columns: comparisons with NULL are unknown, `and`, `or` and `not` as in SQL."""
    match condition:
        case Comparison(column, op, Constant() as constant):
            return _with_constant(columns(column), column, op, constant)
        case Comparison(column, op, str(other)):
            return _with_column(columns(column), columns(other), op, column, other)
        case IsNull(column, negated):
            null = ~known(columns(column))
            return Truth(~null, null) if negated else Truth(null, ~null)
        case Matches(column, shape):
            return _truth(with_shape(columns(column), translated(shape, "re2")), known(columns(column)))
        case Length(column, op, size):
            return _truth(with_number(lengths(columns(column)), op, Fraction(size)), known(columns(column)))
        case Not(operand):
            inner = evaluate(operand, columns)
            return Truth(inner.false, inner.true)
        case All(operands):
            parts = [evaluate(operand, columns) for operand in operands]
            return Truth(np.logical_and.reduce([p.true for p in parts]), np.logical_or.reduce([p.false for p in parts]))
        case Any(operands):
            parts = [evaluate(operand, columns) for operand in operands]
            return Truth(np.logical_or.reduce([p.true for p in parts]), np.logical_and.reduce([p.false for p in parts]))
    raise TypeError(f"not a condition: {condition!r}")


def _truth(result: Mask, known: Mask) -> Truth:
    return Truth(result & known, ~result & known)


def _with_column(left: pa.Array, right: pa.Array, op: Op, left_name: str, right_name: str) -> Truth:
    if common_families([left.type, right.type]) is None:
        raise incomparable(left_name, left.type, right_name, right.type)
    return _truth(with_column(left, right, op), known(left) & known(right))


def _with_constant(array: pa.Array, name: str, op: Op, constant: Constant) -> Truth:
    point = constant_for(constant, array.type, ordered=op.is_order)
    if point is None:
        raise incomparable(name, array.type, repr(constant.value), None)
    usable = known(array)
    if pa.types.is_null(array.type):
        return Truth(usable, usable)
    if isinstance(point, str | bytes):
        return _truth(with_text(array, op, point), usable)
    return _truth(with_number(array, op, point), usable)


def incomparable(left: str, left_type: pa.DataType, right: str, right_type: pa.DataType | None) -> HoldstrueError:
    """The error for two sides that do not compare."""
    other = right if right_type is None else f"{right} ({right_type})"
    return HoldstrueError(
        f"{left} ({left_type}) cannot be compared with {other}",
        hint="compare numbers with numbers, text with text, dates with dates; cast the column first",
    )
