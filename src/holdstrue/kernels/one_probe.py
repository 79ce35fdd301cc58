"""The partners of one row in all two-row checks of a table, in one call over the runs of their spines.

A line of `lines` says for a check and a role what is asked of a partner; a line of `runs` where the arrays of one
sorted or unsorted run lie (see `kernels/one_row.py` about places). Rows that came last and are in no run yet are
looked at one by one.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from holdstrue.kernels.jit import kernel
from holdstrue.kernels.runs import interval, probe_run, probe_unsorted
from holdstrue.kernels.wide import pointer
from holdstrue.operators import Op
from holdstrue.typing import I32, I64, U8

SLOTS, ROLES, ROLE, OTHER_ROLES, GROUPS, A, A_OP, B, B_OP, OTHER_GROUPS, OTHER_A, OTHER_B, FIRST, COUNT = range(14)
"""A check and a role: arrays by slot and how long they are, own and a partner's; which runs are searched."""

R_GROUPS, R_GROUP_COUNT, R_STARTS, R_SPLITS, R_A, R_B, R_SLOTS, R_SIZE = range(8)
R_FENCE_LOW, R_FENCE_HIGH, R_BLOCKS, R_WALL_LOW, R_WALL_HIGH, R_WALLS, R_RISING, R_SORTED = range(8, 16)
"""A run; of an unsorted one only the group, a, b and the slot of each row."""
WIDTH = 16

LT, GT, NE = Op.LT.code, Op.GT.code, Op.NE.code


@kernel
def probe_row(
    lines: I64, runs: I64, waiting: I32, slot: int, alive: U8, partners: I32, scratch: I64, found_by_line: I64
) -> int:
    """Write the partners of a row, line by line, and how many each line has; returns how many, -1 for too many.

    Complexity: O(checks * (runs * log n + rows that wait) + partners) on clean data.
    """
    lowest = np.iinfo(np.int64).min
    highest = np.iinfo(np.int64).max
    found = 0
    box = np.empty((1, 4), dtype=np.int64)
    wanted = np.empty(1, dtype=np.int32)
    cursor = np.empty(2, dtype=np.int64)
    for i in range(lines.shape[0]):
        line = lines[i]
        size = line[SLOTS]
        before = found
        roles = carray(pointer(line[ROLES]), size, np.uint8)
        group = carray(pointer(line[GROUPS]), size, np.int32)[slot]
        found_by_line[i] = 0
        if roles[slot] & line[ROLE] == 0 or group < 0:
            continue
        a = carray(pointer(line[A]), size, np.int64)[slot] if line[A_OP] >= 0 else 0
        b = carray(pointer(line[B]), size, np.int64)[slot] if line[B_OP] >= 0 else 0
        other_groups = carray(pointer(line[OTHER_GROUPS]), size, np.int32)
        # a != is two searches: below and above
        for search in range(2 if line[A_OP] == NE else 1):
            op = line[A_OP] if line[A_OP] != NE else (LT if search == 0 else GT)
            box[0, 0], box[0, 1] = interval(op, a, lowest, highest) if op >= 0 else (lowest, highest)
            box[0, 2], box[0, 3] = interval(line[B_OP], b, lowest, highest) if line[B_OP] >= 0 else (lowest, highest)
            wanted[0] = group
            for r in range(line[FIRST], line[FIRST] + line[COUNT]):
                run = runs[r]
                rows = run[R_SIZE]
                if found + rows > partners.size and run[R_SORTED] == 0:
                    return -1
                cursor[0] = 0
                cursor[1] = -1
                groups = carray(pointer(run[R_GROUPS]), run[R_GROUP_COUNT], np.int32)
                run_a = carray(pointer(run[R_A]), rows, np.int64)
                run_b = carray(pointer(run[R_B]), rows, np.int64)
                slots = carray(pointer(run[R_SLOTS]), rows, np.int32)
                if run[R_SORTED] != 0:
                    found += probe_run(
                        groups,
                        carray(pointer(run[R_STARTS]), run[R_GROUP_COUNT] + 1, np.int32),
                        carray(pointer(run[R_SPLITS]), run[R_GROUP_COUNT], np.int32),
                        run_a,
                        run_b,
                        slots,
                        carray(pointer(run[R_FENCE_LOW]), run[R_BLOCKS], np.int64),
                        carray(pointer(run[R_FENCE_HIGH]), run[R_BLOCKS], np.int64),
                        carray(pointer(run[R_WALL_LOW]), run[R_WALLS], np.int64),
                        carray(pointer(run[R_WALL_HIGH]), run[R_WALLS], np.int64),
                        run[R_RISING] != 0,
                        wanted,
                        box,
                        alive,
                        cursor,
                        scratch[found:],
                        partners[found:],
                    )
                else:
                    found += probe_unsorted(
                        groups,
                        run_a,
                        run_b,
                        slots,
                        wanted,
                        box,
                        alive,
                        cursor,
                        scratch[found:],
                        partners[found:],
                    )
                if cursor[0] == 0:
                    return -1
            if found + waiting.size > partners.size:
                return -1
            for w in range(waiting.size):
                row = waiting[w]
                if other_groups[row] != group or roles[row] & line[OTHER_ROLES] == 0 or alive[row] == 0:
                    continue
                if line[A_OP] >= 0:
                    value = carray(pointer(line[OTHER_A]), size, np.int64)[row]
                    if value < box[0, 0] or value > box[0, 1]:
                        continue
                if line[B_OP] >= 0:
                    value = carray(pointer(line[OTHER_B]), size, np.int64)[row]
                    if value < box[0, 2] or value > box[0, 3]:
                        continue
                partners[found] = row
                found += 1
        found_by_line[i] = found - before
    return found
