"""batVer and batHor: everything from scratch, relevant attributes copied to coordinators (paper 000, Section 7).

Inside a fragment the ids of the attributes that a CFD reads go to the site that holds most of them; across
fragments the ids of both sides of every matching row go to the first fragment that takes part, which answers
with the groups that violate. This is what the incremental algorithms are measured against, and what they are
checked with.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from holdstrue.fragments.atoms import Atom
from holdstrue.fragments.draft import Ground, drafted
from holdstrue.fragments.model import Fragment, Layout
from holdstrue.fragments.plan import FragmentPlan, Home, Plan, Shipment
from holdstrue.fragments.planning import held
from holdstrue.fragments.site import SiteWork


def copy_plan(layout: Layout, atoms: Sequence[Atom], plan: Plan) -> Plan:
    """The plan of the batch algorithms: single attributes, straight to each CFD's coordinator."""
    parts = tuple(_copied(fragment, atoms) for fragment in layout.fragments)
    return Plan(parts, plan.participants, plan.names, plan.rules)


def _copied(fragment: Fragment, atoms: Sequence[Atom]) -> FragmentPlan:
    holds = held(fragment, atoms)
    sites = [*holds]
    ground = Ground.of(holds, [(atom.x, atom.b) for atom in atoms])
    where = [max(range(len(sites)), key=lambda s: (own[s] & (need.x | need.b)).bit_count())
             for need in ground.needs for own in (ground.holds,)]  # fmt: skip
    draft = drafted(ground, where)
    shipments: dict[tuple[tuple[str, ...], str, str], Shipment] = {}
    homes = []
    for atom in atoms:
        site, (x_own, x), (_, b) = draft.homes[atom.number]
        numbers: list[tuple[int, ...]] = []
        for side in (x, b):
            taken = []
            for attrs, source, target in side:
                # a constant CFD needs to know of rows, not of their values
                names = () if atom.is_constant else ground.names(attrs)
                key = (names, sites[source], sites[target])
                known = shipments.get(key)
                own = () if known is None else known.atoms
                number = len(shipments) if known is None else known.number
                together = tuple(dict.fromkeys((*own, atom.number)))
                shipments[key] = Shipment(number, names, key[1], key[2], 0, names, (), together)
                taken.append(number)
            numbers.append(tuple(dict.fromkeys(taken)))
        homes.append(Home(atom.number, sites[site], ground.names(x_own), numbers[0], not b, numbers[1]))
    return FragmentPlan(fragment.name, tuple(homes), tuple(shipments.values()), "copies")


class WholeWork(SiteWork):
    """A site while everything is checked from scratch."""

    def keys_found(self) -> dict[int, pa.Table]:
        """By CFD the keys of the rows that violate it."""
        turn = self._running()
        key = list(self.setup.key)
        found = {}
        for atom, staged in self._staged:
            dirty = staged.arrived.member
            if staged.step is not None:
                dirty = self.holding.classes(atom).kinds_dirty(staged.step.new)
            if dirty.any():
                found[atom.number] = turn.rows.select(key).filter(pa.array(dirty))
        return found
