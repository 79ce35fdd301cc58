"""The predicate space: which columns of two rows are compared, and by which operators.

Section 3 of Qian, Li, Tan, Ran, Ma: Incremental discovery of denial constraints, after Chu, Ilyas, Papotti:
Discovering denial constraints. Numbers, dates and times are compared by all six operators, other values by
= and != alone; two different columns only when their types agree and enough of their values are shared.

A search need not know six operators: `<=`, `>=` and `!=` are *atoms*, and the other three are two atoms each
(`<` is `<=` and `!=`). One set of atoms is contained in another exactly where the comparisons of the first
follow from those of the second, so that minimal sets of atoms are minimal by implication too. Of two sets that
differ in the order of the rows one is shown as a rule, of those that others imply none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdstrue.data.coding import Domain
from holdstrue.discovery.bitsets import members, set_of
from holdstrue.discovery.options import Nulls
from holdstrue.rules.model import DC, Column, Op, Predicate, Var
from holdstrue.rules.order import Order
from holdstrue.rules.text import predicate_text
from holdstrue.typing import I64, U64, Mask

ORDERED_ATOMS = (Op.LE, Op.GE, Op.NE)
EQUALITY_ATOMS = (Op.EQ, Op.NE)

_OPERATOR: dict[frozenset[Op], Op] = {
    frozenset({Op.EQ}): Op.EQ, frozenset({Op.NE}): Op.NE, frozenset({Op.LE}): Op.LE, frozenset({Op.GE}): Op.GE,
    frozenset({Op.LE, Op.GE}): Op.EQ, frozenset({Op.LE, Op.NE}): Op.LT, frozenset({Op.GE, Op.NE}): Op.GT,
}  # fmt: skip
_RANK = {op: rank for rank, op in enumerate(Op)}
_ATOMS = {op: atoms for atoms, op in _OPERATOR.items() if len(atoms) == 2} | {
    op: frozenset({op}) for op in (Op.LE, Op.GE, Op.NE)
}


@dataclass(frozen=True)
class ComparedColumns:
    """`t.left` beside `s.right`; columns by number."""

    left: int
    right: int
    ordered: bool

    @property
    def atoms(self) -> tuple[Op, ...]:
        """The operators a search needs."""
        return ORDERED_ATOMS if self.ordered else EQUALITY_ATOMS


@dataclass(frozen=True)
class Space:
    """The columns that are read, how they are coded, and the comparisons between them.

    Atoms are numbered through all comparisons; a set of atoms is a row of 64-bit words.

    Examples
    --------
    >>> from holdstrue.data.seed import PROCESS
    >>> number = Domain("int", "integer", PROCESS)
    >>> space = Space(("a", "b"), (number, number), (ComparedColumns(0, 0, True), ComparedColumns(1, 1, False)))
    >>> space.predicates, len(space.atoms), space.width
    (8, 5, 1)
    >>> space.body(space.mask([0, 2, 3])).text
    'not(t.b = s.b and t.a < s.a)'
    """

    columns: tuple[str, ...]
    domains: tuple[Domain, ...]
    comparisons: tuple[ComparedColumns, ...]
    nulls: Nulls = "unknown"

    @cached_property
    def entailed(self) -> dict[bytes, tuple[U64, U64]]:
        """What combinations of comparisons on a cycle entail, as far as it was asked for last (`MOST_KNOWN`)."""
        return {}

    @property
    def predicates(self) -> int:
        """How many predicates a denial constraint may draw from."""
        return sum(6 if comparison.ordered else 2 for comparison in self.comparisons)

    @cached_property
    def atoms(self) -> tuple[tuple[int, Op], ...]:
        """Every atom as (comparison, operator)."""
        return tuple((i, op) for i, comparison in enumerate(self.comparisons) for op in comparison.atoms)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first atom of each comparison."""
        ends = np.cumsum([0] + [len(comparison.atoms) for comparison in self.comparisons])
        return tuple(int(end) for end in ends[:-1])

    @property
    def width(self) -> int:
        """Words of a set of atoms."""
        return max(1, -(-len(self.atoms) // 64))

    @cached_property
    def twins(self) -> I64:
        """By atom: the same comparison with the two rows exchanged; -1 where the space has no such atom."""
        places = {(c.left, c.right): i for i, c in enumerate(self.comparisons)}
        out = np.full(len(self.atoms), -1, dtype=np.int64)
        for number, (i, op) in enumerate(self.atoms):
            mirrored = places.get((self.comparisons[i].right, self.comparisons[i].left))
            if mirrored is not None:
                atoms = self.comparisons[mirrored].atoms
                out[number] = self.offsets[mirrored] + atoms.index(op.flipped)
        return out

    @cached_property
    def linked(self) -> Mask:
        """By comparison: whether it may contradict or follow from others, through columns compared crosswise.

        t.A, s.A, t.B, ... are the nodes of a graph, and comparisons (in both directions, as a rule also holds
        with its rows exchanged) its edges; only edges on a cycle matter.
        """
        ways = {(c.left, c.right) for c in self.comparisons}
        ways |= {(right, left) for left, right in ways}
        bridges = _bridges(ways, len(self.columns))
        return np.array([(c.left, c.right) not in bridges for c in self.comparisons], dtype=np.bool_)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Columns that are compared with each other, directly or through others: they need common ranks."""
        home = list(range(len(self.columns)))
        for comparison in self.comparisons:
            one, other = home[comparison.left], home[comparison.right]
            if one != other:
                home = [one if place == other else place for place in home]
        found: dict[int, list[int]] = {root: [] for root in sorted(set(home))}
        for i, root in enumerate(home):
            found[root].append(i)
        return tuple(tuple(members) for members in found.values())

    def comparison(self, left: int, right: int) -> int:
        """The number of the comparison of two columns."""
        return self._comparison_of[left, right]

    @cached_property
    def _comparison_of(self) -> dict[tuple[int, int], int]:
        return {(c.left, c.right): i for i, c in enumerate(self.comparisons)}

    def mask(self, atoms: Iterable[int]) -> U64:
        """A set of atoms as words."""
        return set_of(atoms, self.width)

    def swapped(self, mask: U64) -> U64 | None:
        """The set with the two rows exchanged, or None where the space cannot say it."""
        twins = [int(self.twins[atom]) for atom in members(mask)]
        return None if -1 in twins else self.mask(twins)

    def body(self, mask: U64) -> DC:
        """The denial constraint of a set of atoms, in the normal form of `rules.normal`."""
        return DC(tuple(sorted(self.predicates_of(mask), key=self._places.__getitem__)))

    def predicates_of(self, mask: U64) -> tuple[Predicate, ...]:
        """One predicate for each comparison that occurs in a set of atoms."""
        chosen: dict[int, frozenset[Op]] = {}
        for atom in members(mask):
            comparison, op = self.atoms[atom]
            chosen[comparison] = chosen.get(comparison, frozenset()) | {op}
        return tuple(self._known[i, _OPERATOR[ops]] for i, ops in chosen.items())

    @cached_property
    def _known(self) -> dict[tuple[int, Op], Predicate]:
        return {
            (i, op): Predicate(Column("t", self.columns[c.left]), op, Column("s", self.columns[c.right]))
            for i, c in enumerate(self.comparisons)
            for op in Op
        }

    @cached_property
    def _places(self) -> dict[Predicate, tuple[int, str]]:
        """Where predicates come in the normal form: by operator, then by text."""
        return {predicate: (_RANK[predicate.op], predicate_text(predicate)) for predicate in self._known.values()}

    def parse(self, body: DC) -> U64:
        """The set of atoms of a denial constraint over this space.

        Raises
        ------
        KeyError
            When a comparison of it is not in the space.
        """
        names = {name: i for i, name in enumerate(self.columns)}
        places = {(c.left, c.right): i for i, c in enumerate(self.comparisons)}
        terms = []
        for predicate in body.predicates:
            left, op, right = predicate.left, predicate.op, predicate.right
            assert isinstance(right, Column)
            if left.var == "s":
                left, op, right = right, op.flipped, left
            terms.append((places[names[left.name], names[right.name]], op))
        return self.terms_mask(terms)

    def terms_mask(self, terms: Iterable[tuple[int, Op]]) -> U64:
        """The set of atoms of comparisons (by number) with their operators."""
        atoms: list[int] = []
        for i, op in terms:
            known = self.comparisons[i].atoms
            atoms += [self.offsets[i] + known.index(one) for one in ({op} if op in known else _ATOMS[op])]
        return self.mask(atoms)


def _bridges(ways: set[tuple[int, int]], columns: int) -> set[tuple[int, int]]:
    """The comparisons of t.left with s.right that lie on no cycle (Tarjan). Complexity: O(columns + comparisons)."""
    beside: list[list[int]] = [[] for _ in range(2 * columns)]
    for left, right in ways:
        beside[left].append(columns + right)
        beside[columns + right].append(left)
    seen, low = [-1] * len(beside), [0] * len(beside)
    bridges: set[tuple[int, int]] = set()
    clock = 0
    for root in range(len(beside)):
        if seen[root] >= 0:
            continue
        seen[root] = low[root] = clock
        path = [(root, -1, iter(beside[root]))]
        while path:
            node, came, rest = path[-1]
            clock += 1
            for other in rest:
                if seen[other] < 0:
                    seen[other] = low[other] = clock
                    path.append((other, node, iter(beside[other])))
                    break
                if other != came:
                    low[node] = min(low[node], seen[other])
            else:
                path.pop()
                if came >= 0:
                    low[came] = min(low[came], low[node])
                    if low[node] > seen[came]:
                        one, two = sorted((node, came))
                        bridges.add((one, two - columns))
    return bridges


MOST_ENTAILED = 100_000
"""Atoms that are asked whether they follow from others, at most: some seconds. Spaces of thousands of predicates,
which no search ends on, would ask for hours; what is left unasked there is shown, and holds."""

MOST_KNOWN = 1 << 14
"""Combinations of which it is remembered what they entail: rules are much the same from batch to batch, and asking for
the two hundred of 100,000 taxes took a seventh of a batch that updates a tenth of them."""

_ORDERS: tuple[tuple[Var, Var], ...] = (("t", "s"), ("s", "t"))


def shown(space: Space, sets: U64) -> U64:
    """The sets to show, each once, in a fixed order.

    Minimal sets imply each other only through several columns (t.a = s.b and t.b = s.b and t.b = s.a make
    t.a = s.a), so only sets with three such comparisons or more are compared with others.

    Complexity: O(sets log sets), and O(sets) for each with three comparisons on a cycle.
    """
    kept = canonical(space, sets)
    kept = kept[(kept != 0).any(axis=1)]
    if not space.linked.any():
        return kept
    return np.ascontiguousarray(kept[~_implied(space, kept)])


def _implied(space: Space, kept: U64) -> Mask:
    """Which sets follow from another one through comparisons on a cycle.

    Sets are taken apart: what comparisons on a cycle entail is found once for each combination of them, and
    other comparisons follow only from themselves.
    """
    cyclic = space.mask(atom for atom, (i, _) in enumerate(space.atoms) if space.linked[i])
    on, off = kept & cyclic, kept & ~cyclic
    off_exchanged = exchanged(space, off)[0]
    implied = np.zeros(kept.shape[0], dtype=np.bool_)
    patterns, which = np.unique(on, axis=0, return_inverse=True)
    a_pattern = max(1, len(members(cyclic)))
    for number, pattern in enumerate(patterns[: MOST_ENTAILED // a_pattern]):
        if len(space.predicates_of(pattern)) < 3:
            continue
        ways = []
        for entailed, other in zip(_entailed(space, pattern, cyclic), (off, off_exchanged), strict=True):
            if (entailed != pattern).any() and entailed.any():
                near = np.flatnonzero(on.any(axis=1) & ((on & ~entailed) == 0).all(axis=1))
                ways.append((near, other[near]))
        for i in np.flatnonzero(which.ravel() == number).tolist() if ways else []:
            for near, others in ways:
                general = near[((others & ~off[i]) == 0).all(axis=1)]
                implied[i] |= bool((~implied[general] & (general != i)).any())
    return implied


def _entailed(space: Space, pattern: U64, among: U64) -> tuple[U64, U64]:
    """Atoms on cycles that hold where those of a pattern do; and those that hold with the rows exchanged."""
    known = space.entailed.get(pattern.tobytes())
    if known is not None:
        return known
    order = Order(space.predicates_of(pattern))
    found: tuple[list[int], list[int]] = ([], [])
    for atom in members(among):
        i, op = space.atoms[atom]
        left, right = space.columns[space.comparisons[i].left], space.columns[space.comparisons[i].right]
        for held, (t, s) in zip(found, _ORDERS, strict=True):
            if order.entails(Predicate(Column(t, left), op, Column(s, right))):
                held.append(atom)
    if len(space.entailed) >= MOST_KNOWN:
        space.entailed.clear()
    both = space.entailed[pattern.tobytes()] = space.mask(found[0]), space.mask(found[1])
    return both


def contradictory(space: Space, sets: U64) -> Mask:
    """Which sets hold atoms of one comparison that no values satisfy together. Complexity: O(sets x comparisons)."""
    found = np.zeros(sets.shape[0], dtype=np.bool_)
    for i, comparison in enumerate(space.comparisons):
        # = and !=, or <= and >= and !=
        every = space.mask(range(space.offsets[i], space.offsets[i] + len(comparison.atoms)))
        found |= ((sets & every) == every).all(axis=1)
    return found


def canonical(space: Space, sets: U64) -> U64:
    """The sets in a fixed order, of two that are each other with t and s exchanged the smaller one."""
    return np.unique(canonical_each(space, sets), axis=0) if sets.shape[0] else sets


def canonical_each(space: Space, sets: U64) -> U64:
    """Each set, or with t and s exchanged if that is the smaller one."""
    turned, possible = exchanged(space, sets)
    smaller = np.zeros(sets.shape[0], dtype=np.bool_)
    undecided = possible.copy()
    for w in range(sets.shape[1]):
        smaller |= undecided & (turned[:, w] < sets[:, w])
        undecided &= turned[:, w] == sets[:, w]
    return np.where(smaller[:, None], turned, sets)


def exchanged(space: Space, sets: U64) -> tuple[U64, Mask]:
    """Each set with t and s exchanged, and for which the space can say that."""
    out, possible = np.zeros_like(sets), np.ones(sets.shape[0], dtype=np.bool_)
    for atom, twin in enumerate(space.twins.tolist()):
        has = (sets[:, atom // 64] >> np.uint64(atom % 64)) & np.uint64(1)
        if twin < 0:
            possible &= has == 0
        else:
            out[:, twin // 64] |= has << np.uint64(twin % 64)
    return out, possible
