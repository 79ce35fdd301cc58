"""A Tax table that changes: seeded batches of inserts, updates and deletes, a third each, and the rows that are left.

>>> table = ChangingTable(100, ("id", "zip", "city"), changes=30)
>>> table.base.num_rows, table.batch(9).column_names
(100, ['id', 'zip', 'city', 'op'])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workloads.tax import NOISE, tax

OPS = ("insert", "update", "delete")
INSERT, UPDATE, DELETE = range(3)


class ChangingTable:
    """Which ids there are, and where the values of each are among all that were generated; `batch` moves it on.

    All values are generated at once, so that the memory of a process that applies the batches does not grow by them.
    """

    def __init__(self, rows: int, columns: Sequence[str], *, changes: int, seed: int = 0, noise: float = NOISE) -> None:
        self._rng = np.random.default_rng([seed, rows, changes])
        parts = [tax(rows, seed=seed, noise=noise), tax(changes, start=rows, seed=seed, noise=noise)]
        self._pool = pa.concat_tables(parts).select(columns).combine_chunks()
        self.base = self._pool.slice(0, rows)
        """The rows it starts with."""
        self._fresh = rows
        self._count = rows
        self._ids = np.arange(rows + changes)
        """The first `_count` are those there are, in any order."""
        self._values = np.arange(rows + changes)
        """By id, the place of the row's values in the pool."""

    def batch(self, size: int) -> pa.Table:
        """The next batch, no id twice in it; a delete says only its id. Complexity: O(batch)."""
        kinds = self._rng.integers(3, size=size)
        known = np.flatnonzero(kinds != INSERT)
        places = self._rng.permutation(np.unique(self._rng.integers(self._count, size=known.size)))
        # an id that was drawn twice is taken once, and an insert is made of the other
        kinds[known[places.size :]] = INSERT
        values = np.arange(self._fresh, self._fresh + size)
        ids = values.copy()
        ids[known[: places.size]] = self._ids[places]
        self._fresh += size
        self._values[ids[kinds == UPDATE]] = values[kinds == UPDATE]
        self._remove(places[kinds[known[: places.size]] == DELETE])
        self._insert(ids[kinds == INSERT])
        return self._changes(ids, values, kinds)

    def left(self) -> pa.Table:
        """The rows there are after the batches so far. Complexity: O(rows)."""
        ids = np.sort(self._ids[: self._count])
        table = self._pool.take(pa.array(self._values[ids]))
        return table.set_column(table.column_names.index("id"), "id", pa.array(ids))

    def _remove(self, places: np.ndarray) -> None:
        for place in np.sort(places)[::-1]:  # the last id moves to where one went
            self._count -= 1
            self._ids[place] = self._ids[self._count]

    def _insert(self, ids: np.ndarray) -> None:
        self._ids[self._count : self._count + ids.size] = ids
        self._count += ids.size

    def _changes(self, ids: np.ndarray, values: np.ndarray, kinds: np.ndarray) -> pa.Table:
        gone = pa.array(kinds == DELETE)
        columns = {}
        for field in self._pool.schema:
            taken = pc.if_else(gone, pa.scalar(None, field.type), self._pool.column(field.name).take(pa.array(values)))
            columns[field.name] = pa.array(ids) if field.name == "id" else taken
        return pa.table({**columns, "op": pa.array(OPS).take(pa.array(kinds))}).combine_chunks()
