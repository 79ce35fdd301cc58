"""Numbers, days and times far from nearly all others of their column, also where they stand as text.

Three ways to be far off, of at most 2% of the cells:

- by distance: many spans of the middle 95% away, by differences and by ratios;
- by a gap: nothing lies between them and the others for such a span, while the others come close to each other up to
  where they end, by differences or by ratios; a column with a long tail thins out, and has no such end;
- by sign: less than 0 in a column that begins well above.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.values import NUMBERS, family_of
from holdstrue.discovery.suspects.cells import CodedCells
from holdstrue.discovery.suspects.form_vote import LEAST_CELLS, NUMBER, OFF, RARE, FormVote
from holdstrue.typing import F64, I64, Mask

FAR = 20
"""How many spans of the middle 95% a number lies outside to be far off, and by ratio how many of their logarithms."""

GAP, TAIL, DEEP = 1.25, 0.5, 10
"""The least gap, and how far the others may reach beyond their middle 95%, in spans of it, or in so many parts of the
gap. With 1 honest long films were far off."""

ABOVE = 0.05
"""A column begins well above 0 where its least number is more than this share of the median."""

LEAST_ROWS = 100
"""Known cells below which there is no middle 95% to speak of."""

MOMENTS = ("date", "timestamp", "zoned")
"""Families of which differences say something, and ratios do not: they count from an arbitrary day."""

NUMBERED = 0.9
"""The share of a text column's cells that are numbers, for these to be compared."""


def far_off(cells: CodedCells, column: int) -> Iterator[FormVote]:
    """The values of a column that are far off. Complexity: O(distinct values * log)."""
    values = as_numbers(cells, column)
    counts = cells.counts[column]
    finite = np.isfinite(values) if values is not None else np.zeros(0, dtype=np.bool_)
    # where one value is most of a column, such as no rain, the others have no span to be far from
    if values is None or finite.sum() < 3 or cells.known[column] < LEAST_ROWS:
        return
    if 2 * counts.max() > cells.known[column]:
        return
    order = np.flatnonzero(finite)[np.argsort(values[finite], kind="stable")]
    ranked, summed = values[order], np.cumsum(counts[order])
    far = np.zeros(counts.size, dtype=np.bool_)
    low, high = _middle(ranked, summed)
    moments = family_of(cells.distinct[column].type) in MOMENTS
    if finite.sum() >= LEAST_CELLS and not moments:
        far |= _by_distance(values, finite, low, high)
    # of numbers that all differ, such as ids, some may well be of another series
    if counts[order].max() > 1 or moments or family_of(cells.distinct[column].type) in ("float", "decimal"):
        far[order[_behind_gap(ranked, summed, ratios=not moments)]] = True
    negative = _by_sign(ranked, summed) if not moments else np.zeros(order.size, dtype=np.bool_)
    far[order[negative]] = True
    if 0 < counts[far].sum() <= RARE * cells.known[column]:
        turned = {code: _turned(cells, column, code) for code in order[negative].tolist()}
        for code in np.flatnonzero(far).tolist():
            yield FormVote(column, code, turned.get(code), OFF, "number", True)


def as_numbers(cells: CodedCells, column: int) -> F64 | None:
    """The distinct values as numbers, NaN where a text is none; None of columns that hold something else."""
    distinct = cells.distinct[column]
    family = family_of(distinct.type)
    if family in MOMENTS:
        whole = pc.cast(distinct, pa.int32() if pa.types.is_date32(distinct.type) else pa.int64())
        found: F64 = whole.to_numpy(zero_copy_only=False).astype(np.float64)
        return found
    if family == "text":
        plain = pc.match_substring_regex(distinct, f"^[-+]?{NUMBER}$").to_numpy(zero_copy_only=False)
        if cells.counts[column][plain].sum() < NUMBERED * cells.known[column]:
            return None
        found = np.full(len(distinct), np.nan)
        # a sign is no part of a number in Arrow's eyes where it is +
        bare = pc.replace_substring_regex(distinct.filter(pa.array(plain)), r"^\+", "")
        found[plain] = pc.cast(bare, pa.float64()).to_numpy(zero_copy_only=False)
        return found
    plain_numbers: F64 | None = None
    if family in NUMBERS:
        plain_numbers = pc.cast(distinct, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return plain_numbers


def _middle(ranked: F64, summed: I64) -> tuple[float, float]:
    """Between what values the middle 95% of the cells lie."""
    low, high = (float(ranked[np.searchsorted(summed, share * summed[-1])]) for share in (0.025, 0.975))
    return low, high


def _by_distance(values: F64, finite: Mask, low: float, high: float) -> Mask:
    span = high - low
    if span <= 0:
        return np.zeros(values.size, dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        far = finite & ((values > high + FAR * span) | (values < low - FAR * span))
        if low > 0:
            ratio = np.log(high / low) + 1
            far &= (values <= 0) | (np.abs(np.log(np.maximum(values, 1e-300) / np.sqrt(high * low))) > 2 * ratio)
    return far


def _behind_gap(ranked: F64, summed: I64, *, ratios: bool = True) -> Mask:
    """Which of some ascending values lie behind a gap, below or above the others.

    >>> ranked = np.append(np.arange(100.0), [240.0, 250.0])
    >>> _behind_gap(ranked, np.arange(1, 103) * 10).nonzero()[0].tolist()
    [100, 101]
    """
    low, high = _middle(ranked, summed)
    found = _gaps(ranked, summed, low, high)
    if ratios and low > 0:
        positive = ranked > 0
        known = np.log(ranked[positive])
        found[positive] |= _gaps(known, np.cumsum(np.diff(summed, prepend=0)[positive]), np.log(low), np.log(high))
    return found


def _gaps(ranked: F64, summed: I64, low: float, high: float) -> Mask:
    found = np.zeros(ranked.size, dtype=np.bool_)
    span, most = high - low, RARE * summed[-1]
    if span <= 0:
        return found
    steps = np.diff(ranked)
    wide = np.flatnonzero(steps >= GAP * span)
    above = wide[(ranked[wide] >= high) & (summed[-1] - summed[wide] <= most)]
    room = np.maximum(TAIL * span, steps / DEEP)
    above = above[ranked[above] - high <= room[above]]
    if above.size:
        found[above[0] + 1 :] = True
    below = wide[(ranked[wide + 1] <= low) & (summed[wide] <= most)]
    below = below[low - ranked[below + 1] <= room[below]]
    if below.size:
        found[: below[-1] + 1] = True
    return found


def _by_sign(ranked: F64, summed: I64) -> Mask:
    """Numbers below 0 among numbers that begin well above it.

    >>> _by_sign(np.array([-30.0, 20.0, 40.0]), np.array([1, 60, 120])).tolist()
    [True, False, False]
    """
    start = int(np.searchsorted(ranked, 0.0, side="right"))
    median = ranked[np.searchsorted(summed, summed[-1] / 2)]
    if start == ranked.size or not ranked[start] > ABOVE * median > 0:
        return np.zeros(ranked.size, dtype=np.bool_)
    return ranked < 0


def _turned(cells: CodedCells, column: int, code: int) -> str | None:
    """A number with the other sign, as text."""
    text = cells.texts(column)[code]
    return text[1:] if text.startswith("-") else None
