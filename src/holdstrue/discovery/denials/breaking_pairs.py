"""Pairs of rows that satisfy given sets of atoms, and rules that a handful of pairs break: likely errors in data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.counted_search import CountedSearch
from holdstrue.discovery.denials.cover import CoverSearch
from holdstrue.discovery.denials.evidence import ranked
from holdstrue.discovery.denials.lower_bounds import LowerBounds
from holdstrue.discovery.denials.measures import DenialRule, Measures, violations
from holdstrue.discovery.denials.pair_sums import PairSums
from holdstrue.discovery.denials.pair_words import PairWords
from holdstrue.discovery.denials.set_counts import SetCounts
from holdstrue.discovery.denials.space import canonical_each, shown
from holdstrue.discovery.denials.steps import LocalSteps
from holdstrue.discovery.found import NearMiss
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.kernels import outcome_words as kernels
from holdstrue.typing import I64, U64

ROWS_AT_ONCE = 256
"""Rows compared with all others between two looks at the clock. Chosen, not tuned."""

_ROOM = 1 << 14

SEARCHED = 0.8
"""The share of the time that the search for near misses may take: their pairs have to be listed. Chosen, not tuned."""


def breaking_pairs(
    rows: CodedRows, masks: Sequence[U64], work: Work, *, most: int | None = None
) -> list[list[tuple[int, int]]]:
    """For each set of atoms the ordered pairs of slots that satisfy it: one with `most` = 1, else all of them.

    Complexity: O(rows^2 x (comparisons + sets) / lanes of a vector).

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    slots = rows.live()
    found: list[list[tuple[int, int]]] = [[] for _ in masks]
    if slots.size < 2 or not masks:
        return found
    layout, side = ranked(rows.space, rows.codes[:, slots], rows.known[:, slots], slots, work, as_given=True)
    # a pair (t, s) is looked at once, so each set is asked for in both orders of the rows
    asked = np.array([layout.conditions(mask, mirrored=way) for mask in masks for way in (False, True)])
    wanted = np.ones(len(asked), dtype=np.bool_)
    out = np.empty((max(_ROOM, 2 * kernels.STRIP * len(asked)), 3), dtype=np.int64)
    for start in range(0, slots.size - 1, ROWS_AT_ONCE):
        work.require_time()
        end = min(start + ROWS_AT_ONCE, slots.size)
        span = np.array([start, end, 0, slots.size, 1], dtype=np.int64)
        state = np.array([0, start, 0, int(most == 1)], dtype=np.int64)
        while state[1] < end:
            listed = kernels.match_pairs(
                side.ranks, side.ranks, layout.plan, layout.bits, layout.base, side.known[0], side.known[1],
                side.hopes, span, asked, wanted, out, state,
            )  # fmt: skip
            for which, t, s in out[:listed].tolist():
                one, other = int(slots[t]), int(slots[s])
                found[which // 2].append((one, other) if which % 2 == 0 else (other, one))
        for number, pairs in enumerate(found):
            if most is not None and len(pairs) >= most:
                wanted[2 * number : 2 * number + 2] = False
        if not wanted.any():
            break
    return [pairs[:most] for pairs in found]


def near_misses(
    rows: CodedRows,
    search: CoverSearch,
    weighted: tuple[U64, I64],
    measures: Measures,
    most: int,
    limit: int,
    work: Work,
) -> tuple[tuple[NearMiss, ...], bool]:
    """Minimal rules that at least one and at most `most` ordered pairs break, the `limit` best of them.

    Of a rule that says the same with its rows exchanged each pair is listed once, the smaller slot first.
    And whether there was time for all of them; none are given where there was no time to list their pairs.
    Complexity: a search with exceptions, then one look at all pairs.
    """
    words, counts = weighted
    cover = search.approximate(words, counts, most, work)
    found = shown(rows.space, cover.sets)
    broken = violations(found, words, counts)
    near = (broken > 0) & (broken <= most)
    found = np.ascontiguousarray(found[near])
    rated = _best(measures, found, broken[near], limit)
    try:
        listed = breaking_pairs(rows, [mask for _, mask in rated], work)
    except OutOfTimeError:
        return (), False
    return tuple(_told(rows, *one, pairs) for one, pairs in zip(rated, listed, strict=True)), cover.complete


def near_misses_by_sweeps(
    rows: CodedRows, search: CoverSearch, measures: Measures, most: int, limit: int, work: Work
) -> tuple[tuple[NearMiss, ...], int | None]:
    """The same for tables of any size; and up to how many predicates there was time for all, None where for all.

    Complexity: that of `LowerBounds.draw`, and a sweep or several for each set that is broken by few of those pairs.
    """
    space, live = rows.space, rows.live()
    if live.size * (live.size - 1) <= most:
        return (), None
    bounds = LowerBounds(space.width)
    bounds.draw(LocalSteps(rows), live, work)
    counts = SetCounts(rows, bounds, {}, most)
    cover = CountedSearch(space, search).search(counts.within, work.first(SEARCHED))
    found = shown(space, cover.sets)
    out = []
    try:
        broken = counts.counts(np.ascontiguousarray(canonical_each(space, found)), work)
        found, broken = np.ascontiguousarray(found[broken > 0]), broken[broken > 0]
        sums, words = PairSums(rows, work), PairWords(rows)
        for rule, mask in _best(measures, found, broken, limit):
            work.require_time()
            out.append(_told(rows, rule, mask, sums.pairs(mask, words)))
    except OutOfTimeError:
        return tuple(out), 0
    return tuple(out), None if cover.complete else cover.length


def _best(measures: Measures, found: U64, broken: I64, limit: int) -> list[tuple[DenialRule, U64]]:
    rated = list(zip(measures.rules(found, broken.tolist()), found, strict=True))
    rated.sort(key=lambda one: (-one[0].score, one[0].violations))
    return rated[:limit]


def _told(rows: CodedRows, rule: DenialRule, mask: U64, pairs: Sequence[tuple[int, int]]) -> NearMiss:
    """A rule with the pairs that break it, each once."""
    exchanged = rows.space.swapped(mask)
    symmetric = exchanged is not None and bool((exchanged == mask).all())
    once = tuple(sorted((t, s) for t, s in pairs if t < s or not symmetric))
    measures_of = {"score": round(rule.score, 4), "support": rule.support}
    return NearMiss(rule.body, len(once), rule.error, once, measures=measures_of)
