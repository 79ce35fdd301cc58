"""Row pairs found by intersecting bitmaps: one inverted index per column, shared by all checks.

Section 5 of Kaminsky, Pena, Naumann: Incremental Detection of Denial Constraint Violations
(Weever). A probe refines two intermediates per check, I for the probed row as t and I' for it as
s, by the operands of the predicates in the order that `schedule` gives.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from holdstrue.index.protocol import S_ROLE, T_ROLE, Codes, Hits, PairRows, Shape, Slots, Term
from holdstrue.operators import Op
from holdstrue.papers.compared import ComparedIndex
from holdstrue.papers.lt_tree import HashColumn, InvertedColumn, LTTree, bitmap_type
from holdstrue.papers.operands import Operand, RunningOperand
from holdstrue.papers.schedule import PredicateStat, Schedule, Share, classify, in_order, schedule, slack

if TYPE_CHECKING:
    from pyroaring import BitMap

MEMO_IDS = 16_000_000
"""Partners kept for the next calls with the same rows: at two bytes or less each, some 32 MB.

What a batch finds beyond that is computed again for each check.
"""

CHUNK = 1 << 20
"""Partners after which a chunk of hits is handed out: 12 MB of queries and partners."""

BITMAP_BYTES = 104
"""What an empty bitmap takes: the Python object and the C structure it points to."""

ENTRY_BYTES = 136
"""What a value takes beside its bitmaps: the integer and a tree node, or a place in the hash map."""


class _Program:
    """A schedule of numbered terms and checks, ready to be run for each probed row."""

    def __init__(self, plan: Schedule[int, int]) -> None:
        self.schedule = plan
        self.slack = slack(plan.predicates)
        self.steps = plan.steps()
        self.shares = [step for step in self.steps if isinstance(step, Share)]
        # By check: one bit for each term that must refine it.
        self.pending = [0] * len(plan.rules)
        for check, terms in plan.rules:
            self.pending[check] = sum(1 << term for term in terms)

    def refresh(self, stats: Sequence[PredicateStat[int]]) -> None:
        """Take new cardinalities that leave the order as it is."""
        self.schedule = replace(self.schedule, predicates=tuple(stats))
        self.slack = slack(stats)


@dataclass
class _Memo:
    """Partners found for one array of probed slots, by (check, role), by position."""

    slots: Slots
    found: dict[tuple[int, int], dict[int, BitMap]] = field(default_factory=dict)
    ids: int = 0
    left: list[int] = field(default_factory=list)
    """Positions that were not evaluated because the memo was full."""


class _Batch:
    """Probed rows: their codes as plain integers, the order to visit them in, and their operands."""

    def __init__(
        self, slots: Slots, rows: PairRows, columns: dict[int, InvertedColumn], first: Term[int] | None
    ) -> None:
        self.slots: list[int] = slots.tolist()
        self._columns = columns
        self._codes: dict[int, list[int]] = {c: rows.codes(c)[slots].tolist() for c in columns}
        self._running: dict[tuple[int, int], RunningOperand] = {}
        self._position = -1
        self._operands: dict[tuple[int, int], Operand] = {}
        self.order = list(range(len(self.slots)))
        if first is not None and len(self.slots) > 1:  # Section 5.5
            self.order.sort(key=self._codes[first.left].__getitem__)
            tree = columns[first.right]
            assert isinstance(tree, LTTree)
            self._running[first.right, first.left] = RunningOperand(tree)

    def operand(self, position: int, column: int, value_of: int) -> Operand:
        """Rows by how their `column` compares with `value_of` of the probed row, for all checks alike."""
        if position != self._position:
            self._position = position
            self._operands = {}
        key = (column, value_of)
        operand = self._operands.get(key)
        if operand is None:
            value = self._codes[value_of][position]
            operand = self._operands[key] = Operand(self._columns[column], value, self._running.get(key))
        return operand


class LTTreeIndex(ComparedIndex):
    """All two-row checks of a table over shared inverted indexes (paper 003).

    Parameters
    ----------
    shapes
        The checks; a column that any of them orders gets an LT-tree, the others a hash map.
    rows
        Codes and roles of the rows, by slot.

    Notes
    -----
    With rows 0 to 4 of pay 10, 20, 10, 30, 40 and state 1, 1, 2, 1, 1, not(t.state = s.state and t.pay < s.pay),
    and row 0 as t: equal(state 1) = {0, 1, 3, 4}, less those of pay up to 10, {0, 2}, leaves {1, 3, 4}.

    Every inserted row is in the index of every column; who may be t or s of a check is a bitmap
    that restricts the last intermediate. `probe` evaluates all checks of a row at once and keeps
    the answers for the next calls with the same slots, until a row comes or goes.
    """

    def __init__(self, shapes: Sequence[Shape], rows: PairRows) -> None:
        super().__init__(shapes, rows)
        self._bitmap = bitmap_type()
        self._terms: tuple[Term[int], ...] = tuple(dict.fromkeys(t for shape in shapes for t in shape.terms))
        ordered = {c for t in self._terms if t.op.is_order for c in (t.left, t.right)}
        used = sorted({c for t in self._terms for c in (t.left, t.right)})
        self._columns: dict[int, InvertedColumn] = {
            column: LTTree() if column in ordered else HashColumn() for column in used
        }
        self._all: BitMap = self._bitmap()
        self._empty: BitMap = self._bitmap()
        self._members = [{T_ROLE: self._bitmap(), S_ROLE: self._bitmap()} for _ in shapes]
        self._memo: _Memo | None = None
        self._changed = 0
        self._program = self._compile()

    def insert(self, slots: Slots) -> None:
        """Add rows. Runtime complexity: O(columns log d) set changes a row."""
        for number, column in self._columns.items():
            column.insert_many(list(self._by_value(number, slots)))
        self._all |= self._set(slots)
        for check, members in enumerate(self._members):
            roles = self._rows.roles[check][slots]
            for role in members:
                members[role] |= self._set(slots[(roles & role) != 0])
        self._after_change(len(slots))

    def remove(self, slots: Slots) -> None:
        """Take rows out again. Runtime complexity: O(columns log d) set changes a row."""
        for number, column in self._columns.items():
            for value, tuples in self._by_value(number, slots):
                column.remove(value, tuples)
        gone = self._set(slots)
        self._all -= gone
        for members in self._members:
            for role in members:
                members[role] -= gone
        self._after_change(len(slots))

    def probe(self, check: int, slots: Slots, role: int) -> Iterator[Hits]:
        """Partners of the probed rows.

        Runtime complexity: O(predicates) set operations a row, each O(rows / 64) words.
        """
        if self._memo is None or not np.array_equal(self._memo.slots, slots):
            self._memo = self._detect_all(slots)
        memo = self._memo
        found = memo.found.get((check, role), {})
        yield from _chunks((position, found[position]) for position in sorted(found))
        if memo.left:
            yield from _chunks(self._detect_one(slots, memo.left, check, role))

    def explain(self, check: int | None = None) -> list[str]:
        """The current order of predicates and rules and the shared prefixes, of one check or of all."""
        plan = self._program.schedule if check is None else self._program.schedule.of(check)
        return plan.explain(lambda number: str(self._terms[number]))

    def size_bytes(self) -> int:
        """An estimate of the memory held: containers of all bitmaps plus the objects around them."""
        bitmaps = [b for column in self._columns.values() for b in column.bitmaps()]
        bitmaps += [self._all, *(rows for members in self._members for rows in members.values())]
        entries = sum(len(column) for column in self._columns.values())
        return ENTRY_BYTES * entries + sum(_bitmap_bytes(rows) for rows in bitmaps)

    def _batch(self, slots: Slots) -> _Batch:
        order = [p.id for p in self._program.schedule.predicates if p.kind.is_order]
        return _Batch(slots, self._rows, self._columns, self._terms[order[0]] if order else None)

    def _detect_all(self, slots: Slots) -> _Memo:
        """Evaluate every check for every probed row, first inequality in ascending order."""
        memo = _Memo(slots.copy())
        batch = self._batch(slots)
        checks = range(len(self._shapes))
        roles = [self._rows.roles[check][slots].tolist() for check in checks]
        for position in batch.order:
            if memo.ids > MEMO_IDS:
                memo.left.append(position)
                continue
            as_t = [check for check in checks if roles[check][position] & T_ROLE]
            as_s = [check for check in checks if roles[check][position] & S_ROLE]
            if as_t or as_s:
                for check, role, partners in self._evaluate(batch, position, as_t, as_s):
                    memo.found.setdefault((check, role), {})[position] = partners
                    memo.ids += len(partners)
        return memo

    def _detect_one(self, slots: Slots, positions: list[int], check: int, role: int) -> Iterator[tuple[int, BitMap]]:
        """Evaluate one check in one role, keeping nothing; positions come in the order of a batch."""
        batch = self._batch(slots)
        roles = self._rows.roles[check][slots].tolist()
        as_t, as_s = ([check], []) if role == T_ROLE else ([], [check])
        for position in positions:
            if roles[position] & role:
                for _, _, partners in self._evaluate(batch, position, as_t, as_s):
                    yield position, partners

    def _evaluate(
        self, batch: _Batch, position: int, as_t: list[int], as_s: list[int]
    ) -> Iterator[tuple[int, int, BitMap]]:
        """Algorithm 2 for one row: partners by (check, role) where there are any."""
        run = _Run(self._terms, batch, position, self._all, self._empty)
        run.execute(self._program, as_t, as_s)
        for checks, role, partner_role, side in (
            (as_t, T_ROLE, S_ROLE, run.as_t),
            (as_s, S_ROLE, T_ROLE, run.as_s),
        ):
            for check in checks:
                found = side[check]
                if found is self._empty:
                    continue
                if found is None:
                    found = self._all
                members = self._members[check][partner_role]
                partners = found.copy() if len(members) == len(self._all) else found & members
                partners.discard(batch.slots[position])
                if partners:
                    yield check, role, partners

    def _stat(self, number: int) -> PredicateStat[int]:
        term = self._terms[number]
        values = max(len(self._columns[term.left]), len(self._columns[term.right]))
        return PredicateStat(number, classify(term.op, term.left == term.right), values)

    def _compile(self) -> _Program:
        number = {term: i for i, term in enumerate(self._terms)}
        rules = {check: [number[t] for t in shape.terms] for check, shape in enumerate(self._shapes)}
        return _Program(schedule(rules, [self._stat(i) for i in range(len(self._terms))]))

    def _after_change(self, rows: int) -> None:
        """Forget answers; order predicates again only when their cardinalities have crossed."""
        self._memo = None
        self._changed += rows
        if self._program.slack is None or self._changed <= self._program.slack:
            return
        self._changed = 0
        stats = [self._stat(p.id) for p in self._program.schedule.predicates]
        if in_order(stats):
            self._program.refresh(stats)
        else:
            self._program = self._compile()

    def _by_value(self, column: int, slots: Slots) -> Iterator[tuple[int, BitMap]]:
        """The rows grouped by their code, ascending."""
        codes = self._rows.codes(column)[slots]
        if len(slots) == 1:
            yield int(codes[0]), self._bitmap((int(slots[0]),))
            return
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1]))) if len(codes) else codes
        packed = array("I", slots[order].astype(np.uint32).tobytes())
        bounds = [*starts.tolist(), len(codes)]
        for i, value in enumerate(codes[starts].tolist()):
            yield value, self._bitmap(packed[bounds[i] : bounds[i + 1]])

    def _set(self, slots: Slots) -> BitMap:
        return self._bitmap(array("I", slots.astype(np.uint32).tobytes()))

    def _check(self) -> None:
        """Assert that columns, members and program agree with the rows inside."""
        inside = np.array(self._all, dtype=np.int32)
        for number, column in self._columns.items():
            if isinstance(column, LTTree):
                column._check()
            expected = {value: set(tuples) for value, tuples in self._by_value(number, inside)}
            assert {value: set(tuples) for value, tuples in column.items()} == expected
        for check, members in enumerate(self._members):
            roles: Codes = self._rows.roles[check][inside].astype(np.int64)
            for role, found in members.items():
                assert list(found) == list(compress(inside.tolist(), roles & role))
        assert in_order([self._stat(p.id) for p in self._program.schedule.predicates])


class _Run:
    """The two intermediates of every check while one row is evaluated; None stands for all rows."""

    def __init__(
        self, terms: tuple[Term[int], ...], batch: _Batch, position: int, everything: BitMap, empty: BitMap
    ) -> None:
        self._terms, self._batch, self._position = terms, batch, position
        self._slot = batch.slots[position]
        self._all, self._empty = everything, empty
        self._pending: list[int] = []
        self.as_t: list[BitMap | None] = []
        self.as_s: list[BitMap | None] = []

    def execute(self, program: _Program, as_t: list[int], as_s: list[int]) -> None:
        """Run the steps for the given checks; one without candidates on both sides is skipped."""
        self._pending = list(program.pending)
        self.as_t = self._open(program, as_t)
        self.as_s = self._open(program, as_s)
        empty = self._empty
        for step in program.steps:
            if isinstance(step, Share):
                self._share(step)
                continue
            leader, term = step.leader, step.predicate
            if not self._pending[leader] >> term & 1:
                continue
            if self.as_t[leader] is empty and self.as_s[leader] is empty:
                continue
            self._refine(leader, term)
            for check in step.followers:
                if self._pending[check] >> term & 1:
                    self._refine(check, term)

    def _open(self, program: _Program, checks: list[int]) -> list[BitMap | None]:
        """Intermediates of the checks that are asked for, and of those that they will copy."""
        side: list[BitMap | None] = [self._empty] * len(program.pending)
        for check in checks:
            side[check] = None
        for step in program.shares:
            if any(side[target] is None for target in step.targets):
                side[step.owner] = None
        return side

    def _share(self, step: Share[int, int]) -> None:
        for target in step.targets:
            for predicate in step.predicates:
                self._pending[target] &= ~(1 << predicate)
            for side in (self.as_t, self.as_s):
                copied, kept = side[step.owner], side[target]
                if kept is None or kept is self._empty or copied is self._empty:
                    side[target] = self._empty if kept is self._empty else copied
                elif copied is not None:
                    side[target] = self._settle(kept & copied)

    def _refine(self, check: int, number: int) -> None:
        self._pending[check] &= ~(1 << number)
        term = self._terms[number]
        before_t, before_s = self.as_t[check], self.as_s[check]
        if before_t is not self._empty:
            # the probed row is t, the operand comes from the partners' right column
            self.as_t[check] = self._apply(before_t, term.op.flipped, term.right, term.left)
        if before_s is self._empty:
            return
        if before_s is before_t and term.left == term.right and not term.op.is_order:
            self.as_s[check] = self.as_t[check]  # reflexive so far: I' = I
        else:
            self.as_s[check] = self._apply(before_s, term.op, term.left, term.right)

    def _apply(self, rows: BitMap | None, op: Op, column: int, value_of: int) -> BitMap:
        """Rows whose `column` compares by `op` with the probed row's `value_of`."""
        operand = self._batch.operand(self._position, column, value_of)
        if op is Op.EQ:
            found = operand.equal()
            return self._settle(found if rows is None else rows & found)
        if op is Op.LT:
            found = operand.smaller()
            return self._settle(found if rows is None else rows & found)
        if op is Op.LE:
            found = operand.upto()
            return self._settle(found if rows is None else rows & found)
        base = self._all if rows is None else rows
        if op is Op.NE:
            return self._settle(base - operand.equal())
        return self._settle(base - (operand.upto() if op is Op.GT else operand.smaller()))

    def _settle(self, rows: BitMap) -> BitMap:
        """The one empty set when nothing is left but perhaps the probed row itself."""
        if not rows or (len(rows) == 1 and self._slot in rows):
            return self._empty
        return rows


def _bitmap_bytes(rows: BitMap) -> int:
    stats = rows.get_statistics()
    lists, runs = stats["n_bytes_array_containers"], stats["n_bytes_run_containers"]
    return BITMAP_BYTES + lists + runs + stats["n_bytes_bitset_containers"]


def _chunks(found: Iterable[tuple[int, BitMap]]) -> Iterator[Hits]:
    """Hits of at most about CHUNK partners each."""
    positions: list[int] = []
    partners: list[Slots] = []
    size = 0

    def flush() -> Hits:
        counts = [len(part) for part in partners]
        return Hits(np.repeat(np.array(positions, dtype=np.int64), counts), np.concatenate(partners))

    for position, rows in found:
        part = np.frombuffer(rows.to_array(), dtype=np.uint32).astype(np.int32)
        positions.append(position)
        partners.append(part)
        size += len(part)
        if size >= CHUNK:
            yield flush()
            positions, partners, size = [], [], 0
    if partners:
        yield flush()
