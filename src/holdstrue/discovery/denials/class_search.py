"""Rules whose comparisons are on columns of few values, but for two orders: settled by pairs of classes of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Protocol

import numpy as np

from holdstrue.discovery.denials.column_terms import CODE, ColumnTerm, Pair, driven
from holdstrue.discovery.denials.row_classes import RowClasses
from holdstrue.kernels import class_pairs as kernels
from holdstrue.rules.model import Op
from holdstrue.typing import I32, I64

STEPS_PER_ROW = 8
"""Rows of frontiers that are looked at for each row of the table: a sweep with a tree takes as long."""

_NONE = [-1, -1, 0, 1]


class Keep(Protocol):
    """Makes a thing, or gives it again."""

    def __call__(self, name: object, make: Callable[[], tuple[Any, int]]) -> Any:
        """What was made before under a name, or is made now with its size."""


@dataclass(frozen=True)
class ClassedRule:
    """A rule as comparisons of columns of few values, and for each way to satisfy it up to two orders."""

    few: tuple[ColumnTerm, ...]
    ways: tuple[tuple[ColumnTerm, ...], ...]


class ClassSearch:
    """Pairs of rows that break rules, by classes; frontiers are kept with what else rules share."""

    def __init__(self, ranks: I32, arranged: Callable[[I32, int, int], I32], keep: Keep) -> None:
        self._ranks = ranks
        self._arranged = arranged
        self._keep = keep

    @cached_property
    def classes(self) -> RowClasses:
        """The classes of all rows."""
        return RowClasses(self._ranks)

    def split(self, terms: Sequence[ColumnTerm]) -> ClassedRule | None:
        """The rule as classes take it; None where columns of many values are equal, or in more than two orders."""
        if not any(term.apart for term in terms):
            return None  # a row could satisfy it with itself
        places = self.classes.places
        few = tuple(term for term in terms if term.left in places and term.right in places)
        wide = [term for term in terms if term not in few]
        if len(wide) > 2 or any(term.op is Op.EQ for term in wide):
            return None
        # different is less or greater
        choices = [(Op.LT, Op.GT) if term.op is Op.NE else (term.op,) for term in wide]
        found = []
        for chosen in product(*choices):
            orders = [ColumnTerm(term.left, op, term.right) for term, op in zip(wide, chosen, strict=True)]
            found.append(tuple(sorted(orders, key=lambda term: (term.left, term.right))))
        return ClassedRule(few, tuple(found))

    def pair(self, rule: ClassedRule) -> tuple[bool, Pair | None]:
        """Whether it was found out, and two rows that satisfy a rule.

        It is not where frontiers that are long meet often. Complexity: O(rows + classes^2 x comparisons).
        """
        places, out = self.classes.places, np.empty(2, dtype=np.int64)
        few = [(CODE[term.op], places[term.left], places[term.right]) for term in rule.few]
        terms = np.array(few, dtype=np.int64).reshape(-1, 3)
        for way in rule.ways:
            orders = np.array([*(driven(term) for term in way), _NONE, _NONE][:2], dtype=np.int64)
            t = self._frontier(orders[:, 0], orders[:, 3])
            s = self._frontier(orders[:, 1], -orders[:, 3])
            most = STEPS_PER_ROW * self._ranks.shape[1]
            found = kernels.match_classes(self._ranks, self.classes.values, terms, *t, *s, orders, most, out)
            if found:
                return (True, (int(out[0]), int(out[1]))) if found > 0 else (False, None)
        return True, None

    def _frontier(self, columns: I64, signs: I64) -> tuple[I32, I64]:
        """By class the rows that no other exceeds; a row of each where there is no order."""
        x, y = columns.tolist()
        signs = np.where(columns < 0, 1, signs)

        def made() -> tuple[tuple[I32, I64], int]:
            order = self._keep(("classes", x), lambda: self._ordered(x))
            rows, starts = np.empty(order.size, dtype=np.int32), np.empty(len(self.classes) + 1, dtype=np.int64)
            # without a column the rows of a class are in any order, and one of them will do
            asked = np.array([x, y, *signs.tolist()], dtype=np.int64)
            used = kernels.frontier(self._ranks, order, self.classes.of, asked, rows, starts)
            rows = rows[:used].copy()
            return (rows, starts), rows.nbytes + starts.nbytes

        found: tuple[I32, I64] = self._keep(("frontier", x, y, *signs.tolist()), made)
        return found

    def _ordered(self, column: int) -> tuple[I32, int]:
        order = self._arranged(self.classes.of, len(self.classes), column)
        return order, order.nbytes
