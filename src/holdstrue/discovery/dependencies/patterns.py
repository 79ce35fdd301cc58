"""Dependencies that hold where a column has a certain value, and not on the whole table.

The rows with that value are searched for minimal dependencies as a table of their own; what follows from
a dependency of the whole table is left out. Patterns with one constant on the left, as of CFDMiner and
CTANE (Fan et al., Discovering conditional functional dependencies, 2011), which also look for more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.limits import NO_LIMIT, within
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.dependencies.workers import Workers
from holdstrue.discovery.shares import Proportion, allowed, exact
from holdstrue.kernels.partitions import SUPPORT, SURPLUS
from holdstrue.typing import I32, I64, U64

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Conditional:
    """`target` depends on the columns of `line` among the rows whose `column` has the code `value`.

    `counts` as of `kernels.partitions.weigh`; `rows` have the value; `commonest` is the code that most of
    them have in the target, `share` of those where it is known. Conditions that select the same rows have the
    same `selection`.
    """

    column: int
    value: int
    line: U64
    target: int
    counts: I64
    rows: int
    selection: int
    commonest: int
    share: float
    everywhere: I64 = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    """The counts on the whole table, with the column of the condition among those on the left."""

    @property
    def whole(self) -> U64:
        """All columns on the left, that of the condition among them."""
        line = self.line.copy()
        line[self.column >> 6] |= np.uint64(1 << (self.column & 63))
        return line


@dataclass(frozen=True)
class Demand:
    """The least rows that must have a partner, the least confidence, and the most columns on the left."""

    support: int = 20
    confidence: Proportion = Fraction(1)
    max_lhs: int = 2

    def allowed(self, rows: int) -> int:
        """How many of so many rows may have to go."""
        return allowed(1 - exact(self.confidence), rows)


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
    whole = Partitions(codes)
    found: list[Conditional] = []
    selections: dict[bytes, int] = {}
    complete = True
    for number, (column, value) in enumerate(conditions):
        if not complete or (deadline is not None and time.monotonic() > deadline):
            complete = False
            break
        if progress is not None:
            progress(number / len(conditions), f"where {codes.names[column]} has one value")
        members = whole.members[codes.matrix[column][whole.members] == value]
        if members.size < max(2, demand.support):
            continue
        selection = selections.setdefault(members.tobytes(), len(selections))
        validator = Validator(Partitions(codes, members=members), workers)
        limits = np.array([NO_LIMIT, demand.allowed(members.size)], dtype=np.int64)
        targets = [target for target in range(many) if target != column]
        local, complete = within(validator, many, targets, limits, demand.max_lhs - 1, deadline, without=column)
        for one in local:
            if int(one.counts[SUPPORT]) >= demand.support:
                common = _commonest(codes.matrix[one.target][members])
                found.append(
                    Conditional(column, value, one.line, one.target, one.counts, members.size, selection, *common)
                )
    return _only_there(found, Validator(whole, workers), demand.allowed(whole.members.size)), complete


def _only_there(found: list[Conditional], validator: Validator, allowed: int) -> list[Conditional]:
    """Those that do not hold on the whole table; a shorter left side that does would make the whole one hold."""
    if not found:
        return []
    targets = np.array([one.target for one in found], dtype=np.int64)
    limits = np.full(2, NO_LIMIT, dtype=np.int64)
    counts, _ = validator.weigh(np.array([one.whole for one in found]), targets, limits, None)
    pairs = zip(found, counts, strict=True)
    return [replace(one, everywhere=count) for one, count in pairs if count[SURPLUS] > allowed]


def _commonest(column: I32) -> tuple[int, float]:
    known = column[column >= 0]
    if known.size == 0:
        return -1, 1.0
    counts = np.bincount(known)
    return int(counts.argmax()), int(counts.max()) / known.size
