"""Conditions of rules as Spark's columns, with the constants and the three truth values of `plan/filter.py`."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any as Anything

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DecimalType

from holdstrue.operators import Op
from holdstrue.plan.constants import Point, constant_for
from holdstrue.rules.model import All, Any, Comparison, Condition, Constant, IsNull, Not
from holdstrue.spark.catalyst.lanes import Inexpressible, Values, compared, family
from holdstrue.spark.runner import column

_DAY = 86_400_000
_LONG = 2**63
_EPOCH = dt.datetime(1970, 1, 1)


class Conditions:
    """The conditions on rows of one table."""

    def __init__(self, values: Values, schema: pa.Schema) -> None:
        self._values = values
        self._schema = schema

    def holds(self, condition: Condition | None) -> Column:
        """Whether a condition is known to hold: never NULL."""
        return F.lit(True) if condition is None else F.coalesce(self.truth(condition), F.lit(False))

    def truth(self, condition: Condition) -> Column:
        """True, false, or NULL where it is not known."""
        match condition:
            case Comparison(name, op, Constant() as constant):
                return self._with_constant(name, op, constant)
            case Comparison(name, op, str(other)):
                types = [self._values.type(name), self._values.type(other)]
                return _compare(op, *compared([column(name), column(other)], types))
            case IsNull(name, negated):
                return column(name).isNotNull() if negated else column(name).isNull()
            case Not(operand):
                return ~self.truth(operand)
            case All(operands):
                return reduce(Column.__and__, map(self.truth, operands))
            case Any(operands):
                return reduce(Column.__or__, map(self.truth, operands))
        raise TypeError(f"not a condition: {condition!r}")

    def _with_constant(self, name: str, op: Op, constant: Constant) -> Column:
        point = constant_for(constant, self._schema.field(name).type, ordered=op.is_order)
        value = self._values.plain(name)
        match family(self._values.type(name)), point:
            case "text", str(text):
                if any(0xD800 <= ord(c) < 0xE000 for c in text):
                    raise Inexpressible(repr(text))
                return _compare(op, value, F.lit(text))
            case "bytes", bytes(data):
                return _compare(op, value, F.lit(data))
            case "float", Fraction() | float() as number:
                return _with_double(op, value, number)
            case "integer", Fraction() | float() as number:
                return _with_whole(op, value, number, _LONG, F.lit)
            case "bool", Fraction() as number:
                return _with_whole(op, value.cast("long"), number, _LONG, F.lit)
            case "date", Fraction() as number:
                return _with_whole(op, F.unix_date(value), number / _DAY, 2**31, F.lit)
            case "zoned", Fraction() as number:
                return _with_whole(op, F.unix_micros(value), number, _LONG, F.lit)
            case "timestamp", Fraction() as number if number.denominator == 1:
                moment = (_EPOCH + dt.timedelta(microseconds=int(number))).isoformat(" ")
                return _compare(op, value, F.lit(moment).cast("timestamp_ntz"))
            case "decimal", Fraction() | float() as number:
                kind = self._values.type(name)
                assert isinstance(kind, DecimalType)
                wide = DecimalType(38, kind.scale)

                def literal(units: int, scale: int = kind.scale) -> Column:
                    digits = tuple(map(int, str(abs(units))))
                    return F.lit(Decimal((int(units < 0), digits, -scale))).cast(wide)

                return _with_whole(op, value.cast(wide), number, 10**38, literal, 1 - 10**38)
        raise Inexpressible(f"{name} with {constant.value!r}")


def _compare(op: Op, left: Column, right: Column) -> Column:
    match op:
        case Op.EQ:
            return left == right
        case Op.NE:
            return left != right
        case Op.LT:
            return left < right
        case Op.LE:
            return left <= right
        case Op.GT:
            return left > right
    return left >= right


def _always(truth: bool, value: Column) -> Column:
    """The same for every known value."""
    return F.when(value.isNotNull(), F.lit(truth))


def _with_whole(op: Op, value: Column, point: Point, bound: int, literal: Anything, least: int | None = None) -> Column:
    """Whole numbers from `least` (or -bound) to bound - 1 with any number; NaN is above all of them."""
    least = -bound if least is None else least
    if isinstance(point, float):
        above = math.isnan(point) or point > 0
        return _always(op is Op.NE or (op in (Op.LT, Op.LE)) == above and op is not Op.EQ, value)
    if point.denominator == 1 and least <= point < bound:
        return _compare(op, value, literal(int(point)))
    if op in (Op.EQ, Op.NE):
        return _always(op is Op.NE, value)
    below, above_it = math.floor(point), math.ceil(point)
    if op in (Op.LT, Op.LE):
        return value <= literal(below) if least <= below < bound else _always(below > 0, value)
    return value >= literal(above_it) if least <= above_it < bound else _always(above_it < 0, value)


def _with_double(op: Op, value: Column, point: Point) -> Column:
    """Doubles with any number; Spark has NaN equal to itself and above all others, as our table has."""
    if isinstance(point, float):
        return _compare(op, value, F.lit(point))
    lower, upper = doubles_around(point)
    if lower == upper:
        return _compare(op, value, F.lit(lower))
    if op in (Op.EQ, Op.NE):
        return _always(op is Op.NE, value)
    return value <= F.lit(lower) if op in (Op.LT, Op.LE) else value >= F.lit(upper)


def doubles_around(point: Fraction) -> tuple[float, float]:
    """The largest double that is not above a number, and the smallest that is not below it.

    >>> doubles_around(Fraction(2**53 + 1))
    (9007199254740992.0, 9007199254740994.0)
    """
    try:
        near = float(point)
    except OverflowError:
        most = math.nextafter(math.inf, 0)
        return (most, math.inf) if point > 0 else (-math.inf, -most)
    if math.isinf(near):
        most = math.nextafter(math.inf, 0)
        return (most, math.inf) if near > 0 else (-math.inf, -most)
    if Fraction(near) == point:
        return near, near
    return (near, math.nextafter(near, math.inf)) if near < point else (math.nextafter(near, -math.inf), near)
