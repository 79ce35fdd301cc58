"""The JSON values of a source, each with the place it was read at and the schema block it came with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from holdstrue.data.changes import Origin
from holdstrue.sources.datafiles import DataFile
from holdstrue.sources.jsonlines import as_lines, once, read_bytes, read_objects, unit_of


class Event(NamedTuple):
    """What happened, and the schema block beside it, if there is one."""

    payload: Any
    schema: Any = None

    @classmethod
    def of(cls, value: Any) -> Event:
        """The event in a value that may be wrapped in `schema` and `payload`.

        >>> Event.of({"schema": {"type": "struct"}, "payload": {"op": "c"}})
        Event(payload={'op': 'c'}, schema={'type': 'struct'})
        >>> Event.of({"op": "c"})
        Event(payload={'op': 'c'}, schema=None)
        """
        if isinstance(value, Mapping) and "payload" in value and set(value) <= {"schema", "payload"}:
            return cls(value["payload"], value.get("schema"))
        return cls(value)


@dataclass(frozen=True)
class Events:
    """JSON values with their positions in the sources laid end to end, read anew whenever asked for.

    Examples
    --------
    >>> list(Events.of_records([{"op": "c"}, None]))
    [(0, Event(payload={'op': 'c'}, schema=None)), (1, Event(payload=None, schema=None))]
    """

    sources: tuple[Origin, ...]
    parts: tuple[bytes | Sequence[Any], ...]

    @classmethod
    def of_files(cls, files: Sequence[DataFile], encoding: str) -> Events:
        """The values of JSON files, a line each; what is read is kept, for they may be rows after all."""
        sources, parts = [], []
        for file in files:
            data = file.kept = read_bytes(file, encoding)
            lines = as_lines(data, file)
            sources.append(Origin(str(file), lines.count(b"\n") + 1, unit_of(data)))
            parts.append(lines)
        return cls(tuple(sources), tuple(parts))

    @classmethod
    def of_records(cls, records: Sequence[Any]) -> Events:
        """Values that are in memory already."""
        return cls((Origin("the records", len(records), "record"),), (records,))

    def __iter__(self) -> Iterator[tuple[int, Event]]:
        start = 0
        for source, part in zip(self.sources, self.parts, strict=True):
            if isinstance(part, bytes):
                values = read_objects(part, source.name, source.unit, _Parser())
            else:
                values = ((i, Event.of(value)) for i, value in enumerate(part))
            for position, event in values:
                yield start + position, event
            start += source.size


class _Parser:
    """Parses lines of events, a schema block once for all lines that begin with the same bytes.

    Numbers with a fraction are kept as decimals, since a column of decimals must not lose a digit of them.
    """

    _HEAD = re.compile(r'\s*\{\s*"schema"\s*:\s*')
    _BETWEEN = re.compile(r'\s*,\s*"payload"\s*:\s*')
    _TAIL = re.compile(r"\s*\}\s*\Z")

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder(object_pairs_hook=once, parse_float=Decimal)
        self._beginning: str | None = None
        """The text of the last line up to its payload."""
        self._schema: Any = None

    def __call__(self, text: str) -> Event:
        if self._beginning is None or not text.startswith(self._beginning):
            self._begin(text)
        if self._beginning is not None:
            try:
                payload, end = self._decoder.raw_decode(text, len(self._beginning))
            except ValueError:
                end = 0
            if end and self._TAIL.match(text, end):
                return Event(payload, self._schema)
        return Event.of(self._decoder.decode(text))

    def _begin(self, text: str) -> None:
        """Note the schema block that a line begins with; none where it begins with something else."""
        self._beginning = None
        head = self._HEAD.match(text)
        if head is None:
            return
        try:
            schema, end = self._decoder.raw_decode(text, head.end())
        except ValueError:
            return
        between = self._BETWEEN.match(text, end)
        if between is not None:
            self._beginning, self._schema = text[: between.end()], schema
