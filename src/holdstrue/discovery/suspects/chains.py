"""Order rules, such as: who earns more pays no lower rate. Rows that lie on no longest consistent chain are suspects.

In each group rows are sorted by the first column; a chain is a set of rows in which the second never falls (or never
rises). A row that no longest chain has would have to go in every way of mending the group by removing fewest rows.

>>> first, second = np.array([1, 2, 3, 4, 5]), np.array([10, 20, 99, 30, 40])
>>> off_chain(first, second).tolist()
[False, False, True, False, False]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from holdstrue.discovery.suspects.cells import CodedCells
from holdstrue.discovery.suspects.votes import UNKNOWN, Ballot
from holdstrue.kernels.majority import longest_chains
from holdstrue.typing import I64, Mask

FIRST, SECOND = 4.0, 4.6
"""Of votes on the two columns, one of which is wrong; where nothing else is known it is the one that should follow."""

MOST_OFF = 0.2
"""A group of which more rows are off the chain has no order to speak of."""


@dataclass(frozen=True)
class OrderRule:
    """In rows that agree on `left`, `second` never falls while `first` rises; never rises where it is `falling`."""

    left: tuple[int, ...]
    first: int
    second: int
    falling: bool
    declared: str
    rows: Mask


def vote_order(cells: CodedCells, number: int, rule: OrderRule, ballot: Ballot) -> None:
    """Cast the votes of an order rule on both columns of rows that are off the chain. Complexity: O(rows log rows)."""
    grouped = cells.grouped(rule.left)
    first, second = (_ranks(cells, column) for column in (rule.first, rule.second))
    usable = rule.rows & (grouped.of >= 0) & (cells.codes[rule.first] >= 0) & (cells.codes[rule.second] >= 0)
    found = []
    for group in range(grouped.many):
        rows = grouped.rows[grouped.starts[group] : grouped.starts[group + 1]].astype(np.int64)
        rows = rows[usable[rows]]
        off = rows[off_chain(first[rows], -second[rows] if rule.falling else second[rows])]
        if off.size <= MOST_OFF * rows.size:
            found.append(off)
    rows = np.sort(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)
    for column, weight in ((rule.second, SECOND), (rule.first, FIRST)):
        ballot.cast(rows, column, np.full(rows.size, UNKNOWN), np.full(rows.size, weight), number)


def off_chain_rows(
    cells: CodedCells, left: tuple[int, ...], first: int, second: int, *, falling: bool
) -> tuple[int, int, bool]:
    """Rows on no longest chain of their group, rows with both values, and whether the second changes in some group."""
    grouped = cells.grouped(left)
    one, other = (_ranks(cells, column) for column in (first, second))
    usable = (grouped.of >= 0) & (cells.codes[first] >= 0) & (cells.codes[second] >= 0)
    off, moves = 0, False
    for group in range(grouped.many):
        rows = grouped.rows[grouped.starts[group] : grouped.starts[group + 1]].astype(np.int64)
        rows = rows[usable[rows]]
        values = -other[rows] if falling else other[rows]
        off += int(off_chain(one[rows], values).sum())
        moves |= bool(rows.size > 2 and values.min(initial=0) != values.max(initial=0))
    return off, int(usable.sum()), moves


def off_chain(first: I64, second: I64) -> Mask:
    """Which of some rows lie on no longest chain. Complexity: O(rows log rows)."""
    order = np.lexsort((second, first))
    lengths = np.zeros((2, order.size), dtype=np.int64)
    longest_chains(np.ascontiguousarray(second[order]), lengths)
    off = np.zeros(order.size, dtype=np.bool_)
    off[order] = lengths[0] + lengths[1] - 1 < lengths[0].max(initial=0)
    return off


def _ranks(cells: CodedCells, column: int) -> I64:
    """By row the rank of its value in the order of the column."""
    order = pc.array_sort_indices(cells.distinct[column]).to_numpy(zero_copy_only=False)
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return rank[np.maximum(cells.codes[column], 0)] if order.size else np.zeros(cells.rows, dtype=np.int64)
