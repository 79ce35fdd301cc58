"""The sets of rows that compare with one value of a probed row, each computed once for all checks.

Sections 5.1 and 5.5 of Kaminsky, Pena, Naumann: Incremental Detection of Denial Constraint Violations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdstrue.papers.lt_tree import InvertedColumn, LTTree, bitmap_type

if TYPE_CHECKING:
    from pyroaring import BitMap


class Operand:
    """The rows that compare with one value of the probed row: equal, smaller, or either.

    >>> from pyroaring import BitMap
    >>> pay = LTTree()
    >>> for row, value in enumerate([10, 20, 10, 30, 40]):
    ...     pay.insert(value, BitMap([row]))
    >>> operand = Operand(pay, 20, None)
    >>> list(operand.equal()), list(operand.smaller()), list(operand.upto())
    ([1], [0, 2], [0, 1, 2])
    """

    __slots__ = ("_column", "_equal", "_running", "_smaller", "_upto", "_value")

    def __init__(self, column: InvertedColumn, value: int, running: RunningOperand | None) -> None:
        self._column = column
        self._value = value
        self._running = running
        self._equal: BitMap | None = None
        self._smaller: BitMap | None = None
        self._upto: BitMap | None = None

    def equal(self) -> BitMap:
        """Rows with the same value."""
        if self._equal is None:
            self._equal = self._column.equal(self._value)
        return self._equal

    def smaller(self) -> BitMap:
        """Rows with a smaller value."""
        if self._smaller is None:
            if self._running is not None:
                self._smaller = self._running.advance(self._value)
            else:
                assert isinstance(self._column, LTTree)
                self._smaller = self._column.smaller(self._value)
        return self._smaller

    def upto(self) -> BitMap:
        """Rows with a smaller value or the same."""
        if self._upto is None:
            self._upto = self.smaller() | self.equal()
        return self._upto


class RunningOperand:
    """Section 5.5: the smaller rows of an ascending run of values, extended instead of searched anew."""

    def __init__(self, tree: LTTree) -> None:
        self._tree = tree
        self._value: int | None = None
        self._smaller: BitMap = bitmap_type()()

    def advance(self, value: int) -> BitMap:
        """Rows below `value`, which is not below the last one; the same set is returned and grows."""
        if self._value is None:
            self._smaller = self._tree.smaller(value)
        elif value > self._value:
            self._smaller |= self._tree.between(self._value, value)
        self._value = value
        return self._smaller
