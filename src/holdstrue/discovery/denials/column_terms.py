"""The comparisons of a denial constraint, columns by number, as those who verify it take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdstrue.kernels import refute as kernels
from holdstrue.rules.model import Op

Pair: TypeAlias = tuple[int, int]
Equalities: TypeAlias = tuple[tuple[int, int], ...]

CODE = {Op.EQ: kernels.EQ, Op.NE: kernels.NE, Op.LT: kernels.LT, Op.LE: kernels.LE, Op.GT: kernels.GT,
         Op.GE: kernels.GE}  # fmt: skip
STRICT = (Op.LT, Op.GT)
"""Operators as kernels number them."""


@dataclass(frozen=True)
class ColumnTerm:
    """t.left OP s.right, columns by number."""

    left: int
    op: Op
    right: int

    @property
    def flipped(self) -> ColumnTerm:
        """The same with the rows exchanged."""
        return ColumnTerm(self.right, self.op.flipped, self.left)

    @property
    def apart(self) -> bool:
        """Whether no row satisfies it with itself."""
        return self.left == self.right and self.op in (*STRICT, Op.NE)


def equalities(terms: Sequence[ColumnTerm]) -> Equalities:
    """The columns that a rule says are equal."""
    return tuple(sorted((term.left, term.right) for term in terms if term.op is Op.EQ))


def driven(term: ColumnTerm) -> list[int]:
    """An order as the sweeps take it: the columns, 1 if strict, and -1 where t has the lower value."""
    return [term.left, term.right, int(term.op in STRICT), 1 if term.op in (Op.GT, Op.GE) else -1]
