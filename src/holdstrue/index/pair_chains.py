"""Chains: lists of rows that are sorted on two columns at once, and what two inequalities select of them.

Sections 5.2, 5.3 and 6 of Qian, Li, Tan, Ran, Ma: Incremental discovery of denial constraints.
A chain is kept as sorted arrays rather than a skip list: an insert moves memory, which for
chains of up to some million rows costs less than following links.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from holdstrue.index.protocol import Codes, Slots
from holdstrue.kernels.stretches import take_stretches
from holdstrue.operators import BELOW, EQUAL, Op
from holdstrue.typing import I64

CHUNK = 1 << 20
"""Candidates handed out at a time: 12 MB of queries and partners."""

REBUILD_SHARE = 0.1
"""A batch of at least this share of the rows inside is applied by building the chains anew.

Measured with two chains: building takes 0.6 us a row; inserting one takes 5 us into some thousand
rows and 23 us into 100K, nearly all of it moving memory.
"""

LAID_OUT_FROM = 0.5
"""Listed rows fetched of a chain, for each that it has, from which all are first put in a line with their equals.

That takes 0.1 us a listed row of the chain, and looking up which of those that were fetched have equals 0.2 us each.
"""

SORT_FROM = 16
"""Rows below which finding each one's place costs less than sorting: 8 us either way at 16."""

Found: TypeAlias = tuple[I64, Slots]
"""Positions in the queried values and the rows that belong to each."""


@dataclass(slots=True)
class Chain:
    """Rows sorted on both oriented keys; `equ` holds further rows equal to a listed one on both."""

    a: array[int]
    b: array[int]
    rows: array[int]
    equ: dict[int, array[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def collect(self, low: int, high: int, parts: list[array[int]]) -> None:
        """Append the rows at positions low to high, with their equals."""
        listed = self.rows[low:high]
        parts.append(listed)
        if self.equ:
            parts += [self.equ[row] for row in listed if row in self.equ]

    def unfolded(self) -> tuple[Slots, Codes, Codes]:
        """All rows with their keys, sorted on both."""
        rows, starts = self.laid_out()
        at = np.repeat(np.arange(len(self)), np.diff(starts))
        return rows, np.array(self.a)[at], np.array(self.b)[at]

    def laid_out(self) -> tuple[Slots, I64]:
        """All rows, equals behind the listed one, and where each listed row and its equals begin, with the end."""
        rows = np.frombuffer(self.rows, dtype=np.int32)
        if not self.equ:
            return rows, np.arange(len(rows) + 1)
        counts = np.fromiter((1 + len(self.equ.get(row, ())) for row in self.rows), dtype=np.int64, count=len(rows))
        starts = np.concatenate(([0], np.cumsum(counts)))
        every = np.empty(starts[-1], dtype=np.int32)
        every[starts[:-1]] = rows
        is_equal = np.ones(len(every), dtype=bool)
        is_equal[starts[:-1]] = False
        every[is_equal] = _joined([self.equ[row] for row in self.rows if row in self.equ])
        return every, starts


class PairChains:
    """Index(A^first, B^second): as few chains as possible, each row in one of them.

    Along a chain every later row t' and earlier row t satisfy `t'.A first t.A` and `t'.B second t.B`.
    Whatever the two operators, any two inequalities on A and B select one contiguous run of each
    chain, so an index also serves the reverse direction and both strictnesses (Section 6.2).

    Parameters
    ----------
    first, second
        One of < <= > >=. The weak ones allow longer chains.

    Examples
    --------
    >>> chains = PairChains(Op.GT, Op.LT)
    >>> chains.insert(np.arange(4, dtype=np.int32), [np.array([1, 2, 3, 4]), np.array([9, 7, 8, 5])])
    >>> chains.chains()
    [[0, 1, 3], [2]]
    >>> chains.fetch([Op.GT, Op.LT], [1, 8]).tolist()
    [1, 3]
    """

    def __init__(self, first: Op, second: Op) -> None:
        self._down = (BELOW in first.outcomes, BELOW in second.outcomes)
        self._weak = (EQUAL in first.outcomes, EQUAL in second.outcomes)
        self._chains: list[Chain] = []
        self._size = 0

    def __len__(self) -> int:
        """The number of rows."""
        return self._size

    @property
    def rank(self) -> int:
        """The number of chains."""
        return len(self._chains)

    def chains(self) -> list[list[int]]:
        """The listed rows of each chain."""
        return [chain.rows.tolist() for chain in self._chains]

    def rows(self) -> Slots:
        """All rows, in no order."""
        parts: list[array[int]] = []
        for chain in self._chains:
            chain.collect(0, len(chain), parts)
        return _joined(parts)

    def insert(self, slots: Slots, columns: Sequence[Codes]) -> None:
        """Add rows with their codes on A and B.

        Runtime complexity: O(m log m) with OptIndex when most rows are new, else O(rank log n)
        searching and O(n) moving a row.
        """
        a, b = self._oriented(columns)
        if len(slots) > 1 and len(slots) >= REBUILD_SHARE * self._size:
            self._rebuild(slots, a, b)
            return
        for i in self._order(a, b, slots).tolist():
            self._insert(int(slots[i]), int(a[i]), int(b[i]))
        self._size += len(slots)

    def remove(self, slots: Slots, columns: Sequence[Codes]) -> None:
        """Take rows out again; chains shrink but are not merged. Runtime complexity: as `insert`."""
        a, b = self._oriented(columns)
        for slot, x, y in zip(slots.tolist(), a.tolist(), b.tolist(), strict=True):
            self._remove(slot, x, y)
        self._size -= len(slots)

    def fetch(self, ops: Sequence[Op], values: Sequence[int]) -> Slots:
        """Rows t with `t.A ops[0] values[0]` and `t.B ops[1] values[1]` (Algorithms 1 and 2).

        With the index's own operators this is the paper's reverse T of a row s that has these
        values, with the flipped ones its T; values of other columns make it Fetch+.

        Runtime complexity: O(rank log n + result).
        """
        parts: list[array[int]] = []
        x, y = (~v if down else v for v, down in zip(values, self._down, strict=True))
        for first in self._simple(ops[0], 0):
            for second in self._simple(ops[1], 1):
                for chain in self._chains:
                    # The ends of the two runs are the paper's positions p and q.
                    low, high = _run(chain.a, first, x)
                    if low < high:
                        low2, high2 = _run(chain.b, second, y)
                        low, high = max(low, low2), min(high, high2)
                        if low < high:
                            chain.collect(low, high, parts)
        return _joined(parts)

    def fetch_many(self, ops: Sequence[Op], values: Sequence[Codes]) -> Iterator[Found]:
        """`fetch` for many pairs of values, in chunks."""
        x, y = self._oriented(values)
        for first in self._simple(ops[0], 0):
            for second in self._simple(ops[1], 1):
                for chain in self._chains:
                    low, high = _runs(chain.a, first, x)
                    low2, high2 = _runs(chain.b, second, y)
                    low, high = np.maximum(low, low2), np.minimum(high, high2)
                    if chain.equ and np.maximum(high - low, 0).sum() >= LAID_OUT_FROM * len(chain):
                        rows, starts = chain.laid_out()
                        yield from _expand(starts[low], starts[np.maximum(low, high)], rows, {})
                    else:
                        rows = np.frombuffer(chain.rows, dtype=np.int32)
                        yield from _expand(low, high, rows, chain.equ)

    def size_bytes(self) -> int:
        """Memory of the arrays and of the objects that hold them."""
        total = 0
        for chain in self._chains:
            total += 400 + 20 * len(chain)
            total += sum(200 + 4 * len(others) for others in chain.equ.values())
        return total

    def _oriented(self, columns: Sequence[Codes]) -> list[Codes]:
        """Keys that ascend along a chain; ~x reverses the order of all 64-bit integers."""
        return [~codes if down else codes for codes, down in zip(columns, self._down, strict=True)]

    def _simple(self, op: Op, which: int) -> tuple[Op, ...]:
        """`op` for oriented keys; != is the union of < and >."""
        if op is Op.NE:
            return Op.LT, Op.GT
        return (op.flipped if self._down[which] else op,)

    def _order(self, a: Codes, b: Codes, slots: Slots) -> I64:
        """Line 1 of OptIndex.

        Rows equal on A may follow each other only if A is compared weakly. Otherwise they come
        with B falling, so that the search for a chain keeps them apart (the paper's tie-break,
        with B rising, would put them in one).
        """
        return np.lexsort((slots, b if self._weak[0] else ~b, a))

    def _rebuild(self, slots: Slots, a: Codes, b: Codes) -> None:
        """OptIndex (Algorithm 3) over the rows inside and the given ones."""
        inside = [chain.unfolded() for chain in self._chains]
        slots = np.concatenate([slots, *(rows for rows, _, _ in inside)])
        a = np.concatenate([a, *(keys for _, keys, _ in inside)])
        b = np.concatenate([b, *(keys for _, _, keys in inside)])
        order = self._order(a, b, slots)
        a, b, slots = a[order], b[order], slots[order]
        new = np.flatnonzero(np.concatenate(([True], (a[1:] != a[:-1]) | (b[1:] != b[:-1])))[: len(a)])
        home = _patience(b[new].tolist(), weak=self._weak[1])
        self._size = len(slots)
        self._chains = []
        ends = np.append(new[1:], len(slots))
        for members in _members(home):
            at = new[members]
            chain = Chain(_longs(a[at]), _longs(b[at]), _ints(slots[at]))
            for start, end in zip(at.tolist(), ends[members].tolist(), strict=True):
                if end - start > 1:
                    chain.equ[int(slots[start])] = _ints(slots[start + 1 : end])
            self._chains.append(chain)

    def _insert(self, slot: int, x: int, y: int) -> None:
        """Section 6.3: into the largest chain with p = q, else into a new one."""
        weak_a, weak_b = self._weak
        best: Chain | None = None
        place = 0
        for chain in self._chains:
            left, right = bisect_left(chain.a, x), bisect_right(chain.a, x)
            left2, right2 = bisect_left(chain.b, y), bisect_right(chain.b, y)
            low, high = max(left, left2), min(right, right2)
            if low < high:  # the position of a row that is equal on both
                insort(chain.equ.setdefault(chain.rows[low], array("i")), slot)
                return
            fits = low == high and (weak_a or left == right) and (weak_b or left2 == right2)
            if fits and (best is None or len(chain) > len(best)):
                best, place = chain, low
        if best is None:
            best = Chain(array("q"), array("q"), array("i"))
            self._chains.append(best)
        best.a.insert(place, x)
        best.b.insert(place, y)
        best.rows.insert(place, slot)

    def _remove(self, slot: int, x: int, y: int) -> None:
        for number, chain in enumerate(self._chains):
            low = max(bisect_left(chain.a, x), bisect_left(chain.b, y))
            if low == len(chain) or chain.a[low] != x or chain.b[low] != y:
                continue
            head = chain.rows[low]
            others = chain.equ.get(head, array("i"))
            place = bisect_left(others, slot)
            if place < len(others) and others[place] == slot:
                del others[place]
                if not others:
                    del chain.equ[head]
                return
            if head != slot:
                break
            if others:  # one of the equals takes the place of the listed row
                del chain.equ[head]
                head = chain.rows[low] = others.pop()
                if others:
                    chain.equ[head] = others
                return
            del chain.a[low], chain.b[low], chain.rows[low]
            if not chain.rows:
                del self._chains[number]
            return
        raise KeyError(slot)

    def _check(self) -> None:
        """Assert that chains are sorted on both keys, that each row is in one, and equals are together."""
        pairs: set[tuple[int, int]] = set()
        rows: list[int] = []
        for chain in self._chains:
            assert len(chain.a) == len(chain.b) == len(chain.rows) > 0
            for keys, weak in ((chain.a, self._weak[0]), (chain.b, self._weak[1])):
                assert all(x < y or (weak and x == y) for x, y in pairwise(keys))
            keyed = set(zip(chain.a, chain.b, strict=True))
            assert len(keyed) == len(chain) and not keyed & pairs
            pairs |= keyed
            rows += chain.rows.tolist()
            assert set(chain.equ) <= set(chain.rows)
            for others in chain.equ.values():
                assert others and list(others) == sorted(others)
                rows += others.tolist()
        assert len(rows) == len(set(rows)) == self._size


class SortedRows:
    """Rows sorted on one column, or on none: what serves a group with fewer than two inequalities.

    Examples
    --------
    >>> rows = SortedRows()
    >>> rows.insert(np.array([4, 5, 6], dtype=np.int32), [np.array([30, 10, 20])])
    >>> rows.fetch([Op.NE], [20]).tolist()
    [5, 4]
    """

    def __init__(self) -> None:
        self._keys = array("q")
        self._rows = array("i")

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def rows(self) -> Slots:
        """All rows, ascending on the column."""
        return _joined([self._rows])

    def insert(self, slots: Slots, columns: Sequence[Codes]) -> None:
        """Add rows. Runtime complexity: O(log n) searching and O(n) moving a row, or one sort."""
        keys = columns[0] if columns else np.zeros(len(slots), dtype=np.int64)
        if len(slots) >= max(SORT_FROM, REBUILD_SHARE * len(self)):
            keys = np.concatenate([keys, np.array(self._keys, dtype=np.int64)])
            slots = np.concatenate([slots, self.rows()])
            order = np.lexsort((slots, keys))
            self._keys, self._rows = _longs(keys[order]), _ints(slots[order])
            return
        for key, slot in zip(keys.tolist(), slots.tolist(), strict=True):
            low, high = bisect_left(self._keys, key), bisect_right(self._keys, key)
            place = bisect_left(self._rows, slot, low, high)
            self._keys.insert(place, key)
            self._rows.insert(place, slot)

    def remove(self, slots: Slots, columns: Sequence[Codes]) -> None:
        """Take rows out again. Runtime complexity: O(log n) searching and O(n) moving a row."""
        keys = columns[0] if columns else np.zeros(len(slots), dtype=np.int64)
        for key, slot in zip(keys.tolist(), slots.tolist(), strict=True):
            low, high = bisect_left(self._keys, key), bisect_right(self._keys, key)
            place = bisect_left(self._rows, slot, low, high)
            if place == high or self._rows[place] != slot:
                raise KeyError(slot)
            del self._keys[place], self._rows[place]

    def fetch(self, ops: Sequence[Op], values: Sequence[int]) -> Slots:
        """Rows whose key compares so; all of them without an operator.

        Runtime complexity: O(log n + result).
        """
        if not ops:
            return self.rows()
        runs = [_run(self._keys, op, values[0]) for op in _parts(ops[0])]
        return _joined([self._rows[low:high] for low, high in runs if low < high])

    def fetch_many(self, ops: Sequence[Op], values: Sequence[Codes]) -> Iterator[Found]:
        """`fetch` for many values, in chunks."""
        if not self._rows:
            return
        for op in _parts(ops[0]):
            low, high = _runs(self._keys, op, values[0])
            yield from _expand(low, high, np.frombuffer(self._rows, dtype=np.int32), {})

    def size_bytes(self) -> int:
        """Memory of the arrays and of the objects that hold them."""
        return 200 + 12 * len(self)

    def _check(self) -> None:
        """Assert that keys, then rows, ascend."""
        pairs = list(zip(self._keys, self._rows, strict=True))
        assert pairs == sorted(set(pairs))


def _parts(op: Op) -> tuple[Op, ...]:
    return (Op.LT, Op.GT) if op is Op.NE else (op,)


def _run(keys: array[int], op: Op, value: int) -> tuple[int, int]:
    """The positions of ascending keys that compare so with a value."""
    if op is Op.LT:
        return 0, bisect_left(keys, value)
    if op is Op.LE:
        return 0, bisect_right(keys, value)
    return (bisect_right if op is Op.GT else bisect_left)(keys, value), len(keys)


def _runs(keys: array[int], op: Op, values: Codes) -> tuple[I64, I64]:
    """`_run` for many values."""
    side: Literal["left", "right"] = "right" if op in (Op.LE, Op.GT) else "left"
    ends = np.searchsorted(np.frombuffer(keys, dtype=np.int64), values, side=side)
    if op in (Op.LT, Op.LE):
        return np.zeros_like(ends), ends
    return ends, np.full_like(ends, len(keys))


def _expand(low: I64, high: I64, rows: Slots, equ: dict[int, array[int]]) -> Iterator[Found]:
    """The rows of one run per query, with their equals, about CHUNK at a time."""
    counts = np.maximum(high - low, 0)
    queries = np.flatnonzero(counts)
    low, counts = low[queries], counts[queries]
    ends = np.cumsum(counts)
    start = 0
    while start < len(queries):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + CHUNK, side="right")))
        part = slice(start, stop)
        asked, found = np.empty(ends[stop - 1] - done, dtype=np.int64), np.empty(ends[stop - 1] - done, dtype=np.int32)
        take_stretches(low[part], counts[part], queries[part], rows, asked, found)
        yield asked, found
        if equ:
            crowded = np.flatnonzero(np.isin(found, np.fromiter(equ, dtype=np.int32, count=len(equ))))
            others = [equ[row] for row in found[crowded].tolist()]
            if others:
                yield np.repeat(asked[crowded], [len(o) for o in others]), _joined(others)
        start = stop


def _patience(keys: Sequence[int], weak: bool) -> I64:
    """Lines 2 to 14 of OptIndex: for each key the chain with the nearest last key that it may follow.

    `tails` keeps the complements of the chains' last keys, which stay ascending by themselves: a
    key replaces the nearest one it may follow, or lies beyond all.
    """
    tails: list[int] = []
    home = np.empty(len(keys), dtype=np.int64)
    find = bisect_left if weak else bisect_right
    for i, key in enumerate(keys):
        place = find(tails, ~key)
        if place == len(tails):
            tails.append(~key)
        else:
            tails[place] = ~key
        home[i] = place
    return home


def _members(home: I64) -> list[I64]:
    """Positions by chain, in order."""
    if not len(home):
        return []
    order = np.argsort(home, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(home[order])) + 1)


def _joined(parts: Sequence[array[int]]) -> Slots:
    if not parts:
        return np.empty(0, dtype=np.int32)
    if len(parts) == 1:
        return np.array(parts[0], dtype=np.int32)
    return np.concatenate([np.frombuffer(part, dtype=np.int32) for part in parts if part])


def _longs(values: Codes) -> array[int]:
    return array("q", values.astype(np.int64).tobytes())


def _ints(values: Slots) -> array[int]:
    return array("i", values.astype(np.int32).tobytes())
