"""Which indexes serve a set of denial constraints: SelectIndex, Algorithm 4 of paper 001.

Qian, Li, Tan, Ran, Ma: Incremental discovery of denial constraints, Section 7. Equalities on columns with many
values come first, then pairs of inequalities on columns that correlate, then whatever covers the rest. An
index that serves a constraint serves all its extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np

from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.space import Space
from holdstrue.rules.model import Column, Op
from holdstrue.typing import I64, U64

SELECTIVE = 0.6
"""The paper's l: an equality index is preferred when its score is below this."""

VARIED = 0.1
"""The paper's l': columns of an inequality index have at least this share of distinct values, if possible."""

SAMPLE = 10_000
"""Rows that distinct values and correlations are estimated from."""

Term: TypeAlias = tuple[int, Op]
"""A comparison of the space and the operator that a constraint asks of it."""


@dataclass(frozen=True)
class Choice:
    """An index on one equality, on two inequalities, or on one comparison; `rising` as t and s is indexed."""

    terms: tuple[Term, ...]
    rising: tuple[bool, bool] = (True, True)

    @property
    def is_equality(self) -> bool:
        """Whether it is a hash rather than a search."""
        return self.terms[0][1] is Op.EQ


class IndexSelection:
    """SelectIndex over the rows at hand."""

    def __init__(self, rows: CodedRows, slots: I64) -> None:
        self._space = rows.space
        sample = slots[:: max(1, slots.size // SAMPLE)]
        self._codes = rows.codes[:, sample]
        size = max(1, sample.size)
        self._distinct = [np.unique(codes).size / size for codes in self._codes]

    def choose(self, sets: Sequence[U64]) -> list[tuple[Choice, list[int]]]:
        """Indexes, each with the sets (by position) that it serves; every set is served by one.

        Runtime complexity: O(columns^2 x sets).
        """
        open_ = {i: terms_of(self._space, mask) for i, mask in enumerate(sets)}
        chosen: list[tuple[Choice, list[int]]] = []

        def take(choice: Choice) -> None:
            served = [i for i, terms in open_.items() if all(term in terms for term in choice.terms)]
            chosen.append((choice, served))
            for i in served:
                del open_[i]

        # lines 1 to 8: equalities on one column, then across columns
        for crosswise in (False, True):
            for i in list(open_):
                terms = open_.get(i, ())
                good = [t for t in terms if t[1] is Op.EQ and self._crosswise(t) == crosswise]
                good = [t for t in good if self._equality_score(t) < SELECTIVE]
                if good:
                    take(Choice((min(good, key=self._equality_score),)))
        # lines 9 to 19: pairs of inequalities on columns of many values
        self._take_pairs(open_, take, VARIED)
        # line 20: other equalities in the order of their scores
        while any(t[1] is Op.EQ for terms in open_.values() for t in terms):
            rest = {t for terms in open_.values() for t in terms if t[1] is Op.EQ}
            take(Choice((min(rest, key=lambda t: (self._equality_score(t), t)),)))
        # line 21: other pairs; and constraints of a single comparison
        self._take_pairs(open_, take, 0.0)
        while open_:
            take(Choice((next(iter(open_.values()))[0],)))
        return chosen

    def _take_pairs(self, open_: dict[int, tuple[Term, ...]], take: Callable[[Choice], None], varied: float) -> None:
        while True:
            coverage: dict[tuple[Term, Term], int] = {}
            for terms in open_.values():
                for one, other in combinations([t for t in terms if t[1] is not Op.EQ], 2):
                    if min(self._variety(one), self._variety(other)) >= varied:
                        coverage[one, other] = coverage.get((one, other), 0) + 1
            if not coverage:
                return
            best = min(coverage, key=lambda pair: ((1 - self._correlation(pair)) / coverage[pair], pair))
            take(Choice(best, self._direction(best)))

    def _crosswise(self, term: Term) -> bool:
        comparison = self._space.comparisons[term[0]]
        return comparison.left != comparison.right

    def _equality_score(self, term: Term) -> float:
        comparison = self._space.comparisons[term[0]]
        return 1 - min(self._distinct[comparison.left], self._distinct[comparison.right])

    def _variety(self, term: Term) -> float:
        return 1 - self._equality_score(term)

    def _correlation(self, pair: tuple[Term, Term]) -> float:
        return (abs(self._pearson(pair, 0)) + abs(self._pearson(pair, 1))) / 2

    def _direction(self, pair: tuple[Term, Term]) -> tuple[bool, bool]:
        """Line 17: chains are few when they run along the correlation."""
        return self._pearson(pair, 0) >= 0, self._pearson(pair, 1) >= 0

    def _pearson(self, pair: tuple[Term, Term], role: int) -> float:
        columns = [(self._space.comparisons[c].left, self._space.comparisons[c].right)[role] for c, _ in pair]
        x, y = (self._codes[column].astype(np.float64) for column in columns)
        if x.size < 2:
            return 0.0
        x, y = x - x.mean(), y - y.mean()
        scale = float(np.sqrt((x * x).sum()) * np.sqrt((y * y).sum()))
        return float((x * y).sum()) / scale if scale > 0 else 0.0


def terms_of(space: Space, mask: U64) -> tuple[Term, ...]:
    """A set of atoms as one operator for each comparison."""
    place = {(c.left, c.right): i for i, c in enumerate(space.comparisons)}
    terms = []
    for predicate in space.predicates_of(mask):
        assert isinstance(predicate.right, Column)
        sides = space.columns.index(predicate.left.name), space.columns.index(predicate.right.name)
        terms.append((place[sides], predicate.op))
    return tuple(terms)


def choice_text(space: Space, choice: Choice) -> str:
    """An index as the paper writes it."""
    marks = []
    for i, op in choice.terms:
        comparison = space.comparisons[i]
        left, right = space.columns[comparison.left], space.columns[comparison.right]
        marks.append(f"{left}{op}" if left == right else f"{left}{op}{right}")
    return f"Index({', '.join(marks)})"
