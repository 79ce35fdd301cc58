"""Indexes over coded rows that hand out pairs which may break a rule: hashes, chains (Fetch, Fetch+), sorted rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.select_index import Choice
from holdstrue.index.pair_chains import CHUNK, PairChains, SortedRows
from holdstrue.rules.model import Op
from holdstrue.typing import I64

Pairs = tuple[I64, I64]
"""Slots of the first and of the second rows."""

_WEAK = {Op.LT: Op.LE, Op.GT: Op.GE}


class EqualRows:
    """Rows sorted by the code of one column: 16 bytes a row.

    Examples
    --------
    >>> rows = EqualRows()
    >>> rows.insert(np.array([5, 3, 5]), np.array([0, 1, 2]))
    >>> [found.tolist() for found in next(rows.probe(np.array([5])))]
    [[0, 0], [0, 2]]
    """

    def __init__(self) -> None:
        self._codes = np.zeros(0, dtype=np.int64)
        self._slots = np.zeros(0, dtype=np.int64)

    def insert(self, codes: I64, slots: I64) -> None:
        """Add rows. Runtime complexity: O(rows inside + m log m)."""
        order = np.argsort(codes, kind="stable")
        codes, slots = codes[order], slots[order]
        at = np.searchsorted(self._codes, codes, side="right")
        self._codes, self._slots = np.insert(self._codes, at, codes), np.insert(self._slots, at, slots)

    def probe(self, codes: I64) -> Iterator[Pairs]:
        """Positions in `codes` and the slots of rows with that code, in chunks."""
        low = np.searchsorted(self._codes, codes, side="left")
        counts = np.searchsorted(self._codes, codes, side="right") - low
        ends = np.cumsum(counts)
        start = 0
        while start < codes.size:
            done = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + CHUNK, side="right")))
            part = slice(start, stop)
            asked = np.repeat(np.arange(start, stop), counts[part])
            offsets = np.arange(asked.size) - np.repeat(ends[part] - counts[part] - done, counts[part])
            yield asked, self._slots[np.repeat(low[part], counts[part]) + offsets]
            start = stop

    def size_bytes(self) -> int:
        """Memory held."""
        return self._codes.nbytes + self._slots.nbytes


class CandidateIndex:
    """One chosen index over the rows, as partners in either role (one structure where both read the same columns)."""

    def __init__(self, rows: CodedRows, choice: Choice) -> None:
        self.choice = choice
        self._rows = rows
        comparisons = [rows.space.comparisons[i] for i, _ in choice.terms]
        self._t_columns = [c.left for c in comparisons]
        self._s_columns = [c.right for c in comparisons]
        # NULL as a value shares its code with the smallest: strict operators could miss it
        equal = rows.space.nulls == "equal"
        self._ops = [_WEAK.get(op, op) if equal else op for _, op in choice.terms]
        self._t_side = self._new(choice.rising[0])
        self._s_side = self._t_side if self._t_columns == self._s_columns else self._new(choice.rising[1])

    def _new(self, rising: bool) -> EqualRows | PairChains | SortedRows:
        if self.choice.is_equality:
            return EqualRows()
        if len(self._ops) == 1:
            return SortedRows()
        return PairChains(Op.GE, Op.GE if rising else Op.LE)

    def insert(self, slots: I64) -> None:
        """Add rows. Runtime complexity: as the structure's own `insert`."""
        sides = [(self._t_side, self._t_columns), (self._s_side, self._s_columns)]
        for side, columns in sides[: 1 if self._t_side is self._s_side else 2]:
            mine, codes = self._codes(slots, columns)
            if isinstance(side, EqualRows):
                side.insert(codes[0], mine)
            elif mine.size:
                side.insert(mine.astype(np.int32), codes)

    def probe(self, slots: I64) -> Iterator[Pairs]:
        """Pairs of rows of which one is among `slots`, in one of their orders; some more than once."""
        both = not (isinstance(self._t_side, EqualRows) and self._t_side is self._s_side)
        for as_t in (True, False)[: 1 + both]:
            side = self._s_side if as_t else self._t_side
            mine, codes = self._codes(slots, self._t_columns if as_t else self._s_columns)
            if not mine.size:
                continue
            ops = [op.flipped if as_t else op for op in self._ops]
            found = side.probe(codes[0]) if isinstance(side, EqualRows) else side.fetch_many(ops, codes)
            for asked, partners in found:
                one, other = mine[asked], partners.astype(np.int64)
                keep = (one != other) & self._rows.alive[other]
                one, other = one[keep], other[keep]
                yield (one, other) if as_t else (other, one)

    @property
    def rank(self) -> int:
        """The number of chains, of both roles; 0 where there are none."""
        sides = {id(side): side for side in (self._t_side, self._s_side)}.values()
        return sum(side.rank for side in sides if isinstance(side, PairChains))

    def _codes(self, slots: I64, columns: list[int]) -> tuple[I64, list[I64]]:
        """Rows that may match, and their codes; a row with an unknown value matches none."""
        known = self._rows.known[columns][:, slots]
        if self._rows.space.nulls == "equal":
            low = np.iinfo(np.int64).min
            return slots, [np.where(known[i], self._rows.codes[c, slots], low) for i, c in enumerate(columns)]
        mine = slots[known.all(axis=0)]
        return mine, [np.ascontiguousarray(self._rows.codes[c, mine]) for c in columns]

    def size_bytes(self) -> int:
        """Memory held."""
        return sum(side.size_bytes() for side in {id(s): s for s in (self._t_side, self._s_side)}.values())
