"""Fragments compared from scratch: one of them is sent both sides' ids and says which groups violate.

For a first load each fragment sends every kind once; the batch algorithm (batHor) sends every matching row.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from holdstrue.fragments.atoms import Atom
from holdstrue.fragments.channel import Arrays, Message
from holdstrue.fragments.classes import Classes
from holdstrue.fragments.holding import AtomStep
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.setup import Setup

Side = tuple[str, Ids, Ids]
"""A site with the ids of its left and right sides."""


def judge_of(setup: Setup, atom: Atom) -> str | None:
    """The site that compares a CFD's fragments; None when they need not agree. Atoms take turns."""
    taking = setup.plan.participants[atom.number]
    if setup.fragment not in taking or atom.is_constant:
        return None
    return setup.plan.fragments[taking[atom.number % len(taking)]].home(atom.number).site


def own_side(setup: Setup, classes: Classes, staged: AtomStep, *, every_row: bool) -> Side:
    """What a site has to say of a CFD: its kinds, or all rows that match."""
    if every_row:
        member = staged.arrived.member
        return setup.name, staged.arrived.x.take(member), staged.arrived.b.take(member)
    return (setup.name, *classes.kinds())


def pairs(atom: Atom, side: Side) -> Arrays:
    """A side on the wire."""
    _, x, b = side
    number = np.full(x.size, atom.number, dtype=np.uint16)
    return {"atom": number, "hi": x.hi, "lo": x.lo, "value_hi": b.hi, "value_lo": b.lo}


def sides_of(messages: Iterable[Message], atom: Atom) -> list[Side]:
    """The sides that came for a CFD."""
    found = []
    for got in messages:
        arrays = got.arrays()
        some = arrays["atom"] == atom.number
        if some.any():
            x = Ids(arrays["hi"][some], arrays["lo"][some])
            found.append((got.source, x, Ids(arrays["value_hi"][some], arrays["value_lo"][some])))
    return found


def judged(sides: list[Side]) -> dict[str, Ids]:
    """By site which of its groups violate. Complexity: O(ids)."""
    everything = Classes()
    x, b = Ids.concat(side[1] for side in sides), Ids.concat(side[2] for side in sides)
    everything.stage(np.empty(0, dtype=np.int32), x, b, np.ones(x.size, dtype=np.bool_))
    found = {}
    for site, theirs, _ in sides:
        own = np.zeros(len(everything), dtype=np.bool_)
        own[everything.find(theirs)] = True
        groups = np.flatnonzero(own).astype(np.int32)
        found[site] = everything.ids(groups[everything.dirty(groups)])
    return found
