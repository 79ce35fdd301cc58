"""The planting of errors: a dirty copy of a true table, and a record of the cells that were made wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from workloads.dirty.dice import Dice

Change = Callable[[Dice, Any], Any]
"""From a true value to a wrong one; a value that stays as it is counts for none."""
Act = Callable[[int], int]
"""Plants errors at a row, and says how many."""
Kinds = Sequence[tuple[float, Act]]
"""Kinds of errors, each with its weight among them."""


class Planted(NamedTuple):
    """The true table, the same with errors, and the cells (row, column) that have one."""

    true: pa.Table
    dirty: pa.Table
    wrong: frozenset[tuple[int, str]]


class Planting:
    """Makes cells of a copy wrong, kind by kind; `cell` and those after it give the kinds for `plant`."""

    def __init__(self, dice: Dice, schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> None:
        self.dice = dice
        self.rows = len(rows)
        self.true: dict[str, list[Any]] = {name: [row[at] for row in rows] for at, name in enumerate(schema.names)}
        self._schema = schema
        self._dirty = {name: list(values) for name, values in self.true.items()}
        self._wrong: set[tuple[int, str]] = set()

    def put(self, row: int, column: str, value: Any) -> bool:
        """Make one cell wrong; False, and nothing changed, where it is so already or the value is the true one."""
        if (row, column) in self._wrong or self.true[column][row] == value:
            return False
        self._dirty[column][row] = value
        self._wrong.add((row, column))
        return True

    def touched(self, row: int, *columns: str) -> bool:
        """Whether one of these cells is wrong already."""
        return any((row, column) in self._wrong for column in columns)

    def cell(self, column: str, change: Change, where: Callable[[int], bool] | None = None) -> Act:
        """A change of one cell that holds a value."""

        def act(row: int) -> int:
            value = self.true[column][row]
            if value is None or (where is not None and not where(row)):
                return 0
            return int(self.put(row, column, change(self.dice, value)))

        return act

    def blank(self, column: str) -> Act:
        """A value that is lost."""
        return self.cell(column, lambda dice, value: None)

    def rowwise(self, column: str, change: Callable[[int], Any]) -> Act:
        """A new value that depends on the rest of the row; None stands for no error."""

        def act(row: int) -> int:
            value = None if self.true[column][row] is None else change(row)
            return int(value is not None and self.put(row, column, value))

        return act

    def other(self, column: str) -> Act:
        """Another value of the same column, drawn as the rows have them."""
        return self.rowwise(column, lambda row: self.dice.pick(self.true[column]))

    def swap(self, one: str, two: str) -> Act:
        """The values of two columns of a row change places."""

        def act(row: int) -> int:
            first, second = self.true[one][row], self.true[two][row]
            if first is None or second is None or first == second or self.touched(row, one, two):
                return 0
            self.put(row, one, second)
            self.put(row, two, first)
            return 1

        return act

    def shift(self, columns: Sequence[str]) -> Act:
        """The values of neighbouring columns slide one place to the right, and the last is lost."""

        def act(row: int) -> int:
            if self.touched(row, *columns):
                return 0
            values = [None, *(self.true[column][row] for column in columns[:-1])]
            changed = [self.put(row, column, value) for column, value in zip(columns, values, strict=True)]
            return int(any(changed))

        return act

    def run_of(self, column: str, length: int, change: Change) -> Act:
        """The same fault in a run of neighbouring rows: a bad batch."""
        single = self.cell(column, change)
        return lambda row: sum(single(at) for at in range(row, min(self.rows, row + length)))

    def plant(self, share: float, kinds: Kinds) -> Planted:
        """The tables, with errors of these kinds in about such a share of the rows."""
        total = sum(weight for weight, _ in kinds)
        for weight, act in kinds:
            quota = max(1, round(share * self.rows * weight / total))
            done = tries = 0
            while done < quota and tries < 40 * quota + 400:
                tries += 1
                done += act(self.dice.whole(0, self.rows - 1))
        return Planted(self._table(self.true), self._table(self._dirty), frozenset(self._wrong))

    def _table(self, columns: dict[str, list[Any]]) -> pa.Table:
        return pa.table([pa.array(columns[field.name], type=field.type) for field in self._schema], schema=self._schema)
