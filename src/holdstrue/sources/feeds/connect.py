"""Kafka Connect's schema blocks: what the values of each field of an event mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdstrue.data.changes import Origin, Places
from holdstrue.errors import ChangeError


@dataclass(frozen=True)
class Field:
    """How the values of one field are written: a literal type, and a logical one that gives it its meaning.

    Parameters
    ----------
    type
        The literal type: int8 to int64, float, double, boolean, string, bytes, struct, array or map.
    name
        The logical type, such as `io.debezium.time.Date`; None where the literal one says it all.
    scale, precision
        Of decimals, where the block gives them.
    """

    type: str
    name: str | None = None
    scale: int | None = None
    precision: int | None = None

    def __str__(self) -> str:
        """The field as a message should call it.

        >>> str(Field("bytes", "org.apache.kafka.connect.data.Decimal", 2)), str(Field("int32"))
        ('org.apache.kafka.connect.data.Decimal of scale 2', 'int32')
        """
        said = self.name or self.type
        return said if self.scale is None else f"{said} of scale {self.scale}"


Fields = Mapping[str, Field]
"""The fields of a row by their names."""


@dataclass(frozen=True, eq=False)
class Block:
    """The schema block of an event: the fields of a flattened row, or those of both images."""

    row: Fields = field(default_factory=dict)
    before: Fields = field(default_factory=dict)
    after: Fields = field(default_factory=dict)

    def of(self, side: str) -> Fields:
        """The fields of an image; an image whose fields the block leaves out has those of the other one.

        >>> image = {"field": "after", "type": "struct", "fields": [{"field": "id", "type": "int32"}]}
        >>> read_block({"type": "struct", "fields": [image]}).of("before")
        {'id': Field(type='int32', name=None, scale=None, precision=None)}
        """
        one, other = (self.before, self.after) if side == "before" else (self.after, self.before)
        return one or other


UNTYPED = Block()
"""What is known of events without a schema block."""


class Blocks:
    """Schema blocks as they come with events, each read once while it stays the same."""

    def __init__(self) -> None:
        self._last: Any = None
        self._block = UNTYPED

    def read(self, schema: Any, sources: tuple[Origin, ...], position: int) -> Block:
        """The block of the event at a position in the sources, which errors name."""
        if schema is None:
            return UNTYPED
        # producers send the same block with every event: the same object, or an equal one
        if schema is not self._last and schema != self._last:
            try:
                self._block = read_block(json.loads(schema) if isinstance(schema, str) else schema)
            except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
                raise ChangeError(
                    f"{Places(sources).place(position)}: a schema block that cannot be read: {error!r}",
                    hint="it must be the one that Kafka Connect's JsonConverter writes",
                ) from error
            self._last = schema
        return self._block


def read_block(schema: Mapping[str, Any]) -> Block:
    """The fields that a schema block describes.

    >>> days = {"field": "day", "type": "int32", "name": "io.debezium.time.Date", "version": 1}
    >>> read_block({"type": "struct", "fields": [days]}).row["day"].name
    'io.debezium.time.Date'
    """
    images = {side: _fields(part) for part in _parts(schema) if (side := part.get("field")) in ("before", "after")}
    return Block(_fields(schema), **images)


def _parts(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in schema.get("fields") or () if part is not None]


def _fields(schema: Mapping[str, Any]) -> dict[str, Field]:
    return {str(part["field"]): _field(part) for part in _parts(schema)}


def _field(part: Mapping[str, Any]) -> Field:
    parameters = part.get("parameters") or {}
    scale, precision = parameters.get("scale"), parameters.get("connect.decimal.precision")
    return Field(
        str(part["type"]),
        part.get("name"),
        None if scale is None else int(scale),
        None if precision is None else int(precision),
    )
