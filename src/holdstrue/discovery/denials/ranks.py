"""Codes as small ranks that compare alike: what a tile of rows is counted on."""

from __future__ import annotations

import numpy as np

from holdstrue.data.seed import OPEN
from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.denials.word_layout import TileSide, WordLayout
from holdstrue.discovery.work import Work
from holdstrue.kernels import digest
from holdstrue.kernels import landmarks as kernels
from holdstrue.typing import I64, Lanes, Mask

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
        _settle_nulls(space, ranks, known, columns)

    (work if rows > _SMALL else Work(threads=1)).each(rank, space.components)
    weights, copies = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if not as_given and rows:
        order, weights, copies = _arranged(space, ranks, known, slots)
        ranks, known, slots = ranks[:, order], known[:, order], slots[order]
    usable = _usable(space, known)
    layout = WordLayout(space, np.logical_not(usable.all(axis=1)), int(ranks.max(initial=0)) + 1)
    return layout, _side(layout, ranks, usable, weights, slots, copies)


def ranked_between(space: Space, t: Block, s: Block) -> tuple[WordLayout, TileSide, TileSide]:
    """Ranks for comparing rows t with rows s only: by where codes of s lie among those of t.

    Complexity: O(values of s), O(values of s x log values of t) for ordered columns.
    """
    ordered = {c.left for c in space.comparisons if c.ordered}
    landmarks = {component: np.unique(t[0][list(component)]) for component in space.components}
    # the lowest rank is left to NULL as a value
    top = 2 * max(marks.size for marks in landmarks.values()) + 2
    t_known, s_known = _usable(space, t[1]), _usable(space, s[1])
    layout = WordLayout(space, np.logical_not(t_known.all(axis=1) & s_known.all(axis=1)), top + 1)
    lowest = layout.lowest
    sides = []
    for codes, known, slots in (t, s):
        ranks = np.empty(codes.shape, dtype=np.int16 if layout.narrow else np.int32)
        for component, marks in landmarks.items():
            for column in component:
                kernels.ranks_among(
                    marks, np.ascontiguousarray(codes[column]), column in ordered, lowest + 1, ranks[column]
                )
                if space.nulls == "equal":
                    ranks[column, ~known[column]] = lowest
        sides.append((ranks, _usable(space, known), slots))
    none = np.zeros(0, dtype=np.int64)
    arranged = []
    for ranks, known, slots in sides:
        order = _locality(ranks, space)
        lanes = _lanes(layout, known if known.all() else known[:, order])
        arranged.append((np.ascontiguousarray(ranks[:, order]), lanes, slots[order]))
    (t_ranks, t_lanes, t_slots), (s_ranks, s_lanes, s_slots) = arranged
    hopes = layout.hopes(t_ranks, s_ranks, same=False)
    return (
        layout,
        TileSide(t_ranks, t_lanes, hopes, none, t_slots, none),
        TileSide(s_ranks, s_lanes, hopes[:, :0], none, s_slots, none),
    )


def _lanes(layout: WordLayout, known: Mask) -> tuple[Lanes, Lanes]:
    return layout.known_lanes(known, "t"), layout.known_lanes(known, "s")


_SMALL = 4096


def _settle_nulls(space: Space, ranks: I64, known: Mask, columns: list[int]) -> None:
    """NULL as a value lies below all others; an unknown one is masked later and may have any rank."""
    if space.nulls == "equal":
        for column in columns:
            ranks[column] = np.where(known[column], ranks[column] + 1, 0)


def _usable(space: Space, known: Mask) -> Mask:
    return np.ones_like(known) if space.nulls == "equal" else known


def _side(layout: WordLayout, ranks: I64, known: Mask, weights: I64, slots: I64, copies: I64) -> TileSide:
    narrow: Lanes = (ranks + layout.lowest).astype(np.int16 if layout.narrow else np.int32)
    narrow = np.ascontiguousarray(narrow)
    hopes = layout.hopes(narrow, narrow, same=True)
    return TileSide(narrow, _lanes(layout, known), hopes, weights, np.ascontiguousarray(slots), copies)


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
