"""The cells of one column as a feed writes them, with the refusal of those that cannot be read."""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.errors import ChangeError

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes for a long value that an update did not touch and the log left out."""
UNAVAILABLE_BYTES = UNAVAILABLE.encode()
_UNAVAILABLE = (UNAVAILABLE, binascii.b2a_base64(UNAVAILABLE_BYTES, newline=False).decode())

WHOLE_IMAGES = "let the database log whole rows (PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL)"
AS_SENT = "is this the value that the connector sent? the batch was not applied"

MOST_DIGITS = 76
"""The digits of Arrow's widest decimal."""
_WIDTHS = ((38, 16, pa.decimal128), (MOST_DIGITS, 32, pa.decimal256))
_NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class Cells:
    """The values of a column as they were sent.

    Parameters
    ----------
    name
        The column.
    values
        What was sent, None for NULL.
    place
        Names the place of value i in a message.
    unit
        What numbers in a column of times count, where the user said so: ms, us or ns.
    """

    name: str
    values: Sequence[Any]
    place: Callable[[int], str] = lambda i: f"value {i + 1}"
    unit: str | None = None

    def check(self, fits: Callable[[Any], bool], said: str, hint: str = AS_SENT) -> None:
        """Refuse the first value that does not fit."""
        for i, value in enumerate(self.values):
            if value is not None and not fits(value):
                self.refuse(i, said, hint)

    def check_all(self, fitting: Sequence[bool], said: str, hint: str = AS_SENT) -> None:
        """Refuse the first value that is marked as not fitting."""
        if not all(fitting):
            self.refuse(list(fitting).index(False), said, hint)

    def check_against(self, found: Sequence[Any], said: str, hint: str = AS_SENT) -> None:
        """Refuse the first value of which nothing was made.

        >>> Cells("b", ["AQ==", "?"]).check_against([b"1", None], "base64")
        Traceback (most recent call last):
        holdstrue.errors.ChangeError: value 2: column 'b' holds '?', expected base64
        hint: is this the value that the connector sent? the batch was not applied
        """
        for i, made in enumerate(found):
            if made is None and self.values[i] is not None:
                self.refuse(i, said, hint)

    def cast(self, values: Sequence[Any], types: Sequence[pa.DataType], said: str) -> Any:
        """Text as the first type that takes all of it."""
        self.check(lambda value: type(value) is str, said)
        column = pa.array(values, pa.string())
        for type_ in types:
            try:
                return pc.cast(column, type_)
            except pa.ArrowInvalid:
                continue
        for i in range(len(column)):
            try:
                pc.cast(column.slice(i, 1), types[-1])
            except pa.ArrowInvalid:
                self.refuse(i, said, AS_SENT)
        raise AssertionError("a column does not parse, each of its values does")

    def refuse(self, i: int, said: str, hint: str) -> NoReturn:
        """Refuse value `i`."""
        value = self.values[i]
        if is_unavailable(value):
            raise unavailable(self.place(i), self.name)
        raise ChangeError(f"{self.place(i)}: column {self.name!r} holds {shown(value)}, expected {said}", hint=hint)

    def refuse_type(self, field: object, said: str, hint: str) -> NoReturn:
        """Refuse the whole column for what its schema block says."""
        self.refuse_column(f"it is {field}, {said}", hint)

    def refuse_column(self, said: str, hint: str) -> NoReturn:
        """Refuse the whole column, at its first value."""
        first = next((i for i, value in enumerate(self.values) if value is not None), 0)
        held = shown(self.values[first] if self.values else None)
        raise ChangeError(f"{self.place(first)}: column {self.name!r} holds {held}: {said}", hint=hint)


def unit_option(name: str, unit: str) -> str:
    """How a user gives the unit of a column, in words for a hint."""
    return f"--unit {name}={unit}; in Python units={{{name!r}: {unit!r}}}"


def is_unavailable(value: object) -> bool:
    """Whether a value is Debezium's placeholder, as text or as bytes in base64."""
    return type(value) is str and value in _UNAVAILABLE


def unavailable(place: str, name: str) -> ChangeError:
    """The error for a value that Debezium could not send."""
    return ChangeError(
        f"{place}: column {name!r} holds Debezium's placeholder for a value that was not logged", hint=WHOLE_IMAGES
    )


def shown(value: object) -> str:
    """A value as a message should show it: numbers as they were written, long ones cut."""
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_whole(value: object) -> bool:
    """Whether a value is a whole number of 64 bits; true and false are none."""
    return type(value) is int and -(2**63) <= value < 2**63


def from_base64(value: object) -> bytes | None:
    """The bytes that a text stands for, None where it is not base64 as Java writes it.

    >>> from_base64("AQI="), from_base64("AQI"), from_base64("1.5")
    (b'\\x01\\x02', None, None)
    """
    if type(value) is bytes:
        return value
    if type(value) is not str or len(value) % 4:
        return None
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return None


def as_float(value: object) -> float | None:
    """A JSON number as the nearest double, None where there is none; Java writes what is not a number as text."""
    if type(value) is str:
        return _NOT_NUMBERS.get(value)
    if type(value) is float:
        return value
    if type(value) not in (int, Decimal):
        return None
    try:
        near = float(value)  # type: ignore[arg-type]
    except OverflowError:
        return None
    lost = math.isinf(near) or (type(value) is int and int(near) != value)
    return None if lost else near


def floats(cells: Cells, values: Sequence[float | None], type_: pa.DataType) -> Any:
    """Doubles as floats of a type; what is too large for it is refused."""
    wide = pa.array(values, pa.float64())
    narrow = pc.cast(wide, type_)
    within = pc.equal(pc.is_inf(wide), pc.is_inf(narrow) if type_ != pa.float16() else pc.is_inf(narrow.cast("float")))
    cells.check_all(pc.fill_null(within, True).to_pylist(), f"a number that fits {type_}")
    return narrow


def unscaled(value: object) -> tuple[int, int] | None:
    """A number as an integer and its scale; None for what is none, or has too many digits.

    >>> unscaled(Decimal("1.50")), unscaled(7), unscaled(Decimal("-2e3")), unscaled(float("nan"))
    ((150, 2), (7, 0), (-2000, 0), None)
    """
    if type(value) not in (int, float, Decimal):
        return None
    sign, digits, exponent = Decimal(repr(value) if type(value) is float else value).as_tuple()  # type: ignore[arg-type]
    if not isinstance(exponent, int) or len(digits) > 2 * MOST_DIGITS or abs(exponent) > MOST_DIGITS:
        return None
    number = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    return (number * 10**exponent, 0) if exponent > 0 else (number, -exponent)


def decimal_array(
    cells: Cells, found: Sequence[tuple[int, int] | None], scale: int | None, precision: int | None
) -> Any:
    """Unscaled values with their scales as one column: of the given scale, or of the largest that occurs.

    Where no precision is given, or it is too small, it is 38 or 76.

    >>> decimal_array(Cells("x", []), [(150, 2), None, (-1, 0)], None, None).to_pylist()
    [Decimal('1.50'), None, Decimal('-1.00')]
    """
    common = max((value[1] for value in found if value is not None), default=0) if scale is None else scale
    common = max(common, 0)  # 12 of scale -2 is 1200 of scale 0
    numbers = [None if v is None else _rescaled(v[0], common - v[1]) for v in found]
    limit = 10**MOST_DIGITS
    cells.check_all(
        [n is None or -limit < n < limit for n in numbers], f"a decimal of at most {MOST_DIGITS} digits, {common} of "
        "them after the point"
    )  # fmt: skip
    largest = max((abs(number) for number in numbers if number is not None), default=0)
    digits = max(len(str(largest)), min(precision or 0, MOST_DIGITS), common)
    width = next((p, size, make) for p, size, make in _WIDTHS if digits <= p)
    most, size, make = width
    type_ = make(most if precision is None else digits, common)
    data = b"".join((number or 0).to_bytes(size, "little", signed=True) for number in numbers)
    known = np.packbits(np.fromiter((n is not None for n in numbers), bool, len(numbers)), bitorder="little")
    return pa.Array.from_buffers(type_, len(numbers), [pa.py_buffer(known.tobytes()), pa.py_buffer(data)])


def _rescaled(number: int, by: int) -> int:
    return number * 10**by if by >= 0 else number // 10**-by


def plain_numbers(values: Sequence[Any]) -> list[Any]:
    """Values with decimals as floats, also inside lists and objects, as JSON is commonly read."""
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    if type(value) is Decimal:
        return float(value)
    if type(value) is dict:
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if type(value) is list else value
