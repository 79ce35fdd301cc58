"""Fragments compared from scratch: one of them is sent both sides' ids and says which groups violate.

For a first load each fragment sends every kind once; the batch algorithm (batHor) sends every matching row.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from holdstrue.fragments.cfd_index import CFDIndex
from holdstrue.fragments.channel import Arrays, SiteMessage
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.indexed_rows import CFDStep
from holdstrue.fragments.normal_cfds import NormalCFD
from holdstrue.fragments.site_spec import SiteSpec

Side = tuple[str, Ids, Ids]
"""A site with the ids of its left and right sides."""


def coordinator_of(spec: SiteSpec, cfd: NormalCFD) -> str | None:
    """The site that compares a CFD's fragments; None when they need not agree. Atoms take turns."""
    taking = spec.plan.participants[cfd.number]
    if spec.fragment not in taking or cfd.is_constant:
        return None
    return spec.plan.fragments[taking[cfd.number % len(taking)]].home(cfd.number).site


def own_side(spec: SiteSpec, index: CFDIndex, staged: CFDStep, *, every_row: bool) -> Side:
    """What a site has to say of a CFD: its kinds, or all rows that match."""
    if every_row:
        member = staged.arrived.member
        return spec.name, staged.arrived.x.take(member), staged.arrived.b.take(member)
    return (spec.name, *index.kinds())


def pairs(cfd: NormalCFD, side: Side) -> Arrays:
    """A side on the wire."""
    _, x, b = side
    number = np.full(x.size, cfd.number, dtype=np.uint16)
    return {"cfd": number, "hi": x.hi, "lo": x.lo, "value_hi": b.hi, "value_lo": b.lo}


def sides_of(messages: Iterable[SiteMessage], cfd: NormalCFD) -> list[Side]:
    """The sides that came for a CFD."""
    found = []
    for got in messages:
        arrays = got.arrays()
        some = arrays["cfd"] == cfd.number
        if some.any():
            x = Ids(arrays["hi"][some], arrays["lo"][some])
            found.append((got.source, x, Ids(arrays["value_hi"][some], arrays["value_lo"][some])))
    return found


def violating_groups(sides: list[Side]) -> dict[str, Ids]:
    """By site which of its groups violate. Complexity: O(ids)."""
    everything = CFDIndex()
    x, b = Ids.concat(side[1] for side in sides), Ids.concat(side[2] for side in sides)
    everything.stage(np.empty(0, dtype=np.int32), x, b, np.ones(x.size, dtype=np.bool_))
    found = {}
    for site, theirs, _ in sides:
        own = np.zeros(len(everything), dtype=np.bool_)
        own[everything.find(theirs)] = True
        groups = np.flatnonzero(own).astype(np.int32)
        found[site] = everything.ids(groups[everything.dirty(groups)])
    return found
