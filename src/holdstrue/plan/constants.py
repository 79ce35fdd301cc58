"""Constants of rules as values that compare with a column, exactly.

A number is read as it is written: on a column of text it is that text, on integers and decimals the exact number, on
floats the nearest double where it is written with a point or an exponent, as in most languages. Text stands for
numbers, dates, times and booleans where the column holds such.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa

from holdstrue.data.values import PER_SECOND, family_of, plain_type
from holdstrue.rules.model import Constant

Point: TypeAlias = Fraction | float
"""A number on the scale of a column's stored integers: exact, or NaN or an infinity."""

_EPOCH = dt.date(1970, 1, 1)
_DAY = 86_400_000
_LONGEST_EXPONENT = 400
"""No column holds numbers of more digits: those beyond stand for infinities."""


def constant_for(constant: Constant, data_type: pa.DataType, *, ordered: bool) -> str | bytes | Point | None:
    """The constant as it compares with a column of `data_type`; None when it does not.

    Text is text and bytes are bytes; all else is a number in the column's own unit: of a decimal the unscaled number,
    of a date milliseconds, of a time its units. Text never has an order with numbers.

    Examples
    --------
    >>> constant_for(Constant(1907, "01907"), pa.string(), ordered=False)
    '01907'
    >>> constant_for(Constant(1.5), pa.decimal128(9, 2), ordered=True)
    Fraction(150, 1)
    >>> constant_for(Constant("x"), pa.int64(), ordered=False) is None
    True
    """
    plain = plain_type(data_type)
    value = constant.value
    match family_of(plain):
        case "text":
            if isinstance(value, str):
                return value
            return None if ordered or isinstance(value, bool | dt.date) else constant.written or str(value)
        case "bytes":
            return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None
        case "bool":
            truth = value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
            return None if truth is None else Fraction(truth)
        case "integer":
            return _number(value)
        case "decimal":
            number = _number(value)
            return number * Fraction(10) ** plain.scale if isinstance(number, Fraction) else number
        case "float":
            return _number(value, as_double=True)
        case "date":
            return _date(value)
        case "time" | "timestamp" | "zoned" | "duration" as family:
            seconds = _seconds(value, family)
            return None if seconds is None else seconds * PER_SECOND[plain.unit]
        case "null":
            return Fraction(0)
    return None


def _number(value: Any, *, as_double: bool = False) -> Point | None:
    if isinstance(value, str):
        try:
            value = float(value) if as_double else Decimal(value.strip())
        except (InvalidOperation, ValueError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            return value
        return Fraction(value) if as_double else Fraction(repr(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            return float(value)
        if value.adjusted() > _LONGEST_EXPONENT:
            return math.copysign(math.inf, value)
        if value.adjusted() < -_LONGEST_EXPONENT:
            # closer to zero than any number that a column can hold
            return Fraction(0) if not value else Fraction(math.copysign(1, value)) / 10**_LONGEST_EXPONENT
    return Fraction(value)


def _date(value: Any) -> Fraction | None:
    if isinstance(value, dt.datetime):
        return None
    try:
        day = value if isinstance(value, dt.date) else dt.date.fromisoformat(str(value))
    except ValueError:
        return None
    return Fraction((day - _EPOCH).days * _DAY)


def _seconds(value: Any, family: str) -> Fraction | None:
    """Times of day, moments (since 1970) and durations in seconds, read from text where needed."""
    if family == "duration":
        number = _number(value)
        return number if isinstance(number, Fraction) else None
    try:
        if family == "time":
            return _since(dt.datetime.combine(_EPOCH, _time(value)), dt.datetime.combine(_EPOCH, dt.time()))
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            value = dt.datetime(value.year, value.month, value.day)
        moment = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(str(value))
    except ValueError:
        return None
    if family == "timestamp":
        return None if moment.tzinfo is not None else _since(moment, dt.datetime.combine(_EPOCH, dt.time()))
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return _since(aware, dt.datetime.combine(_EPOCH, dt.time(), tzinfo=dt.UTC))


def _time(value: Any) -> dt.time:
    time = value if isinstance(value, dt.time) else dt.time.fromisoformat(str(value))
    if time.tzinfo is not None:
        raise ValueError("a time of day has no zone")
    return time


def _since(moment: dt.datetime, start: dt.datetime) -> Fraction:
    passed = moment - start
    return Fraction(passed.days * 86_400 + passed.seconds) + Fraction(passed.microseconds, 10**6)
