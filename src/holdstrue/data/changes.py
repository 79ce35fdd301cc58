"""One batch of changes to one table in the neutral form that every feed is brought to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa

from holdstrue.errors import ChangeError
from holdstrue.typing import I64, U8

INSERT = 0
UPDATE = 1
DELETE = 2
UPSERT = 3

OP_NAMES = ("insert", "update", "delete", "upsert")


@dataclass(frozen=True)
class Origin:
    """Something rows were read from: its name, how many places it has and what one is called."""

    name: str
    size: int
    unit: str = "row"


@dataclass(frozen=True)
class Places:
    """Where each row of a batch was read, so that a message can name it.

    Parameters
    ----------
    sources
        What was read, one after the other.
    positions
        Per row: its position, from 0, in the sources laid end to end; None where row i is position i.

    Examples
    --------
    >>> places = Places((Origin("a.csv", 2), Origin("b.csv", 5)))
    >>> places.place(0), places.place(2)
    ('row 1 of a.csv', 'row 1 of b.csv')
    """

    sources: tuple[Origin, ...]
    positions: I64 | None = None

    def place(self, i: int) -> str:
        """Name row `i`, counting from 1 as people do (the header of a file is not a row)."""
        position = self.position(i)
        starts = [0, *accumulate(source.size for source in self.sources)]
        # An empty source shares its start with the next one: the last of equal starts holds the row.
        which = min(bisect_right(starts, position) - 1, len(self.sources) - 1)
        source = self.sources[which]
        return f"{source.unit} {position - starts[which] + 1} of {source.name}"

    def position(self, i: int) -> int:
        """The position of row `i` in the sources laid end to end."""
        return i if self.positions is None else int(self.positions[i])

    def take(self, rows: I64) -> Places:
        """The places of some rows, in that order."""
        return Places(self.sources, rows if self.positions is None else self.positions[rows])

    @property
    def size(self) -> int:
        """How many places the sources have."""
        return sum(source.size for source in self.sources)


@dataclass(frozen=True, eq=False)
class Changes:
    """One batch for one table, in the order in which the changes happen.

    Parameters
    ----------
    rows
        One row a change: the new image for an insert, update or upsert; for a delete only the key
        columns need to be filled.
    ops
        Per row INSERT, UPDATE, DELETE or UPSERT.
    places
        Where each row was read; rows of a nameless batch when left out.

    Examples
    --------
    >>> rows = pa.table({"id": [1, 2], "zip": ["10001", None]})
    >>> batch = Changes(rows, np.array([INSERT, DELETE], np.uint8))
    >>> len(batch), batch.place(1), batch.counts()
    (2, 'row 2 of the changes', {'insert': 1, 'delete': 1})
    """

    rows: pa.Table
    ops: U8
    places: Places | None = None

    def __post_init__(self) -> None:
        if len(self.ops) != self.rows.num_rows:
            raise ChangeError(
                f"{self.rows.num_rows} changed rows with {len(self.ops)} operations",
                hint="give one operation for each row",
            )

    def __len__(self) -> int:
        return len(self.ops)

    def place(self, i: int) -> str:
        """Where change `i` was read, for messages."""
        return f"row {i + 1} of the changes" if self.places is None else self.places.place(i)

    def counts(self) -> dict[str, int]:
        """How many changes of each kind there are; kinds that do not occur are left out."""
        found = np.bincount(self.ops, minlength=len(OP_NAMES))
        return {name: int(n) for name, n in zip(OP_NAMES, found, strict=True) if n}

    def take(self, rows: I64) -> Changes:
        """Some of the changes, in the given order."""
        places = Places((Origin("the changes", len(self)),)) if self.places is None else self.places
        return Changes(self.rows.take(pa.array(rows)), self.ops[rows], places.take(rows))

    @classmethod
    def append(cls, table: pa.Table, *, name: str | None = None) -> Changes:
        """Every row of `table` as an insert.

        >>> Changes.append(pa.table({"id": [1, 2]}), name="new.csv").place(1)
        'row 2 of new.csv'
        """
        places = None if name is None else Places((Origin(name, table.num_rows),))
        return cls(table, np.full(table.num_rows, INSERT, np.uint8), places)

    @classmethod
    def concat(cls, batches: Sequence[Changes]) -> Changes:
        """Several batches as one, in order; a column that a batch lacks is NULL in its rows.

        >>> one = Changes.append(pa.table({"id": [1]}), name="a.csv")
        >>> two = Changes.append(pa.table({"id": [2]}), name="b.csv")
        >>> Changes.concat([one, two]).place(1)
        'row 1 of b.csv'
        """
        if not batches:
            raise ChangeError("no batches to put together", hint="give at least one")
        try:
            rows = pa.concat_tables([batch.rows for batch in batches], promote_options="default")
        except pa.ArrowException as error:
            raise ChangeError(
                f"the batches have columns of different types: {error}",
                hint="read all of them with the schema of the table",
            ) from error
        sources: list[Origin] = []
        positions: list[I64] = []
        start = 0
        for batch in batches:
            places = batch.places or Places((Origin("the changes", len(batch)),))
            at = np.arange(len(batch), dtype=np.int64) if places.positions is None else places.positions
            positions.append(at + start)
            sources.extend(places.sources)
            start += places.size
        ops = np.concatenate([batch.ops for batch in batches])
        return cls(rows, ops, Places(tuple(sources), np.concatenate(positions)))
