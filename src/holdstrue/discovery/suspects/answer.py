"""Suspects as people see them: a cell, the value it should probably have, how sure that is, and what says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from holdstrue.data.coding import domain_of, encode, key_digest
from holdstrue.data.seed import PROCESS
from holdstrue.errors import HoldstrueError
from holdstrue.tabular import Tabular, key_array

if TYPE_CHECKING:
    import pyarrow as pa

SURE = 0.9
"""How sure a suspect is whose proposed value a patch has, unless it is told otherwise."""


@dataclass(frozen=True)
class Suspect:
    """A cell that is probably wrong.

    `key` names the row: by key, or by its number from 0. `proposed` is the value that it should probably have, None
    where that is not known. `why` are the rules and other reasons, the weightiest first; `rows` name some that say so.
    """

    key: Any
    column: str
    value: Any
    proposed: Any
    confidence: float
    why: tuple[str, ...]
    rows: tuple[Any, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        key = list(self.key) if isinstance(self.key, tuple) else self.key
        return {
            "row": key,
            "column": self.column,
            "value": self.value,
            "proposed": self.proposed,
            "confidence": round(self.confidence, 3),
            "why": list(self.why),
            "rows": [list(row) if isinstance(row, tuple) else row for row in self.rows],
        }


@dataclass(frozen=True)
class Suspects(Tabular, Sequence[Suspect]):
    """The cells of a table that are probably wrong, the surest first."""

    found: tuple[Suspect, ...]
    rows: int
    """How many rows the table has."""
    key: tuple[str, ...] = ()
    table: Any = field(default=None, repr=False, compare=False)
    """The rows themselves, and `places` which of them each suspect is in."""
    places: tuple[int, ...] = field(default=(), repr=False, compare=False)
    rules: tuple[str, ...] = ()
    """The rules that voted."""
    notes: tuple[str, ...] = ()
    counts: Mapping[str, int] | None = None
    """How many suspects each column has, where `found` are only the surest of them."""
    least: float = 0.0
    """How sure those are that `at_least` left; 0 where all were left."""

    @property
    def by_column(self) -> Mapping[str, int]:
        """How many suspects each column has that has some, the most first."""
        return dict(Counter(one.column for one in self.found).most_common()) if self.counts is None else self.counts

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Suspect]:
        return iter(self.found)

    def __getitem__(self, at: Any) -> Any:
        return self.found[at]

    def __repr__(self) -> str:
        return f"Suspects({len(self.found)} cells of {self.rows} rows, by {len(self.rules)} rules)"

    def at_least(self, confidence: float) -> Suspects:
        """Those that are at least so sure."""
        kept = [at for at, suspect in enumerate(self.found) if suspect.confidence >= confidence]
        found, places = tuple(self.found[at] for at in kept), tuple(self.places[at] for at in kept)
        return replace(self, found=found, places=places, least=confidence)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "rows": self.rows,
            "rules": list(self.rules),
            **({"by_column": dict(self.counts)} if self.counts is not None else {}),
            "suspects": [suspect.to_dict() for suspect in self.found],
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def to_arrow(self) -> pa.Table:
        """As a table: row, column, value and proposed as text, confidence, why, rows."""
        import pyarrow as pa

        def texts(values: Iterator[Any]) -> pa.Array:
            return pa.array([None if value is None else str(value) for value in values], pa.string())

        ends = [0, *accumulate(len(suspect.rows) for suspect in self.found)]
        # one type for the rows that are suspect and for those that say so
        named = key_array([*(s.key for s in self.found), *(row for s in self.found for row in s.rows)])

        return pa.table(
            {
                "row": named[: len(self.found)],
                "column": pa.array([suspect.column for suspect in self.found], pa.string()),
                "value": texts(suspect.value for suspect in self.found),
                "proposed": texts(suspect.proposed for suspect in self.found),
                "confidence": pa.array([suspect.confidence for suspect in self.found], pa.float64()),
                "why": pa.array([list(suspect.why) for suspect in self.found], pa.list_(pa.string())),
                "rows": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), named[len(self.found) :]),
            }
        )

    def patch(self, least: float | None = None) -> pa.Table:
        """The rows with the proposed values of suspects that are at least so sure, as updates that `apply` reads.

        Unless it is given, as sure as `at_least` demanded, or 0.9. Nothing is changed by itself: look at it, then
        `monitor.apply(patch)`.
        """
        import pyarrow as pa

        if least is None:
            least = self.least or SURE
        if not self.key:
            raise HoldstrueError(
                "a patch updates rows by their key, and none is given",
                hint="name the columns that tell rows apart: key='id', or --key id",
            )
        chosen = [
            (place, suspect)
            for place, suspect in zip(self.places, self.found, strict=True)
            if suspect.proposed is not None and suspect.confidence >= least and suspect.column not in self.key
        ]
        rows = sorted({place for place, _ in chosen})
        self._require_one_row_each(rows)
        at = {place: number for number, place in enumerate(rows)}
        table: pa.Table = self.table.take(pa.array(rows, pa.int64()))
        for column in sorted({suspect.column for _, suspect in chosen}):
            values = table.column(column).to_pylist()
            for place, suspect in chosen:
                if suspect.column == column:
                    values[at[place]] = suspect.proposed
            number = table.schema.get_field_index(column)
            table = table.set_column(number, column, pa.array(values, table.schema.field(column).type))
        op = "op"
        while op in table.column_names:
            op = f"_{op}"
        return table.add_column(0, op, pa.array(["update"] * len(rows), pa.string()))

    def _require_one_row_each(self, places: list[int]) -> None:
        """Refuse a patch whose key does not name one row: it would be applied to others, or to none."""
        coded = []
        for name in self.key:
            column = self.table.column(name)
            domain = domain_of([column.type], ordered=False, seed=PROCESS)
            if domain is None:
                raise HoldstrueError(f"the key column {name!r} does not compare", hint="name other columns as the key")
            coded.append(encode(column, domain, name=name))
        hi, lo, known = key_digest(coded, self.table.num_rows, PROCESS)
        _, number, times = np.unique(np.column_stack((hi, lo)), axis=0, return_inverse=True, return_counts=True)
        wrong = [place for place in places if not known[place] or times[number.ravel()[place]] > 1]
        if wrong:
            raise not_one_row(self.key, self.table.select(list(self.key)).slice(wrong[0], 1).to_pylist()[0])


def not_one_row(key: Sequence[str], row: Mapping[str, Any]) -> HoldstrueError:
    """What is wrong with a patch by columns that several rows share, or that are NULL."""
    said = ", ".join(f"{name}={value!r}" for name, value in row.items())
    return HoldstrueError(
        f"a patch updates rows by their key, and {said} does not name one row",
        hint=f"{', '.join(key)} must tell the rows apart, without NULLs: name other columns as the key",
    )
