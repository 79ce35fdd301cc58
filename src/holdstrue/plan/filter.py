"""Conditions on single rows, evaluated over whole columns in three-valued logic."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any as AnyValue

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdstrue.data.buffers import flags, known
from holdstrue.data.coding import encode, float_codes
from holdstrue.data.domain import Domain, domain_of, family_of
from holdstrue.errors import HoldstrueError
from holdstrue.rules.model import All, Any, Comparison, Condition, Constant, IsNull, Not, Op

Mask = NDArray[np.bool_]
Columns = Callable[[str], pa.Array]

_NUMPY = {
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
}
_ARROW = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


@dataclass(frozen=True)
class Truth:
    """Where a condition is known to hold and where it is known not to."""

    true: Mask
    false: Mask


def holds(condition: Condition | None, columns: Columns, rows: int) -> Mask:
    """Where the condition is known to hold; everywhere when there is none."""
    if condition is None:
        return np.ones(rows, dtype=np.bool_)
    return evaluate(condition, columns).true


def evaluate(condition: Condition, columns: Columns) -> Truth:
    """Evaluate over columns: comparisons with NULL are unknown, `and`, `or` and `not` as in SQL."""
    match condition:
        case Comparison(column, op, Constant(value)):
            return _with_constant(columns(column), column, op, value)
        case Comparison(column, op, str(other)):
            return _with_column(columns(column), columns(other), op, column, other)
        case IsNull(column, negated):
            null = ~known(columns(column))
            return Truth(~null, null) if negated else Truth(null, ~null)
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
    domain = domain_of([left.type, right.type], ordered=False)
    if domain is None:
        raise incomparable(left_name, left.type, right_name, right.type)
    both = known(left) & known(right)
    if domain.kind in ("text", "label"):
        text = pa.large_string() if domain.family == "text" else pa.large_binary()
        if domain.family == "decimal":
            text = pa.decimal256(76, domain.scale)
        result = flags(_ARROW[op](left.cast(text), right.cast(text)))
        return _truth(result, both)
    a, b = encode(left, domain, name=left_name), encode(right, domain, name=right_name)
    return _truth(_NUMPY[op](a.codes, b.codes), both)


def _with_constant(array: pa.Array, name: str, op: Op, value: AnyValue) -> Truth:
    usable = known(array)
    constant = typed_constant(value, array.type, ordered=op.is_order)
    if constant is None:
        raise incomparable(name, array.type, repr(value), None)
    domain = domain_of([array.type], ordered=False)
    if domain is None or pa.types.is_null(array.type):
        return _truth(np.zeros(len(array), dtype=np.bool_), np.zeros(len(array), dtype=np.bool_))
    if domain.kind in ("text", "label"):
        if domain.family == "decimal":
            array, scalar = array.cast(pa.decimal256(76, max(domain.scale, 0))), pa.scalar(constant)
        else:
            wide = pa.large_string() if domain.family == "text" else pa.large_binary()
            array, scalar = array.cast(wide), pa.scalar(constant, type=wide)
        result = flags(_ARROW[op](array, scalar))
        return _truth(result, usable)
    codes = encode(array, domain, name=name).codes
    if domain.kind == "float":
        return _truth(_NUMPY[op](codes, float_codes(np.array([float(constant)]))[0]), usable)
    return _truth(_compare_integers(codes, op, _in_code_units(constant, domain)), usable)


def _compare_integers(codes: NDArray[np.int64], op: Op, value: int | Decimal | float) -> Mask:
    """`codes op value` exactly, for any number: fractions and numbers beyond 64 bits included."""
    if isinstance(value, float) and math.isnan(value):
        # NaN is above every number
        return np.full(codes.size, op in (Op.NE, Op.LT, Op.LE))
    if isinstance(value, float) and math.isinf(value):
        below = value > 0
        return np.full(codes.size, op is Op.NE or ((op in (Op.LT, Op.LE)) == below and op is not Op.EQ))
    floor = math.floor(value)
    whole = floor == value
    if not whole:
        if op in (Op.EQ, Op.NE):
            return np.full(codes.size, op is Op.NE)
        op = Op.LE if op in (Op.LT, Op.LE) else Op.GT
    if not -(2**63) <= floor < 2**63:
        return _compare_integers(codes, op, math.inf if floor > 0 else -math.inf)
    return _NUMPY[op](codes, np.int64(floor))


def _in_code_units(constant: AnyValue, domain: Domain) -> int | Decimal | float:
    """A constant as a number on the scale of the domain's codes."""
    if domain.family in ("number", "bool"):
        number: int | Decimal | float = int(constant) if isinstance(constant, bool) else constant
        return number
    if domain.family == "decimal":
        return Decimal(constant).scaleb(domain.scale)
    if domain.family == "date":
        return (constant - dt.date(1970, 1, 1)).days * 86_400_000
    micros = pa.scalar(constant, type=_micros_type(domain)).cast(pa.int64()).as_py()
    return Decimal(micros) * _PER_MICRO[domain.unit]


_PER_MICRO = {"s": Decimal("1e-6"), "ms": Decimal("1e-3"), "us": Decimal(1), "ns": Decimal(1000)}


def _micros_type(domain: Domain) -> pa.DataType:
    if domain.family == "time":
        return pa.time64("us")
    if domain.family == "duration":
        return pa.duration("us")
    return pa.timestamp("us", tz="UTC" if domain.family == "zoned" else None)


def typed_constant(value: AnyValue, data_type: pa.DataType, *, ordered: bool) -> AnyValue | None:
    """A rule's constant as a value that compares with a column of `data_type`, or None when it cannot.

    Numbers compare with numbers and, by = and !=, with text as written; texts are read as numbers,
    dates, times or booleans where the column holds such.
    """
    family = family_of(data_type)
    if family is None:
        return None
    if family == "null":
        return value
    if family == "text":
        if isinstance(value, str):
            return value
        return None if ordered or isinstance(value, bool | dt.date) else _as_written(value)
    if family == "bytes":
        return value.encode() if isinstance(value, str) else None
    if family == "bool":
        return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    if family in ("number", "decimal"):
        return _number(value, exact=family == "decimal" or pa.types.is_integer(data_type))
    return _moment(value, family)


def _as_written(value: AnyValue) -> str:
    return str(value)


def _number(value: AnyValue, *, exact: bool) -> int | float | Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = Decimal(value.strip())
        except InvalidOperation:
            return None
        if not value.is_finite():
            return float(value)
    if isinstance(value, float):
        if math.isfinite(value) and exact:
            return Decimal(repr(value))
        return value
    return value if isinstance(value, int | Decimal) else None


def _moment(value: AnyValue, family: str) -> AnyValue | None:
    """Dates, times and durations, read from text where needed."""
    try:
        if family == "date":
            if isinstance(value, dt.datetime):
                return None
            return value if isinstance(value, dt.date) else dt.date.fromisoformat(str(value))
        if family in ("timestamp", "zoned"):
            if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
                value = dt.datetime(value.year, value.month, value.day)
            moment = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(str(value))
            if family == "timestamp":
                return None if moment.tzinfo is not None else moment
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
        if family == "time":
            return dt.time.fromisoformat(str(value))
        if family == "duration" and isinstance(value, int | float | Decimal):
            return dt.timedelta(seconds=float(value))
    except ValueError:
        return None
    return None


def incomparable(left: str, left_type: pa.DataType, right: str, right_type: pa.DataType | None) -> HoldstrueError:
    """The error for two sides that do not compare."""
    other = right if right_type is None else f"{right} ({right_type})"
    return HoldstrueError(
        f"{left} ({left_type}) cannot be compared with {other}",
        hint="compare numbers with numbers, text with text, dates with dates; cast the column first",
    )
