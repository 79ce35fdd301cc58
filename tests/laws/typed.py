"""Random columns of every Arrow type, with the exact meaning of each value in Python's own types.

A value has a *raw* form, from which the Arrow array is made, and a *meaning* that the oracle compares: numbers and
times as `Fraction` (times in seconds), NaN and infinities as floats, text as `str`, bytes as `bytes`.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Kind:
    """An Arrow type, what it compares with, its values at the edges, and what they mean."""

    type: pa.DataType
    family: str
    raws: tuple[Any, ...]
    meaning: Callable[[Any], Any]
    literal: Callable[[Any], str | None]
    """The value as a constant of a rule; None where a rule cannot write it."""

    def array(self, raws: list[Any]) -> pa.Array:
        """The Arrow array of these values."""
        if self.family in ("timestamp", "zoned", "duration", "time", "date"):
            width = pa.int32() if self.type.bit_width == 32 else pa.int64()
            return pa.array(raws, width).view(self.type)
        if self.family == "decimal":
            return _decimals(raws, self.type)
        return pa.array(raws, self.type)


def _decimals(raws: list[Decimal | None], data_type: pa.DataType) -> pa.Array:
    """From the digits, since Arrow's own conversion rounds some and refuses negative scales."""
    width = data_type.bit_width // 8
    words = [0 if raw is None else int(Fraction(raw) * Fraction(10) ** data_type.scale) for raw in raws]
    data = b"".join(word.to_bytes(width, "little", signed=True) for word in words)
    known = pa.array([raw is not None for raw in raws], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(data_type, len(raws), [known, pa.py_buffer(data)])


def number(value: Any) -> Any:
    """Exact, but for NaN and the infinities."""
    return Fraction(value) if math.isfinite(value) else value


def _integer(width: int, signed: bool) -> Kind:
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    edges = {low, low + 1, high, high - 1, 0, 1, 2, 5, 100, -1, 2**53, 2**53 + 1, 2**31, 2**63 - 1, 2**63, 10**17}
    kind = getattr(pa, f"{'' if signed else 'u'}int{width}")()
    return Kind(kind, "integer", tuple(sorted(v for v in edges if low <= v <= high)), Fraction, str)


def _float(width: int) -> Kind:
    edges = [0.0, -0.0, 1.0, 2.0, 5.0, 100.0, 1.5, -1.0, 0.5, float("inf"), float("-inf"), float("nan")]
    if width > 16:
        edges += [2.0**53, 2.0**31, 2.0**63, -(2.0**63), 2.0**64, 2.0**-100]
    if width > 32:
        edges += [0.1, 2.0**53 + 2, 1e17, 1e300, 5e-324, 1e19]
    return Kind(getattr(pa, f"float{width}")(), "float", tuple(edges), number, lambda v: f"float '{v!r}'")


def _decimal(width: int, precision: int, scale: int) -> Kind:
    most = 10**precision - 1
    unscaled = {0, 1, 5, 15, 50, 100, 150, 1500, -1, -150, most, -most, 10 ** (precision - 1), 5 * 10 ** max(scale, 0)}
    one = 10 ** max(scale, 0)
    unscaled |= {one, 15 * 10 ** max(scale - 1, 0), -100 * one, one * 2**53}
    fitting = [n for n in sorted(unscaled) if abs(n) <= most]
    # made of digits, so that no context rounds them
    raws = tuple(Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in fitting)
    kind = getattr(pa, f"decimal{width}")(precision, scale)
    return Kind(kind, "decimal", raws, Fraction, lambda v: f"decimal '{v}'")


def _clock(family: str, data_type: pa.DataType, unit: str) -> Kind:
    per = PER_SECOND[unit]
    if family == "time":
        raws = {0, 1, per, 3600 * per, 86400 * per - 1, 1500 * per // 1000 if per >= 1000 else per}
    else:
        raws = {0, 1, -1, per, -per, 3600 * per, 10**9 * per, 3 * per // 2}
        if unit in ("s", "ms"):
            raws |= {10**11 * per}  # beyond what nanoseconds reach
        if unit == "ns" and family != "zoned":  # Python cannot show these in zones east and west of UTC
            raws |= {2**63 - 1, -(2**63) + 1}
    ordered = tuple(sorted(raws))
    return Kind(data_type, family, ordered, lambda v: Fraction(v, per), lambda v: _moment(family, Fraction(v, per)))


def _moment(family: str, seconds: Fraction) -> str | None:
    micros = seconds * 10**6
    if micros.denominator != 1 or abs(seconds) > 10**11:
        return None
    if family == "duration":
        return f"decimal '{Decimal(int(micros)).scaleb(-6)}'"
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(micros))
    if family == "time":
        return f"'{moment.time().isoformat()}'"
    return f"'{moment.isoformat()}{'+00:00' if family == 'zoned' else ''}'"


def _quoted(value: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in "'\\" else f"\\u{{{ord(c):x}}}" for c in value)
    return f"'{escaped}'"


TEXTS = ("", "\0", "\1", "a", "a\0", "a\0\0", "b", "B", "ab", "é", "e\u0301", "日本", "\U0001f600", "\uffff",
         "zebra-zebra", "zebra-zebrb", "01907", "1907", "5", "x" * 40, "x" * 39 + "y")  # fmt: skip
BYTES = (*tuple(text.encode() for text in TEXTS), b"\xff", b"\x80", b"\x01\x00", b"\x02")


def _text(data_type: pa.DataType) -> Kind:
    return Kind(data_type, "text", TEXTS, str, _quoted)


def _bytes(data_type: pa.DataType) -> Kind:
    fits = [b for b in BYTES if not pa.types.is_fixed_size_binary(data_type) or len(b) == data_type.byte_width]
    return Kind(data_type, "bytes", tuple(fits), bytes, lambda v: None)


DAYS = (0, 1, -1, 19000, -25567, 100000)
KINDS: tuple[Kind, ...] = (
    *(_integer(width, signed) for width in (8, 16, 32, 64) for signed in (True, False)),
    *(_float(width) for width in (16, 32, 64)),
    _decimal(32, 5, 2), _decimal(64, 12, 2), _decimal(64, 18, 0), _decimal(128, 12, 2), _decimal(128, 18, 9),
    _decimal(128, 20, 2), _decimal(128, 38, 18), _decimal(128, 38, 0), _decimal(128, 5, -2), _decimal(128, 20, -3),
    _decimal(128, 9, 38), _decimal(64, 5, -18), _decimal(256, 9, -76),
    _decimal(256, 40, 10), _decimal(256, 76, 70), _decimal(256, 76, 0), _decimal(256, 12, 2),
    Kind(pa.bool_(), "bool", (True, False), Fraction, lambda v: "true" if v else "false"),
    Kind(pa.date32(), "date", DAYS, Fraction, lambda v: f"date '{dt.date(1970, 1, 1) + dt.timedelta(days=v)}'"),
    Kind(pa.date64(), "date", tuple(day * 86_400_000 for day in DAYS), lambda v: Fraction(v, 86_400_000),
         lambda v: f"date '{dt.date(1970, 1, 1) + dt.timedelta(milliseconds=v)}'"),
    *(_clock("time", pa.time32(unit), unit) for unit in ("s", "ms")),
    *(_clock("time", pa.time64(unit), unit) for unit in ("us", "ns")),
    *(_clock("timestamp", pa.timestamp(unit), unit) for unit in PER_SECOND),
    *(_clock("zoned", pa.timestamp(unit, zone), unit) for unit in PER_SECOND for zone in ("UTC", "Asia/Tokyo")),
    *(_clock("duration", pa.duration(unit), unit) for unit in PER_SECOND),
    *(_text(t) for t in (pa.string(), pa.large_string(), pa.string_view())),
    *(_bytes(t) for t in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1), pa.binary(2))),
)  # fmt: skip

_NUMBERS = ({"integer", "float"}, {"integer", "decimal"})


def compare(one: Kind, other: Kind) -> bool:
    """Whether values of two types have a defined comparison."""
    return one.family == other.family or {one.family, other.family} in _NUMBERS


def may_refuse_values(one: Kind, other: Kind) -> bool:
    """Types whose common order no 64 bits hold, so that a value may be refused by name."""
    if one.type == other.type:
        return False
    if one.family == other.family == "integer" or {one.family, other.family} == {"integer", "float"}:
        return 64 in (one.type.bit_width, other.type.bit_width)
    if {one.family, other.family} == {"integer", "decimal"}:
        return True
    return one.family in ("timestamp", "zoned", "duration")


@dataclass(frozen=True)
class Column:
    """A drawn column: values with their meanings, and the form in which Arrow holds it."""

    kind: Kind
    raws: list[Any]
    form: str

    @property
    def meanings(self) -> list[Any]:
        """What the oracle compares."""
        return [None if raw is None else self.kind.meaning(raw) for raw in self.raws]

    def arrow(self) -> pa.ChunkedArray:
        """The column as Arrow holds it."""
        array = self.kind.array(self.raws)
        match self.form:
            case "sliced":
                raw = self.kind.raws[0]
                return pa.chunked_array([self.kind.array([raw, None, raw, *self.raws, raw])[3:-1]])
            case "chunked":
                middle = len(array) // 2
                return pa.chunked_array([array[:middle], array[middle:]])
            case "dictionary":
                return pa.chunked_array([_dictionary(array)])
        return pa.chunked_array([array])


def _dictionary(array: pa.Array) -> pa.Array:
    """Encoded by hand, since Arrow does not know how for all types; one value stands twice in the dictionary."""
    values = pa.concat_arrays([array, array]) if len(array) else array
    # a NULL is an index that is not there, or one of a value that is not there
    spots = [
        None if not value.is_valid and i % 2 == 0 else (i if i % 2 else len(array) + i) for i, value in enumerate(array)
    ]
    return pa.DictionaryArray.from_arrays(pa.array(spots, pa.int32()), values)


def column(kind: Kind, rows: int) -> st.SearchStrategy[Column]:
    """A column of some values of a type, which repeat; with NULLs or without."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Column:
        some = draw(st.lists(st.sampled_from(kind.raws), min_size=1, max_size=4, unique_by=repr))
        null = draw(st.booleans())
        cell = st.sampled_from([*some, None] if null else some)
        form = draw(st.sampled_from(["plain", "plain", "sliced", "chunked", "dictionary"]))
        return Column(kind, [draw(cell) for _ in range(rows)], form)

    return drawn()


@st.composite
def kinds(draw: st.DrawFn) -> tuple[Kind, Kind]:
    """Two types, most often such as compare."""
    one = draw(st.sampled_from(KINDS))
    if draw(st.integers(0, 9)) == 0:
        return one, draw(st.sampled_from(KINDS))
    return one, draw(st.sampled_from([other for other in KINDS if compare(one, other)]))
