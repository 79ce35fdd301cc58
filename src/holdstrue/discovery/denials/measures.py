"""How much a denial constraint says: measures over the evidences of a table.

Coverage, succinctness and interest as in Chu, Ilyas, Papotti: Discovering denial constraints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdstrue.discovery.denials.space import Space
from holdstrue.kernels import closeness as kernels
from holdstrue.rules.model import DC, Op, Predicate
from holdstrue.typing import I64, U64

MEASURED = 1 << 11
"""Distinct evidences that measures are taken over, the most frequent ones first. Chosen, not tuned."""

_SHORTEST = 4


@dataclass(frozen=True)
class DenialRule:
    """A discovered denial constraint and its measures.

    Attributes
    ----------
    support
        Ordered pairs that satisfy all predicates but one: those it was tested on.
    violations, error
        Ordered pairs that break it, and their share of all (g1).
    coverage
        Mean over all pairs of (satisfied predicates + 1) / predicates, pairs that break it left out: near 1
        when most pairs come close to breaking it.
    succinctness
        Symbols of the shortest possible rule (two rows, a column, an operator) over those of this one.
    interest
        The mean of coverage and succinctness.
    plausibility
        The chance that a table with the same columns, but without any connection between them, would break
        the rule: near 0 for rules that hold because few pairs could ever break them, such as a key on a
        continuous measure.
    score
        Interest times plausibility; rules are listed in this order.
    estimated
        Whether the measures are of a sample of the pairs, or of the most frequent evidences.
    implied
        Never: only rules that no others imply are shown at all.
    """

    body: DC
    support: int = 0
    violations: int = 0
    error: float = 0.0
    coverage: float = 0.0
    succinctness: float = 0.0
    interest: float = 0.0
    plausibility: float = 0.0
    score: float = 0.0
    estimated: bool = False
    implied: bool = False


@dataclass(frozen=True)
class ColumnFacts:
    """By column: whether values are continuous, and how many values there could be between the extremes.

    Where only a sample of the pairs is counted: how many pairs there are, and by column the shares of them that
    have two values, and that agree, which a sample rarely sees in columns of many values.
    """

    continuous: tuple[bool, ...]
    spread: tuple[float, ...]
    pairs: int | None = None
    known: tuple[float, ...] = ()
    agreeing: tuple[float, ...] = ()

    def share(self, column: int, op: Op) -> float:
        """The share of pairs that stand so to each other in a column."""
        known, agreeing = self.known[column], self.agreeing[column]
        outcomes = {"<": (known - agreeing) / 2, "=": agreeing, ">": (known - agreeing) / 2}
        return sum(outcomes[outcome] for outcome in op.outcomes)


class Measures:
    """Measures of rules over counted evidences (or a sample of them).

    Runtime complexity: O(evidences x predicates) a rule, at most `MEASURED` evidences.
    """

    def __init__(self, space: Space, words: U64, counts: I64, facts: ColumnFacts, *, sampled: bool) -> None:
        self._space = space
        self._facts = facts
        self._all = int(counts.sum()) if facts.pairs is None else facts.pairs
        self.estimated = sampled or counts.size > MEASURED
        top = np.argsort(-counts, kind="stable")[:MEASURED]
        self._words, self._counts = np.ascontiguousarray(words[top]), counts[top].copy()
        self._pairs = max(1, int(self._counts.sum()))
        self._shares: dict[Predicate, float] = {}
        """The share of pairs for which a predicate holds."""

    def rules(self, sets: U64, violations: Sequence[int]) -> list[DenialRule]:
        """The rules of sets of atoms with their measures; the pairs that break each are known."""
        bodies = [self._space.body(mask) for mask in sets]
        sizes = np.array([len(body.predicates) for body in bodies], dtype=np.int64)
        parts = np.zeros((len(bodies), int(sizes.max(initial=1)), self._space.width), dtype=np.uint64)
        single = {p: self._space.parse(DC((p,))) for p in {p for body in bodies for p in body.predicates}}
        for i, body in enumerate(bodies):
            for k, predicate in enumerate(body.predicates):
                parts[i, k] = single[predicate]
        for predicate, mask in single.items():
            self._shares[predicate] = self._share(predicate, mask)
        close = np.empty((len(bodies), 3), dtype=np.int64)
        kernels.closeness(parts, sizes, self._words, self._counts, close)
        return [
            self._rule(body, broken, *figures)
            for body, broken, figures in zip(bodies, violations, close.tolist(), strict=True)
        ]

    def _share(self, predicate: Predicate, mask: U64) -> float:
        if self._facts.known and predicate.columns[0].name == predicate.columns[1].name:
            return self._facts.share(self._space.columns.index(predicate.left.name), predicate.op)
        holds = ((self._words & mask) == mask).all(axis=1)
        return float(self._counts[holds].sum() / self._pairs)

    def _rule(self, body: DC, violations: int, support: int, kept: int, satisfied: int) -> DenialRule:
        coverage = satisfied / len(body.predicates) / kept if kept else 0.0
        columns = {column.name for predicate in body.predicates for column in predicate.columns}
        succinctness = _SHORTEST / (2 + len(columns) + len({predicate.op for predicate in body.predicates}))
        interest = (coverage + succinctness) / 2
        plausibility = self._plausibility(body.predicates)
        return DenialRule(
            body=body,
            support=support,
            violations=violations,
            error=violations / self._all if self._all else 0.0,
            coverage=coverage,
            succinctness=succinctness,
            interest=interest,
            plausibility=plausibility,
            score=interest * plausibility,
            estimated=self.estimated,
        )

    def _plausibility(self, predicates: Sequence[Predicate]) -> float:
        """One minus the chance that unconnected columns never break the rule (a Poisson estimate)."""
        expected = float(self._all)
        if len(predicates) == 1 and predicates[0].op is Op.EQ:
            # how often two values agree is not seen on a key: take values spread evenly between the extremes
            place = self._space.columns.index(predicates[0].left.name)
            if self._facts.continuous[place]:
                return 0.0
            return -math.expm1(-expected / self._facts.spread[place])
        for predicate in predicates:
            expected *= self._shares[predicate]
        if len(predicates) == 1:
            return 1.0
        return -math.expm1(-expected)


def violations(sets: U64, words: U64, counts: I64) -> I64:
    """For each set of atoms how many ordered pairs satisfy it. Complexity: O(sets x evidences)."""
    out = np.empty(sets.shape[0], dtype=np.int64)
    kernels.breaking(np.ascontiguousarray(sets), np.ascontiguousarray(words), np.ascontiguousarray(counts), out)
    return out
