"""A table as cells that can be suspected: a code for every value, counts of values, and groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.values import family_of
from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.work import Work
from holdstrue.kernels import majority
from holdstrue.typing import I32, I64, Mask

LONGEST = 400
"""Letters of a text that are compared: two such take 0.2 ms."""


@dataclass(frozen=True)
class Grouped:
    """Rows by group: `of` says the group of each row (-1: a value of it is unknown), `rows` lists them by group."""

    of: I64
    rows: I32
    starts: I64

    @property
    def many(self) -> int:
        """How many groups there are."""
        return self.starts.size - 1


@dataclass(frozen=True)
class GroupTally:
    """What a column holds in the groups: by group the commonest code and counts, by row the count of its own code."""

    top: I32
    first: I32
    second: I32
    known: I32
    own: I32


def in_groups(of: I64, least: int = 1) -> Grouped:
    """Rows by the group that each is in, -1 for none; of at least so many groups. Complexity: O(rows).

    >>> grouped = in_groups(np.array([1, -1, 0, 1]))
    >>> grouped.rows.tolist(), grouped.starts.tolist()
    ([1, 2, 0, 3], [1, 2, 4])
    """
    many = max(least, int(of.max(initial=-1)) + 1)
    starts: I64 = np.cumsum(np.bincount(of + 1, minlength=many + 1)).astype(np.int64)
    rows = np.empty(of.size, dtype=np.int32)
    majority.place(of, np.concatenate((np.zeros(1, dtype=np.int64), starts[:-1])), rows)
    return Grouped(of, rows, starts)


class CodedCells:
    """The codes of a table's columns, with the values they stand for.

    Examples
    --------
    >>> cells = CodedCells(pa.table({"zip": ["1", "1", "2"], "city": ["Bonn", "Bonn", None]}))
    >>> cells.codes.tolist(), cells.counts[1].tolist(), cells.value(1, 0)
    ([[0, 0, 1], [0, 0, -1]], [2], 'Bonn')
    >>> cells.tally(cells.grouped((0,)), 1).first.tolist()
    [2, 0]
    """

    def __init__(self, table: pa.Table) -> None:
        coded = Codes(table.schema, "unknown")
        coded.append(coded.encode(table, Work(threads=1)))
        self.table = table
        self.names = coded.names
        self.rows = table.num_rows
        self.codes: I32 = np.ascontiguousarray(coded.matrix[:, : self.rows])
        """The code of each cell by column and row; -1 where it is unknown."""
        self.counts: list[I64] = []
        self.distinct: list[pa.Array] = []
        """By column the values in the order of their codes."""
        for number, name in enumerate(self.names):
            column = self.codes[number]
            known = np.flatnonzero(column >= 0)
            counts = np.bincount(column[known])
            first = np.zeros(counts.size, dtype=np.int64)
            first[column[known][::-1]] = known[::-1]
            self.counts.append(counts)
            self.distinct.append(table.column(name).take(pa.array(first)).combine_chunks())
        self._texts: dict[int, list[str] | None] = {}
        self._rows: dict[int, tuple[I32, I64]] = {}

    @cached_property
    def known(self) -> list[int]:
        """By column how many cells have a value."""
        return [int(counts.sum()) for counts in self.counts]

    def text_like(self, column: int) -> bool:
        """Whether a column holds text."""
        return family_of(self.table.schema.field(self.names[column]).type) == "text"

    def measure_like(self, column: int) -> bool:
        """Whether a column holds measures: fractions, times, or text of which most are fractions."""
        family = family_of(self.table.schema.field(self.names[column]).type)
        if family != "text":
            return family != "integer"
        fractions = pc.match_substring_regex(self.distinct[column], r"^[-+]?[0-9]+\.[0-9]+$")
        return 2 * (pc.sum(fractions).as_py() or 0) > len(fractions)

    def texts(self, column: int) -> list[str]:
        """The values of a column as text, in the order of their codes."""
        found = self._texts.get(column)
        if found is None:
            values = self.distinct[column].to_pylist()
            found = self._texts[column] = [value if isinstance(value, str) else str(value) for value in values]
        return found

    def read(self, column: int, text: str) -> Any:
        """A proposed text as a value of the column; None where its type has no such value, such as 128 in int8."""
        if self.text_like(column):
            return text
        try:
            return pa.scalar(text).cast(self.distinct[column].type).as_py()
        except pa.ArrowInvalid:
            return None

    def value(self, column: int, code: int) -> Any:
        """The value of a code."""
        return self.distinct[column][code].as_py()

    def rows_by_code(self, column: int) -> tuple[I32, I64]:
        """The rows of a column by code, in their order: those of code c are `rows[starts[c]:starts[c + 1]]`."""
        found = self._rows.get(column)
        if found is None:
            grouped = in_groups(self.codes[column].astype(np.int64), self.counts[column].size)
            found = self._rows[column] = grouped.rows, grouped.starts
        return found

    def grouped(self, columns: Sequence[int], codes: I32 | None = None) -> Grouped:
        """Rows by their values in some columns. Complexity: O(rows), O(rows log rows) for several columns."""
        matrix = self.codes if codes is None else codes
        of = matrix[columns[0]].astype(np.int64) if columns else np.zeros(self.rows, dtype=np.int64)
        for column in columns[1:]:
            more = matrix[column].astype(np.int64)
            both = (of >= 0) & (more >= 0)
            joint = of[both] * (more.max(initial=0) + 1) + more[both]
            of = np.full(self.rows, -1, dtype=np.int64)
            of[both] = np.unique(joint, return_inverse=True)[1]
        return in_groups(of)

    def tally(self, grouped: Grouped, column: int, codes: I32 | None = None) -> GroupTally:
        """What a column holds in the groups. Complexity: O(rows)."""
        held = np.ascontiguousarray(self.codes[column] if codes is None else codes[column])
        groups = np.zeros((grouped.many, 4), dtype=np.int32)
        own = np.zeros(self.rows, dtype=np.int32)
        counts = np.zeros(self.counts[column].size + 1, dtype=np.int32)
        majority.tally(grouped.rows, grouped.starts, held, counts, groups, own)
        top, first, second, known = (np.ascontiguousarray(groups[:, part]) for part in range(4))
        return GroupTally(top, first, second, known, own)

    def closeness(self, column: int, pairs: I64) -> tuple[I64, I64]:
        """For pairs of codes how many edits make one text of the other, and the length of the longer text."""
        texts = self.texts(column)
        return edits_between(texts, pairs)


def edits_between(texts: Sequence[str], pairs: I64) -> tuple[I64, I64]:
    """For pairs of numbers of texts the edits between them, and the length of the longer one.

    >>> edits_between(["Bonn", "Bomn", "Ulm"], np.array([[0, 1], [0, 2]]))[0].tolist()
    [1, 4]
    """
    used, inverse = np.unique(pairs, return_inverse=True)
    chosen = [texts[int(number)][:LONGEST] for number in used]
    letters = np.frombuffer("".join(chosen).encode("utf-32-le", "surrogatepass"), dtype=np.int32).copy()
    ends = np.concatenate(([0], np.cumsum([len(text) for text in chosen]))).astype(np.int64)
    left, right = (np.ascontiguousarray(side) for side in inverse.reshape(-1, 2).T.astype(np.int64))
    out = np.zeros(left.size, dtype=np.int64)
    lengths = np.diff(ends)
    scratch = np.zeros((3, int(lengths.max(initial=0)) + 1), dtype=np.int64)
    majority.edits(letters, ends, left, right, scratch, out)
    return out, np.maximum(lengths[left], lengths[right])


def of_codes(flags: Mask, codes: I32) -> Mask:
    """What is said of codes, said of the cells that have them; unknown cells have nothing said of them.

    >>> of_codes(np.array([True, False]), np.array([1, 0, -1])).tolist()
    [False, True, False]
    """
    return flags[np.maximum(codes, 0)] & (codes >= 0) if flags.size else np.zeros(codes.size, dtype=np.bool_)
