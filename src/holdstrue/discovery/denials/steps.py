"""The steps that carry the cost of a search for denial constraints, behind one interface: here, or on a cluster.

A search draws a sample, counts the evidences of a tile, verifies candidates with a witness for each that is broken, and
asks what some pairs have in common. Everything else (covers, levels, ranking) is small and stays with the caller.
"""

from __future__ import annotations

from itertools import combinations
from typing import Protocol

import numpy as np

from holdstrue.discovery.denials.agreeing_pairs import AgreeingPairs, PairPlan
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.evidence import Evidence, evidence_between, evidence_within
from holdstrue.discovery.denials.pair_words import PairWords
from holdstrue.discovery.denials.refuter import Refuter
from holdstrue.discovery.denials.verdicts import PairVerdicts
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.kernels import hitting_sets
from holdstrue.typing import I64, U64, Mask

NEIGHBOURS = 1 << 10
"""Pairs of rows that agree in a column, or in two. Chosen, not tuned."""

FOCUSED = 1 << 15
"""Rows among which they are looked for."""

COMBINED = 300
"""Pairs of columns that are looked at."""


class Steps(Protocol):
    """Who holds the rows of a table; slots name them."""

    def sample(self, rows: int) -> I64:
        """So many rows, or all, drawn at random."""

    def neighbours(self, columns: int) -> I64:
        """Pairs of rows that lie side by side by a column, or agree in two, and so on, as few random pairs do."""

    def tile(self, t: I64, s: I64 | None, work: Work) -> Evidence:
        """The counted evidences of rows t with each other, or with rows s."""

    def verify(self, sets: U64, work: Work) -> PairVerdicts:
        """For each set of atoms whether rows satisfy it, with two that do."""

    def words(self, pairs: I64) -> tuple[U64, I64]:
        """The different sets of atoms of some pairs in both orders, each with a pair that has it."""


class LocalSteps:
    """The steps on coded rows in this process; rows must not change during its life.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from holdstrue.discovery.denials.choose_space import choose_space
    >>> from holdstrue.discovery.options import DiscoveryOptions
    >>> table = pa.table({"a": [1, 2, 2]})
    >>> rows = CodedRows(choose_space(table, DiscoveryOptions()))
    >>> _ = rows.insert(table)
    >>> steps = LocalSteps(rows)
    >>> steps.sample(2).size, steps.tile(np.arange(3), None, Work()).counts.tolist()
    (2, [2, 2, 2])
    """

    def __init__(self, rows: CodedRows, fresh: I64 | None = None, held: U64 | None = None) -> None:
        self._rows = rows
        self._fresh, self._held = fresh, held
        """Rows that came last, and rules that held before."""
        self._space = rows.space
        self._live = rows.live()
        self._random = np.random.default_rng(0)
        self._refuter: Refuter | None = None
        self._pair_words: PairWords | None = None

    def sample(self, rows: int) -> I64:
        """So many rows, or all, drawn at random. Runtime complexity: O(rows of the table)."""
        live = self._live
        return live if live.size <= rows else np.sort(self._random.choice(live, rows, replace=False))

    def neighbours(self, columns: int) -> I64:
        """Pairs of rows that agree in as many columns. Runtime complexity: O(columns^2 x FOCUSED log FOCUSED)."""
        some, found = self.sample(FOCUSED), [np.zeros((0, 2), dtype=np.int64)]
        ranks = [np.unique(self._rows.codes[i, some], return_inverse=True)[1] for i in range(len(self._space.columns))]
        chosen = list(combinations(range(len(ranks)), columns))
        if len(chosen) > COMBINED:
            chosen = [chosen[i] for i in np.sort(self._random.choice(len(chosen), COMBINED, replace=False))]
        for group in chosen:
            key = ranks[group[0]]
            for column in group[1:]:
                key = key * some.size + ranks[column]
            order = np.argsort(key, kind="stable")
            alike = np.flatnonzero(key[order[:-1]] == key[order[1:]]) if columns > 1 else np.arange(some.size - 1)
            at = alike[:: max(1, alike.size // NEIGHBOURS)]
            found.append(np.stack([some[order[at]], some[order[at + 1]]], axis=1))
        return np.concatenate(found)

    def tile(self, t: I64, s: I64 | None, work: Work) -> Evidence:
        """The counted evidences. Runtime complexity: O(pairs x comparisons / lanes of a vector)."""
        space, codes, known = self._rows.space, self._rows.codes, self._rows.known
        if s is None:
            return evidence_within(space, codes, known, t, work)
        return evidence_between(space, codes, known, t, s, work)

    def verify(self, sets: U64, work: Work) -> PairVerdicts:
        """PairVerdicts on all rows. Runtime complexity: O(rows) for most sets, see `kernels/refute.py`."""
        return self._refuting(work).verify(sets, work, None if self._held is None else self.held_before(sets))

    def held_before(self, sets: U64) -> Mask:
        """Which sets no two rows satisfied before the last ones came: what contains a rule that held says less."""
        before = np.zeros(sets.shape[0], dtype=np.bool_)
        if self._held is not None and sets.shape[0]:
            hitting_sets.containing(np.ascontiguousarray(sets), self._held, before)
        return before

    def plan(self, sets: U64, work: Work, *, whole: bool) -> PairPlan:
        """Of which rows that agree pairs are counted, to settle some of these sets: all rows, or the last and all."""
        refuter = self._refuting(work)
        return AgreeingPairs(refuter, whole=whole).plan([refuter.terms(mask) for mask in sets])

    def agreeing(self, plan: PairPlan, work: Work, *, whole: bool) -> tuple[U64, I64]:
        """The different sets of atoms of the pairs of a plan, each with a pair. Runtime complexity: O(pairs)."""
        agreeing = AgreeingPairs(self._refuting(work), whole=whole)
        words, pairs = [np.zeros((0, self._space.width), dtype=np.uint64)], [np.zeros((0, 2), dtype=np.int64)]
        for equal in plan.listed:
            for found in agreeing.evidence(self._space, equal, work):
                if not found.complete:
                    raise OutOfTimeError
                words.append(found.words)
                pairs.append(found.pairs)
        return np.concatenate(words), np.concatenate(pairs)

    def _refuting(self, work: Work) -> Refuter:
        if self._refuter is None:
            self._refuter = Refuter(self._rows, work, self._fresh)
        return self._refuter

    def words(self, pairs: I64) -> tuple[U64, I64]:
        """The sets of atoms of pairs. Runtime complexity: O(pairs x comparisons)."""
        if self._pair_words is None:
            self._pair_words = PairWords(self._rows)
        return self._pair_words.distinct(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))
