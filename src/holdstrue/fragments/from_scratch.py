"""batVer and batHor: everything from scratch, relevant attributes copied to coordinators (paper 000, Section 7).

Inside a fragment the ids of the attributes that a CFD reads go to the site that holds most of them; across
fragments the ids of both sides of every matching row go to the first fragment that takes part, which answers
with the groups that violate. This is what the incremental algorithms are measured against, and what they are
checked with.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from holdstrue.fragments.fragment_layout import Fragment, FragmentLayout
from holdstrue.fragments.hev_plan import PlanningProblem, plan_with
from holdstrue.fragments.normal_cfds import NormalCFD
from holdstrue.fragments.planning import held
from holdstrue.fragments.shipping_plan import FragmentPlan, Home, Shipment, ShippingPlan
from holdstrue.fragments.site_work import SiteWork


def copy_plan(layout: FragmentLayout, cfds: Sequence[NormalCFD], plan: ShippingPlan) -> ShippingPlan:
    """The plan of the batch algorithms: single attributes, straight to each CFD's coordinator."""
    parts = tuple(_copied(fragment, cfds) for fragment in layout.fragments)
    return ShippingPlan(parts, plan.participants, plan.names, plan.rules)


def _copied(fragment: Fragment, cfds: Sequence[NormalCFD]) -> FragmentPlan:
    holds = held(fragment, cfds)
    sites = [*holds]
    problem = PlanningProblem.of(holds, [(cfd.x, cfd.b) for cfd in cfds])
    where = [max(range(len(sites)), key=lambda s: (own[s] & (need.x | need.b)).bit_count())
             for need in problem.needs for own in (problem.holds,)]  # fmt: skip
    plan = plan_with(problem, where)
    shipments: dict[tuple[tuple[str, ...], str, str], Shipment] = {}
    homes = []
    for cfd in cfds:
        site, (x_own, x), (_, b) = plan.homes[cfd.number]
        numbers: list[tuple[int, ...]] = []
        for side in (x, b):
            taken = []
            for attrs, source, target in side:
                # a constant CFD needs to know of rows, not of their values
                names = () if cfd.is_constant else problem.names(attrs)
                key = (names, sites[source], sites[target])
                known = shipments.get(key)
                own = () if known is None else known.cfds
                number = len(shipments) if known is None else known.number
                together = tuple(dict.fromkeys((*own, cfd.number)))
                shipments[key] = Shipment(number, names, key[1], key[2], 0, names, (), together)
                taken.append(number)
            numbers.append(tuple(dict.fromkeys(taken)))
        homes.append(Home(cfd.number, sites[site], problem.names(x_own), numbers[0], not b, numbers[1]))
    return FragmentPlan(fragment.name, tuple(homes), tuple(shipments.values()), "copies")


class WholeWork(SiteWork):
    """A site while everything is checked from scratch."""

    def keys_found(self) -> dict[int, pa.Table]:
        """By CFD the keys of the rows that violate it."""
        running = self._running()
        key = list(self.spec.key)
        found = {}
        for cfd, staged in self._staged:
            dirty = staged.arrived.member
            if staged.step is not None:
                dirty = self.indexed.index(cfd).kinds_dirty(staged.step.new)
            if dirty.any():
                found[cfd.number] = running.rows.select(key).filter(pa.array(dirty))
        return found
