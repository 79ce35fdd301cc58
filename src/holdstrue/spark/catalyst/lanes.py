"""Values as 64-bit lanes that are equal where the values are equal in the sense of `data/values.py`.

A value of at most 64 bits is one lane and exact: the number itself, or `xxhash64` of it, which is a bijection of
64-bit words. Text, bytes and wide decimals are two lanes, digests under two secrets of this process; so are tuples,
unless they are at most two values of one lane each. All of it is SQL text, which Spark parses once: columns built one
by one would cost a call to Java each.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TypeAlias

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from holdstrue.rules.types import MOST_DIGITS
from holdstrue.spark.runner import quoted

Sql: TypeAlias = str
"""An expression of Spark SQL."""

Lanes: TypeAlias = tuple[Sql, Sql | None]
"""One or two expressions of 64-bit integers, NULL where the value is."""

INTEGERS = (ByteType, ShortType, IntegerType, LongType)
FLOATS = (FloatType, DoubleType)
_SALTS = (secrets.randbits(62), secrets.randbits(62))
"""One pair a process, so that Spark compiles a query once; nobody can make up values that collide."""
_ONE_WORD = 18
"""Digits of the decimals that Spark keeps in 64 bits."""


def written(sql: Sql) -> Sql:
    """An expression inside the text of a query, where `{t0}` is a table and all other braces are doubled.

    >>> written("name = '{x}'")
    "name = '{{x}}'"
    """
    return sql.replace("{", "{{").replace("}", "}}")


class Inexpressible(Exception):  # noqa: N818
    """Catalyst does not compare these values as our table of types says; Arrow kernels do."""


def family(data_type: DataType) -> str:
    """The family in which Spark compares a type just as `data/values.py` says.

    >>> family(ShortType()), family(TimestampNTZType())
    ('integer', 'timestamp')
    """
    if isinstance(data_type, INTEGERS):
        return "integer"
    if isinstance(data_type, FLOATS):
        return "float"
    if isinstance(data_type, DecimalType):
        return "decimal"
    # a string with a collation is another type, which compares otherwise
    names = {
        BooleanType(): "bool",
        DateType(): "date",
        TimestampType(): "zoned",
        TimestampNTZType(): "timestamp",
        StringType(): "text",
        BinaryType(): "bytes",
    }
    found = next((name for known, name in names.items() if data_type == known), None)
    if found is None:
        raise Inexpressible(str(data_type))
    return found


def compared(columns: Sequence[Sql], types: Sequence[DataType]) -> list[Sql]:
    """Columns of one family as columns of one type, so that Spark converts nothing on its own."""
    own, *others = {*map(family, types)}
    if others:
        raise Inexpressible(f"{types[0]} with {types[1]}")
    if own == "integer":
        return [f"cast({c} as bigint)" for c in columns]
    if own == "float":
        # the sum of -0.0 and 0.0 is 0.0
        return [f"(cast({c} as double) + 0.0D)" for c in columns]
    if own == "decimal" and len({*types}) > 1:
        decimals = [t for t in types if isinstance(t, DecimalType)]
        scale = max(t.scale for t in decimals)
        digits = max(t.precision - t.scale for t in decimals) + scale
        if digits > MOST_DIGITS:
            raise Inexpressible(f"{types[0]} with {types[1]}")
        return [f"cast({c} as decimal({digits},{scale}))" for c in columns]
    return list(columns)


class ColumnValues:
    """The columns of a data frame as lanes."""

    def __init__(self, schema: StructType) -> None:
        self._types = {field.name: field.dataType for field in schema}

    def type(self, name: str) -> DataType:
        """The type of a column."""
        return self._types[name]

    def plain(self, name: str, beside: Sequence[DataType] = ()) -> Sql:
        """A column as Spark compares it; `beside` are types of others that it is compared with."""
        return compared([quoted(name)] * (1 + len(beside)), [self._types[name], *beside])[0]

    def is_one(self, name: str, beside: Sequence[DataType] = ()) -> bool:
        """Whether one lane holds every value of a column."""
        types = [self._types[name], *beside]
        own = family(types[0])
        wide = own == "decimal" and any(t.precision > _ONE_WORD for t in types if isinstance(t, DecimalType))
        return own not in ("text", "bytes") and not wide and (own != "decimal" or len({*types}) == 1)

    def lanes(self, name: str, beside: Sequence[DataType] = ()) -> Lanes:
        """A column as one or two lanes."""
        value = self.plain(name, beside)
        if not self.is_one(name, beside):
            return _digested([value], f"{quoted(name)} is not null")
        match family(self._types[name]):
            case "integer":
                return value, None
            case "bool":
                return f"cast({value} as bigint)", None
            case "date":
                return f"cast(unix_date({value}) as bigint)", None
            case "zoned":
                return f"unix_micros({value})", None
        return f"if({quoted(name)} is null, null, xxhash64({value}))", None

    def with_nulls(self, name: str) -> Lanes:
        """As `lanes`, with NULL as a value that equals itself."""
        a, b = self.lanes(name)
        gone = f"{quoted(name)} is null"
        if b is None:
            return f"coalesce({a}, 0L)", f"if({gone}, 1L, 0L)"
        return f"coalesce({a}, 0L)", f"coalesce({b}, 1L)"

    def tuple_lanes(
        self, names: Sequence[str], *, nulls_equal: bool = False, beside: Sequence[DataType] | None = None
    ) -> Lanes:
        """Several columns as one or two lanes; NULL where one of them is, unless NULLs are equal."""
        others = [[t] for t in beside] if beside is not None else [[] for _ in names]
        if nulls_equal:
            return _digested([c for name in names for c in (f"{quoted(name)} is null", self.plain(name))])
        if len(names) == 1:
            return self.lanes(names[0], others[0])
        if len(names) == 2 and all(self.is_one(n, o) for n, o in zip(names, others, strict=True)):
            (a, _), (b, _) = (self.lanes(n, o) for n, o in zip(names, others, strict=True))
            return a, b
        return _digested([self.plain(n, o) for n, o in zip(names, others, strict=True)], self.known(names))

    def known(self, names: Sequence[str]) -> Sql:
        """Whether all of some columns have values; never NULL."""
        return "(" + " and ".join(f"{quoted(name)} is not null" for name in dict.fromkeys(names)) + ")"


def _digested(values: Sequence[Sql], known: Sql | None = None) -> Lanes:
    """Both digests of some values; NULL where `known` does not hold."""
    a, b = (f"xxhash64({salt}L, {', '.join(values)})" for salt in _SALTS)
    return (a, b) if known is None else (f"if({known}, {a}, null)", f"if({known}, {b}, null)")
