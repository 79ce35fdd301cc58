"""All partners of one row in a `BlockIndex`, by one call of a kernel over the runs of every check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdstrue.index.blocks import BlockIndex
from holdstrue.index.protocol import S_ROLE, T_ROLE, PairRows, Term
from holdstrue.index.run import Run, UnsortedRun
from holdstrue.kernels import one_probe as kernels
from holdstrue.typing import I32, I64, U8

MOST_PARTNERS = 4096
"""Partners of one row that are looked for at once. Chosen, not tuned."""


def address(array: NDArray[Any]) -> int:
    """Where the numbers of an array lie."""
    place: int = array.__array_interface__["data"][0]
    return place


class RowProbe:
    """Where the arrays of an index and of its rows lie, so that a kernel can walk all of them.

    It is made anew when one of them is replaced; it holds on to those it knows.

    Parameters
    ----------
    asked
        Which checks are asked about, and in which roles a row may stand.
    size
        Up to where arrays by slot reach.
    """

    def __init__(
        self, index: BlockIndex, rows: PairRows, asked: Sequence[tuple[int, Sequence[int]]], size: int
    ) -> None:
        self.asked = [(check, role) for check, roles in asked for role in roles]
        """What the lines are about."""
        self._held: list[Any] = [rows.alive]
        self._runs: list[list[int]] = []
        self._partners: I32 = np.empty(MOST_PARTNERS, dtype=np.int32)
        self._scratch: I64 = np.empty(MOST_PARTNERS, dtype=np.int64)
        self._found: I64 = np.zeros(len(self.asked), dtype=np.int64)
        self._lines: I64 = np.zeros((len(self.asked), kernels.WIDTH), dtype=np.int64)
        spans: dict[int, tuple[int, int]] = {}
        for at, (check, role) in enumerate(self.asked):
            self._lines[at, :14] = self._line(index, rows, check, role, size, spans)
        self._parts: I64 = np.array(self._runs, dtype=np.int64).reshape(-1, kernels.WIDTH)

    def _line(
        self, index: BlockIndex, rows: PairRows, check: int, role: int, size: int, spans: dict[int, tuple[int, int]]
    ) -> list[int]:
        drive, as_t = index.drive(check), role == T_ROLE
        groups, roles = rows.groups(check), rows.roles[check]
        own, other = (groups[0], groups[1]) if as_t else (groups[1], groups[0])
        spine, both = index.spine(check, role)
        if id(spine) not in spans:
            first = len(self._runs)
            self._runs += [self._run(part) for part in spine.parts]
            spans[id(spine)] = first, len(spine.parts)
        codes = [self._columns(rows, term, as_t=as_t) for term in (drive.first, drive.second)]
        (op_a, a, other_a), (op_b, b, other_b) = codes
        other_roles = T_ROLE | S_ROLE if both else (S_ROLE if as_t else T_ROLE)
        self._held += [roles, own, other]
        mine = [size, address(roles), role, other_roles, address(own), a, op_a, b, op_b]
        return [*mine, address(other), other_a, other_b, *spans[id(spine)]]

    def _columns(self, rows: PairRows, term: Term[int] | None, *, as_t: bool) -> tuple[int, int, int]:
        """The operator as a partner must satisfy it, and the codes of the row's own column and of a partner's."""
        if term is None:
            return -1, 0, 0
        own, other = (term.left, term.right) if as_t else (term.right, term.left)
        arrays = rows.codes(own), rows.codes(other)
        self._held += arrays
        return (term.op.flipped if as_t else term.op).code, address(arrays[0]), address(arrays[1])

    def _run(self, run: Run | UnsortedRun) -> list[int]:
        self._held.append(run)
        if isinstance(run, UnsortedRun):
            group, a, b, slots = address(run.group), address(run.a), address(run.b), address(run.slots)
            return [group, len(run), 0, 0, a, b, slots, len(run), *[0] * 8]
        groups, starts, splits, a, b, slots, low, high, wall_low, wall_high = [address(array) for array in run.arrays]
        blocks, walls = run.fence_low.size, run.wall_low.size
        fences = (low, high, blocks, wall_low, wall_high, walls)
        return [groups, run.groups.size, starts, splits, a, b, slots, len(run), *fences, int(run.rising), 1]

    def probe(self, slot: int, waiting: I32, alive: U8) -> dict[int, list[tuple[int, I32]]] | None:
        """By check that a row meets partners in: roles and partners; None where these are too many.

        Complexity: O(checks * (runs * log n + rows that wait) + partners).
        """
        arrays = (self._partners, self._scratch, self._found)
        total = kernels.probe_row(self._lines, self._parts, waiting, slot, alive, *arrays)
        if total < 0:
            return None
        met: dict[int, list[tuple[int, I32]]] = {}
        if total:
            start = 0
            for (check, role), count in zip(self.asked, self._found.tolist(), strict=True):
                if count:
                    met.setdefault(check, []).append((role, self._partners[start : start + count].copy()))
                    start += count
        return met
