"""The JSON values of a source, each with the place it was read at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdstrue.data.changes import Source
from holdstrue.io.jsonlines import as_lines, read_bytes, read_objects, unit_of


@dataclass(frozen=True)
class Events:
    """JSON values with their positions in the sources laid end to end, read anew whenever asked for.

    Examples
    --------
    >>> list(Events.of_records([{"op": "c"}, None]))
    [(0, {'op': 'c'}), (1, None)]
    """

    sources: tuple[Source, ...]
    parts: tuple[bytes | Sequence[Any], ...]

    @classmethod
    def of_files(cls, paths: Sequence[Path], encoding: str) -> Events:
        """The values of JSON files, a line each."""
        sources, parts = [], []
        for path in paths:
            data = read_bytes(path, encoding)
            lines = as_lines(data, path)
            sources.append(Source(str(path), lines.count(b"\n") + 1, unit_of(data)))
            parts.append(lines)
        return cls(tuple(sources), tuple(parts))

    @classmethod
    def of_records(cls, records: Sequence[Any]) -> Events:
        """Values that are in memory already."""
        return cls((Source("the records", len(records), "record"),), (records,))

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        start = 0
        for source, part in zip(self.sources, self.parts, strict=True):
            values = read_objects(part, source.name, source.unit) if isinstance(part, bytes) else enumerate(part)
            for position, value in values:
                yield start + position, value
            start += source.size
