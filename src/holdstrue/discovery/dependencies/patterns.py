"""Dependencies that hold where a column has a certain value, and not on the whole table.

The rows with that value are searched for minimal dependencies as a table of their own; what follows from
a dependency of the whole table is left out. Patterns with one constant on the left, as of CFDMiner and
CTANE (Fan et al., Discovering conditional functional dependencies, 2011), which also look for more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.limited_search import NO_LIMIT, within
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.options import DiscoveryOptions, allowed, exact
from holdstrue.discovery.work import Work
from holdstrue.kernels.partitions import SUPPORT, SURPLUS
from holdstrue.typing import I32, I64, U64


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


def conditional(
    codes: Codes,
    conditions: list[tuple[int, int]],
    options: DiscoveryOptions,
    work: Work,
) -> tuple[list[Conditional], bool]:
    """All minimal dependencies under each of the conditions (column, code) that do not hold without; and if all
    were looked at in time.

    Complexity: O(rows with the value) for each set of columns that may be on the left, and each condition.
    """
    many, longest, exceptions = len(codes.names), options.max_conditional_lhs - 1, 1 - exact(options.confidence)
    whole = Partitions(codes)
    found: list[Conditional] = []
    selections: dict[bytes, int] = {}
    complete = True
    for number, (column, value) in enumerate(conditions):
        if not complete or work.over:
            complete = False
            break
        work.tell(number / len(conditions), f"where {codes.names[column]} has one value")
        members = whole.members[codes.matrix[column][whole.members] == value]
        if members.size < max(2, options.support):
            continue
        selection = selections.setdefault(members.tobytes(), len(selections))
        validator = Validator(Partitions(codes, members=members), work)
        limits = np.array([NO_LIMIT, allowed(exceptions, members.size)], dtype=np.int64)
        targets = [target for target in range(many) if target != column]
        local, complete = within(validator, many, targets, limits, longest, without=column)
        for one in local:
            if int(one.counts[SUPPORT]) >= options.support:
                common = _commonest(codes.matrix[one.target][members])
                found.append(
                    Conditional(column, value, one.line, one.target, one.counts, members.size, selection, *common)
                )
    # what was found in time is weighed whatever the time
    everywhere = Validator(whole, Work(threads=work.threads))
    return _only_there(found, everywhere, allowed(exceptions, whole.members.size)), complete


def _only_there(found: list[Conditional], validator: Validator, most: int) -> list[Conditional]:
    """Those that do not hold on the whole table; a shorter left side that does would make the whole one hold."""
    if not found:
        return []
    targets = np.array([one.target for one in found], dtype=np.int64)
    limits = np.full(2, NO_LIMIT, dtype=np.int64)
    counts, _ = validator.weigh(np.array([one.whole for one in found]), targets, limits)
    pairs = zip(found, counts, strict=True)
    return [replace(one, everywhere=count) for one, count in pairs if count[SURPLUS] > most]


def _commonest(column: I32) -> tuple[int, float]:
    known = column[column >= 0]
    if known.size == 0:
        return -1, 1.0
    counts = np.bincount(known)
    return int(counts.argmax()), int(counts.max()) / known.size
