"""Pairs of rows that agree, for the rules that ask for it: their evidences are counted once for many rules.

Whatever breaks a rule agrees on its equalities. Where few rows do, the evidences of such pairs settle every rule
that asks for the equality (the equality indexes of paper 001); rules on equalities that many rows share, or on
none, are verified on all rows. Which is less work is estimated for each. A rule that held is broken by pairs with a
new row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdstrue.discovery.denials.column_terms import ColumnTerm, Equalities, equalities
from holdstrue.discovery.denials.evidence import Evidence, evidence_beside
from holdstrue.discovery.denials.refuter import Refuter
from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.work import Work
from holdstrue.typing import I32, Mask

PAIR_SECONDS = 6.0e-9
"""A pair whose evidence is counted among those of many rows, on generated taxes, one core."""

PARTNERS_SECONDS = 3.0e-7
"""A new row that is compared with those that agree with it, likewise."""

ARRANGING_SECONDS = 3.0e-8
"""A row of the table that is put beside those that agree with it, likewise."""


@dataclass(frozen=True)
class PairPlan:
    """Equalities of which the pairs are listed, which rules these settle, and about how long everything takes."""

    listed: tuple[Equalities, ...]
    settled: Mask
    seconds: float

    @property
    def text(self) -> str:
        """The plan in a few words."""
        return f"pairs that agree on {len(self.listed)} equalities settle {int(self.settled.sum())} rules"


class AgreeingPairs:
    """Rows and those that agree with them: new rows and all others, or all rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from holdstrue.discovery.denials.choose_space import choose_space
    >>> from holdstrue.discovery.denials.coded_rows import CodedRows
    >>> from holdstrue.discovery.options import DiscoveryOptions
    >>> table = pa.table({"zip": [1, 1, 2, 2, 1]})
    >>> rows = CodedRows(choose_space(table, DiscoveryOptions()))
    >>> _ = rows.insert(table)
    >>> pairs = AgreeingPairs(Refuter(rows, fresh=np.array([4])))
    >>> [found] = pairs.evidence(rows.space, ((0, 0),), Work(threads=1))
    >>> pairs.count(((0, 0),)), found.counts.tolist(), found.pairs.tolist()
    (2, [4], [[4, 0]])
    """

    def __init__(self, refuter: Refuter, *, whole: bool = False) -> None:
        self._refuter = refuter
        self._whole = whole
        self._rows: I32 = np.arange(refuter.live.size, dtype=np.int32) if whole else refuter.fresh

    def plan(self, rules: Sequence[Sequence[ColumnTerm]]) -> PairPlan:
        """What to list for these rules. Complexity: O(rows) for each combination of equalities of the rules."""
        rows = self._refuter.live.size
        seconds = np.array([self._refuter.seconds(rule) for rule in rules])
        asked = [equalities(rule) for rule in rules]
        settled, chosen, spent = np.zeros(len(rules), dtype=np.bool_), [], 0.0
        for group in _combinations(asked):
            mine = np.array([not done and set(group) <= set(one) for done, one in zip(settled, asked, strict=True)])
            if not mine.any():
                continue
            cost = self.count(group) * PAIR_SECONDS + self._rows.size * PARTNERS_SECONDS + rows * ARRANGING_SECONDS
            if cost < float(seconds[mine].sum()):
                chosen.append(group)
                settled |= mine
                spent += cost
        return PairPlan(tuple(chosen), settled, spent + float(seconds[~settled].sum()))

    def count(self, equal: Equalities) -> int:
        """How many pairs agree; of new rows those of two of them count twice."""
        found = 0
        for mine, others in self._sides(equal):
            sizes = np.bincount(others[others >= 0], minlength=1)
            groups = mine[self._rows]
            groups = groups[groups >= 0]
            found += int(sizes[groups].sum()) - (groups.size if mine is others else 0)
        return found // 2 if self._whole and mine is others else found

    def evidence(self, space: Space, equal: Equalities, work: Work) -> list[Evidence]:
        """The evidences of such pairs, new rows as t and, where that is not the same, as s.

        Complexity: O(rows x columns), and that of counting the pairs.
        """
        refuter, grouped = self._refuter, self._refuter.grouped(equal)
        found = []
        for as_t, (mine, others) in zip((True, False), self._sides(equal), strict=False):
            order = refuter.ordered(equal, grouped, -1, as_t=not as_t)
            sizes = np.bincount(others[order], minlength=grouped.count)
            ends = np.cumsum(sizes)
            rows = self._rows[mine[self._rows] >= 0]
            rows = rows[np.argsort(mine[rows], kind="stable")]
            low, high = ends[mine[rows]] - sizes[mine[rows]], ends[mine[rows]]
            # a row is not compared with itself
            own = np.full(refuter.live.size, -1, dtype=np.int64)
            own[order] = np.arange(order.size)
            at = own[rows]
            inside = (at >= low) & (at < high)
            if self._whole and mine is others:
                # of two rows that agree the one that comes first meets the other
                low = at
            beside = np.stack([low, np.where(inside, at, high), np.where(inside, at + 1, high), high], axis=1)
            beside = np.ascontiguousarray(beside.reshape(-1, 2))
            some = beside[:, 0] < beside[:, 1]
            rows, beside = np.repeat(rows, 2)[some], np.ascontiguousarray(beside[some])
            t, s = ((refuter.ranks[:, side], refuter.live[side]) for side in (rows, order))
            found.append(evidence_beside(space, t, s, beside, work))
        return found

    def _sides(self, equal: Equalities) -> list[tuple[I32, I32]]:
        """Groups of the rows and of those that they meet, as t and, where that is not the same, as s."""
        grouped = self._refuter.grouped(equal)
        if grouped.t is grouped.s or self._whole:
            return [(grouped.t, grouped.s)]
        return [(grouped.t, grouped.s), (grouped.s, grouped.t)]


def _combinations(asked: Sequence[Equalities]) -> list[Equalities]:
    """Single equalities, those first that most rules ask for, then all that a rule asks for together."""
    singles: dict[tuple[int, int], int] = {}
    for one in asked:
        for equality in one:
            singles[equality] = singles.get(equality, 0) + 1
    by_use = sorted(singles, key=lambda equality: (-singles[equality], equality))
    whole = sorted({one for one in asked if len(one) > 1}, key=lambda one: (len(one), one))
    return [(equality,) for equality in by_use] + whole
