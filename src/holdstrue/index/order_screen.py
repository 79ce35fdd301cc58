"""One look at a new row for many order rules: is it in order with all others of its group, whichever two columns count?

A hundred rules `not(same group and t.a > s.a and t.b < s.b)` over few columns ask much the same: where columns rise
together, a row that stands between its neighbours in all of them violates none of the rules (paper 003, section 5.3
shares operands between rules; here the whole search is shared). Such rows need not be looked for in the index of any
rule, nor need the index have those that came before it: they enter it when a rule is asked for enough rows that do not
pass, when a row comes alone, or when a state is written. Rows that do not pass are searched for as ever.

Memory: 16 bytes a row and column, and 8 a row more; 8 by slot. Screens follow from the rows, so no state holds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from holdstrue.index.arrays import room
from holdstrue.index.protocol import PairRows, Shape, Term
from holdstrue.index.spine import BESIDE_FROM, Build, Spine
from holdstrue.kernels import order_screen as kernels
from holdstrue.kernels.sorting import argsort
from holdstrue.operators import Op
from holdstrue.typing import I32, I64, U64, Mask

LEAST_RULES = 4
"""Fewer rules of one grouping are served by their own index: a screen would take more memory than it saves work."""
MOST_COLUMNS = 60
"""Columns are bits of a word."""
PROBED = 700.0
"""Nanoseconds that a row costs a rule which searches its own index, entering it included: 750 in a batch of 1,000 rows
on 100,000 with 100 rules."""
ENTERED = 150.0
"""Nanoseconds for a row to enter the index of a rule, where many do."""
SORTED, FOLLOWED = 150.0, 12.0
"""Nanoseconds to sort a row into a run, and for each of its columns."""
TRUSTED = 0.5
"""A screen that lets through less than this share of rows rests, as it spares too little."""
PATIENCE = 2
"""A thread that takes rows in has this many times as long as that takes by itself. Chosen, not tuned."""
RESTS = 32
"""Batches that it rests. Chosen, not tuned."""

_PIVOT = np.uint64(1)


@dataclass(frozen=True)
class ScreenPlan:
    """Which rules of a grouping a screen answers, and by which columns: the pivot first; -1 where one falls beside it.

    >>> def shape(a, b, second=Op.LT): return Shape((Term(9, Op.EQ, 9), Term(a, Op.GT, a), Term(b, second, b)))
    >>> shapes = [shape(0, 1), shape(0, 2, Op.GT), shape(1, 2, Op.GT), shape(1, 2), shape(3, 4)]
    >>> ScreenPlan.of(dict(enumerate(shapes)), least=3)
    [ScreenPlan(columns=(1, 0, 2), flips=(0, 0, -1), rules={0: (1, 0), 1: (1, 2), 2: (0, 2)})]
    """

    columns: tuple[int, ...]
    flips: tuple[int, ...]
    rules: dict[int, tuple[int, int]]
    """By check the places, among the columns, of the two that it compares."""

    @staticmethod
    def of(shapes: Mapping[int, Shape], least: int = LEAST_RULES) -> list[ScreenPlan]:
        """The screens for checks of one grouping, the pivot of each being the column that most of them compare."""
        open_ = {check: found for check, shape in shapes.items() if (found := _strict(shape))}
        plans: list[ScreenPlan] = []
        while True:
            plan = _around(_busiest(open_), open_)
            if plan is None or len(plan.rules) < least:
                return plans
            plans.append(plan)
            open_ = {check: pairs for check, pairs in open_.items() if check not in plan.rules}


def _strict(shape: Shape) -> list[tuple[int, int, bool]]:
    """The pairs of columns that a check compares strictly in both rows, and whether rows in order rise in both."""
    above = {term.left: term.op is Op.GT for term in shape.terms if term.op in (Op.GT, Op.LT) and _own(term)}
    names = list(above)
    return [(a, b, above[a] != above[b]) for i, a in enumerate(names) for b in names[i + 1 :]]


def _own(term: Term[int]) -> bool:
    return term.left == term.right


def _busiest(open_: Mapping[int, list[tuple[int, int, bool]]]) -> int | None:
    counts: dict[int, int] = {}
    for pairs in open_.values():
        for column in {column for a, b, _ in pairs for column in (a, b)}:
            counts[column] = counts.get(column, 0) + 1
    return max(counts, key=counts.__getitem__) if counts else None


def _around(pivot: int | None, open_: Mapping[int, list[tuple[int, int, bool]]]) -> ScreenPlan | None:
    """The screen with this pivot: rules that compare it, and rules between two columns that others hold against it."""
    if pivot is None:
        return None
    flips = {pivot: 0}
    for pairs in open_.values():
        for a, b, rising in pairs:
            if pivot in (a, b) and len(flips) < MOST_COLUMNS:
                flips.setdefault(b if a == pivot else a, 0 if rising else -1)
    columns = tuple(flips)
    rules = {}
    for check, pairs in open_.items():
        for a, b, rising in pairs:
            if a in flips and b in flips and rising == (flips[a] == flips[b]):
                rules[check] = columns.index(a), columns.index(b)
                break
    return ScreenPlan(columns, tuple(flips.values()), rules)


class ScreenedRows(PairRows, Protocol):
    """What a screen reads of the rows: what an index does, and all codes at once."""

    @property
    def every_code(self) -> I64:
        """`every_code[column, slot]`: the codes of all columns."""
        ...


@dataclass(frozen=True)
class ScreenRun:
    """Rows sorted by group and pivot, with the highest values up to each and the lowest from it on."""

    slots: I32
    groups: I32
    starts: I32
    pivot: I64
    highest: I64
    lowest: I64

    def __len__(self) -> int:
        return self.slots.size


class OrderScreen:
    """The rows of one grouping in runs of growing size, against which new rows are held for all rules of a plan.

    Rows that were removed stay in until they are many: a row is then searched for in vain, and nothing else.
    """

    def __init__(self, plan: ScreenPlan, rows: ScreenedRows) -> None:
        self.plan = plan
        self._rows = rows
        self._columns: I32 = np.array(plan.columns, dtype=np.int32)
        self._flips: I64 = np.array(plan.flips, dtype=np.int64)
        self._needs: U64 = np.array([(1 << a) | (1 << b) for a, b in plan.rules.values()], dtype=np.uint64)
        self._by_pivot: Mask = (self._needs & _PIVOT) != 0
        self._first = next(iter(plan.rules))
        self._resting = 0
        self.forget()

    def forget(self) -> None:
        """Let go of all rows: the screen is made anew when it pays."""
        self._spine: Spine[ScreenRun] = Spine()
        self._known: U64 = np.zeros(0, dtype=np.uint64)
        self._upto = 0
        self._loose = np.uint64(0)
        self._spared = 0.0

    @property
    def active(self) -> bool:
        """Whether it answers for its rules."""
        return self._upto > 0 and not self._spine.loading

    def suspects(self, first_new: int, new: I32, gone: I32, late: int) -> dict[int, I64] | None:
        """By check the positions, among the new rows, of those that may violate it; None where nobody was asked.

        Rows that came since it was asked last are taken in too. `gone` were removed by the batch, and `late` rows
        wait to enter the index of every rule. Complexity: O(batch * (log n + columns)), and amortised as much to take
        the batch in.
        """
        # of those that it holds: rows without a pivot are in no run, and would have it sorted anew in vain
        self._spine.dead += int(np.count_nonzero(self._known[gone[gone < self._upto]] & _PIVOT))
        if self._upto > first_new:
            self.forget()
        # the first rows of a table are counted by sweeping, and screened when others come
        if self._resting or not first_new or not new.size:
            self._resting = max(0, self._resting - 1)
            return None
        if not self._pays(new.size, first_new - self._upto, late):
            return None
        before = np.arange(self._upto, first_new, dtype=np.int32)
        self._upto = int(new[-1]) + 1
        self._known = room(self._known, self._upto, fill=0)
        alive = self._rows.alive
        self._spine.squeeze(alive, self._build())
        self._take(before[alive[before] != 0], self._beside(before.size, new.size, late))
        self._take(new)
        return None if self._spine.loading else self._screened(new)

    @property
    def _searched(self) -> float:
        """What a row costs that is searched for."""
        return len(self.plan.rules) * PROBED

    def _taken_in(self, rows: int) -> float:
        """What taking in so many rows costs."""
        return rows * (SORTED + FOLLOWED * len(self.plan.columns))

    def _pays(self, new: int, behind: int, late: int) -> bool:
        """Whether taking in the rows that it lacks costs less than what searching did since it was let go."""
        self._spared += new * self._searched
        return self._taken_in(behind + new) <= self._spared + late * len(self.plan.rules) * ENTERED

    def _beside(self, rows: int, new: int, late: int) -> int:
        """After how many rows a thread is to be done that takes in these; 0 where a batch does it sooner than it ends.

        Where rows have to enter the indexes anyway, the batch that waits for that waits less for this.
        """
        if rows < BESIDE_FROM or 2 * late >= rows or self._taken_in(rows) <= new * self._searched:
            return 0
        return int(PATIENCE * self._taken_in(rows) / self._searched)

    def _take(self, slots: I32, beside: int = 0) -> None:
        """Take rows in, at once or beside the work until so many others came."""
        groups = self._rows.groups(self._first)[0][slots]
        known = np.zeros(slots.size, dtype=np.uint64)
        # most rules have the same rows, which are then looked at once
        needs: dict[bytes, np.uint64] = {}
        for check, need in zip(self.plan.rules, self._needs, strict=True):
            roles = self._rows.roles[check][slots].tobytes()
            needs[roles] = needs.get(roles, np.uint64(0)) | need
        for roles, need in needs.items():
            known |= (np.frombuffer(roles, dtype=np.uint8) != 0) * need
        self._known[slots] = known
        placed = (known & _PIVOT != 0) & (groups >= 0)
        # rows without a pivot have no place among the others, so that rules on other columns cannot be answered
        self._loose |= np.bitwise_or.reduce(known[~placed], initial=np.uint64(0))
        if not placed.any():
            return
        if beside:
            self._spine.load(slots[placed], self._build(), beside)
        else:
            self._spine.held += int(np.count_nonzero(placed))
            build = self._build()
            self._spine.append(build(slots[placed]), self._rows.alive, build)

    def _build(self) -> Build[ScreenRun]:
        """What makes runs of rows that were taken in, also in a thread that ends after they were forgotten."""
        return partial(self._run, self._known)

    def _run(self, known: U64, slots: I32) -> ScreenRun:
        """The run of some rows."""
        codes, group = self._rows.every_code, self._rows.groups(self._first)[0][slots]
        pivot = codes[self.plan.columns[0]][slots]
        order = argsort(group, pivot)
        group, pivot, slots = group[order], pivot[order], slots[order]
        first = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        starts = np.append(first, group.size).astype(np.int32)
        highest = np.empty((slots.size, len(self.plan.columns) - 1), dtype=np.int64)
        lowest = np.empty_like(highest)
        kernels.frontiers(slots, starts, codes, self._columns, self._flips, known, highest, lowest)
        groups = np.ascontiguousarray(group[first], dtype=np.int32)
        return ScreenRun(slots, groups, starts, pivot, highest, lowest)

    def _screened(self, new: I32) -> dict[int, I64]:
        """By check who may violate it."""
        suspect = np.zeros((len(self._needs), new.size), dtype=np.uint8)
        groups = self._rows.groups(self._first)[0][new]
        rows = self._rows.every_code, self._columns, self._flips, self._known[new]
        doubtful = 0
        for run in self._spine.runs:
            arrays = run.groups, run.starts, run.pivot, run.highest, run.lowest
            doubtful += kernels.screen_rows(*arrays, new, groups, *rows, self._needs, self._by_pivot, suspect)
        nobody, everybody = np.empty(0, dtype=np.int64), np.arange(new.size)
        found = dict.fromkeys(self.plan.rules, nobody)
        blind = (self._loose & self._needs != 0) & ~self._by_pivot
        some = suspect.any(axis=1) | blind if doubtful or blind.any() else blind
        checks = list(self.plan.rules)
        for rule in np.flatnonzero(some).tolist():
            found[checks[rule]] = everybody if blind[rule] else np.flatnonzero(suspect[rule])
        if sum(own.size for own in found.values()) > (1 - TRUSTED) * new.size * len(found):
            self.forget()
            self._resting = RESTS
        return found

    def size_bytes(self) -> int:
        """Memory held."""
        return self._known.nbytes + sum(array.nbytes for run in self._spine.runs for array in vars(run).values())


def screens_of(shapes: Sequence[Shape], rows: ScreenedRows, grouped: Sequence[Sequence[int]]) -> list[OrderScreen]:
    """The screens for the checks of a table; `grouped` are those of each grouping whose two roles share it."""
    return [
        OrderScreen(plan, rows)
        for checks in grouped
        for plan in ScreenPlan.of({check: shapes[check] for check in checks})
    ]
