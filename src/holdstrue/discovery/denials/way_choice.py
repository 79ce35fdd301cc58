"""Which way denial constraints are found and kept: all pairs counted, or a sample and rules verified on all rows."""

from __future__ import annotations

import math

import numpy as np

from holdstrue.discovery.denials.batch_costs import MIXED_PAIR_SECONDS, PAIR_SECONDS
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.steps import LocalSteps
from holdstrue.discovery.options import DiscoveryOptions, Method
from holdstrue.discovery.work import Work
from holdstrue.errors import DataError

COUNTED_PAIRS = 4 * 10**9
"""Unordered pairs that are still counted one by one: about ten seconds on one core."""

NEW_PAIRS = 10**9
"""Pairs of a batch from which counts may be given up."""

COUNTED_EVIDENCES = 300_000
"""Distinct evidences from which a search over all of them takes longer than verifying rules on all rows: on 20,000
rows of `flights` there are millions, and rules of two predicates already take minutes."""

COUNTING_SHARE = 0.5
"""The share of the time that counting all pairs may take where rules may have exceptions: 100,000 generated taxes of 7
columns took a tenth of the default budget, and then all rules are known, where sweeps came to four predicates."""

COUNTING_SECONDS = 600.0
"""The same where there is no end. Chosen, not tuned."""

SMALL = 4096
"""Rows whose pairs are counted in any case: 16 million."""


def chosen_way(rows: CodedRows, options: DiscoveryOptions, wanted: Method | None, work: Work) -> tuple[Method, str]:
    """The way to load a table, and why; the one that is wanted, if any."""
    count = rows.live().size
    pairs = count * (count - 1) // 2
    if wanted == "index" or options.sample:
        if options.error:
            raise DataError(
                "rules with exceptions need the counts of all pairs, which a sample does not give",
                hint="leave out the sample, or look for rules without exception",
            )
        return "index", "asked for: a sample is searched, rules are verified on all rows"
    if wanted == "sweep":
        return "sweep", "asked for: sets of atoms are counted by sweeps"
    if wanted == "evidence" or count <= SMALL:
        return "evidence", f"{pairs} pairs of rows, about {pairs * PAIR_SECONDS:.2g} s on one core"
    if options.error:
        return _with_exceptions(rows, pairs, work)
    if pairs > COUNTED_PAIRS:
        return "index", f"{pairs} pairs of rows are too many to count: rules are verified on all rows"
    expected = expected_evidences(rows, work)
    if expected > COUNTED_EVIDENCES:
        return "index", f"some {expected:.2g} evidences are too many to search: rules are verified on all rows"
    return "evidence", f"{pairs} pairs of rows, about {pairs * PAIR_SECONDS:.2g} s on one core"


def _with_exceptions(rows: CodedRows, pairs: int, work: Work) -> tuple[Method, str]:
    """Counts of all pairs tell everything there is; counting rules by sweeps goes by length, and is cheaper a rule."""
    expected = expected_evidences(rows, work)
    mixed = min(1.0, expected / (2 * pairs))
    seconds = pairs * (PAIR_SECONDS + mixed * MIXED_PAIR_SECONDS) / work.workers
    if expected > COUNTED_EVIDENCES:
        return "sweep", f"some {expected:.2g} evidences are too many to search: sets of atoms are counted by sweeps"
    if pairs > COUNTED_PAIRS and seconds > min(COUNTING_SHARE * work.left, COUNTING_SECONDS):
        return "sweep", f"{pairs} pairs would take about {seconds:.2g} s to count: sets of atoms are counted by sweeps"
    return "evidence", f"{pairs} pairs of rows, counted in about {seconds:.2g} s: rules with exceptions need them all"


def expected_evidences(rows: CodedRows, work: Work) -> float:
    """About how many distinct evidences all pairs have: as their number grows from a sample to one of twice the rows.

    Complexity: that of counting 2 million pairs.
    """
    steps = LocalSteps(rows)
    some = [steps.tile(steps.sample(size), None, work).words.shape[0] for size in (500, 1000, 2000)]
    if min(some) < 2:
        return 0.0
    # twice the rows are four times the pairs; the growth slows down as it did in the samples
    growth = math.log(some[2] / some[1]) / math.log(4)
    slower = min(1.0, growth / max(1e-9, math.log(some[1] / some[0]) / math.log(4)))
    found, size, count = float(some[2]), 2000.0, float(rows.live().size)
    while size < count and growth > 1e-3:
        step = min(2.0, count / size)
        growth *= slower ** math.log2(step)
        found *= step ** (2 * growth)
        size *= step
    return float(np.round(found))
