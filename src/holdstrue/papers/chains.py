"""Row pairs found by hashing on the equalities and fetching from chains on two inequalities.

Qian, Li, Tan, Ran, Ma: Incremental discovery of denial constraints, Sections 5 to 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np

from holdstrue.index.pair_chains import CHUNK, Found, PairChains, SortedRows
from holdstrue.index.protocol import S_ROLE, T_ROLE, Hits, PairRows, Shape, Slots, Term
from holdstrue.operators import ABOVE, Op
from holdstrue.papers.compared import ComparedIndex
from holdstrue.typing import I64

VECTOR_QUERIES = 8
"""Queries of one group from which searching each chain once for all of them is faster.

Measured on two chains of 10K rows: 7 us a query one by one, 55 us for all of them together.
"""

SAMPLE = 10_000
"""Rows a correlation is taken over."""

CLEAR_CORRELATION = 0.1
"""Below this the direction of the chains follows the rule instead of the data."""

CHOOSE_AGAIN = 4
"""Growth after which the pair and its direction are chosen anew; rebuilding stays O(1) a row."""

EqualCodes: TypeAlias = tuple[int, ...]
Group: TypeAlias = PairChains | SortedRows


@dataclass(frozen=True)
class Selection:
    """How a check is served: terms to hash, up to two to search, the rest to verify.

    `rising` says by role of the indexed rows whether the second searched column rises with the first.
    """

    equal: tuple[Term[int], ...]
    searched: tuple[Term[int], ...]
    verified: tuple[Term[int], ...]
    rising: tuple[bool, bool]

    @property
    def one_sided(self) -> bool:
        """Whether t and s are indexed on the same columns, so that one structure serves both roles."""
        return all(term.left == term.right for term in self.equal + self.searched)


class RoleGroups:
    """The rows of one check as partners in one role, hashed on the equalities' columns."""

    def __init__(self, rows: PairRows, equal: Sequence[int], searched: Sequence[int], rising: bool) -> None:
        self._rows = rows
        self._equal = tuple(equal)
        self.searched = tuple(searched)
        # The weak operators make the fewest chains, and a chain serves all operators.
        self._second = Op.GE if rising else Op.LE
        self._groups: dict[EqualCodes, Group] = {}

    def __len__(self) -> int:
        """The number of rows."""
        return sum(len(group) for group in self._groups.values())

    def get(self, key: EqualCodes) -> Group | None:
        """The group of rows with these codes on the equalities' columns."""
        return self._groups.get(key)

    def insert(self, slots: Slots) -> None:
        """Add rows."""
        for key, members in self._by_key(slots):
            group = self._groups.get(key)
            if group is None:
                group = PairChains(Op.GE, self._second) if len(self.searched) == 2 else SortedRows()
                self._groups[key] = group
            group.insert(members, [self._rows.codes(c)[members] for c in self.searched])

    def remove(self, slots: Slots) -> None:
        """Take rows out again."""
        for key, members in self._by_key(slots):
            group = self._groups[key]
            group.remove(members, [self._rows.codes(c)[members] for c in self.searched])
            if not len(group):
                del self._groups[key]

    def rows(self) -> Slots:
        """All rows, in no order."""
        parts = [group.rows() for group in self._groups.values()]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)

    def size_bytes(self) -> int:
        """Memory of the groups and their keys."""
        return sum(group.size_bytes() + 200 for group in self._groups.values())

    def explain(self) -> str:
        """Groups and ranks in a few words."""
        if not self.searched:
            return f"{len(self._groups)} groups"
        if len(self.searched) == 1:
            return f"{len(self._groups)} groups sorted on {self.searched[0]}"
        rank = max((g.rank for g in self._groups.values() if isinstance(g, PairChains)), default=0)
        first, second = self.searched
        return f"{len(self._groups)} groups of Index({first}>=, {second}{self._second}), rank up to {rank}"

    def _by_key(self, slots: Slots) -> Iterator[tuple[EqualCodes, Slots]]:
        if not len(slots) or not self._equal:
            if len(slots):
                yield (), slots
            return
        keys = [self._rows.codes(column)[slots] for column in self._equal]
        order = np.lexsort(keys)
        changes = np.zeros(len(slots), dtype=np.bool_)
        changes[0] = True
        for i, codes in enumerate(keys):
            keys[i] = codes[order]
            changes[1:] |= keys[i][1:] != keys[i][:-1]
        starts = np.flatnonzero(changes)
        ends = [*starts[1:].tolist(), len(slots)]
        named = zip(*(codes[starts].tolist() for codes in keys), strict=True)
        slots = slots[order]
        for key, start, end in zip(named, starts.tolist(), ends, strict=True):
            yield key, slots[start:end]

    def _check(self) -> None:
        """Assert the groups' own invariants and that each row has its group's key."""
        for key, group in self._groups.items():
            group._check()
            assert len(group) > 0
            for row in group.rows().tolist():
                assert key == tuple(int(self._rows.codes(c)[row]) for c in self._equal)


class ChainIndex(ComparedIndex):
    """All two-row checks of a table, each served by chains (paper 001).

    Parameters
    ----------
    shapes
        The checks.
    rows
        Codes and roles of the rows, by slot.

    Notes
    -----
    Five rows with (pay, tax) = (10, 1), (20, 2), (10, 1), (30, 3), (40, 2), not(t.pay > s.pay and t.tax < s.tax):
    rows 0, 1 and 3 make a chain that rises in both (2 equals 0), row 4 one of its own. For t = 4 the chain is
    searched for pay < 40 (all of it) and tax > 2 (its end): the run that both share is row 3.

    Each check has its own groups; comparisons across columns need one structure per role (Fetch+).
    Which two inequalities are searched, and in which direction the chains run, is decided when
    rows first arrive and again when their number has grown fourfold.
    """

    def __init__(self, shapes: Sequence[Shape], rows: PairRows) -> None:
        super().__init__(shapes, rows)
        self._checks = [_Check(number, shape, rows) for number, shape in enumerate(shapes)]

    def insert(self, slots: Slots) -> None:
        """Add rows. Runtime complexity: O(rank log n) searching and O(n) moving a row, or one sort."""
        for check in self._checks:
            check.insert(slots)

    def remove(self, slots: Slots) -> None:
        """Take rows out again. Runtime complexity: as `insert`."""
        for check in self._checks:
            check.remove(slots)

    def probe(self, check: int, slots: Slots, role: int) -> Iterator[Hits]:
        """Partners of the probed rows. Runtime complexity: O(rank log n + candidates) a row."""
        return self._checks[check].probe(slots, role)

    def explain(self, check: int | None = None) -> list[str]:
        """How a check, or each of them, is served, as text lines."""
        chosen = self._checks if check is None else [self._checks[check]]
        return [line for one in chosen for line in one.explain()]

    def size_bytes(self) -> int:
        """An estimate of the memory held."""
        return sum(check.size_bytes() for check in self._checks)

    def _check(self) -> None:
        """Assert the invariants of every group and chain."""
        for check in self._checks:
            check._check()


class _Check:
    """One check: its selection and the partners by role."""

    def __init__(self, number: int, shape: Shape, rows: PairRows) -> None:
        self._number = number
        self._shape = shape
        self._rows = rows
        self._chosen_at = 0
        self._count = 0
        self._use(select(shape.terms, rows, np.empty(0, dtype=np.int32)))

    def insert(self, slots: Slots) -> None:
        slots = slots[self._rows.roles[self._number][slots] != 0]
        self._count += len(slots)
        if self._count >= CHOOSE_AGAIN * max(self._chosen_at, 1):
            everything = np.concatenate([self._inside(), slots])
            self._chosen_at = self._count
            chosen = select(self._shape.terms, self._rows, everything)
            if chosen != self._selection:
                self._use(chosen)
                slots = everything
        for side, members in self._split(slots):
            side.insert(members)

    def remove(self, slots: Slots) -> None:
        slots = slots[self._rows.roles[self._number][slots] != 0]
        self._count -= len(slots)
        for side, members in self._split(slots):
            side.remove(members)

    def probe(self, slots: Slots, role: int) -> Iterator[Hits]:
        queries: list[I64] = []
        partners: list[Slots] = []
        size = 0
        for asked, found in self._candidates(slots, role):
            queries.append(asked)
            partners.append(found)
            size += len(found)
            if size >= CHUNK:
                yield from self._verified(slots, role, np.concatenate(queries), np.concatenate(partners))
                queries, partners, size = [], [], 0
        if partners:
            yield from self._verified(slots, role, np.concatenate(queries), np.concatenate(partners))

    def explain(self) -> list[str]:
        chosen = self._selection
        lines = [
            f"check {self._number}: hash [{_text(chosen.equal)}], search [{_text(chosen.searched)}], "
            f"verify [{_text(chosen.verified)}]"
        ]
        roles = {id(side): (name, side) for name, side in (("t", self._t_side), ("s", self._s_side))}
        for name, side in roles.values():
            lines.append(f"  {'t and s' if len(roles) == 1 else name}: {side.explain()}")
        return lines

    def size_bytes(self) -> int:
        sides = {id(side): side for side in (self._t_side, self._s_side)}
        return sum(side.size_bytes() for side in sides.values())

    def _use(self, chosen: Selection) -> None:
        """Start over, empty, with another selection."""
        self._selection = chosen
        equal, searched = chosen.equal, chosen.searched
        t_columns = [term.left for term in equal], [term.left for term in searched]
        s_columns = [term.right for term in equal], [term.right for term in searched]
        self._t_side = RoleGroups(self._rows, *t_columns, rising=chosen.rising[0])
        self._s_side = self._t_side
        if not chosen.one_sided:
            self._s_side = RoleGroups(self._rows, *s_columns, rising=chosen.rising[1])

    def _split(self, slots: Slots) -> list[tuple[RoleGroups, Slots]]:
        """Which rows go where; with one structure for both roles, a probe filters by role."""
        if self._t_side is self._s_side:
            return [(self._t_side, slots)]
        roles = self._rows.roles[self._number][slots]
        return [
            (self._t_side, slots[(roles & T_ROLE) != 0]),
            (self._s_side, slots[(roles & S_ROLE) != 0]),
        ]

    def _inside(self) -> Slots:
        if self._t_side is self._s_side:
            return self._t_side.rows()
        return np.union1d(self._t_side.rows(), self._s_side.rows())

    def _candidates(self, slots: Slots, role: int) -> Iterator[Found]:
        """Fetch or Fetch+ for the probed rows that may play the role, group by group."""
        mine = np.flatnonzero(self._rows.roles[self._number][slots] & role)
        as_t = role == T_ROLE
        side = self._s_side if as_t else self._t_side
        chosen = self._selection
        ops = [term.op.flipped if as_t else term.op for term in chosen.searched]

        def codes(terms: Sequence[Term[int]]) -> list[I64]:
            columns = [term.left if as_t else term.right for term in terms]
            return [self._rows.codes(column)[slots[mine]] for column in columns]

        values = codes(chosen.searched)
        keys = codes(chosen.equal)
        by_key: dict[EqualCodes, list[int]] = {}
        for i, key in enumerate(zip(*(k.tolist() for k in keys), strict=True) if keys else [()] * len(mine)):
            by_key.setdefault(key, []).append(i)
        for key, members in by_key.items():
            group = side.get(key)
            if group is None:
                continue
            if ops and len(members) >= VECTOR_QUERIES:
                at = np.array(members)
                for asked, found in group.fetch_many(ops, [v[at] for v in values]):
                    yield mine[at[asked]], found
                continue
            for i in members:
                found = group.fetch(ops, [int(v[i]) for v in values])
                if len(found):
                    yield np.full(len(found), mine[i], dtype=np.int64), found

    def _verified(self, slots: Slots, role: int, queries: I64, partners: Slots) -> Iterator[Hits]:
        """Drop the probed row itself, rows that may not be its partner, and what other terms refuse."""
        probed = slots[queries]
        keep = probed != partners
        if self._t_side is self._s_side:
            wanted = S_ROLE if role == T_ROLE else T_ROLE
            keep &= (self._rows.roles[self._number][partners] & wanted) != 0
        t, s = (probed, partners) if role == T_ROLE else (partners, probed)
        for term in self._selection.verified:
            keep &= term.op.on_codes(self._rows.codes(term.left)[t], self._rows.codes(term.right)[s])
        if keep.any():
            yield Hits(queries[keep], partners[keep])

    def _check(self) -> None:
        self._t_side._check()
        self._s_side._check()
        assert len(self._inside()) == self._count
        for side, role in ((self._t_side, T_ROLE), (self._s_side, S_ROLE)):
            roles = self._rows.roles[self._number][side.rows()]
            assert np.all(roles & (role if self._t_side is not self._s_side else T_ROLE | S_ROLE))


def select(terms: Sequence[Term[int]], rows: PairRows, slots: Slots) -> Selection:
    """SelectIndex for one check: the two inequalities whose columns correlate most, and their direction.

    Inequalities go before `!=`, which a search can only split in two. Chains are few when they
    run along the correlation; where the data shows none they run as in data without violations.
    """
    equal = tuple(term for term in terms if term.op is Op.EQ)
    others = [term for term in terms if term.op is not Op.EQ]
    step = max(1, len(slots) // SAMPLE)
    sample = slots[::step]
    best: tuple[tuple[int, float], tuple[Term[int], ...], tuple[bool, bool]] | None = None
    for pair in combinations(others, 2):
        by_role = [
            _correlation(rows, sample, pair[0].left, pair[1].left),
            _correlation(rows, sample, pair[0].right, pair[1].right),
        ]
        upward = [ABOVE in term.op.outcomes for term in pair]
        default = upward[0] != upward[1] or not all(term.op.is_order for term in pair)
        t_rising, s_rising = (r > 0 if abs(r) >= CLEAR_CORRELATION else default for r in by_role)
        score = (sum(term.op.is_order for term in pair), sum(map(abs, by_role)))
        if best is None or score > best[0]:
            best = score, pair, (t_rising, s_rising)
    searched = tuple(others[:1]) if best is None else best[1]
    verified = [term for term in others if term not in searched]
    return Selection(equal, searched, tuple(verified), (True, True) if best is None else best[2])


def _correlation(rows: PairRows, sample: Slots, a: int, b: int) -> float:
    """Pearson's coefficient of two columns' codes; 0 where it is not defined."""
    x = rows.codes(a)[sample].astype(np.float64)
    y = rows.codes(b)[sample].astype(np.float64)
    if len(sample) < 2:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x * x).sum()) * np.sqrt((y * y).sum()))
    return float((x * y).sum()) / scale if scale > 0 else 0.0


def _text(terms: Sequence[Term[int]]) -> str:
    return ", ".join(map(str, terms))
