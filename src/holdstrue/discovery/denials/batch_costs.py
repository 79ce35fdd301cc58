"""What a batch costs by each way of following it, from statistics of the rows: the cheapest is taken.

New rows can be compared with all others (`counting`), looked up through indexes that hand out the pairs which may
break a rule (`indexes`), or every rule is verified again on all rows (`verifying`), which is always less than starting
over: that verifies the same rules and finds them first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.evidence import MOST_WORDS
from holdstrue.discovery.denials.select_index import IndexSelection
from holdstrue.discovery.denials.space import canonical
from holdstrue.typing import I64, U64

PAIR_SECONDS = 2.5e-9
"""A counted pair on `airport`, one core."""

MIXED_PAIR_SECONDS = 1.5e-8
"""A counted pair of a table where nearly every pair differs from all others (`flights`), one core."""

CANDIDATE_SECONDS = 2.0e-7
"""A candidate pair fetched and its evidence built, on `airport`, one core."""

SWEEP_SECONDS = 1.0e-8
"""A row of a table for each rule that is verified, on `flights`, one core: 3 ms for 336,776 rows. A plan takes its
place where there is one."""

PLANNING_SECONDS = 3.0e-8
"""A value of a table whose rows are ranked and grouped by single columns, on generated taxes, one core."""

INDEXED_RULES = 200
"""Rules up to which indexes are thought of: choosing them looks at every pair of inequalities of every rule."""

Following: TypeAlias = Literal["counting", "indexes", "verifying"]


@dataclass(frozen=True)
class BatchCosts:
    """Estimated seconds of a batch by each way; infinite where it cannot be done."""

    pairs: int
    counting: float
    indexes: float
    verifying: float

    @property
    def cheapest(self) -> Following:
        """The way to take."""
        if self.counting <= min(self.indexes, self.verifying):
            return "counting"
        return "indexes" if self.indexes <= self.verifying else "verifying"

    @property
    def text(self) -> str:
        """The estimate in a sentence."""
        ways = {"counting them": self.counting, "through indexes": self.indexes, "verifying rules": self.verifying}
        said = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in ways.items() if math.isfinite(seconds))
        return f"last batch: {self.pairs} new pairs, {said}"


def batch_costs(
    rows: CodedRows, sets: U64, rest: int, new: int, sample: tuple[U64, I64], planned: Callable[[], float] | None = None
) -> BatchCosts:
    """What rows that come cost, beside so many that are there and so many rules.

    `planned` tells what verifying takes by a plan of it, and is asked only where counting takes longer than planning.
    """
    pairs = new * rest + new * (new - 1) // 2
    words, counts = sample
    distinct = words.shape[0] / max(1, int(counts.sum()))
    a_pair = PAIR_SECONDS + distinct * MIXED_PAIR_SECONDS
    counting = pairs * a_pair if distinct * pairs * rows.space.width < MOST_WORDS else math.inf
    verifying = sets.shape[0] * (rest + new) * SWEEP_SECONDS
    if planned is not None and counting > PLANNING_SECONDS * (rest + new) * len(rows.space.columns):
        verifying = planned()
    indexes = math.inf
    if sets.shape[0] <= INDEXED_RULES and min(counting, verifying) > 1:
        indexes = probing_seconds(rows, sets, rest, new)
    return BatchCosts(pairs, counting, indexes, verifying)


def probing_seconds(rows: CodedRows, sets: U64, rest: int, new: int) -> float:
    """Seconds to fetch the candidate pairs of new rows through the indexes that SelectIndex would choose."""
    slots = rows.live()
    shown_sets = canonical(rows.space, sets)
    choices = IndexSelection(rows, slots).choose(list(shown_sets[(shown_sets != 0).any(axis=1)]))
    candidates = 0.0
    sample = slots[:: max(1, slots.size // 10_000)]
    for choice, _ in choices:
        comparison = rows.space.comparisons[choice.terms[0][0]]
        if choice.is_equality:
            _, counts = np.unique(rows.codes[comparison.left, sample], return_counts=True)
            share = float((counts.astype(np.float64) * (counts - 1)).sum() / max(1, sample.size * (sample.size - 1)))
            candidates += new * rest * share
        else:
            candidates += new * rest / 4
    return candidates * CANDIDATE_SECONDS
