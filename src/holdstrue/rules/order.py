"""What a conjunction of comparisons entails: the closure of <= and < over its columns and constants."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterable
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeAlias

from holdstrue.operators import ABOVE, BELOW, EQUAL, Op
from holdstrue.rules.terms import Column, Constant, Predicate, Scalar

Comparand: TypeAlias = Column | Constant

_AT_MOST, _BELOW = 1, 2


def compare(left: Scalar, right: Scalar) -> int | None:
    """-1, 0 or 1 as left is below, equal to or above right; None where the two have no order.

    Examples
    --------
    >>> compare(1, 2.5), compare("a", "a"), compare(True, 1)
    (-1, 0, None)
    """
    families = (family(left), family(right))
    if families[0] != families[1] or "nan" in families:
        return None
    # The families were checked above; Decimal and float compare exactly.
    if left == right:
        return 0
    if left < right:  # type: ignore[operator]
        return -1
    return 1 if left > right else None  # type: ignore[operator]


def same_constant(left: Constant, right: Constant) -> bool:
    """Whether two constants are one value; a NaN is the same as itself."""
    if compare(left.value, right.value) == 0:
        return True
    return type(left.value) is type(right.value) and repr(left.value) == repr(right.value)


def family(value: Scalar) -> str:
    """Constants of one family have an order; those of the family `nan` have none."""
    match value:
        case bool():
            return "bool"
        case int():
            return "number"
        case float():
            return "number" if value == value else "nan"  # noqa: PLR0124
        case Decimal():
            return "nan" if value.is_nan() else "number"
        case str():
            return "text"
        case dt.datetime():
            return "instant" if value.tzinfo is not None else "timestamp"
        case dt.date():
            return "date"


def identity(term: Comparand) -> Hashable:
    """What two terms share when they are one: a NaN is itself, 1 and 1.0 are one number."""
    if isinstance(term, Column):
        return term
    kind = family(term.value)
    return (kind, repr(term.value), type(term.value)) if kind == "nan" else (kind, term.value)


class Order:
    """The closure of a conjunction, for asking whether it can hold and what follows from it.

    All comparisons of the conjunction are taken to be true, hence every column they read to be known:
    what follows is never about a NULL. Columns and constants are the nodes of a graph, `at most` its edges, some of
    them strict; nodes on a cycle are equal. What is at most and unequal is below.

    Runtime complexity: O(n log n) to build for n comparisons, and O(n^2 / 64) words for the first question about
    what follows.

    Examples
    --------
    >>> a, b, c = (Column("t", name) for name in "abc")
    >>> order = Order([Predicate(a, Op.LT, b), Predicate(b, Op.LE, c)])
    >>> order.entails(Predicate(a, Op.NE, c)), order.possible
    (True, True)
    >>> Order([Predicate(a, Op.LT, b), Predicate(b, Op.LT, a)]).possible
    False
    """

    def __init__(self, predicates: Iterable[Predicate]) -> None:
        self._nodes: dict[Hashable, int] = {}
        self._constants: list[tuple[int, Constant]] = []
        self._at_most: list[tuple[int, int, bool]] = []
        """Pairs of nodes of which the first is at most the second, or below it."""
        self._unequal: list[tuple[int, int]] = []
        for predicate in predicates:
            left, right = self._node(predicate.left), self._node(predicate.right)
            allowed = predicate.op.outcomes
            strict = EQUAL not in allowed
            if ABOVE not in allowed:
                self._at_most.append((left, right, strict))
            if BELOW not in allowed:
                self._at_most.append((right, left, strict))
            if strict and BELOW in allowed and ABOVE in allowed:
                self._unequal.append((left, right))
        # constants that compare, from the least to the greatest
        families: dict[str, list[tuple[Any, int]]] = {}
        for node, constant in self._constants:
            kind = family(constant.value)
            if kind != "nan":
                families.setdefault(kind, []).append((constant.value, node))
        for members in families.values():
            members.sort(key=itemgetter(0))
            self._at_most += [(low, high, True) for (_, low), (_, high) in pairwise(members)]

    @cached_property
    def possible(self) -> bool:
        """Whether some values make the whole conjunction true."""
        part = self._parts
        return all(part[i] != part[j] for i, j in self._unequal) and not any(
            strict and part[i] == part[j] for i, j, strict in self._at_most
        )

    def entails(self, predicate: Predicate) -> bool:
        """Whether `predicate` is true whenever the conjunction is (and so never unknown)."""
        left = self._nodes.get(identity(predicate.left))
        if left is None:
            return False
        if isinstance(predicate.right, Constant):
            return self._entails_constant(left, predicate.op, predicate.right)
        right = self._nodes.get(identity(predicate.right))
        if right is None:
            return False
        down, up = self._strength(left, right), self._strength(right, left)
        unequal = (self._parts[left], self._parts[right]) in self._closure[2]
        return _sure(predicate.op, down, up, unequal)

    def _entails_constant(self, left: int, op: Op, constant: Constant) -> bool:
        # The constant need not occur in the conjunction: any constant that does may stand between.
        below = above = 0  # how surely left is at most the constant, and at least
        unequal = False
        for i, term in self._constants:
            sign = 0 if same_constant(term, constant) else compare(term.value, constant.value)
            if sign is None:
                continue
            down, up = self._strength(left, i), self._strength(i, left)
            if sign <= 0 and down:
                below = max(below, _BELOW if sign < 0 else down)
            if sign >= 0 and up:
                above = max(above, _BELOW if sign > 0 else up)
            if sign == 0:
                unequal = unequal or (self._parts[left], self._parts[i]) in self._closure[2]
        return _sure(op, below, above, unequal)

    # --- the graph -----------------------------------------------------------------------------

    def _node(self, term: Comparand) -> int:
        new = len(self._nodes)
        node = self._nodes.setdefault(identity(term), new)
        if node == new and isinstance(term, Constant):
            self._constants.append((node, term))
        return node

    @cached_property
    def _parts(self) -> list[int]:
        """Of each node the number of its part: nodes that are at most each other. Later parts reach earlier ones."""
        return strong_parts(len(self._nodes), [(i, j) for i, j, _ in self._at_most])

    @cached_property
    def _closure(self) -> tuple[list[int], list[int], set[tuple[int, int]]]:
        """By part the set (as bits) of parts it is at most, and of those it is below; and parts that are unequal."""
        part = self._parts
        count = max(part, default=-1) + 1
        after: list[set[tuple[int, bool]]] = [set() for _ in range(count)]
        for i, j, strict in self._at_most:
            if part[i] != part[j] or strict:
                after[part[i]].add((part[j], strict))
        unequal = {(part[i], part[j]) for i, j in self._unequal}
        unequal |= {(j, i) for i, j in unequal}
        others: list[list[int]] = [[] for _ in range(count)]
        for i, j in unequal:
            others[i].append(j)
        reach, below = [0] * count, [0] * count
        for i in range(count):  # what a part reaches has a smaller number
            reach[i] = 1 << i
            for j, _ in after[i]:
                reach[i] |= reach[j]
            for j, strict in after[i]:
                below[i] |= reach[j] if strict else below[j]
            for j in others[i]:
                below[i] |= reach[j] if reach[i] >> j & 1 else 0
        return reach, below, unequal

    def _strength(self, low: int, high: int) -> int:
        """How surely a node is at most another: not, at most, or below."""
        reach, below, _ = self._closure
        i, j = self._parts[low], self._parts[high]
        return _BELOW if below[i] >> j & 1 else _AT_MOST if reach[i] >> j & 1 else 0


def _sure(op: Op, below: int, above: int, unequal: bool) -> bool:
    """Whether every outcome that an operator does not allow is ruled out, by how surely the sides are at most, at
    least, or unlike each other."""
    ruled_out = {ABOVE: bool(below), BELOW: bool(above), EQUAL: unequal or _BELOW in (below, above)}
    return all(ruled_out[outcome] for outcome in op.negated.outcomes)


def strong_parts(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """The number of each node's strongly connected part; a part that reaches another has the greater number.

    Tarjan's algorithm without recursion. Runtime complexity: O(nodes + edges).

    Examples
    --------
    >>> strong_parts(4, [(0, 1), (1, 0), (1, 2), (3, 3)])
    [1, 1, 0, 2]
    """
    after: list[list[int]] = [[] for _ in range(count)]
    for i, j in edges:
        after[i].append(j)
    part, met, lowest = [-1] * count, [-1] * count, [0] * count
    parts = clock = 0
    open_nodes: list[int] = []
    for root in range(count):
        if met[root] >= 0:
            continue
        path = [(root, iter(after[root]))]
        met[root] = lowest[root] = clock
        clock += 1
        open_nodes.append(root)
        while path:
            node, rest = path[-1]
            for following in rest:
                if met[following] < 0:
                    met[following] = lowest[following] = clock
                    clock += 1
                    open_nodes.append(following)
                    path.append((following, iter(after[following])))
                    break
                if part[following] < 0:
                    lowest[node] = min(lowest[node], met[following])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == met[node]:
                    while part[node] < 0:
                        part[open_nodes.pop()] = parts
                    parts += 1
    return part
