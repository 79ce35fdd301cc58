"""Whether all pairs are counted or candidate pairs fetched through indexes: a choice by estimated cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from holdstrue.discovery.denials.canonical import canonical
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.select_index import IndexSelection
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.errors import DataError
from holdstrue.typing import U64

Method: TypeAlias = Literal["evidence", "index"]

COUNTED_PAIRS = 4 * 10**9
"""Unordered pairs that are still counted one by one: about ten seconds on one core."""

NEW_PAIRS = 10**9
"""Pairs of a batch from which indexes may take over."""

PAIR_SECONDS = 2.5e-9
"""A counted pair on `airport`, one core."""

CANDIDATE_SECONDS = 2.0e-7
"""A candidate pair fetched and its evidence built, on `airport`, one core."""


@dataclass(frozen=True)
class Cost:
    """Estimated seconds of a batch either way."""

    pairs: int
    counting: float
    probing: float
    removes: bool

    @property
    def prefers_index(self) -> bool:
        """Whether indexes are worth giving up the counts: too many pairs, cheaper, and no row goes."""
        return self.pairs > NEW_PAIRS and self.probing < self.counting and not self.removes

    @property
    def text(self) -> str:
        """The estimate in a sentence."""
        said = f"last batch: {self.pairs} new pairs, counting them {self.counting:.2g} s"
        return said if np.isnan(self.probing) else f"{said}, through indexes {self.probing:.2g} s"


def chosen_way(rows: int, options: DiscoveryOptions, wanted: Method | None) -> tuple[Method, str]:
    """The way to load a table, and why; the one that is wanted, if any."""
    pairs = rows * (rows - 1) // 2
    if wanted == "index" or options.sample:
        if options.error:
            raise DataError(
                "rules with exceptions need the counts of all pairs, which a sample does not give",
                hint="leave out the sample, or look for rules without exception",
            )
        return "index", "asked for: a sample is searched, rules are verified on all rows"
    if wanted == "evidence" or pairs <= COUNTED_PAIRS:
        return "evidence", f"{pairs} pairs of rows, about {pairs * PAIR_SECONDS:.2g} s on one core"
    if options.error:
        raise DataError(
            f"{rows} rows have {pairs} pairs, too many to count for rules with exceptions",
            hint=f"discover in {int((2 * COUNTED_PAIRS) ** 0.5)} of the rows at most, or without an error",
        )
    return "index", f"{pairs} pairs of rows are too many to count: a sample is searched, rules are verified on all rows"


def estimate(rows: CodedRows, sets: U64, live: int, removed: int, added: int) -> Cost:
    """What a batch would cost either way; indexes are only thought of where counting takes long."""
    pairs = removed * live + added * (live - removed) + added * added // 2
    counting = pairs * PAIR_SECONDS
    if pairs <= NEW_PAIRS // 10:
        return Cost(pairs, counting, float("nan"), removed > 0)
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
            candidates += added * live * share
        else:
            candidates += added * live / 4
    return Cost(pairs, counting, candidates * CANDIDATE_SECONDS, removed > 0)
