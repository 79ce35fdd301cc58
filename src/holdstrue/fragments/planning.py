"""From rules and sites to a plan: drafts with names and rounds, and the routes of constant CFDs.

A constant CFD is checked along a chain of sites: the site of the right side starts with the rows that would
violate it, each further site strikes out rows that do not match its part of the pattern, and the last one
keeps the violations. So rows that keep the rule ship nothing, where incVer (Fig. 5, lines 5-7) ships every row
that matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.exact_search import exact_plan
from holdstrue.fragments.fragment_layout import Fragment, FragmentLayout
from holdstrue.fragments.hev_plan import Attrs, HevPlan, PlanningProblem, Ship, plan_with
from holdstrue.fragments.normal_cfds import GUARD, NormalCFD, answerable, participants
from holdstrue.fragments.opt_ver import BEAM, chain_plan, opt_ver
from holdstrue.fragments.shipping_plan import FragmentPlan, Home, Shipment, ShippingPlan
from holdstrue.rules.model import RuleSet
from holdstrue.rules.text import constant_text

COPIES = "copies"
"""How the batch algorithms plan."""

Hop = tuple[str, str, int]
"""Row numbers from a source to a target, in a round."""

How = Literal["auto", "optVer", "exact", "chains"]
HOWS: tuple[How, ...] = ("auto", "optVer", "exact", "chains")


def plan_of(
    layout: FragmentLayout, rules: RuleSet, cfds: Sequence[NormalCFD], how: How = "auto", k: int = BEAM
) -> ShippingPlan:
    """Plan every fragment.

    Parameters
    ----------
    how
        optVer; exact (an error when the rule set is too large for it); auto: optVer, and the exact search
        where the rule set is small; chains: no optimisation, as the paper's Fig. 6(a).
    k
        Plans that optVer keeps.
    """
    if how not in HOWS:
        raise HoldstrueError(f"unknown way to plan {how!r}", hint=f"one of {', '.join(HOWS)}")
    if k < 1:
        raise HoldstrueError(f"optVer cannot keep {k} plans", hint="k is 1 or more")
    names = tuple(text_of(cfd, rules) for cfd in cfds)
    found = tuple(_fragment_plan(fragment, cfds, how, k) for fragment in layout.fragments)
    taking = tuple(participants(cfd, layout.fragments) for cfd in cfds)
    return ShippingPlan(found, taking, names, tuple(cfd.rule for cfd in cfds))


def text_of(cfd: NormalCFD, rules: RuleSet) -> str:
    """A CFD as people write it, after the name of its rule."""
    cells = dict(cfd.constants)
    left = ", ".join(
        name.removeprefix(GUARD) if name.startswith(GUARD) or name not in cells
        else f"{name}={constant_text(cells[name])}"
        for name in cfd.x
    )  # fmt: skip
    right = cfd.b if cfd.wanted is None else f"{cfd.b}={constant_text(cfd.wanted)}"
    text = f"[{left}] -> [{right}]"
    name = rules.rules[cfd.rule].name
    return text if name == rules.rules[cfd.rule].text else f"{name}: {text}"


def copy_plan(layout: FragmentLayout, cfds: Sequence[NormalCFD], plan: ShippingPlan) -> ShippingPlan:
    """The plan of the batch algorithms (batVer, batHor): all that a CFD reads, straight to one coordinator.

    Inside a fragment the ids of single attributes go to the site that holds most of them; across fragments the
    ids of both sides of every matching row go to the first fragment that takes part (see `exchange.py`). This
    is what the incremental algorithms are measured against, and what they are checked with.
    """
    return replace(plan, fragments=tuple(_fragment_plan(fragment, cfds, COPIES, BEAM) for fragment in layout.fragments))


def _fragment_plan(fragment: Fragment, cfds: Sequence[NormalCFD], how: str, k: int) -> FragmentPlan:
    holds = {site.name: answerable(site.columns or (), cfds) for site in fragment.sites}
    # the order of columns in the sites is that of the paper's chains
    needs = {(cfd.x, cfd.b): None for cfd in cfds if not cfd.is_constant}
    problem = PlanningProblem.of(holds, [*needs])
    plan, named = _hev_plan(problem, how, k)
    return _Writer(fragment, plan, named).write(cfds, holds, {need: i for i, need in enumerate(needs)})


def _hev_plan(problem: PlanningProblem, how: str, k: int) -> tuple[HevPlan, str]:
    if how == COPIES:
        return plan_with(problem, [most_of(problem.holds, need.x | need.b) for need in problem.needs]), how
    chains = chain_plan(problem)
    if how == "chains":
        return chains, how
    plan = min((opt_ver(problem, k), chains), key=lambda d: d.cost)
    if how == "optVer":
        return plan, how
    best = exact_plan(problem, plan)
    if best is None and how == "exact":
        raise HoldstrueError(
            f"{len(problem.needs)} CFDs over {len(problem.sites)} sites are too many for the exact search",
            hint="plan with optVer",
        )
    return (plan, "optVer") if best is None else (best, "exact")


def most_of(holds: Sequence[Attrs], attrs: Attrs) -> int:
    """The first site that holds most of a set."""
    return max(range(len(holds)), key=lambda site: (holds[site] & attrs).bit_count())


class _Writer:
    """Writes the HEVs and homes of a fragment down as its plan."""

    def __init__(self, fragment: Fragment, plan: HevPlan, how: str) -> None:
        self._fragment, self._plan, self._how = fragment, plan, how
        self._users: dict[Ship, set[int]] = {}

    def write(
        self, cfds: Sequence[NormalCFD], holds: dict[str, set[str]], number: dict[tuple[tuple[str, ...], str], int]
    ) -> FragmentPlan:
        made = {cfd.number: self._plan.homes[number[cfd.x, cfd.b]] for cfd in cfds if not cfd.is_constant}
        for user, (_, (_, x), (_, b)) in made.items():
            for ship in (*x, *b):
                self._use(ship, user)
        ships = sorted((s for s in self._plan.shipped if s in self._users), key=lambda s: (self._level(s), s))
        at = {ship: i for i, ship in enumerate(ships)}
        shipments = [self._shipment(i, ship, at) for ship, i in at.items()]
        names, sites = self._plan.problem.names, self._plan.problem.sites
        homes: list[Home] = []
        for cfd in cfds:
            if cfd.is_constant:
                site, hops = (_copies if self._how == COPIES else _route)(cfd, holds)
                shipments = _with_hops(shipments, hops, cfd.number)
                homes.append(Home(cfd.number, site))
            else:
                home, (own, x), (_, b) = made[cfd.number]
                received = tuple(at[s] for s in x), tuple(at[s] for s in b)
                homes.append(Home(cfd.number, sites[home], names(own), received[0], not b, received[1]))
        columns = {site.name: site.columns or () for site in self._fragment.sites}
        return FragmentPlan(self._fragment.name, tuple(homes), tuple(shipments), self._how, columns)

    def _use(self, ship: Ship, cfd: int) -> None:
        self._users.setdefault(ship, set()).add(cfd)
        for before in self._plan.shipped[ship][1]:
            self._use(before, cfd)

    def _level(self, ship: Ship) -> int:
        return max((self._level(before) + 1 for before in self._plan.shipped[ship][1]), default=0)

    def _shipment(self, number: int, ship: Ship, at: dict[Ship, int]) -> Shipment:
        (attrs, source, target), (own, received) = ship, self._plan.shipped[ship]
        names, sites = self._plan.problem.names, self._plan.problem.sites
        taken, users = tuple(at[s] for s in received), tuple(sorted(self._users[ship]))
        return Shipment(number, names(attrs), sites[source], sites[target], self._level(ship), names(own), taken, users)


def _route(cfd: NormalCFD, holds: dict[str, set[str]]) -> tuple[str, list[Hop]]:
    """The sites that a constant CFD is checked at, from the right side's on; the last one is its home."""
    wanted = set(cfd.x)
    first = max((site for site, own in holds.items() if cfd.b in own), key=lambda site: len(holds[site] & wanted))
    route, left = [first], wanted - holds[first]
    while left:
        best = max(holds, key=lambda site: len(holds[site] & left))
        route.append(best)
        left -= holds[best]
    return route[-1], [(source, target, level) for level, (source, target) in enumerate(pairwise(route))]


def _copies(cfd: NormalCFD, holds: dict[str, set[str]]) -> tuple[str, list[Hop]]:
    """The coordinator of a constant CFD, and who tells it which rows match: their values are not needed."""
    wanted = {*cfd.x, cfd.b}
    home = max(holds, key=lambda site: len(holds[site] & wanted))
    sources = (next(site for site, own in holds.items() if attr in own) for attr in sorted(wanted - holds[home]))
    return home, [(source, home, 0) for source in dict.fromkeys(sources)]


def _with_hops(shipments: list[Shipment], hops: Sequence[Hop], cfd: int) -> list[Shipment]:
    """The shipments with those of row numbers for a constant CFD, which other constant CFDs share."""
    found = list(shipments)
    for source, target, level in hops:
        same = next((s for s in found if (s.attrs, s.source, s.target, s.level) == ((), source, target, level)), None)
        if same is None:
            found.append(Shipment(len(found), (), source, target, level, (), (), (cfd,)))
        else:
            found[same.number] = replace(same, cfds=(*same.cfds, cfd))
    return found
