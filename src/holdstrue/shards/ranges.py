"""Order rules without equalities, by ranges of the values that they order: no row has to meet every other.

Every ordered column is cut into ranges, numbered upwards. Take two rows and the first term in which they lie in the
same range: before it their ranges already say how they compare. So the violations of `t.a > s.a and t.b < s.b` are,
each once,

- pairs in one range of a: `t.a > s.a and t.b < s.b` among them;
- pairs in one range of b that lie in different ranges of a: `range(t.a) > range(s.a) and t.b < s.b` among them;
- pairs that lie apart in both: `range(t.a) > range(s.a) and range(t.b) < range(s.b)`, which follows from how many rows
  there are in each combination of ranges.

The first two are rules with an equality, whose rows meet range by range; the last needs sums over a small grid. A row
goes to as many places as there are terms, where a grid of r blocks sends it to r of them. It is paper 002's relative
position of rows (Zhang et al., One-Pass Inconsistency Detection), taken range by range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from holdstrue.index.protocol import Term
from holdstrue.operators import ABOVE, EQUAL, Op, op_of
from holdstrue.plan.checks import Check, PairCheck
from holdstrue.typing import I64, Mask

MOST_TERMS = 4
"""With more terms the ranges of each would be too few to spread the rows."""
CELLS = 1 << 16
"""So many combinations of ranges the driver holds at most, a number of rows for each. Chosen, not tuned."""


def is_ranged(check: Check) -> bool:
    """Whether a check orders columns with themselves and does nothing else.

    >>> salary, rate = Term("salary", Op.GT, "salary"), Term("rate", Op.LE, "rate")
    >>> is_ranged(PairCheck(0, "t", (salary, rate))), is_ranged(PairCheck(0, "t", (Term("a", Op.EQ, "a"), rate)))
    (True, False)
    """
    if not isinstance(check, PairCheck) or not 1 <= len(check.terms) <= MOST_TERMS:
        return False
    columns = [term.left for term in check.terms]
    plain = all(term.left == term.right and term.op.is_order for term in check.terms)
    return plain and len({*columns}) == len(columns)


def most_cuts(terms: int) -> int:
    """At how many values a column may be cut, so that the combinations of ranges stay few.

    >>> [most_cuts(terms) for terms in (1, 2, 3, 4)]
    [32767, 127, 19, 7]
    """
    return (int(round(CELLS ** (1 / terms), 6)) - 1) // 2


def apart(op: Op) -> Op:
    """How two ranges stand to each other where values that lie in them satisfy an operator.

    >>> str(apart(Op.GE)), str(apart(Op.LT))
    ('>', '<')
    """
    return op_of(op.outcomes - {EQUAL})


@dataclass(frozen=True)
class RangeColumns:
    """The names of the two columns that a term needs, both of the number of a value's range.

    `place` is where rows meet: NULL where a range holds a single value and the operator allows no equal ones.
    """

    number: str
    place: str


def range_columns(term: Term[str]) -> RangeColumns:
    """What the columns of a term are called; terms that allow the same of equal values share them.

    >>> range_columns(Term("a", Op.GE, "a")), range_columns(Term("a", Op.LT, "a")).place
    (RangeColumns(number=':range a', place=':place a'), ':open place a')
    """
    return RangeColumns(f":range {term.left}", f":{'' if allows_equal(term.op) else 'open '}place {term.left}")


def allows_equal(op: Op) -> bool:
    """Whether equal values satisfy an operator."""
    return EQUAL in op.outcomes


def meeting(check: PairCheck) -> list[PairCheck]:
    """The checks of pairs that share a range, one for each term that may be the first in which they do.

    >>> check = PairCheck(0, "data", (Term("a", Op.GT, "a"), Term("b", Op.LE, "b")))
    >>> for one in meeting(check):
    ...     print(" and ".join(map(str, one.terms)))
    t.:open place a = s.:open place a and t.a > s.a and t.b <= s.b
    t.:place b = s.:place b and t.:range a > s.:range a and t.b <= s.b
    """
    found = []
    for at, term in enumerate(check.terms):
        place = range_columns(term).place
        before = [Term(own := range_columns(t).number, apart(t.op), own) for t in check.terms[:at]]
        found.append(replace(check, terms=(Term(place, Op.EQ, place), *before, *check.terms[at:])))
    return found


@dataclass(frozen=True)
class ApartCells:
    """How many rows may be t, and may be s, in each combination of ranges, a dimension for each term."""

    ops: tuple[Op, ...]
    t: I64
    s: I64

    def pairs(self) -> int:
        """How many pairs lie apart in every term. Complexity: O(cells * terms), as all of these.

        >>> rows = np.array([[0, 3], [2, 0]])
        >>> ApartCells((Op.GT, Op.LE), rows, rows).pairs()
        6
        """
        partners = beyond(self.s, self.ops)
        cells = np.flatnonzero((self.t > 0) & (partners > 0))
        # of numbers without end: there are more pairs than 64 bits count where there are enough rows
        return sum(int(a) * int(b) for a, b in zip(self.t.flat[cells], partners.flat[cells], strict=True))

    def partnered(self) -> tuple[Mask, Mask]:
        """The cells whose rows are t, and are s, in some pair that lies apart."""
        back = tuple(op.flipped for op in self.ops)
        return beyond(self.s, self.ops) > 0, beyond(self.t, back) > 0

    def pairs_of_cells(self, most: int) -> list[tuple[int, int]]:
        """Pairs of cells, as flat numbers, with at least so many pairs of rows, or all: one with enough, or small ones.

        Complexity: O(min(most, cells) * cells) at worst, and O(cells) where the first pair has enough.
        """
        numbers = np.arange(self.s.size).reshape(self.s.shape)
        places = np.flatnonzero((self.t > 0) & (beyond(self.s, self.ops) > 0))
        found: list[tuple[int, int, int]] = []
        total = 0
        for cell in places[np.argsort(-self.t.flat[places], kind="stable")]:
            there = np.unravel_index(cell, self.t.shape)
            # the cells that lie apart from this one are a box of the grid, from a corner of it to this cell
            box = tuple(
                slice(0, at) if ABOVE in op.outcomes else slice(at + 1, None)
                for at, op in zip(there, self.ops, strict=True)
            )
            inside = numbers[box].ravel()
            inside = inside[self.s.flat[inside] > 0]
            ordered = inside[np.argsort(-self.s.flat[inside], kind="stable")]
            for other in ordered[:most]:
                product = int(self.t.flat[cell]) * int(self.s.flat[other])
                found.append((product, int(cell), int(other)))
                total += product
                if total >= most:
                    break
            if total >= most:
                break
        largest = max(found, default=(0, 0, 0))
        if largest[0] >= most:
            return [largest[1:]]
        return [(t, s) for _, t, s in found]


def beyond(rows: I64, ops: Sequence[Op]) -> I64:
    """For each cell how many rows lie in cells to which it stands as the operators say, in every dimension.

    >>> beyond(np.array([5, 0, 2]), [Op.GT]).tolist(), beyond(np.array([5, 0, 2]), [Op.LE]).tolist()
    ([0, 5, 5], [2, 2, 0])
    """
    found = rows
    for axis, op in enumerate(ops):
        upwards = ABOVE in op.outcomes
        own = found if upwards else np.flip(found, axis)
        below = np.cumsum(own, axis=axis, dtype=np.int64) - own
        found = below if upwards else np.flip(below, axis)
    return np.ascontiguousarray(found)
