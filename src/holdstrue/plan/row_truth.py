"""Conditions on one row of Python values, in three-valued logic; what `plan/filter.py` says of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa

from holdstrue.data.values import family_of
from holdstrue.operators import ABOVE, BELOW, EQUAL, Op
from holdstrue.plan.constants import constant_for
from holdstrue.plan.filter import evaluate
from holdstrue.rules.model import All, Comparison, Condition, Constant, IsNull, Not
from holdstrue.rules.model import Any as AnyOf
from holdstrue.rules.terms import condition_columns

Truth: TypeAlias = bool | None
RowTruth: TypeAlias = Callable[[Sequence[Any]], Truth]
"""Of the values of a row whether a condition holds; None where that is unknown."""

_DAY = 86_400_000
_EPOCH = 719_163
"""The number of 1970-01-01 among Python's days."""
_PLAIN = frozenset({"integer", "float", "bool", "text", "bytes"})
"""Families whose Python values compare as the values of their columns do, but for NaN."""


def row_truth(condition: Condition, schema: pa.Schema) -> RowTruth:
    """Whether a condition holds of the values of a row, in the order of the schema.

    Examples
    --------
    >>> from holdstrue.rules.model import Op
    >>> above = row_truth(Comparison("a", Op.GT, Constant(2.5)), pa.schema({"a": pa.int64()}))
    >>> above([3]), above([2]), above([None])
    (True, False, None)
    """
    return _truth(condition, {name: at for at, name in enumerate(schema.names)}, schema)


def _truth(condition: Condition, places: Mapping[str, int], schema: pa.Schema) -> RowTruth:
    found: RowTruth | None = None
    match condition:
        case IsNull(column, negated):
            at = places[column]
            return lambda values: (values[at] is None) != negated
        case Not(operand):
            inner = _truth(operand, places, schema)
            return lambda values: None if (found := inner(values)) is None else not found
        case All(operands):
            return _joint([_truth(operand, places, schema) for operand in operands], decisive=False)
        case AnyOf(operands):
            return _joint([_truth(operand, places, schema) for operand in operands], decisive=True)
        case Comparison(column, op, Constant() as constant):
            found = _with_constant(places[column], schema.field(column).type, op, constant)
        case Comparison(column, op, str(other)):
            found = _with_column(places[column], places[other], schema.field(column).type, schema.field(other).type, op)
    return found or _by_columns(condition, places, schema)


def _joint(parts: list[RowTruth], *, decisive: bool) -> RowTruth:
    """`and` (False decides) or `or` (True does) of some truths."""

    def joint(values: Sequence[Any]) -> Truth:
        sure = True
        for part in parts:
            found = part(values)
            if found is decisive:
                return decisive
            sure = sure and found is not None
        return not decisive if sure else None

    return joint


def _with_constant(at: int, type_: pa.DataType, op: Op, constant: Constant) -> RowTruth | None:
    family, compare = family_of(type_), op.on_values
    point: Any = constant_for(constant, type_, ordered=op.is_order)
    if family == "date" and pa.types.is_date32(type_) and isinstance(point, Fraction):
        days = _simple(point / _DAY + _EPOCH)
        return lambda values: None if (v := values[at]) is None else compare(v.toordinal(), days)
    if point is None or family not in _PLAIN:
        return None
    if isinstance(point, Fraction):
        point = _simple(point)
    if family == "float" or isinstance(point, float):
        return lambda values: None if (v := values[at]) is None else _outcome(v, point) in op.outcomes
    return lambda values: None if (v := values[at]) is None else compare(v, point)


def _simple(point: Fraction) -> Fraction | int:
    return point.numerator if point.denominator == 1 else point


def _with_column(at: int, other: int, left: pa.DataType, right: pa.DataType, op: Op) -> RowTruth | None:
    families = {family_of(left), family_of(right)}
    dates = families == {"date"} and pa.types.is_date32(left) and pa.types.is_date32(right)
    if not families <= _PLAIN and not dates:
        return None
    allowed = op.outcomes

    def compared(values: Sequence[Any]) -> Truth:
        a, b = values[at], values[other]
        return None if a is None or b is None else _outcome(a, b) in allowed

    return compared


def _outcome(a: Any, b: Any) -> str:
    """How two values stand to each other; NaN equals itself and is above all else."""
    if a == b:
        return EQUAL
    if a < b:
        return BELOW
    if a > b:
        return ABOVE
    # one of them is NaN
    return (EQUAL if b != b else ABOVE) if a != a else BELOW  # noqa: PLR0124


def _by_columns(condition: Condition, places: Mapping[str, int], schema: pa.Schema) -> RowTruth:
    """The same by way of columns of one value, for all types there are."""
    names = condition_columns(condition)

    def compared(values: Sequence[Any]) -> Truth:
        columns = {name: pa.array([values[places[name]]], schema.field(name).type) for name in names}
        found = evaluate(condition, columns.__getitem__)
        return True if found.true[0] else False if found.false[0] else None

    return compared
