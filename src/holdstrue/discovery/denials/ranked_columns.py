"""Codes as small numbers that compare alike, in columns that are compared with each other by one scale.

Ranking a table sorts its values, which is most of what verifying a few rules on it costs: ranks are kept. Values stay
on their scale when rows go, and rows that come are looked up on it: a batch costs a pass over the ranks at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from holdstrue.discovery.work import Work
from holdstrue.index.arrays import room
from holdstrue.typing import I32, I64

if TYPE_CHECKING:
    from holdstrue.discovery.denials.coded_rows import CodedRows

MANY = 0.5
"""A batch of more than this share of the rows is ranked together with them. Chosen, not tuned."""


class RankedColumns:
    """The ranks of coded rows by slot: 1, 2, ... for values; NULL is 0 where it is a value, else -1.

    Memory: 4 bytes a value, and 8 bytes a distinct one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from holdstrue.discovery.denials.choose_space import choose_space
    >>> from holdstrue.discovery.denials.coded_rows import CodedRows
    >>> from holdstrue.discovery.options import DiscoveryOptions
    >>> table = pa.table({"pay": [30, 10, 30]})
    >>> rows = CodedRows(choose_space(table, DiscoveryOptions()))
    >>> _ = rows.insert(table)
    >>> ranked = RankedColumns()
    >>> ranked.of(rows, rows.live(), Work(threads=1)).tolist()
    [[2, 1, 2]]
    >>> _ = rows.insert(pa.table({"pay": [20]}))
    >>> ranked.of(rows, rows.live(), Work(threads=1)).tolist()
    [[3, 1, 3, 2]]
    """

    def __init__(self) -> None:
        self._ranks: I32 = np.zeros((0, 0), dtype=np.int32)
        self._values: dict[tuple[int, ...], I64] = {}
        self._size = 0
        self._epoch = -1

    def of(self, rows: CodedRows, live: I64, work: Work) -> I32:
        """The ranks of some rows, column by column. Runtime complexity: O(values), O(values log values) at first."""
        fresh = rows.size - self._size
        if rows.epoch != self._epoch or fresh > MANY * self._size:
            self._ranks, self._values = np.zeros((len(rows.space.columns), 0), dtype=np.int32), {}
            self._size, self._epoch = 0, rows.epoch
        self._ranks = room(self._ranks, rows.size, axis=1)
        if self._size < rows.size:
            work.each(lambda component: self._rank(rows, component), rows.space.components)
            self._size = rows.size
        return np.take(self._ranks, live, axis=1)

    def size_bytes(self) -> int:
        """Memory held."""
        return self._ranks.nbytes + sum(values.nbytes for values in self._values.values())

    def _rank(self, rows: CodedRows, component: tuple[int, ...]) -> None:
        columns, new = list(component), slice(self._size, rows.size)
        codes, known = rows.codes[columns, new], rows.known[columns, new]
        values, place = np.unique(codes.ravel(), return_inverse=True)
        scale = self._values.get(component)
        if scale is not None:
            values, place = self._placed(component, scale, values), place.reshape(-1)
            place = np.searchsorted(self._values[component], values)[place]
        else:
            self._values[component] = values
        unknown = 0 if rows.space.nulls == "equal" else -1
        self._ranks[columns, new] = np.where(known, place.reshape(codes.shape) + 1, unknown)

    def _placed(self, component: tuple[int, ...], scale: I64, values: I64) -> I64:
        """Make room on the scale for values that are new; the ranks of rows that are there follow."""
        at = np.searchsorted(scale, values)
        missing = (at == scale.size) | (scale[np.minimum(at, scale.size - 1)] != values)
        if missing.any():
            self._values[component] = np.insert(scale, at[missing], values[missing])
            shifts = np.bincount(at[missing], minlength=scale.size + 1).cumsum()[: scale.size]
            moved = np.concatenate([[0], np.arange(1, scale.size + 1) + shifts, [-1]]).astype(np.int32)
            for column in component:
                # -1 is the last of them
                self._ranks[column, : self._size] = moved[self._ranks[column, : self._size]]
        return values
