"""Pairs of rows that agree on much: neighbours in the groups of each column, as long as they show something new.

The progressive windows follow HyFD (Papenbrock and Naumann 2016).
"""

from __future__ import annotations

import time

import numpy as np

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.evidence import Evidence
from holdstrue.discovery.dependencies.validation import Partitions
from holdstrue.kernels import partitions

MOST_PAIRS = 1 << 15
"""Pairs that one column gives at a time. Chosen, not tuned."""

WORTH = 0.005
"""A column is sampled further while more than this share of its pairs shows something new. Chosen, not tuned."""

WINDOWS = 16
"""Neighbours are at most this far apart. Chosen, not tuned."""


MOST_EVIDENCE = 1 << 15
"""Sampling ends with this much evidence: random values would always show something new. Chosen, not tuned."""


def sample(codes: Codes, parts: Partitions, evidence: Evidence, deadline: float | None) -> None:
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
            if len(evidence) > MOST_EVIDENCE or (deadline is not None and time.monotonic() > deadline):
                return
        active = kept
        if not active:
            return
