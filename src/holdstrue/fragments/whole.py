"""batVer and batHor: everything from scratch, relevant attributes copied to coordinators (paper 000, Section 7).

Inside a fragment the ids of the attributes that a CFD reads go to the site that holds most of them; across
fragments the ids of both sides of every matching row go to the first fragment that takes part, which answers
with the groups that violate. This is what the incremental algorithms are measured against, and what they are
checked with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from holdstrue.fragments.across import Flags, posted, signs_of
from holdstrue.fragments.atoms import Atom
from holdstrue.fragments.channel import Arrays, Message
from holdstrue.fragments.classes import Classes
from holdstrue.fragments.draft import Ground, drafted
from holdstrue.fragments.ids import Ids
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

    def gather(self) -> list[Message]:
        """Both sides' ids of all matching rows, to the fragment that judges."""
        parts = []
        for atom, staged in self._staged:
            judge = self._judge(atom)
            if judge is None or judge == self.setup.name:
                continue
            member = staged.arrived.member
            x, b = staged.arrived.x.take(member), staged.arrived.b.take(member)
            arrays: Arrays = {
                "atom": np.full(x.size, atom.number, dtype=np.uint16),
                "hi": x.hi,
                "lo": x.lo,
                "value_hi": b.hi,
                "value_lo": b.lo,
            }
            if x.size:
                parts.append((judge, "pairs", arrays))
        return posted(self._running().mail, parts)

    def judge(self) -> list[Message]:
        """Put together what came for the CFDs judged here; tell every fragment which of its groups violate."""
        mail = self._running().mail
        own = {atom.number: staged for atom, staged in self._staged if self._judge(atom) == self.setup.name}
        came: dict[int, list[tuple[str, Ids, Ids]]] = {}
        for got in mail.of("pairs"):
            arrays = got.arrays()
            for number in np.unique(arrays["atom"]):
                some = arrays["atom"] == number
                x = Ids(arrays["hi"][some], arrays["lo"][some])
                b = Ids(arrays["value_hi"][some], arrays["value_lo"][some])
                came.setdefault(int(number), []).append((got.source, x, b))
        parts = []
        for number, staged in own.items():
            member = staged.arrived.member
            sides = [
                (self.setup.name, staged.arrived.x.take(member), staged.arrived.b.take(member)),
                *came.get(number, ()),
            ]
            everything = Classes()
            x, b = Ids.concat(s[1] for s in sides), Ids.concat(s[2] for s in sides)
            everything.stage(np.empty(0, dtype=np.int32), x, b, np.ones(x.size, dtype=np.bool_))
            for site, theirs, _ in sides:
                groups = np.unique(everything.find(theirs)).astype(np.int32)
                dirty = everything.ids(groups[everything.dirty(groups)])
                if site == self.setup.name:
                    self._flag(number, dirty)
                elif dirty.size:
                    arrays = {"atom": np.full(dirty.size, number, dtype=np.uint16), "hi": dirty.hi, "lo": dirty.lo}
                    parts.append((site, "dirty", arrays))
        return posted(mail, parts)

    def take_verdicts(self) -> None:
        """Note which groups were judged to violate."""
        for number, x in signs_of(self._running().mail.of("dirty")).items():
            self._flag(number, x)

    def _flag(self, number: int, x: Ids) -> None:
        classes = self.holding.classes(self.setup.atoms[number])
        Flags(classes).set(classes.find(x), 1)

    def _judge(self, atom: Atom) -> str | None:
        """The site that judges a CFD; None when its fragments need not agree."""
        taking = self.setup.plan.participants[atom.number]
        if self.setup.fragment not in taking or atom.is_constant:
            return None
        return self.setup.plan.fragments[taking[0]].home(atom.number).site

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
