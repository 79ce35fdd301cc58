"""What a pair index must answer, by comparing all pairs, and random histories to ask it for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdstrue.index.protocol import S_ROLE, T_ROLE, PairIndex, Shape, Term
from holdstrue.rules.model import Op

COMPARE: dict[Op, Callable[[int, int], bool]] = {
    Op.EQ: operator.eq, Op.NE: operator.ne, Op.LT: operator.lt,
    Op.LE: operator.le, Op.GT: operator.gt, Op.GE: operator.ge,
}  # fmt: skip


@dataclass
class Table:
    """Rows as the protocol's PairRows."""

    values: NDArray[np.int64]
    allowed: list[NDArray[np.uint8]] = field(default_factory=list)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], checks: int) -> Table:
        values = np.array(rows, dtype=np.int64).T.copy()
        everyone = np.full(values.shape[1], T_ROLE | S_ROLE, dtype=np.uint8)
        return cls(values, [everyone] * checks)

    def codes(self, column: int) -> NDArray[np.int64]:
        codes: NDArray[np.int64] = self.values[column]
        return codes

    @property
    def roles(self) -> list[NDArray[np.uint8]]:
        return self.allowed

    @property
    def alive(self) -> NDArray[np.uint8]:
        return np.ones(self.values.shape[1], dtype=np.uint8)

    def groups(self, check: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        raise NotImplementedError("an index that reads equalities asks for no groups")

    @property
    def lopsided(self) -> list[bool]:
        raise NotImplementedError("an index that reads equalities asks for no groups")


def partners(history: History, check: int, inside: set[int], probed: int, role: int) -> set[int]:
    """Rows inside that complete a violation with `probed` in `role`."""
    table, shape, roles = history.table, history.shapes[check], history.table.roles[check]
    if not roles[probed] & role:
        return set()
    found = set()
    for other in inside - {probed}:
        t, s = (probed, other) if role == T_ROLE else (other, probed)
        if roles[other] & (T_ROLE + S_ROLE - role) and all(
            COMPARE[term.op](int(table.values[term.left][t]), int(table.values[term.right][s])) for term in shape.terms
        ):
            found.add(other)
    return found


def probed(index: PairIndex, check: int, slots: Sequence[int], role: int) -> list[list[int]]:
    """Sorted partners of each probed slot."""
    out: list[list[int]] = [[] for _ in slots]
    for hits in index.probe(check, np.array(slots, dtype=np.int32), role):
        assert hits.queries.dtype == np.int64 and hits.partners.dtype == np.int32
        assert len(hits.queries) == len(hits.partners) > 0
        for query, partner in zip(hits.queries.tolist(), hits.partners.tolist(), strict=True):
            out[query].append(partner)
    return [sorted(found) for found in out]


def pairs(index: PairIndex, check: int, slots: Sequence[int]) -> set[tuple[int, int]]:
    """Violating pairs (t, s) with t among the slots."""
    found = probed(index, check, slots, T_ROLE)
    return {(t, s) for t, row in zip(slots, found, strict=True) for s in row}


@dataclass
class History:
    """Checks over a table, and batches of rows that come (True) and go (False)."""

    table: Table
    shapes: list[Shape]
    batches: list[tuple[bool, list[int]]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    columns = draw(st.integers(1, 4))
    rows = draw(st.integers(1, 24))
    spread = draw(st.sampled_from([2, 4, 30, 2**62]))
    value = st.integers(-spread, spread)
    values = np.array(draw(st.lists(value, min_size=columns * rows, max_size=columns * rows)), dtype=np.int64)
    column = st.integers(0, columns - 1)
    same = st.builds(lambda c, op: Term(c, op, c), column, st.sampled_from(Op))
    term = st.one_of(same, st.builds(Term, column, st.sampled_from(Op), column))
    shape = st.builds(lambda terms: Shape(tuple(terms)), st.lists(term, min_size=1, max_size=4, unique=True))
    shapes = draw(st.lists(shape, min_size=1, max_size=4))
    restricted = draw(st.booleans())
    role = st.integers(0, 3) if restricted else st.just(3)
    allowed = [np.array(draw(st.lists(role, min_size=rows, max_size=rows)), dtype=np.uint8) for _ in shapes]
    outside, inside = list(range(rows)), list[int]()
    batches = []
    for _ in range(draw(st.integers(1, 5))):
        coming = not inside or (bool(outside) and draw(st.booleans()))
        source, target = (outside, inside) if coming else (inside, outside)
        batch = draw(st.lists(st.sampled_from(source), min_size=1, unique=True)) if source else []
        for slot in batch:
            source.remove(slot)
        target.extend(batch)
        batches.append((coming, batch))
    return History(Table(values.reshape(columns, rows), allowed), shapes, batches)


def replay(history: History, index: PairIndex, check_invariants: Callable[[], None]) -> None:
    """Apply the batches; after each, every check in every role must answer as the reference does."""
    inside: set[int] = set()
    everyone = list(range(history.table.values.shape[1]))
    for coming, batch in history.batches:
        slots = np.array(batch, dtype=np.int32)
        if coming:
            index.insert(slots)
            inside |= set(batch)
        else:
            index.remove(slots)
            inside -= set(batch)
        check_invariants()
        for asked in (everyone, everyone[:3][::-1]):
            for check in range(len(history.shapes)):
                for role in (T_ROLE, S_ROLE):
                    expected = [sorted(partners(history, check, inside, slot, role)) for slot in asked]
                    assert probed(index, check, asked, role) == expected
