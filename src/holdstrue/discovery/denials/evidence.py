"""The evidence of a table: which sets of atoms hold for its row pairs, and for how many.

Evidences as in Qian, Li, Tan, Ran, Ma: Incremental discovery of denial constraints, Section 3, kept as a
counted multiset, so that rows that come add to it and rows that go subtract. Tiles of rows against rows are
independent: threads here, tasks elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeAlias

import numpy as np

from holdstrue.discovery.denials.ranks import Block, ranked, ranked_between
from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.denials.word_counts import PairCounter, WordCounts
from holdstrue.discovery.denials.word_layout import TileSide, WordLayout
from holdstrue.discovery.work import Work
from holdstrue.kernels import outcome_words as kernels
from holdstrue.typing import I64, U64, Mask

TASK_PAIRS = 1 << 23
"""Pairs of a task: some 20 ms, after which the deadline is looked at. Chosen, not tuned."""

MOST_WORDS = 1 << 22
"""Words of distinct evidences beyond which counting stops: 130 MB at one word each, and no cover search would end."""


@dataclass(frozen=True)
class Evidence:
    """Distinct sets of atoms, for how many ordered pairs each holds, and one such pair (t, s) of slots.

    `complete` is False when time or room ran out before all pairs were looked at.
    """

    words: U64
    counts: I64
    pairs: I64
    complete: bool = True

    @property
    def size(self) -> int:
        """How many are distinct."""
        return int(self.counts.size)


CountPairs: TypeAlias = Callable[[Space, I64, Mask, I64, Work], Evidence]
"""Counts the evidence of all pairs of some rows: (space, codes, known, slots, work)."""


def no_evidence(space: Space) -> Evidence:
    """The evidence of no pairs."""
    none = np.zeros(0, dtype=np.int64)
    return Evidence(np.zeros((0, space.width), dtype=np.uint64), none, none.reshape(0, 2))


def evidence_within(space: Space, codes: I64, known: Mask, slots: I64, work: Work) -> Evidence:
    """The evidence of all pairs of distinct rows among `slots`.

    Complexity: O(rows^2 x comparisons / lanes of a vector).
    """
    if slots.size < 2:
        return no_evidence(space)
    layout, side = ranked(space, codes[:, slots], known[:, slots], slots, work)
    tally, complete = _counted(layout, side, side, _triangle(side.size), work)
    if side.weights.size:
        _add_copies(layout, side, tally)
    return _unpacked(layout, tally, side, side, complete)


def evidence_between(space: Space, codes: I64, known: Mask, t_slots: I64, s_slots: I64, work: Work) -> Evidence:
    """The evidence of all pairs, in both orders, of a row of `t_slots` and one of `s_slots` (which share none).

    Complexity: O(pairs x comparisons / lanes of a vector).
    """
    if not t_slots.size or not s_slots.size:
        return no_evidence(space)
    if t_slots.size > s_slots.size:
        t_slots, s_slots = s_slots, t_slots
    layout, t_side, s_side = ranked_between(space, _block(codes, known, t_slots), _block(codes, known, s_slots))
    tally, complete = _counted(layout, t_side, s_side, _rectangle(t_side.size, s_side.size), work)
    return _unpacked(layout, tally, t_side, s_side, complete)


def _block(codes: I64, known: Mask, slots: I64) -> Block:
    """The rows of some slots; without a copy where these follow each other."""
    first, end = int(slots[0]), int(slots[-1]) + 1
    if end - first == slots.size and (np.diff(slots) == 1).all():
        return codes[:, first:end], known[:, first:end], slots
    return codes[:, slots], known[:, slots], slots


def tile_evidence(space: Space, t: tuple[I64, Mask], s: tuple[I64, Mask] | None = None) -> tuple[U64, I64]:
    """What one task counts, from plain arrays alone: the pairs within block t, or between blocks t and s.

    A block is its codes and which of them are known, by column and row. Returns sets of atoms and the
    numbers of ordered pairs; results of several tiles go together with `merged`.
    """
    codes, known = t
    first = np.arange(codes.shape[1], dtype=np.int64)
    one = Work(threads=1)
    if s is None:
        found = evidence_within(space, codes, known, first, one)
    else:
        codes, known = np.concatenate([codes, s[0]], axis=1), np.concatenate([known, s[1]], axis=1)
        second = np.arange(first.size, codes.shape[1], dtype=np.int64)
        found = evidence_between(space, codes, known, first, second, one)
    return found.words, found.counts


def merged(space: Space, parts: Sequence[tuple[U64, I64]]) -> tuple[U64, I64]:
    """The counts of several tiles as one. Complexity: O(distinct evidences of all parts)."""
    tally = WordCounts(space.width)
    for words, counts in parts:
        tally.add(words, counts)
    return tally.words(), tally.counts()


Span = tuple[int, int, int, int, int]


def _triangle(rows: int) -> list[Span]:
    """Rows t against the rows after them, in tasks of about equal size."""
    spans, start = [], 0
    while start < rows - 1:
        end, pairs = start, 0
        while end < rows - 1 and pairs < TASK_PAIRS:
            step = max(1, min(64, rows - 1 - end))
            pairs += step * (rows - end)
            end += step
        spans.append((start, end, 0, rows, 1))
        start = end
    return spans


def _rectangle(t_rows: int, s_rows: int) -> list[Span]:
    step = max(1, TASK_PAIRS // max(1, s_rows))
    return [(start, min(start + step, t_rows), 0, s_rows, 0) for start in range(0, t_rows if s_rows else 0, step)]


def _counted(layout: WordLayout, t: TileSide, s: TileSide, spans: list[Span], work: Work) -> tuple[WordCounts, bool]:
    """Work the tasks off in threads, each with a table of its own, and put the tables together."""
    tasks, lock, done = iter(spans), Lock(), [0]
    stopped: list[bool] = []

    def next_task() -> Span | None:
        with lock:
            if done[0]:
                work.tell(done[0] / len(spans), "comparing pairs of rows")
            if stopped:
                return None
            done[0] += 1
            return next(tasks, None)

    def counted(_: int) -> PairCounter:
        counter = PairCounter(layout.width)
        while (span := next_task()) is not None:
            counter.count(layout, t, s, np.array(span, dtype=np.int64))
            if work.over or len(counter) * layout.width > MOST_WORDS:
                stopped.append(True)
        return counter

    whole = WordCounts(layout.width)
    for counter in work.each(counted, range(max(1, min(work.workers, len(spans))))):
        counter.into(whole)
    return whole, not stopped


def _add_copies(layout: WordLayout, side: TileSide, tally: WordCounts) -> None:
    """Pairs of rows that are equal on all columns."""
    many = np.flatnonzero(side.weights > 1)
    words = np.empty((layout.width, many.size), dtype=np.uint64)
    known_t, known_s = side.known
    kernels.words_of_pairs(
        side.ranks, side.ranks, layout.plan, layout.bits, layout.base, known_t, known_s, many, many, words
    )
    weights = side.weights[many]
    tally.add(np.ascontiguousarray(words.T), weights * (weights - 1) // 2, np.stack([many, many], axis=1))


def _unpacked(layout: WordLayout, tally: WordCounts, t: TileSide, s: TileSide, complete: bool) -> Evidence:
    """Both orders of every pair, as sets of atoms, with slots for rows; nothing where some were not counted."""
    if not complete:
        return replace(no_evidence(layout.space), complete=False)
    words, counts, first = tally.words(), tally.counts(), tally.first()
    pairs = np.stack([t.slots[first[:, 0]], s.slots[first[:, 1]]], axis=1) if first.size else first
    if t is s and t.weights.size:
        same = np.flatnonzero(first[:, 0] == first[:, 1])
        pairs[same, 1] = t.copies[first[same, 0]]
    whole = WordCounts(layout.space.width)
    whole.add(layout.atoms(words, mirrored=False), counts, pairs)
    whole.add(layout.atoms(words, mirrored=True), counts, pairs[:, ::-1])
    return Evidence(whole.words(), whole.counts(), whole.first(), complete)
