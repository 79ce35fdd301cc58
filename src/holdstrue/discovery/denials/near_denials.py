"""Rules that only a handful of pairs break: the pairs are likely errors in the data."""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.denials.breaking_pairs import breaking_pairs
from holdstrue.discovery.denials.canonical import shown
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.cover import CoverSearch
from holdstrue.discovery.denials.measures import Measures, violations
from holdstrue.discovery.found import NearMiss
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.typing import I64, U64


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
    rated = list(zip(measures.rules(found, broken[near].tolist()), found, strict=True))
    rated.sort(key=lambda one: (-one[0].score, one[0].violations))
    rated = rated[:limit]
    try:
        listed = breaking_pairs(rows, [mask for _, mask in rated], work)
    except OutOfTimeError:
        return (), False
    out = []
    for (rule, mask), pairs in zip(rated, listed, strict=True):
        exchanged = rows.space.swapped(mask)
        symmetric = exchanged is not None and bool((exchanged == mask).all())
        once = tuple(sorted((t, s) for t, s in pairs if t < s or not symmetric))
        measures_of = {"score": round(rule.score, 4), "support": rule.support}
        out.append(NearMiss(rule.body, len(once), rule.error, once, measures=measures_of))
    return tuple(out), cover.complete
