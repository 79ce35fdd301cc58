"""What a conjunction of comparisons entails: the closure of <= and < over its columns and constants."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import TypeAlias

from holdstrue.rules.model import Column, Constant, Op, Predicate, Scalar

Term: TypeAlias = Column | Constant

_AT_MOST, _BELOW = 1, 2


def compare(left: Scalar, right: Scalar) -> int | None:
    """-1, 0 or 1 as left is below, equal to or above right; None where the two have no order.

    Examples
    --------
    >>> compare(1, 2.5), compare("a", "a"), compare(True, 1)
    (-1, 0, None)
    """
    if not _comparable(left, right):
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


def _comparable(left: Scalar, right: Scalar) -> bool:
    families = (_family(left), _family(right))
    return families[0] == families[1] and "nan" not in families


def _family(value: Scalar) -> str:
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


class Order:
    """The closure of a conjunction, for asking whether it can hold and what follows from it.

    All comparisons of the conjunction are taken to be true, hence every column they read to be known:
    what follows is never about a NULL. Runtime complexity: O(n^3) to build for n columns and constants.

    Examples
    --------
    >>> from holdstrue.rules.model import Column, Op
    >>> a, b, c = (Column("t", name) for name in "abc")
    >>> order = Order([Predicate(a, Op.LT, b), Predicate(b, Op.LE, c)])
    >>> order.entails(Predicate(a, Op.NE, c)), order.possible
    (True, True)
    >>> Order([Predicate(a, Op.LT, b), Predicate(b, Op.LT, a)]).possible
    False
    """

    def __init__(self, predicates: Iterable[Predicate]) -> None:
        self._terms: list[Term] = []
        self._below: list[list[int]] = []
        self._unequal: set[tuple[int, int]] = set()
        for predicate in predicates:
            self._assume(self._index(predicate.left), predicate.op, self._index(predicate.right))
        self._close()

    @property
    def possible(self) -> bool:
        """Whether some values make the whole conjunction true."""
        nodes = range(len(self._terms))
        return all(self._below[i][i] != _BELOW for i in nodes) and not any(self._same(i, j) for i, j in self._unequal)

    def entails(self, predicate: Predicate) -> bool:
        """Whether `predicate` is true whenever the conjunction is (and so never unknown)."""
        left = self._find(predicate.left)
        if left is None:
            return False
        if isinstance(predicate.right, Constant):
            return self._entails_constant(left, predicate.op, predicate.right)
        right = self._find(predicate.right)
        if right is None:
            return False
        down, up = self._below[left][right], self._below[right][left]
        match predicate.op:
            case Op.EQ:
                return bool(down and up)
            case Op.NE:
                return _BELOW in (down, up) or any(
                    self._same(left, i) and self._same(right, j) for i, j in self._unequal
                )
            case Op.LT:
                return down == _BELOW
            case Op.LE:
                return down > 0
            case Op.GT:
                return up == _BELOW
            case Op.GE:
                return up > 0

    def _entails_constant(self, left: int, op: Op, constant: Constant) -> bool:
        # The constant need not occur in the conjunction: any constant that does may stand between.
        strength: dict[bool, int] = {False: 0, True: 0}  # keyed by "upwards": left below the constant
        unequal = False
        for i, term in enumerate(self._terms):
            if not isinstance(term, Constant):
                continue
            sign = 0 if same_constant(term, constant) else compare(term.value, constant.value)
            if sign is None:
                continue
            if sign <= 0 and self._below[left][i]:
                strength[True] = max(strength[True], _BELOW if sign < 0 else self._below[left][i])
            if sign >= 0 and self._below[i][left]:
                strength[False] = max(strength[False], _BELOW if sign > 0 else self._below[i][left])
            if sign == 0:
                unequal = unequal or any(self._same(left, j) and self._same(i, k) for j, k in self._unequal)
        match op:
            case Op.EQ:
                return bool(strength[True] and strength[False])
            case Op.NE:
                return unequal or _BELOW in strength.values()
            case Op.LT | Op.LE:
                return strength[True] >= (_BELOW if op is Op.LT else _AT_MOST)
            case Op.GT | Op.GE:
                return strength[False] >= (_BELOW if op is Op.GT else _AT_MOST)

    def _same(self, i: int, j: int) -> bool:
        return bool(self._below[i][j] and self._below[j][i])

    def _find(self, term: Term) -> int | None:
        for i, known in enumerate(self._terms):
            if isinstance(term, Constant):
                if isinstance(known, Constant) and same_constant(term, known):
                    return i
            elif term == known:
                return i
        return None

    def _index(self, term: Term) -> int:
        found = self._find(term)
        if found is not None:
            return found
        new = len(self._terms)
        for row in self._below:
            row.append(0)
        self._terms.append(term)
        self._below.append([0] * new + [_AT_MOST])
        if isinstance(term, Constant):
            for i, known in enumerate(self._terms[:new]):
                sign = compare(known.value, term.value) if isinstance(known, Constant) else None
                if sign is not None:
                    low, high = (i, new) if sign < 0 else (new, i)
                    self._below[low][high] = _BELOW
        return new

    def _assume(self, left: int, op: Op, right: int) -> None:
        if op is Op.NE:
            self._unequal |= {(left, right), (right, left)}
        if op in (Op.EQ, Op.LE, Op.LT):
            self._below[left][right] = max(self._below[left][right], _BELOW if op is Op.LT else _AT_MOST)
        if op in (Op.EQ, Op.GE, Op.GT):
            self._below[right][left] = max(self._below[right][left], _BELOW if op is Op.GT else _AT_MOST)

    def _close(self) -> None:
        nodes = range(len(self._terms))
        below = self._below
        while True:
            for k in nodes:
                for i in nodes:
                    if below[i][k]:
                        for j in nodes:
                            if below[k][j]:
                                below[i][j] = max(below[i][j], below[i][k], below[k][j])
            # At most and unequal is below; that may start new chains.
            sharper = [
                (p, q)
                for i, j in self._unequal
                for p in nodes
                for q in nodes
                if below[p][q] == _AT_MOST and self._same(i, p) and self._same(j, q) and not self._same(p, q)
            ]
            if not sharper:
                return
            for p, q in sharper:
                below[p][q] = _BELOW
