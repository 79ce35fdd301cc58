"""Conditions of rules as Spark SQL, with the constants and the three truth values of `plan/filter.py`."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
from pyspark.sql.types import DecimalType

from holdstrue.operators import Op
from holdstrue.plan.constants import Point, constant_for
from holdstrue.rules.model import All, Any, Comparison, Condition, Constant, IsNull, Length, Matches, Not
from holdstrue.rules.shapes import translated
from holdstrue.spark.catalyst.lanes import ColumnValues, Inexpressible, Sql, compared, family
from holdstrue.spark.runner import quoted

_DAY = 86_400_000
_LONG = 2**63
_EPOCH = dt.datetime(1970, 1, 1)


class Conditions:
    """The conditions on rows of one table."""

    def __init__(self, values: ColumnValues, schema: pa.Schema) -> None:
        self._values = values
        self._schema = schema

    def holds(self, condition: Condition | None) -> Sql:
        """Whether a condition is known to hold: never NULL."""
        return "true" if condition is None else f"coalesce({self.truth(condition)}, false)"

    def truth(self, condition: Condition) -> Sql:
        """True, false, or NULL where it is not known."""
        match condition:
            case Comparison(name, op, Constant() as constant):
                return self._with_constant(name, op, constant)
            case Comparison(name, op, str(other)):
                types = [self._values.type(name), self._values.type(other)]
                return _compare(op, *compared([quoted(name), quoted(other)], types))
            case IsNull(name, negated):
                return f"({quoted(name)} is {'not ' if negated else ''}null)"
            case Matches(name, shape):
                return f"({self._values.plain(name)} rlike {_text(translated(shape, 'java'))})"
            case Length(name, op, size):
                return _compare(op, f"char_length({self._values.plain(name)})", str(size))
            case Not(operand):
                return f"(not {self.truth(operand)})"
            case All(operands):
                return f"({' and '.join(map(self.truth, operands))})"
            case Any(operands):
                return f"({' or '.join(map(self.truth, operands))})"
        raise TypeError(f"not a condition: {condition!r}")

    def _with_constant(self, name: str, op: Op, constant: Constant) -> Sql:
        point = constant_for(constant, self._schema.field(name).type, ordered=op.is_order)
        value = self._values.plain(name)
        match family(self._values.type(name)), point:
            case "text", str(text):
                return _compare(op, value, _text(text))
            case "bytes", bytes(data):
                return _compare(op, value, f"X'{data.hex()}'")
            case "float", Fraction() | float() as number:
                return _with_double(op, value, number)
            case "integer", Fraction() | float() as number:
                return _with_whole(op, value, number, _LONG, long)
            case "bool", Fraction() as number:
                return _with_whole(op, f"cast({value} as bigint)", number, _LONG, long)
            case "date", Fraction() as number:
                return _with_whole(op, f"unix_date({value})", number / _DAY, 2**31, str)
            case "zoned", Fraction() as number:
                return _with_whole(op, f"unix_micros({value})", number, _LONG, long)
            case "timestamp", Fraction() as number if number.denominator == 1:
                moment = (_EPOCH + dt.timedelta(microseconds=int(number))).isoformat(" ")
                return _compare(op, value, f"timestamp_ntz'{moment}'")
            case "decimal", Fraction() | float() as number:
                kind = self._values.type(name)
                assert isinstance(kind, DecimalType)
                scale = kind.scale

                def literal(units: int) -> Sql:
                    digits = tuple(map(int, str(abs(units))))
                    return f"cast('{Decimal((int(units < 0), digits, -scale)):f}' as decimal(38,{scale}))"

                wide = f"cast({value} as decimal(38,{scale}))"
                return _with_whole(op, wide, number, 10**38, literal, 1 - 10**38)
        raise Inexpressible(f"{name} with {constant.value!r}")


_SIGNS = {Op.EQ: "=", Op.NE: "!=", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}


def _text(text: str) -> Sql:
    if any(0xD800 <= ord(c) < 0xE000 for c in text):
        raise Inexpressible(repr(text))
    return f"cast(X'{text.encode().hex()}' as string)"


def _compare(op: Op, left: Sql, right: Sql) -> Sql:
    return f"({left} {_SIGNS[op]} {right})"


def long(number: int) -> Sql:
    """A constant of 64 bits."""
    return f"{number}L"


def _always(truth: bool, value: Sql) -> Sql:
    """The same for every known value."""
    return f"if({value} is null, null, {str(truth).lower()})"


def _double(number: float) -> Sql:
    written = repr(number).replace("inf", "Infinity").replace("nan", "NaN")
    return f"cast('{written}' as double)"


def _with_whole(
    op: Op, value: Sql, point: Point, bound: int, literal: Callable[[int], Sql], least: int | None = None
) -> Sql:
    """Whole numbers from `least` (or -bound) to bound - 1 with any number; NaN is above all of them."""
    least = -bound if least is None else least
    if isinstance(point, float):
        above = math.isnan(point) or point > 0
        return _always(op is Op.NE or ((op in (Op.LT, Op.LE)) == above and op is not Op.EQ), value)
    if point.denominator == 1 and least <= point < bound:
        return _compare(op, value, literal(int(point)))
    if op in (Op.EQ, Op.NE):
        return _always(op is Op.NE, value)
    below, above_it = math.floor(point), math.ceil(point)
    if op in (Op.LT, Op.LE):
        return _compare(Op.LE, value, literal(below)) if least <= below < bound else _always(below > 0, value)
    return _compare(Op.GE, value, literal(above_it)) if least <= above_it < bound else _always(above_it < 0, value)


def _with_double(op: Op, value: Sql, point: Point) -> Sql:
    """Doubles with any number; Spark has NaN equal to itself and above all others, as our table has."""
    if isinstance(point, float):
        return _compare(op, value, _double(point))
    lower, upper = doubles_around(point)
    if lower == upper:
        return _compare(op, value, _double(lower))
    if op in (Op.EQ, Op.NE):
        return _always(op is Op.NE, value)
    if op in (Op.LT, Op.LE):
        return _compare(Op.LE, value, _double(lower))
    return _compare(Op.GE, value, _double(upper))


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
