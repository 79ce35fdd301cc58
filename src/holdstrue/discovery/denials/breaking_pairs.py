"""Pairs of rows that satisfy given sets of atoms, found by looking at all pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.ranks import ranked
from holdstrue.discovery.work import Work
from holdstrue.kernels import outcome_words as kernels
from holdstrue.typing import U64

ROWS_AT_ONCE = 256
"""Rows compared with all others between two looks at the clock. Chosen, not tuned."""

_ROOM = 1 << 14


def breaking_pairs(
    rows: CodedRows, masks: Sequence[U64], work: Work, *, most: int | None = None
) -> list[list[tuple[int, int]]]:
    """For each set of atoms the ordered pairs of slots that satisfy it: one with `most` = 1, else all of them.

    Complexity: O(rows^2 x (comparisons + sets) / lanes of a vector).

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    slots = rows.live()
    found: list[list[tuple[int, int]]] = [[] for _ in masks]
    if slots.size < 2 or not masks:
        return found
    layout, side = ranked(rows.space, rows.codes[:, slots], rows.known[:, slots], slots, work, as_given=True)
    # a pair (t, s) is looked at once, so each set is asked for in both orders of the rows
    asked = np.array([layout.conditions(mask, mirrored=way) for mask in masks for way in (False, True)])
    wanted = np.ones(len(asked), dtype=np.bool_)
    out = np.empty((max(_ROOM, 2 * kernels.STRIP * len(asked)), 3), dtype=np.int64)
    for start in range(0, side.size - 1, ROWS_AT_ONCE):
        work.require_time()
        end = min(start + ROWS_AT_ONCE, side.size)
        span = np.array([start, end, 0, side.size, 1], dtype=np.int64)
        state = np.array([0, start, 0, int(most == 1)], dtype=np.int64)
        while state[1] < end:
            listed = kernels.match_pairs(
                side.ranks, side.ranks, layout.plan, layout.bits, layout.base, side.known[0], side.known[1],
                side.hopes, span, asked, wanted, out, state,
            )  # fmt: skip
            for which, t, s in out[:listed].tolist():
                one, other = int(slots[t]), int(slots[s])
                found[which // 2].append((one, other) if which % 2 == 0 else (other, one))
        for number, pairs in enumerate(found):
            if most is not None and len(pairs) >= most:
                wanted[2 * number : 2 * number + 2] = False
        if not wanted.any():
            break
    return [pairs[:most] for pairs in found]
