"""Inclusions of one arity: the candidates, and counted digests of the tuples that they speak of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.discovery.inclusions.attributes import Attribute, Changes, Contents, batch_contents
from holdstrue.discovery.inclusions.candidates import Pair
from holdstrue.discovery.inclusions.contents import Compare
from holdstrue.discovery.inclusions.counters import Counters
from holdstrue.discovery.inclusions.net_changes import NetChanges, ValueCounts, distinct, tally
from holdstrue.discovery.options import Measure, Proportion, most_of
from holdstrue.discovery.work import Work
from holdstrue.index.arrays import Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.typing import I64

Tables = Callable[[str], pa.Table]
"""Gives a table as it is now, whole; asked only when tuples of new columns must be counted."""

STALE = 16
"""Tuples of columns that no candidate speaks of are counted on while they are fewer than this, or than the others."""


class Level:
    """Candidates of one arity with what decides about them.

    Memory: as `counters.py`, with a tuple of columns in the place of a column and a tuple of values in
    that of a value.
    """

    def __init__(self, compare: Compare, shards: int, seed: Seed) -> None:
        self._compare: Compare = compare
        self._shards = shards
        self._seed = seed
        self.attributes: dict[Attribute, int] = {}
        self.pairs: list[Pair] = []
        self.whole = True
        self._holds = np.zeros(0, dtype=np.bool_)
        self._counters = Counters(0, shards)

    def consider(self, pairs: Sequence[Pair], whole: bool, tables: Tables, work: Work) -> None:
        """Take these candidates from now on (`whole`: they are all), counting what is not counted yet.

        Raises
        ------
        OutOfTimeError
            When the deadline passes; the level is of no use then.
        """
        self.pairs, self.whole = list(pairs), whole
        self._holds = np.zeros(0, dtype=np.bool_)
        wanted = list(dict.fromkeys(attribute for pair in pairs for attribute in pair))
        stale = len(self.attributes.keys() - set(wanted))
        if stale > max(STALE, len(wanted)):
            self.attributes, self._counters = {}, Counters(0, self._shards)
        fresh = [attribute for attribute in wanted if attribute not in self.attributes]
        if not fresh:
            return
        first = len(self.attributes)
        self.attributes |= {attribute: first + i for i, attribute in enumerate(fresh)}
        self._counters.extend(len(self.attributes))
        self._counters.load(self._columns(fresh, tables, work))

    def _columns(self, fresh: list[Attribute], tables: Tables, work: Work) -> Iterator[ValueCounts]:
        for name in dict.fromkeys(attribute.table for attribute in fresh):
            contents = Contents(tables(name), self._compare, self._seed)
            for attribute in fresh:
                if attribute.table == name:
                    work.require_time()
                    yield distinct(self.attributes[attribute], [contents.of(attribute.columns)])

    def tally(self, changes: Changes) -> NetChanges:
        """What a batch changes of the counted tuples; refuses to remove tuples that are not there."""
        parts = batch_contents(changes, self.attributes, self._compare, self._seed)
        counted = tally(parts, len(self.attributes))
        self._counters.check(counted)
        return counted

    def apply(self, counted: NetChanges) -> None:
        """Take in what a batch changes. Complexity: O(attributes that hold the changed tuples)."""
        self._counters.apply(counted)

    def decide(self, error: Proportion, measure: Measure) -> bool:
        """Look which candidates hold: a side without tuples does not. Returns whether that changed.

        The error is a share of the left side's distinct tuples, or of its rows.
        """
        own, missing = self._counts(self.shared_rows() if measure == "rows" else self.shared())
        holds = (own > 0) & (missing <= most_of(error, own))
        changed = not np.array_equal(holds, self._holds)
        self._holds = holds
        return changed

    def held(self) -> list[Pair]:
        """The candidates that hold."""
        return [self.pairs[i] for i in np.flatnonzero(self._holds).tolist()]

    def measured(self) -> dict[Pair, tuple[int, int]]:
        """The candidates that hold, with their distinct tuples and how many of these the right side lacks."""
        values, missing = self._counts(self.shared())
        return {self.pairs[i]: (int(values[i]), int(missing[i])) for i in np.flatnonzero(self._holds).tolist()}

    def _counts(self, shared: I64) -> tuple[I64, I64]:
        left = np.array([self.attributes[pair[0]] for pair in self.pairs], dtype=np.int64)
        right = np.array([self.attributes[pair[1]] for pair in self.pairs], dtype=np.int64)
        values = shared[left, left]
        return values, values - shared[left, right]

    def shared(self) -> I64:
        """As `Counters.shared`, by the numbers of `attributes`."""
        return self._counters.shared()

    def shared_rows(self) -> I64:
        """As `Counters.shared_rows`, by the numbers of `attributes`."""
        return self._counters.shared_rows()

    def size_bytes(self) -> int:
        """Memory held."""
        return self._counters.size_bytes()

    def snapshot(self, places: Mapping[str, Mapping[str, int]]) -> Snapshot:
        """The arrays that make up the state; columns by their place in the table."""
        names = list(places)
        rows = [
            (names.index(attribute.table), *(places[attribute.table][column] for column in attribute.columns))
            for attribute in self.attributes
        ]
        width = len(rows[0]) if rows else 1
        return {
            "attributes": np.array(rows, dtype=np.int64).reshape(len(rows), width),
            **nested("counters", self._counters.snapshot()),
        }

    def restore(self, arrays: Checked, columns: Mapping[str, Sequence[str]], arity: int) -> None:
        """Take over the arrays of a snapshot."""
        names = list(columns)
        found = arrays.array("attributes", np.int64, (0, arity + 1), grows=0)
        arrays.within("attributes", found[:, :1].copy(), 0, len(names) - 1)
        widths = np.array([len(columns[name]) for name in names], dtype=np.int64)
        arrays.require(
            bool(((found[:, 1:] >= 0) & (found[:, 1:] < widths[found[:, :1]])).all()), "it counts columns that are not"
        )
        self.attributes = {
            Attribute(names[row[0]], tuple(columns[names[row[0]]][place] for place in row[1:])): i
            for i, row in enumerate(found.tolist())
        }
        arrays.require(len(self.attributes) == found.shape[0], "it counts the same columns twice")
        self._counters = Counters(len(self.attributes), self._shards)
        self._counters.restore(arrays.part("counters"))
