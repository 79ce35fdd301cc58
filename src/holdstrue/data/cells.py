"""One row of Python values: whether they are what their columns hold, and the words that stand for them in rules.

Only values that a column takes as they are pass here: whole numbers in its range, text that is Unicode, and so on.
Whatever would have to be converted, or refused, is left to those who read tables.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.data.coding import Domain, encode
from holdstrue.data.labels import Labels
from holdstrue.kernels.one_row import BYTES, DOUBLE, KNOWN, TEXT
from holdstrue.typing import U8, U64

Values: TypeAlias = Sequence[Any]
"""A row, in the order of its schema."""

_DAY = 86_400_000
_EPOCH = 719_163
_EXACT_INT = 2**53
_HALF = 2**63

_INTEGER, _FLOAT, _BOOL, _TEXT, _BYTES, _DATE, _AS_READ = range(7)
_BY_CODE, _BY_UNSIGNED, _BY_DOUBLE, _BY_TEXT, _BY_BYTES, _BY_ARROW = range(6)


class UnfitError(Exception):
    """A value is not plainly one of its column's type."""


def _sort_of(type_: pa.DataType) -> int | None:
    """How values of a column are told to fit; None where Python has no value that is exactly one of them."""
    types = pa.types
    if types.is_integer(type_):
        return _INTEGER
    if types.is_float64(type_):
        return _FLOAT
    if types.is_boolean(type_):
        return _BOOL
    if types.is_string(type_) or types.is_large_string(type_):
        return _TEXT
    if types.is_binary(type_) or types.is_large_binary(type_):
        return _BYTES
    if types.is_date32(type_):
        return _DATE
    clock = types.is_timestamp(type_) and type_.tz in (None, "UTC") and type_.unit != "ns"
    return _AS_READ if clock or types.is_decimal128(type_) or types.is_float32(type_) else None


def _coding_of(type_: pa.DataType, domain: Domain) -> int:
    """How a value of a column becomes words of a domain."""
    sort = _sort_of(type_)
    if domain.kind == "int" and domain.family == "integer" and sort == _INTEGER:
        return _BY_UNSIGNED if domain.unsigned else _BY_CODE
    if domain.kind == "int" and domain.family in ("bool", "date") and sort in (_BOOL, _DATE):
        return _BY_CODE
    if domain.kind == "float" and sort == _FLOAT:
        return _BY_DOUBLE
    if domain.kind == "digest" and sort in (_TEXT, _BYTES):
        return _BY_TEXT if sort == _TEXT else _BY_BYTES
    return _BY_ARROW


class RowCoder:
    """Writes rows of one table as the words that `kernels/one_row.py` reads.

    Parameters
    ----------
    schema
        The columns of the rows.
    domains
        The words that are wanted: columns, each with the domain in which it is coded.
    labels
        Of domains that keep order, by their number.

    Examples
    --------
    >>> from holdstrue.data.coding import domain_of
    >>> from holdstrue.data.seed import Seed
    >>> schema = pa.schema({"id": pa.int64(), "zip": pa.string()})
    >>> seed = Seed.new()
    >>> domains = [(name, 0, domain_of([schema.field(name).type], ordered=False, seed=seed)) for name in schema.names]
    >>> coder = RowCoder(schema, domains, {})
    >>> coder.write([7, "abc"])
    [7, 'abc']
    >>> coder.words.tolist(), bytes(coder.text[:3])
    ([[7, 7, 7, 1], [0, 3, 0, 2]], b'abc')
    """

    def __init__(
        self, schema: pa.Schema, domains: Sequence[tuple[str, int, Domain]], labels: Mapping[int, Labels]
    ) -> None:
        self._schema, self._domains, self._labels = schema, domains, labels
        form = ""
        wanted: dict[str, list[tuple[int, int, int]]] = {name: [] for name in schema.names}
        for at, (name, _, domain) in enumerate(domains):
            coding = _coding_of(schema.field(name).type, domain)
            wanted[name].append((4 * at, coding, at))
            form += "dqqq" if coding == _BY_DOUBLE else "qqqq"
        self._steps = tuple((_sort_of(f.type), *_range(f.type), tuple(wanted[f.name])) for f in schema)
        self._struct = struct.Struct(f"<{form}")
        self._blank = [0] * (4 * len(domains))
        self.words: U64 = np.zeros((len(domains), 4), dtype=np.uint64)
        self._word_bytes = memoryview(self.words.data).cast("B")
        self.text: U8 = np.zeros(1 << 12, dtype=np.uint8)

    @property
    def usable(self) -> bool:
        """Whether rows of this schema can be told to fit at all."""
        return all(sort is not None for sort, *_ in self._steps)

    def write(self, values: Values, *, read: bool = False) -> Values:
        """Write the words of a row, of values that were read from columns of these types or are now held against them.

        Returns the values as they would come out of their columns: whole numbers among floats are floats. Raises
        `UnfitError`. Complexity: O(columns and bytes).
        """
        blank: list[Any] = self._blank
        flat = blank.copy()
        said = b""
        for column, (sort, low, high, places) in enumerate(self._steps):
            value = values[column]
            if value is None:
                continue
            kind = type(value)
            given = b""
            if sort == _INTEGER:
                if kind is not int or not low <= value <= high:
                    raise UnfitError
                code = value
            elif sort == _TEXT:
                if kind is not str:
                    raise UnfitError
                try:
                    given = value.encode()
                except UnicodeEncodeError as error:
                    raise UnfitError from error
            elif sort == _FLOAT:
                if kind is int and -_EXACT_INT <= value <= _EXACT_INT:
                    value = float(value)
                    values = [*values[:column], value, *values[column + 1 :]]
                elif kind is not float:
                    raise UnfitError
            elif sort == _BOOL:
                if kind is not bool:
                    raise UnfitError
                code = int(value)
            elif sort == _DATE:
                if kind is not dt.date:
                    raise UnfitError
                code = (value.toordinal() - _EPOCH) * _DAY
            elif sort == _BYTES:
                if kind is not bytes:
                    raise UnfitError
                given = value
            elif not read:
                raise UnfitError
            for at, coding, number in places:
                if coding == _BY_CODE:
                    if code >= _HALF:
                        raise UnfitError
                    flat[at : at + 4] = code, code, code, KNOWN
                elif coding in (_BY_TEXT, _BY_BYTES):
                    flat[at], flat[at + 1], flat[at + 3] = len(said), len(given), TEXT if coding == _BY_TEXT else BYTES
                    said += given
                elif coding == _BY_DOUBLE:
                    flat[at], flat[at + 3] = value, DOUBLE
                elif coding == _BY_UNSIGNED:
                    flat[at : at + 4] = code - _HALF, code - _HALF, code - _HALF, KNOWN
                else:
                    flat[at : at + 4] = self._by_arrow(value, number)
        self._struct.pack_into(self._word_bytes, 0, *flat)
        if said:
            if len(said) > self.text.size:
                self.text = np.zeros(2 * len(said), dtype=np.uint8)
            self.text.data[: len(said)] = said
        return values

    def _by_arrow(self, value: Any, number: int) -> tuple[int, int, int, int]:
        """The words of any value, as they are made of columns."""
        name, place, domain = self._domains[number]
        array = pa.array([value], self._schema.field(name).type)
        coded = encode(array, domain, name=name, labels=self._labels.get(place))
        code = int(coded.codes[0])
        lower = code if coded.lower is None else int(coded.lower.view(np.int64)[0])
        upper = lower if coded.upper is None else int(coded.upper.view(np.int64)[0])
        return upper, lower, code, KNOWN


def _range(type_: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    if not pa.types.is_integer(type_):
        return 0, 0
    width = type_.bit_width
    if pa.types.is_unsigned_integer(type_):
        return 0, 2**width - 1
    return -(2 ** (width - 1)), 2 ** (width - 1) - 1
