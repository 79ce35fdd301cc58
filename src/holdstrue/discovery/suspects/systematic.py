"""Exceptions to a rule that follow from something that it leaves out, and are no errors.

- Those that lie with one value of another column: half of its rows, at least five.
- Those that came before or after all others of their group, by a day, a time or a number of rows, far more often than
  by chance: a price or an address that changed.
- Those whose numbers are mostly as many percent above or below what their groups have: a discount, a tax.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from holdstrue.data.values import family_of
from holdstrue.discovery.suspects.cells import CodedCells, Grouped, of_codes
from holdstrue.discovery.suspects.far_off import MOMENTS, as_numbers
from holdstrue.typing import I32, I64, Mask

SYSTEMATIC, LEAST_ROWS = 0.5, 5
"""Exceptions in this share of the rows that have a value of another column, and so many rows, are no errors."""

LEAST_LATER, BEYOND = 5, 4.0
"""Exceptions at the ends of their groups are no chance where there are so many, so many standard deviations more than
by chance. Chosen, not tuned: of prices that rose in the middle of a year all lie there, 9 deviations more."""

SURCHARGED = (0.5, 2.0)
"""Between these ratios many exceptions with the same one are honest; slips of a comma or a unit make larger ones."""

LEAST_PRICES = 3
"""Of so many different values at least some are surcharged: one that is often written wrongly is but one."""


def went_together(cells: CodedCells, sides: Sequence[int], flagged: Mask, judged: Mask) -> Mask:
    """Rows whose value in a column beside those of a rule most flagged rows of it share."""
    found = np.zeros(cells.rows, dtype=np.bool_)
    if not flagged.any():
        return found
    for other in range(len(cells.names)):
        if other not in sides:
            found |= systematic(cells.codes[other], cells.counts[other].size, flagged, judged)
    return found


def systematic(column: I32, values: int, flagged: Mask, judged: Mask) -> Mask:
    """Rows with values of a column that go with being flagged.

    >>> column, flagged = np.array([0, 0, 0, 0, 0, 1, 1], dtype=np.int32), np.array([1, 1, 1, 0, 0, 1, 0], dtype=bool)
    >>> systematic(column, 2, flagged, np.ones(7, dtype=bool)).tolist()
    [True, True, True, True, True, False, False]
    """
    known = column >= 0
    hit = np.bincount(column[flagged & known], minlength=values)
    all_of = np.bincount(column[judged & known], minlength=values)
    return of_codes((all_of >= LEAST_ROWS) & (hit >= SYSTEMATIC * all_of), column)


def came_later(cells: CodedCells, grouped: Grouped, flagged: Mask) -> Mask:
    """Flagged rows before or after all others of their group, where these are far more than by chance.

    Complexity: O(rows log rows) for each column that orders rows.
    """
    found = np.zeros(cells.rows, dtype=np.bool_)
    if np.count_nonzero(flagged) < LEAST_LATER:
        return found
    for column in range(len(cells.names)):
        if _orders(cells, column):
            found |= _at_ends(_ranks(cells, column), grouped.of, flagged)
    return found


def changed_alike(cells: CodedCells, column: int, usual: I64, flagged: Mask) -> Mask:
    """Flagged rows whose number is, to a percent, as many percent above or below `usual` as that of half of them.

    Complexity: O(rows, and flagged rows * log).
    """
    found = np.zeros(cells.rows, dtype=np.bool_)
    rows = np.flatnonzero(flagged)
    if rows.size < LEAST_ROWS or family_of(cells.distinct[column].type) in MOMENTS:
        return found
    numbers = as_numbers(cells, column)
    if numbers is None:
        return found
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = 100 * numbers[cells.codes[column][rows]] / numbers[usual[rows]]
    low, high = SURCHARGED
    # codes and years differ by less than a percent whatever is wrong with them
    fit = (percent > 100 * low) & (percent < 100 * high) & (np.abs(percent - 100) > 1)
    if not fit.any():
        return found
    values, counts = np.unique(np.rint(percent[fit]), return_counts=True)
    alike = fit & (np.abs(percent - values[np.argmax(counts)]) <= 1)
    told = np.count_nonzero(alike)
    if told >= max(LEAST_ROWS, SYSTEMATIC * rows.size) and np.unique(usual[rows[alike]]).size >= LEAST_PRICES:
        found[rows[alike]] = True
    return found


def _orders(cells: CodedCells, column: int) -> bool:
    """Whether a column says which rows came first: moments, or whole numbers that all differ."""
    family = family_of(cells.distinct[column].type)
    numbered = family == "integer" and cells.counts[column].size == cells.known[column] == cells.rows
    return family in ("date", "timestamp", "zoned") or numbered


def _ranks(cells: CodedCells, column: int) -> I64:
    """By row the rank of its value, -1 where it is unknown."""
    order = pc.sort_indices(cells.distinct[column]).to_numpy()
    rank = np.empty(order.size + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(order.size), -1
    return rank[cells.codes[column]]


def _at_ends(rank: I64, group: I64, flagged: Mask) -> Mask:
    """Flagged rows before or after all others of their group, where these are many more than by chance.

    >>> rank, group = np.tile(np.arange(8), 6), np.repeat(np.arange(6), 8)
    >>> np.flatnonzero(_at_ends(rank, group, rank == 0)).tolist(), _at_ends(rank, group, rank == 3).sum().item()
    ([0, 8, 16, 24, 32, 40], 0)
    """
    rows = np.flatnonzero((group >= 0) & (rank >= 0))
    rows = rows[np.lexsort((rank[rows], group[rows]))]
    found = np.zeros(flagged.size, dtype=np.bool_)
    if not rows.size:
        return found
    own, of = flagged[rows], group[rows]
    starts = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
    sizes = np.diff(np.append(starts, of.size))
    rest = np.cumsum(~own)
    others = np.add.reduceat((~own).astype(np.int64), starts)
    before: I64 = np.repeat(rest[starts] - ~own[starts], sizes)
    end = own & ((rest == before) | (rest == before + np.repeat(others, sizes)))
    several = own & np.repeat(others > 0, sizes)
    share = np.minimum(1.0, 2 * (sizes - others) / sizes)
    chance = np.repeat(share, sizes)[several]
    ends = int(np.count_nonzero(end & several))
    spread = float(np.sqrt((chance * (1 - chance)).sum()))
    if ends >= LEAST_LATER and ends > float(chance.sum()) + BEYOND * spread:
        found[rows[end & several]] = True
    return found
