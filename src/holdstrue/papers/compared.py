"""What the papers' indexes leave to the product's, so that all of them answer the same questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

from holdstrue.index.arrays import Snapshot
from holdstrue.index.blocks import BlockIndex
from holdstrue.index.checked import Checked
from holdstrue.index.protocol import Hits, PairRows, Shape, Slots, Term
from holdstrue.index.run import hits_a_row


class ComparedIndex:
    """Base of the papers' indexes: all rules as pairs, rebuilt from the rows, batches among themselves by blocks.

    The papers find the partners of a row among the rows that an index holds. A batch that is compared with
    itself is no index yet, so that it goes through blocks, whatever index holds the table.
    """

    reads_equalities: ClassVar[bool] = True
    takes_keys: ClassVar[bool] = True
    keeps_arrays: ClassVar[bool] = False

    def __init__(self, shapes: Sequence[Shape], rows: PairRows) -> None:
        self._shapes = tuple(shapes)
        self._rows = rows

    @cached_property
    def _within(self) -> BlockIndex:
        return BlockIndex(self._shapes, self._rows)

    def settle(self, check: int) -> None:
        """Nothing: rows are taken in when they are inserted."""

    def probe(self, check: int, slots: Slots, role: int) -> Iterator[Hits]:
        """Partners of rows (see `PairIndex`)."""
        raise NotImplementedError

    def probe_among(self, check: int, slots: Slots) -> Iterator[Hits]:
        """Partners s of each of the rows as t, among the same rows; `partners` are positions in `slots`."""
        return self._within.probe_among(check, slots)

    def hits_about(self, check: int, slots: Slots, role: int, most: int) -> float:
        """About how many partners a probe finds for each of a few rows."""
        found = ((some.queries, some.partners) for some in self.probe(check, slots, role))
        return hits_a_row(found, slots.size, most)

    def unsearched(self, check: int) -> tuple[Term[int], ...]:
        """Terms that `probe_among` does not take care of."""
        return self._within.unsearched(check)

    @staticmethod
    def outline(terms: Sequence[Term[str]]) -> list[str]:
        """Nothing: how a check is served depends on the rows."""
        return []

    def snapshot(self) -> Snapshot:
        """No arrays: the index is rebuilt from the rows."""
        return {}

    def restore(self, arrays: Checked, slots: int) -> None:
        """Nothing: rows are inserted again."""
