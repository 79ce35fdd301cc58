"""Dependencies that hold where a column has a certain value, and not on the whole table.

The rows with that value are searched for minimal dependencies as a table of their own; what follows from
a dependency of the whole table is left out. Patterns with one constant on the left, as of CFDMiner and
CTANE (Fan et al., Discovering conditional functional dependencies, 2011), which also look for more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.near import NO_LIMIT, within
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.dependencies.workers import Workers
from holdstrue.kernels import antichains
from holdstrue.kernels.partitions import SUPPORT, SURPLUS

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Conditional:
    """`target` depends on the columns of `line` among the rows whose `column` has the code `value`.

    `counts` as of `kernels.partitions.weigh`; `rows` have the value; `commonest` is the code that most of
    them have in the target, `share` of those where it is known.
    """

    column: int
    value: int
    line: U64
    target: int
    counts: I64
    rows: int
    commonest: int
    share: float

    @property
    def whole(self) -> U64:
        """All columns on the left, that of the condition among them."""
        line = self.line.copy()
        line[self.column >> 6] |= np.uint64(1 << (self.column & 63))
        return line

    @property
    def confidence(self) -> float:
        """The share of the rows with the value that need not be removed."""
        return 1 - int(self.counts[SURPLUS]) / self.rows


@dataclass(frozen=True)
class Demand:
    """The least rows that must have a partner, the least confidence, and the most columns on the left."""

    support: int = 20
    confidence: float = 1.0
    max_lhs: int = 2


def conditional(
    codes: Codes,
    conditions: list[tuple[int, int]],
    demand: Demand,
    workers: Workers,
    deadline: float | None = None,
    progress: Progress | None = None,
) -> tuple[list[Conditional], bool]:
    """All minimal dependencies under each of the conditions (column, code) that do not hold without; and if all
    were looked at in time.

    Complexity: O(rows with the value) for each set of up to `max_lhs` - 1 columns and each condition.
    """
    many = len(codes.names)
    everywhere = Partitions(codes)
    plain, complete = _search(everywhere, many, list(range(many)), demand, demand.max_lhs, workers, deadline)
    holds = {target: np.array([line for of, line, _ in plain if of == target]) for target in range(many)}
    found: list[Conditional] = []
    seen: set[bytes] = set()
    for number, (column, value) in enumerate(conditions):
        if not complete or (deadline is not None and time.monotonic() > deadline):
            return found, False
        if progress is not None:
            progress(number / len(conditions), f"where {codes.names[column]} has one value")
        members = everywhere.members[codes.matrix[column][everywhere.members] == value]
        if members.size < max(2, demand.support) or members.tobytes() in seen:
            continue
        # columns that select the same rows would only repeat each other
        seen.add(members.tobytes())
        parts = Partitions(codes, members=members)
        targets = [target for target in range(many) if target != column]
        local, complete = _search(parts, column, targets, demand, demand.max_lhs - 1, workers, deadline)
        for target, line, counts in local:
            commonest, share = _commonest(codes.matrix[target][members])
            one = Conditional(column, value, line, target, counts, members.size, commonest, share)
            if int(counts[SUPPORT]) >= demand.support and not _has_part(one.whole, holds[target]):
                found.append(one)
    return found, complete


def _search(
    parts: Partitions,
    without: int,
    targets: list[int],
    demand: Demand,
    longest: int,
    workers: Workers,
    deadline: float | None,
) -> tuple[list[tuple[int, U64, I64]], bool]:
    limits = np.array([NO_LIMIT, int((1 - demand.confidence) * parts.members.size + 1e-9)], dtype=np.int64)
    found, complete = within(Validator(parts, workers), parts.many, targets, limits, longest, deadline, without=without)
    return [(one.target, one.line, one.counts) for one in found], complete


def _has_part(line: U64, families: U64) -> bool:
    """Whether one of the families is inside the set."""
    if families.shape[0] == 0:
        return False
    out = np.empty(1, dtype=np.bool_)
    antichains.contained(line.reshape(1, -1), np.ascontiguousarray(families), out)
    return bool(out[0])


def _commonest(column: I32) -> tuple[int, float]:
    known = column[column >= 0]
    if known.size == 0:
        return -1, 1.0
    counts = np.bincount(known)
    return int(counts.argmax()), int(counts.max()) / known.size
