"""Minimal keys and functional dependencies of a table, kept exact as rows come and go.

Under changes (the idea of DynFD, Schirmer et al. 2019): new rows can only break dependencies, and
only in groups they are in; gone rows can only mend them, where the pair that showed the contrary lost
a row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.discovery.dependencies.codes import Codes, Nulls
from holdstrue.discovery.dependencies.cover import Cover
from holdstrue.discovery.dependencies.evidence import Evidence
from holdstrue.discovery.dependencies.sampling import sample
from holdstrue.discovery.dependencies.search import Progress, Search
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.turnover import Died, Turnover
from holdstrue.errors import DataError
from holdstrue.index.numbering import Snapshot, nested, unnested
from holdstrue.kernels import antichains
from holdstrue.rules.model import DC, FD, Body, Column, Key, Op, Predicate

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]


@dataclass(frozen=True)
class Options:
    """What to look for.

    Parameters
    ----------
    kinds
        `fd`, `key` or both.
    nulls
        Whether NULL is unknown, so that it never breaks a rule, or a value like others.
    max_lhs
        The most columns of a key or a left side; by default as many as there are.
    threads
        By default one for each processor.
    """

    kinds: tuple[str, ...] = ("fd", "key")
    nulls: Nulls = "unknown"
    max_lhs: int | None = None
    threads: int | None = None


class DependencyCore:
    """All minimal keys and FDs of a table.

    Examples
    --------
    >>> table = pa.table({"id": [1, 2, 3], "zip": [10, 10, 20], "city": ["A", "A", "B"]})
    >>> core = DependencyCore.load(table)
    >>> sorted(core.bodies(), key=str)[-1]
    Key(columns=('id',))
    >>> turnover = core.apply(np.array([], dtype=np.int64), pa.table({"id": [4], "zip": [20], "city": ["C"]}))
    >>> turnover.died[0]
    Died(body=FD(lhs=('zip',), rhs=('city',)), witness=(2, 3))
    """

    def __init__(self, schema: pa.Schema, options: Options) -> None:
        if options.max_lhs is not None and options.max_lhs < 1:
            raise DataError(f"max_lhs is {options.max_lhs}", hint="left sides have at least one column")
        self.options = options
        self.codes = Codes(schema, options.nulls)
        self.names = self.codes.names
        many = len(self.names)
        targets = [many] * ("key" in options.kinds) + list(range(many)) * ("fd" in options.kinds)
        self._threads = options.threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None
        longest = many if options.max_lhs is None else min(many, options.max_lhs)
        covers = [Cover(target, many) for target in targets]
        self._search = Search(self.codes, Evidence(many), covers, longest, self._spread, self._threads)
        self.complete = False

    def _spread(self, function: Any, items: Iterable[Any]) -> list[Any]:
        return [function(item) for item in items] if self._pool is None else list(self._pool.map(function, items))

    @classmethod
    def load(
        cls,
        table: pa.Table,
        options: Options | None = None,
        *,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> DependencyCore:
        """Find all minimal keys and FDs of a table.

        At the deadline (of `time.monotonic`) it ends with what was found, and `complete` is False.
        """
        core = cls(table.schema, options or Options())
        core.codes.append(table, core._spread)
        if progress is not None:
            progress(0.05, "columns coded")
        parts = Partitions(core.codes)
        parts.ranked(core._spread)
        sample(core.codes, parts, core._search.evidence, deadline)
        if progress is not None:
            progress(0.1, "rows sampled")
        core._search.take(core._search.evidence.known(), deadline)
        core.complete = core._search.deepen(parts, parts, deadline, progress)
        return core

    @property
    def searched(self) -> int:
        """All rules with left sides (keys) of up to this many columns were found, also when not `complete`."""
        return self._search.searched

    def apply(self, removed: I64, added: pa.Table, *, deadline: float | None = None) -> Turnover:
        """Take rows out by slot, add others; what became of the rules.

        Complexity: O(rows) for every column to find the groups of new rows, then O(rows in these groups);
        removed rows cost a validation for each pair of the evidence that they were in.
        """
        search, codes = self._search, self.codes
        before = self._held()
        search.resume()
        gone = np.zeros(codes.used, dtype=np.bool_)
        if removed.size:
            gone[codes.remove(removed)] = True
        lost = search.evidence.remove(gone) if removed.size else np.empty(0, dtype=np.int64)
        moved = codes.compact()
        if moved is not None:
            search.evidence.move(moved)
        fresh = codes.used
        codes.append(added, self._spread)
        if added.num_rows:
            for cover in search.covers:
                cover.age()
        whole = Partitions(codes)
        touched = Partitions(codes, fresh) if added.num_rows and fresh else whole
        self._mend(lost, whole, deadline)
        self.complete = search.deepen(whole, touched, deadline)
        return self._turnover(before)

    def _mend(self, lost: I64, whole: Partitions, deadline: float | None) -> None:
        """Look for other pairs where those are gone that showed a dependency not to hold; renew covers without."""
        search = self._search
        evidence = search.evidence
        if lost.size == 0:
            return
        known = evidence.known()
        wanted = np.zeros((lost.size, evidence.words), dtype=np.uint64)
        for cover in search.covers:
            mine = np.flatnonzero(np.isin(lost, evidence.against(lost, cover.target)))
            others = evidence.agree[evidence.against(known, cover.target)]
            # agree sets inside a known one told nothing
            uncovered = mine[~_inside(evidence.agree[lost[mine]], others)]
            wanted[uncovered, cover.target >> 6] |= np.uint64(1 << (cover.target & 63))
        asked = np.flatnonzero(wanted.any(axis=1))
        if asked.size == 0:
            return
        tested = Validator(whole, self._spread, self._threads).test(
            evidence.agree[lost[asked]], wanted[asked], deadline
        )
        mended = np.bitwise_or.reduce(wanted[asked] & ~tested.broken, axis=0)
        search.take(evidence.add(self.codes.matrix, tested.pairs), deadline)
        renewed = [c for c in search.covers if mended[c.target >> 6] & np.uint64(1 << (c.target & 63))]
        search.renew(renewed, deadline)

    def _held(self) -> dict[tuple[int, bytes], U64]:
        return {(c.target, line.tobytes()): line for c in self._search.covers for line in c.holding()}

    def _turnover(self, before: dict[tuple[int, bytes], U64]) -> Turnover:
        after = self._held()
        died = [
            Died(self._body(target, line), self._witness(target, line))
            for (target, key), line in before.items()
            if (target, key) not in after and self._shown(target, line)
        ]
        born = [
            self._body(target, line)
            for (target, key), line in after.items()
            if (target, key) not in before and self._shown(target, line)
        ]
        return Turnover(tuple(died), tuple(born))

    def _witness(self, target: int, line: U64) -> tuple[int, ...]:
        """Slots of two rows that break a dependency; none when it holds."""
        evidence = self._search.evidence
        numbers = evidence.against(evidence.known(), target)
        breaking = numbers[((evidence.agree[numbers] & line) == line).all(axis=1)]
        if breaking.size == 0:
            return ()
        return tuple(int(slot) for slot in self.codes.slots[np.sort(evidence.witness[breaking[0]])])

    def _shown(self, target: int, line: U64) -> bool:
        return target < len(self.names) or bool(line.any())

    def _body(self, target: int, line: U64) -> Body:
        bits = np.unpackbits(line.view(np.uint8), bitorder="little")
        columns = tuple(self.names[i] for i in np.flatnonzero(bits))
        if target == len(self.names):
            return Key(columns)
        name = self.names[target]
        if not columns:
            return DC((Predicate(Column("t", name), Op.NE, Column("s", name)),))
        return FD(columns, (name,))

    def bodies(self) -> tuple[Body, ...]:
        """The minimal keys and FDs; a column of one value is the denial constraint that no two rows differ in it."""
        return tuple(
            self._body(cover.target, line)
            for cover in self._search.covers
            for line in cover.holding()
            if self._shown(cover.target, line)
        )

    def size_bytes(self) -> int:
        """Memory held."""
        return (
            self.codes.size_bytes()
            + self._search.evidence.size_bytes()
            + sum(cover.sets.nbytes + cover.status.nbytes for cover in self._search.covers)
        )

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        arrays = nested("codes", self.codes.snapshot()) | nested("evidence", self._search.evidence.snapshot())
        for cover in self._search.covers:
            arrays |= nested(f"cover{cover.target}", cover.snapshot())
        return arrays | {
            "progress": np.array([self._search.searched, self._search.length, self.complete], dtype=np.int64)
        }

    @classmethod
    def restore(cls, schema: pa.Schema, options: Options, arrays: Snapshot) -> DependencyCore:
        """A core as it was left (the arrays will be written to)."""
        core = cls(schema, options)
        core.codes.restore(unnested("codes", arrays))
        core._search.evidence.restore(unnested("evidence", arrays))
        for cover in core._search.covers:
            cover.restore(unnested(f"cover{cover.target}", arrays))
        searched, length, complete = (int(value) for value in arrays["progress"])
        core._search.searched, core._search.length, core.complete = searched, length, bool(complete)
        return core


def _inside(sets: U64, families: U64) -> NDArray[np.bool_]:
    """Which of `sets` are inside a member of `families`."""
    out = np.empty(sets.shape[0], dtype=np.bool_)
    # a is inside b when the complement of b is inside that of a
    antichains.contained(np.ascontiguousarray(~sets), np.ascontiguousarray(~families), out)
    return out
