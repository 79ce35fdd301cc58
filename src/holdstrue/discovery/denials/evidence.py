"""The evidence of a table: which sets of atoms hold for its row pairs, and for how many.

Evidences as in Qian, Li, Tan, Ran, Ma: Incremental discovery of denial constraints, Section 3, kept as a
counted multiset, so that rows that come add to it and rows that go subtract. Tiles of rows against rows are
independent: threads here, tasks elsewhere. They are counted on small ranks that compare as the codes do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Lock
from typing import TypeAlias

import numpy as np

from holdstrue.data.seed import OPEN
from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.denials.word_layout import PairCounter, TileSide, WordCounts, WordLayout
from holdstrue.discovery.work import Work
from holdstrue.kernels import digest, landmarks
from holdstrue.kernels import outcome_words as kernels
from holdstrue.typing import I32, I64, U64, Lanes, Mask

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
    tally, complete = _counted(layout, side, side, _triangle(side.slots.size, _task_pairs(space)), work)
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
    t_rows, s_rows = t_side.slots.size, s_side.slots.size
    step = max(1, _task_pairs(space) // s_rows)
    spans = [(start, min(start + step, t_rows), 0, s_rows, 0) for start in range(0, t_rows, step)]
    tally, complete = _counted(layout, t_side, s_side, spans, work)
    return _unpacked(layout, tally, t_side, s_side, complete)


def evidence_beside(space: Space, t: tuple[I32, I64], s: tuple[I32, I64], beside: I64, work: Work) -> Evidence:
    """The evidence of the pairs, in both orders, of rows t with those of the rows s that lie beside each of them.

    Rows are ranks by column, -1 where a value is unknown, and slots. `beside` holds the ends of the rows s by row t.
    Complexity: O(pairs x comparisons / lanes of a vector + rows t).
    """
    if not t[1].size or not s[1].size:
        return no_evidence(space)
    t_known, s_known = t[0] >= 0, s[0] >= 0
    layout = WordLayout(space, np.logical_not(t_known.all(axis=1) & s_known.all(axis=1)), 1 << 32)
    none = np.zeros(0, dtype=np.int64)
    hopes = np.ones((len(layout.slots), t[1].size), dtype=np.uint8)
    t_side = TileSide(t[0], layout.known_lanes(t_known), hopes, none, t[1], none, beside)
    s_side = TileSide(s[0], layout.known_lanes(s_known), hopes[:, :0], none, s[1], none)
    pairs = np.cumsum(beside[:, 1] - beside[:, 0])
    tasks = max(1, int(pairs[-1]) // _task_pairs(space))
    ends = np.unique(np.append(np.searchsorted(pairs, np.linspace(0, pairs[-1], tasks + 1)[1:-1]), [0, t[1].size]))
    spans = [(int(a), int(b), 0, int(s[1].size), 0) for a, b in pairwise(ends)]
    tally, complete = _counted(layout, t_side, s_side, spans, work)
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


def _task_pairs(space: Space) -> int:
    """Pairs of a task: fewer where there are many comparisons, and still fewer where hardly two pairs are alike."""
    many = len(space.comparisons)
    return max(1, TASK_PAIRS // max(1, many // 25) // max(1, many // 500))


def _triangle(rows: int, most: int) -> list[Span]:
    """Rows t against the rows after them, in tasks of about equal size."""
    spans, start = [], 0
    while start < rows - 1:
        end, pairs = start, 0
        while end < rows - 1 and pairs < most:
            step = max(1, min(64, rows - 1 - end, most // rows))
            pairs += step * (rows - end)
            end += step
        spans.append((start, end, 0, rows, 1))
        start = end
    return spans


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
    counters = work.each(counted, range(max(1, min(work.workers, len(spans)))))
    for counter in counters if not stopped else ():
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


Block = tuple[I64, Mask, I64]
"""Codes and known values by column and row, and the rows' slots."""

_PRODUCT = 64
"""Rows are sorted by columns of few values until these have this many combinations: then a strip holds few
different words. On `airport` counting takes 0.19 us a thousand pairs so, 0.29 us in the order of the file."""

_COPIES = 0.5
"""Rows that are equal on all columns are counted as one where that leaves fewer than this share of them."""


def ranked(
    space: Space, codes: I64, known: Mask, slots: I64, work: Work, *, as_given: bool = False
) -> tuple[WordLayout, TileSide]:
    """Ranks for comparing a block with itself; equal rows as one, rows in an order that counts fast.

    With `as_given` every row stays in its place. Complexity: O(values log values).
    """
    rows = codes.shape[1]
    ranks = np.zeros((len(space.columns), rows), dtype=np.int64)

    def rank(component: tuple[int, ...]) -> None:
        columns = list(component)
        place = np.unique(codes[columns].ravel(), return_inverse=True)[1]
        ranks[columns] = place.reshape(len(columns), rows)
        if space.nulls == "equal":
            # NULL as a value lies below all others; an unknown one is masked later and may have any rank
            ranks[columns] = np.where(known[columns], ranks[columns] + 1, 0)

    (work if rows > _SMALL else Work(threads=1)).each(rank, space.components)
    weights, copies = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if not as_given and rows:
        order, weights, copies = _arranged(space, ranks, known, slots)
        ranks, known, slots = ranks[:, order], known[:, order], slots[order]
    usable = _usable(space, known)
    layout = WordLayout(space, np.logical_not(usable.all(axis=1)), int(ranks.max(initial=0)) + 1)
    lanes: Lanes = np.ascontiguousarray((ranks + layout.lowest).astype(np.int16 if layout.narrow else np.int32))
    hopes = layout.hopes(lanes, lanes, same=True)
    return layout, TileSide(lanes, layout.known_lanes(usable), hopes, weights, np.ascontiguousarray(slots), copies)


def ranked_between(space: Space, t: Block, s: Block) -> tuple[WordLayout, TileSide, TileSide]:
    """Ranks for comparing rows t with rows s only: by where codes of s lie among those of t.

    Complexity: O(values of s), O(values of s x log values of t) for ordered columns.
    """
    ordered = {c.left for c in space.comparisons if c.ordered}
    marks_of = {component: np.unique(t[0][list(component)]) for component in space.components}
    # the lowest rank is left to NULL as a value
    top = 2 * max(marks.size for marks in marks_of.values()) + 2
    t_known, s_known = _usable(space, t[1]), _usable(space, s[1])
    layout = WordLayout(space, np.logical_not(t_known.all(axis=1) & s_known.all(axis=1)), top + 1)
    lowest = layout.lowest
    sides = []
    for codes, known, slots in (t, s):
        ranks = np.empty(codes.shape, dtype=np.int16 if layout.narrow else np.int32)
        for component, marks in marks_of.items():
            for column in component:
                landmarks.ranks_among(
                    marks, np.ascontiguousarray(codes[column]), column in ordered, lowest + 1, ranks[column]
                )
                if space.nulls == "equal":
                    ranks[column, ~known[column]] = lowest
        sides.append((ranks, _usable(space, known), slots))
    none = np.zeros(0, dtype=np.int64)
    arranged = []
    for ranks, known, slots in sides:
        order = _locality(ranks, space)
        lanes = layout.known_lanes(known if known.all() else known[:, order])
        arranged.append((np.ascontiguousarray(ranks[:, order]), lanes, slots[order]))
    (t_ranks, t_lanes, t_slots), (s_ranks, s_lanes, s_slots) = arranged
    hopes = layout.hopes(t_ranks, s_ranks, same=False)
    return (
        layout,
        TileSide(t_ranks, t_lanes, hopes, none, t_slots, none),
        TileSide(s_ranks, s_lanes, hopes[:, :0], none, s_slots, none),
    )


_SMALL = 4096


def _usable(space: Space, known: Mask) -> Mask:
    return np.ones_like(known) if space.nulls == "equal" else known


def _arranged(space: Space, ranks: I64, known: Mask, slots: I64) -> tuple[I64, I64, I64]:
    """An order of rows; where many are equal one of each kind, its multiplicity, and the slot of a second one."""
    rows = ranks.shape[1]
    none = np.zeros(0, dtype=np.int64)
    hi, lo = np.zeros(rows, dtype=np.uint64), np.zeros(rows, dtype=np.uint64)
    for column in range(ranks.shape[0]):
        value = np.where(known[column], ranks[column] + 1, 0).view(np.uint64)
        digest.extend_key_by_words(hi, lo, value, OPEN.keys)
    _, kind, counts = np.unique(lo ^ hi, return_inverse=True, return_counts=True)
    if counts.size >= _COPIES * rows:
        return _locality(ranks, space), none, none
    by_kind = np.argsort(kind, kind="stable")
    starts = np.cumsum(counts) - counts
    first = by_kind[starts]
    second = by_kind[np.minimum(starts + 1, rows - 1)]
    order = _locality(ranks[:, first], space)
    return first[order], counts[order].astype(np.int64), slots[second[order]]


def _locality(ranks: Lanes, space: Space) -> I64:
    """Rows by columns of few values, then by an ordered one: neighbours then compare alike with most rows."""
    distinct = [int(np.unique(row).size) if row.size else 0 for row in ranks[:, :: max(1, ranks.shape[1] // 4096)]]
    ordered = [c.left for c in space.comparisons if c.ordered and c.left == c.right]
    keys, product = [], 1
    for column in sorted(range(len(distinct)), key=distinct.__getitem__):
        if product * distinct[column] > _PRODUCT:
            break
        product *= distinct[column]
        keys.append(ranks[column])
    keys += [ranks[column] for column in ordered[:1]]
    if not keys:
        return np.arange(ranks.shape[1], dtype=np.int64)
    return np.lexsort(keys[::-1]).astype(np.int64)
