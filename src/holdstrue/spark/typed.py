"""Data frames with their columns brought to the types that people declared for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from holdstrue.errors import DataError, HoldstrueError
from holdstrue.rules.types import MOST_DIGITS, Declared
from holdstrue.shards.wire import SUMMARY, Message, failure, pack, raised, send
from holdstrue.sources.declared import FAST_DIGITS, agrees, arrow_type, declared_table, require_known
from holdstrue.spark.runner import SparkRunner, sendable

_SOME_ROW = "a row of the data frame"


def declared_frame(frame: DataFrame, types: Mapping[str, Declared], known: pa.Schema | None = None) -> DataFrame:
    """The data frame as declared; a value that does not fit is an error here.

    Columns that have their type are left alone. Others are read twice: first to find what does not fit, and how
    many digits a plain decimal needs.
    """
    runner = SparkRunner(frame.sparkSession)
    schema = runner.schema(frame)
    if known is None:
        require_known(types, schema.names, "the data frame")
    odd = {name: d for name, d in types.items() if name in schema.names and not _fits(schema.field(name).type, d)}
    if not odd:
        return frame
    tasks = runner.tasks()
    looking = TypeProbe({name: replace(declared, tight=True) for name, declared in odd.items()}, known)
    said = list(runner.run([(runner.select(frame, list(odd)), looking)], [], tasks))
    raised(said)
    found = joint_types([message.table().schema for message in said], odd, known)
    fields = [pa.field(field.name, found.get(field.name, field.type)) for field in schema]
    kinds = StructType(
        [
            StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True))
            if field.name in found else own
            for field, own in zip(fields, frame.schema, strict=True)
        ]
    )  # fmt: skip
    return frame.mapInArrow(sendable(Convert(odd, to_arrow_schema(kinds, timezone="UTC"))), kinds)


def _fits(type_: pa.DataType, declared: Declared) -> bool:
    wanted = arrow_type(declared)
    return agrees(declared, type_) and (declared.word != "decimal" or wanted is None or wanted == type_)


def joint_types(
    parts: Iterable[pa.Schema], types: Mapping[str, Declared], known: pa.Schema | None = None
) -> dict[str, pa.DataType]:
    """The types of declared columns whose parts were looked at one by one.

    >>> parts = [pa.schema([("a", pa.decimal128(5, 2))]), pa.schema([("a", pa.decimal128(3, 3))])]
    >>> joint_types(parts, {"a": Declared("decimal")})
    {'a': Decimal128Type(decimal128(18, 3))}
    """
    schemas = list(parts)
    found: dict[str, pa.DataType] = {}
    for name, declared in types.items():
        own = [schema.field(name).type for schema in schemas if name in schema.names]
        own = [type_ for type_ in own if not pa.types.is_null(type_)]
        if known is not None and name in known.names and not pa.types.is_null(known.field(name).type):
            found[name] = known.field(name).type
        elif declared.word == "decimal" and declared.digits is None and own:
            found[name] = _widest(name, own)
        elif len(set(own)) > 1:
            raise DataError(
                f"column {name!r} is declared as {declared} and holds {', '.join(sorted(map(str, set(own))))}",
                hint="write its values in one way, all with a zone or all without",
            )
        else:
            found[name] = own[0] if own else arrow_type(declared) or pa.string()
    return found


def _widest(name: str, types: list[pa.DataType]) -> pa.DataType:
    scale = max(type_.scale for type_ in types)
    digits = max(type_.precision - type_.scale for type_ in types) + scale
    if digits > MOST_DIGITS:
        raise DataError(
            f"column {name!r}: its values need {digits} digits, {scale} of them a fraction, and decimals have 38",
            hint=f"declare {name}=number, whose digits are cut, or text",
        )
    return pa.decimal128(FAST_DIGITS if digits <= FAST_DIGITS else MOST_DIGITS, scale)


@dataclass(frozen=True)
class TypeProbe:
    """The stage that says which types declared columns get, or what does not fit."""

    types: Mapping[str, Declared]
    known: pa.Schema | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, schemas out."""
        return send(self._messages(batches))

    def _messages(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
        told: set[str] = set()
        for batch in batches:
            try:
                rows = declared_table(pa.Table.from_batches([batch]), self.types, lambda _: _SOME_ROW, self.known)
            except HoldstrueError as error:
                yield failure(error, 0)
                return
            if str(rows.schema) not in told:
                told.add(str(rows.schema))
                yield Message(0, SUMMARY, 0, "types", pack(rows.schema.empty_table()))


@dataclass(frozen=True)
class Convert:
    """The stage that converts the declared columns."""

    types: Mapping[str, Declared]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, rows out."""
        for batch in batches:
            rows = declared_table(pa.Table.from_batches([batch]), self.types, lambda _: _SOME_ROW, self.schema)
            yield from rows.cast(self.schema).to_batches()
