"""Where the arrays of structures lie: the lines of the frames that kernels over all rules of a table are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdstrue.detect.group import GroupDetector
from holdstrue.index.arrays import Numbering
from holdstrue.index.grouping import Grouping
from holdstrue.index.one_probe import address
from holdstrue.kernels import one_row as kernels
from holdstrue.typing import I64


class FrameLines:
    """Writes lines, and holds on to the arrays that they speak of (see `kernels/one_row.py` for what stands where)."""

    def __init__(self) -> None:
        self._held: list[Any] = []

    def at(self, array: NDArray[Any]) -> int:
        """Where an array lies, which is held from now on."""
        self._held.append(array)
        return address(array)

    def numbering(self, numbers: Numbering) -> list[int]:
        """The line of a numbering."""
        size = min(numbers.hi.size, numbers.lo.size)
        places = self.at(numbers.cells), numbers.cells.size, self.at(numbers.hi), self.at(numbers.lo)
        return [*places, size, self.at(numbers.count)]

    def grouping(self, grouping: Grouping, sides: tuple[int, ...], *, nulls_equal: bool) -> list[int]:
        """The line of a grouping; `sides` say where its columns stand in the list of columns."""
        size = min(grouping.t_groups.size, grouping.s_groups.size)
        places = self.at(grouping.t_groups), self.at(grouping.s_groups), size, int(grouping.two_sided)
        return [*self.numbering(grouping.numbers), *places, *sides, int(nulls_equal)]

    def counters(self, detector: GroupDetector, right: tuple[int, int, int, int]) -> list[int]:
        """The line of a key or an FD: `right` are the line of its grouping, its shape and its right-hand columns."""
        own, (grouping, shape, first, count) = detector.counters, right
        keyed = shape < kernels.SINGLE
        groups = min(own.core.shape[0], own.pairs.size, own.core.shape[0] if keyed else own.extra.shape[0])
        kinds = 0 if keyed else own.kinds.shape[0]
        if shape == kernels.SEVERAL:
            kinds = min(kinds, own.values.shape[1])
        line = [*self.numbering(own.numbers), self.at(own.core), groups]
        line += [self.at(own.extra), own.extra.shape[1], self.at(own.kinds), kinds, self.at(own.values)]
        line += [own.values.shape[0], self.at(own.kind_by_slot), own.kind_by_slot.size, self.at(own.totals)]
        line += [grouping, shape, first, count, int(detector.check.nulls_equal)]
        return [*line, self.at(own.pairs), own.values.shape[1]]

    @staticmethod
    def frame(lines: list[list[int]]) -> I64:
        """The lines as an array."""
        frame = np.zeros((len(lines), kernels.WIDTH), dtype=np.int64)
        for at, line in enumerate(lines):
            frame[at, : len(line)] = line
        return frame
