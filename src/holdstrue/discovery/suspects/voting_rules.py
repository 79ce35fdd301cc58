"""FDs that a table with errors speaks for: broken far less often than chance would break them.

An FD X -> A is measured on rows whose group (the same X) has at least two known values of A. `broken` are the rows that
do not have the commonest value of their group, `chance` is how many would not if A were drawn at random:
(rows - groups) * (1 - share of A's commonest value). Their ratio, `odds`, is near 0 for a rule that errors alone break
and near 1 where there is none. Values that are the majority of no group of any single column (at least three rows,
more than half) are at home nowhere: they are errors or too rare to tell, and neither break a rule nor count for chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from holdstrue.discovery.suspects.cells import CodedCells, Grouped, GroupTally, of_codes
from holdstrue.discovery.work import Work
from holdstrue.typing import I32, Mask

MOST_ODDS = 0.1
"""FDs that are broken more often, compared with chance, are none. On hospital the known rules have at most 0.06 and the
first false ones 0.07 to 0.13, on tax 0.04 and 0.15; where both kinds lie close to each other votes decide."""

LEAST_CONFIRMED = 20
"""Rows that must follow an FD beside the first of each group. Chosen, not tuned."""

LEAST_CHANCE = 10.0
"""Rows that chance would break at least: fewer say nothing. Chosen, not tuned."""

MOST_BROKEN = 0.2
"""The largest share of rows that break it, values that are at home nowhere counted too."""

BETTER = 0.5
"""A left side of two columns must halve the odds of both columns alone."""

MOST_VISITS = 4e9
"""Rows that are looked at for left sides of two columns, at some 3 ns each, before it is said that they are not."""


@dataclass(frozen=True)
class VotingRule:
    """An FD by the numbers of its columns, with its odds and the share of its groups that hold one value.

    A rule that people declared has no odds (0), is `declared`, and may speak of some `rows` only (those that match a
    pattern or a filter) and have a constant right side.
    """

    left: tuple[int, ...]
    right: int
    odds: float = 0.0
    pure: float = 1.0
    groups: int = 0
    declared: str | None = None
    rows: Mask | None = None
    constant: int | None = None

    def text(self, names: tuple[str, ...]) -> str:
        """The rule as text that `check` accepts; that of a declared one is its name."""
        if self.declared is not None:
            return self.declared
        from holdstrue.rules.model import FD

        return FD(tuple(names[column] for column in self.left), (names[self.right],)).text


def learned(cells: CodedCells, codes: I32, work: Work) -> tuple[list[VotingRule], tuple[str, ...]]:
    """The FDs of one or two columns on the left that the codes speak for; and what was not looked for.

    Complexity: O(columns^3 * rows) for those of two columns, O(columns^2 * rows) for the others.
    """
    usable = [at for at in range(len(cells.names)) if (cells.counts[at] > 1).any() and cells.counts[at].size > 1]
    # that two measures are equal is chance or rounding, and determines nothing
    sides = [at for at in usable if not cells.measure_like(at)]
    alone = {left: cells.grouped((left,), codes) for left in sides if (cells.counts[left] > 1).sum() > 1}
    home = _at_home(cells, codes, alone, usable, work)
    odds: dict[tuple[int, int], float] = {}
    found = []
    for left, grouped in alone.items():
        work.require_time()
        for rule in _measured(cells, codes, (left,), grouped, [a for a in usable if a != left], home):
            odds[left, rule.right] = rule.odds
            if rule.odds <= MOST_ODDS:
                found.append(rule)
    if len(usable) ** 3 / 2 * cells.rows > MOST_VISITS:
        return found, ("rules with two columns on the left: there are too many for a table of this size",)
    for pair in combinations(sides, 2):
        work.require_time()
        best = {a: min(odds.get((x, a), np.inf) for x in pair) for a in usable if a not in pair}
        rights = [a for a, least in best.items() if least > MOST_ODDS]
        if rights:
            rules = _measured(cells, codes, pair, cells.grouped(pair, codes), rights, home)
            found += [rule for rule in rules if rule.odds <= min(MOST_ODDS, BETTER * best[rule.right])]
    return found, ()


def _at_home(cells: CodedCells, codes: I32, alone: dict[int, Grouped], usable: list[int], work: Work) -> list[Mask]:
    """By column which codes are the majority of a group of some single column."""
    home = [np.zeros(counts.size, dtype=np.bool_) for counts in cells.counts]
    for left, grouped in alone.items():
        work.require_time()
        for right in usable:
            if right != left:
                tally = cells.tally(grouped, right, codes)
                strong = (tally.first >= 3) & (2 * tally.first > tally.known)
                home[right][tally.top[strong]] = True
    # where no value has a home, single columns say nothing, and all values count
    return [known if known.any() else ~known for known in home]


def _measured(
    cells: CodedCells, codes: I32, left: tuple[int, ...], grouped: Grouped, rights: list[int], home: list[Mask]
) -> Iterator[VotingRule]:
    """The FDs of a left side that enough rows follow, with their odds."""
    for right in rights:
        tally = cells.tally(grouped, right, codes)
        several = tally.known >= 2
        rows, groups = int(tally.known[several].sum()), int(several.sum())
        broken = rows - int(tally.first[several].sum())
        if rows == 0 or broken > MOST_BROKEN * rows or rows - groups - broken < LEAST_CONFIRMED:
            continue
        measured = _odds(codes[right], grouped, tally, home[right])
        if measured is not None:
            pure = int(np.count_nonzero(several & (tally.first == tally.known))) / groups
            yield VotingRule(left, right, measured, pure, groups)


def _odds(column: I32, grouped: Grouped, tally: GroupTally, home: Mask) -> float | None:
    """Rows that break an FD for each that chance would break, among values that are at home somewhere."""
    counted = of_codes(home, column) & (grouped.of >= 0)
    size = np.bincount(grouped.of[counted], minlength=grouped.many)
    counted &= (size >= 2)[np.maximum(grouped.of, 0)]
    rows, groups = int(counted.sum()), int((size >= 2).sum())
    if not rows:
        return None
    keeps = counted & (tally.top[np.maximum(grouped.of, 0)] == column)
    commonest = int(np.bincount(column[counted]).max()) / rows
    chance = (rows - groups) * (1 - commonest)
    if chance < LEAST_CHANCE:
        return None
    return (rows - int(keeps.sum()) + 0.5) / (chance + 0.5)
