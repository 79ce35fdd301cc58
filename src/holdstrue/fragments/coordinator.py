"""Fragments compared from scratch: one of them is sent both sides' ids and says which groups violate.

For a first load each fragment sends every kind once; the batch algorithm (batHor) sends every matching row.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from holdstrue.fragments.cfd_index import CFDIndex
from holdstrue.fragments.channel import MessageColumns, SiteMessage
from holdstrue.fragments.exchange import by_cfd, group_ids, ids_in
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.indexed_rows import CFDStep
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import all_true

SiteSides = tuple[str, Ids, Ids]
"""A site with the ids of its left and right sides."""


def coordinator_of(spec: SiteSpec, number: int) -> str | None:
    """The site that compares a CFD's fragments; None when they need not agree. CFDs take turns."""
    taking = spec.plan.participants[number]
    if spec.fragment not in taking:
        return None
    return spec.plan.fragments[taking[number % len(taking)]].home(number).site


def own_side(spec: SiteSpec, staged: CFDStep, *, every_row: bool) -> SiteSides:
    """What a site has to say of a variable CFD: its kinds, or all rows that match."""
    if staged.step is None or every_row:
        given = staged.given
        return spec.name, given.x.take(given.member), given.b.take(given.member)
    return (spec.name, *staged.step.index.kinds())


def pairs(number: int, side: SiteSides) -> MessageColumns:
    """A side on the wire."""
    _, x, b = side
    return group_ids(number, x) | {"value_hi": b.hi, "value_lo": b.lo}


def sides_of(messages: Iterable[SiteMessage], number: int) -> list[SiteSides]:
    """The sides that came for a CFD."""
    came = by_cfd(messages)
    return [(source, ids_in(arrays), ids_in(arrays, "value_")) for source, cfd, arrays in came if cfd == number]


def violating_groups(sides: list[SiteSides]) -> dict[str, Ids]:
    """By site which of its groups violate. Complexity: O(ids)."""
    everything = CFDIndex()
    x, b = Ids.concat(side[1] for side in sides), Ids.concat(side[2] for side in sides)
    everything.stage(np.empty(0, dtype=np.int32), x, b, all_true(x.size))
    found = {}
    for site, theirs, _ in sides:
        own = np.zeros(len(everything), dtype=np.bool_)
        own[everything.find(theirs)] = True
        groups = np.flatnonzero(own).astype(np.int32)
        found[site] = everything.ids(groups[everything.dirty(groups)])
    return found
