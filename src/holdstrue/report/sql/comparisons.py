"""Comparisons in SQL that mean what a rule means: with constants by the column's type, of columns with columns."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from holdstrue.data.values import PER_SECOND, family_of, plain_type
from holdstrue.operators import ABOVE, BELOW, Op
from holdstrue.plan.constants import Point, constant_for
from holdstrue.report.sql.dialect import NoSuchSqlError, SqlDialect
from holdstrue.rules.model import Constant

_DAY = 86_400_000
"""Milliseconds, in which dates count."""


def symbol(op: Op) -> str:
    """The operator as SQL writes it."""
    return "<>" if op is Op.NE else str(op)


def with_constant(column: str, op: Op, constant: Constant, data_type: pa.DataType | None, dialect: SqlDialect) -> str:
    """A column compared with a constant; NULL where the column is NULL.

    >>> from holdstrue.report.sql.dialect import DIALECTS
    >>> with_constant("x", Op.LT, Constant(1.5), pa.int64(), DIALECTS["duckdb"])
    'x <= 1'
    >>> with_constant("x", Op.EQ, Constant(1907, "01907"), pa.string(), DIALECTS["postgresql"])
    "x = '01907'"
    """
    if data_type is None:
        return _as_written(column, op, constant, dialect)
    plain = plain_type(data_type)
    point = constant_for(constant, plain, ordered=op.is_order)
    if point is None:
        raise NoSuchSqlError(f"{data_type} does not compare with {constant.value!r}")
    family = family_of(plain)
    if family == "null":
        return "CAST(NULL AS BOOLEAN)"
    if isinstance(point, str):
        return f"{column}{dialect.order if op.is_order else ''} {symbol(op)} {dialect.text(point)}"
    if isinstance(point, bytes):
        return f"{column} {symbol(op)} {dialect.blob.format(point.hex().upper())}"
    if family == "float":
        return _with_double(column, op, point, dialect)
    return _with_step(column, op, point, plain, dialect)


def _always(column: str, truth: bool) -> str:
    """True or false of every known value."""
    return f"{column} {'=' if truth else '<>'} {column}"


def _with_double(column: str, op: Op, point: Point, dialect: SqlDialect) -> str:
    """A number that is no double lies between two: what is below it is at most the lower one."""
    if isinstance(point, float):
        return f"{column} {symbol(op)} {_double(point, dialect)}"
    try:
        near = float(point)
    except OverflowError:
        near = math.copysign(math.inf, point)
    if math.isinf(near) or Fraction(near) != point:
        if not op.is_order:
            return _always(column, op is Op.NE)
        if Fraction(near) > point if math.isfinite(near) else near > 0:
            near = math.nextafter(near, -math.inf)
        op = Op.LE if BELOW in op.outcomes else Op.GT
    return f"{column} {symbol(op)} {_double(near, dialect)}"


def _double(value: float, dialect: SqlDialect) -> str:
    named = "NaN" if math.isnan(value) else repr(value) if math.isfinite(value) else None
    said = named or ("Infinity" if value > 0 else "-Infinity")
    return f"CAST('{said}' AS {dialect.double})"


def _with_step(column: str, op: Op, point: Point, plain: pa.DataType, dialect: SqlDialect) -> str:
    """Of a type whose values are whole numbers of its unit: a number between two of them, or beyond all."""
    low, high, step = _range(plain)
    if isinstance(point, float) or point > high:
        above = isinstance(point, Fraction) or math.isnan(point) or point > 0
        return _always(column, (BELOW if above else ABOVE) in op.outcomes)
    if point < low:
        return _always(column, ABOVE in op.outcomes)
    whole = math.floor(point / step) * step
    if whole != point:
        if not op.is_order:
            return _always(column, op is Op.NE)
        if whole < low:
            return _always(column, ABOVE in op.outcomes)
        op = Op.LE if BELOW in op.outcomes else Op.GT
    return f"{column} {symbol(op)} {_literal(whole, plain, dialect)}"


def _range(plain: pa.DataType) -> tuple[int, int, int]:
    """The least and the greatest number of a type, in its unit, and the distance of two."""
    match family_of(plain):
        case "integer":
            signed = pa.types.is_signed_integer(plain)
            return (-(1 << plain.bit_width - 1), (1 << plain.bit_width - 1) - 1, 1) if signed else (
                0, (1 << plain.bit_width) - 1, 1
            )  # fmt: skip
        case "decimal":
            return 1 - 10**plain.precision, 10**plain.precision - 1, 1
        case "date":
            return -(1 << 63), (1 << 63) - 1, _DAY
    return -(1 << 63), (1 << 63) - 1, 1


def _literal(value: int, plain: pa.DataType, dialect: SqlDialect) -> str:
    family = family_of(plain)
    match family:
        case "integer":
            return str(value)
        case "decimal":
            number = f"{Decimal(value).scaleb(-plain.scale):f}" if len(str(abs(value))) < 28 else _digits(value, plain)
            fits = 0 <= plain.scale <= plain.precision <= (dialect.decimal_digits or plain.precision)
            return f"CAST('{number}' AS DECIMAL({plain.precision}, {plain.scale}))" if fits else number
        case "bool":
            return "TRUE" if value else "FALSE"
        case "date":
            return f"CAST('{_day(value // _DAY)}' AS DATE)"
        case "time" | "timestamp" | "zoned":
            return _clock(value, family, plain.unit, dialect)
    raise NoSuchSqlError(f"constants of {plain} have no form in {dialect.title} that is the same everywhere")


def _digits(value: int, plain: pa.DataType) -> str:
    """A decimal of more digits than Python's context keeps."""
    digits = str(abs(value)).rjust(max(plain.scale, 0) + 1, "0")
    whole, part = (digits[: -plain.scale], digits[-plain.scale :]) if plain.scale > 0 else (digits, "")
    return f"{'-' if value < 0 else ''}{whole}{'0' * max(-plain.scale, 0)}{'.' if part else ''}{part}"


def _day(days: int) -> dt.date:
    try:
        return dt.date(1970, 1, 1) + dt.timedelta(days=days)
    except OverflowError:
        raise NoSuchSqlError(f"a day beyond the years 1 to 9999: {days} days from 1970") from None


def _clock(value: int, family: str, unit: str, dialect: SqlDialect) -> str:
    seconds, rest = divmod(value, PER_SECOND[unit])
    days, second = divmod(seconds, 86_400)
    fraction = f".{rest:0{len(str(PER_SECOND[unit])) - 1}d}" if PER_SECOND[unit] > 1 else ""
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}{fraction}"
    if family != "time":
        text = f"{_day(days)} {text}" + ("+00:00" if family == "zoned" else "")
    # a constant of microseconds is the same number in a column of other units
    known = dialect.types.get(f"{family}[{unit}]") or (dialect.types.get(f"{family}[us]") if unit != "ns" else None)
    if known is None:
        raise NoSuchSqlError(f"{dialect.title} has no {family} in {unit}")
    return f"CAST('{text}' AS {known})"


def _as_written(column: str, op: Op, constant: Constant, dialect: SqlDialect) -> str:
    """Where the column's type is not known the constant is what it looks like."""
    value = constant.value
    match value:
        case bool():
            said = "TRUE" if value else "FALSE"
        case int():
            said = str(value)
        case float():
            said = repr(value) if math.isfinite(value) else _double(value, dialect)
        case Decimal():
            said = f"{value:f}" if value.is_finite() else _double(float(value), dialect)
        case str():
            said = dialect.text(value)
        case dt.datetime():
            zone = "zoned[us]" if value.tzinfo is not None else "timestamp[us]"
            said = f"CAST('{value.isoformat(sep=' ')}' AS {dialect.types[zone]})"
        case dt.date():
            said = f"CAST('{value.isoformat()}' AS DATE)"
    return f"{column} {symbol(op)} {said}"


def is_mixed(left: pa.DataType | None, right: pa.DataType | None) -> bool:
    """Whether a column of whole numbers that not every double holds is compared with one of doubles."""
    if left is None or right is None:
        return False
    kinds = {family_of(one): plain_type(one) for one in (left, right)}
    return set(kinds) == {"integer", "float"} and kinds["integer"].bit_width > 32


def mixed(whole: str, op: Op, double: str, data_type: pa.DataType, dialect: SqlDialect) -> str:
    """A whole number of this type compared with a double, exactly: both cast to doubles, 2^53 would be 2^53 + 1.

    A double beyond all whole numbers of the type (NaN is) decides by itself; one between two is as the lower of them,
    and above it.
    """
    low, high, _ = _range(plain_type(data_type))
    real = f"CAST({double} AS {dialect.double})"
    below = f"CAST(floor({real}) AS {dialect.whole})"
    between = f"{whole} {'<=' if BELOW in op.outcomes else '>'} {below}" if op.is_order else str(op is Op.NE).upper()
    return (
        f"CASE WHEN {whole} IS NULL OR {double} IS NULL THEN NULL "
        f"WHEN {real} >= {_double(float(high + 1), dialect)} THEN {str(BELOW in op.outcomes).upper()} "
        f"WHEN {real} < {_double(float(low), dialect)} THEN {str(ABOVE in op.outcomes).upper()} "
        f"WHEN floor({real}) = {real} THEN {whole} {symbol(op)} {below} "
        f"ELSE {between} END"
    )


def widened(types: tuple[pa.DataType | None, pa.DataType | None], dialect: SqlDialect) -> tuple[str | None, str | None]:
    """Of two columns that are compared: what both are cast to, and why the comparison is not exact, if it is not.

    >>> from holdstrue.report.sql.dialect import DIALECTS
    >>> widened((pa.int32(), pa.float32()), DIALECTS["duckdb"])
    ('DOUBLE', None)
    """
    left, right = (None if one is None else plain_type(one) for one in types)
    if left is None or right is None or left == right:
        return None, None
    families = {family_of(left), family_of(right)}
    if families in ({"integer", "float"}, {"float"}):
        return dialect.double, None
    if families <= {"timestamp", "zoned"} and "ns" in (left.unit, right.unit):
        return None, f"{left} and {right} are compared in nanoseconds: times outside the years 1678 to 2261 may fail"
    if "decimal" in families and dialect.decimal_digits is not None:
        sizes = [(20, 0) if family_of(one) == "integer" else (one.precision, one.scale) for one in (left, right)]
        scale = max(size[1] for size in sizes)
        if max(digits - own for digits, own in sizes) + scale > dialect.decimal_digits:
            return None, f"{left} and {right} together need more than {dialect.decimal_digits} digits: this may fail"
    return None, None
