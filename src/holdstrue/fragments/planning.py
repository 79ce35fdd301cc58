"""From rules and sites to a plan: drafts with names and rounds, and the routes of constant CFDs.

A constant CFD is checked along a chain of sites: the site of the right side starts with the rows that would
violate it, each further site strikes out rows that do not match its part of the pattern, and the last one
keeps the violations. So rows that keep the rule ship nothing, where incVer (Fig. 5, lines 5-7) ships every row
that matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.exact_search import exact_plan
from holdstrue.fragments.fragment_layout import Fragment, FragmentLayout
from holdstrue.fragments.hev_plan import HevPlan, PlanningProblem, Ship
from holdstrue.fragments.local_checking import participants
from holdstrue.fragments.normal_cfds import GUARD, NormalCFD, condition_columns
from holdstrue.fragments.opt_ver import BEAM, chain_plan, opt_ver
from holdstrue.fragments.shipping_plan import FragmentPlan, Home, Shipment, ShippingPlan
from holdstrue.rules.model import RuleSet
from holdstrue.rules.text import constant_text

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


def held(fragment: Fragment, cfds: Sequence[NormalCFD]) -> dict[str, set[str]]:
    """By site its columns, and the parts of filters that it can answer."""
    parts = {name: set(condition_columns(part)) for cfd in cfds for name, part in cfd.parts}
    found = {}
    for site in fragment.sites:
        own = set(site.columns or ())
        found[site.name] = own | {name for name, columns in parts.items() if columns <= own}
    return found


def _fragment_plan(fragment: Fragment, cfds: Sequence[NormalCFD], how: How, k: int) -> FragmentPlan:
    holds = held(fragment, cfds)
    variable = [cfd for cfd in cfds if not cfd.is_constant]
    needs = {_need(cfd): None for cfd in variable}
    # the order of columns in the sites is that of the paper's chains
    problem = PlanningProblem.of(holds, [(x, b) for x, b in needs])
    plan, named = _hev_plan(problem, how, k)
    number = {need: i for i, need in enumerate(needs)}
    return _Writer(fragment, problem, plan, named).write(cfds, holds, number)


def _need(cfd: NormalCFD) -> tuple[tuple[str, ...], str]:
    return cfd.x, cfd.b


def _hev_plan(problem: PlanningProblem, how: How, k: int) -> tuple[HevPlan, str]:
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


class _Writer:
    """Writes the HEVs and homes of a fragment down as its plan."""

    def __init__(self, fragment: Fragment, problem: PlanningProblem, plan: HevPlan, how: str) -> None:
        self._fragment, self._problem, self._plan, self._how = fragment, problem, plan, how
        self._users: dict[Ship, set[int]] = {}

    def write(
        self, cfds: Sequence[NormalCFD], holds: dict[str, set[str]], number: dict[tuple[tuple[str, ...], str], int]
    ) -> FragmentPlan:
        for cfd in cfds:
            if not cfd.is_constant:
                _, (_, x), (_, b) = self._plan.homes[number[_need(cfd)]]
                for ship in (*x, *b):
                    self._use(ship, cfd.number)
        ships = sorted((s for s in self._plan.shipped if s in self._users), key=lambda s: (self._level(s), s))
        at = {ship: i for i, ship in enumerate(ships)}
        shipments = [self._shipment(i, ship, at) for ship, i in at.items()]
        homes: list[Home] = []
        for cfd in cfds:
            if cfd.is_constant:
                chain = _route(cfd, holds)
                shipments = _with_hops(shipments, chain, cfd.number)
                homes.append(Home(cfd.number, chain[-1]))
            else:
                site, (x_own, x), (_, b) = self._plan.homes[number[_need(cfd)]]
                received = tuple(at[s] for s in x), tuple(at[s] for s in b)
                homes.append(
                    Home(cfd.number, self._problem.sites[site], self._names(x_own), received[0], not b, received[1])
                )
        return FragmentPlan(self._fragment.name, tuple(homes), tuple(shipments), self._how)

    def _names(self, attrs: int) -> tuple[str, ...]:
        return self._problem.names(attrs)

    def _use(self, ship: Ship, cfd: int) -> None:
        self._users.setdefault(ship, set()).add(cfd)
        for before in self._plan.shipped[ship][1]:
            self._use(before, cfd)

    def _level(self, ship: Ship) -> int:
        return max((self._level(before) + 1 for before in self._plan.shipped[ship][1]), default=0)

    def _shipment(self, number: int, ship: Ship, at: dict[Ship, int]) -> Shipment:
        attrs, source, target = ship
        own, received = self._plan.shipped[ship]
        sites = self._problem.sites
        return Shipment(
            number,
            self._names(attrs),
            sites[source],
            sites[target],
            self._level(ship),
            self._names(own),
            tuple(at[s] for s in received),
            tuple(sorted(self._users[ship])),
        )


def _route(cfd: NormalCFD, holds: dict[str, set[str]]) -> list[str]:
    """The sites that a constant CFD is checked at, from the right side's on."""
    wanted = set(cfd.x)
    first = max((site for site, own in holds.items() if cfd.b in own), key=lambda site: len(holds[site] & wanted))
    route, left = [first], wanted - holds[first]
    while left:
        best = max(holds, key=lambda site: len(holds[site] & left))
        route.append(best)
        left -= holds[best]
    return route


def _with_hops(shipments: list[Shipment], route: Sequence[str], cfd: int) -> list[Shipment]:
    """The shipments with those of a route, shared with the routes of other constant CFDs."""
    found = list(shipments)
    for level, (source, target) in enumerate(pairwise(route)):
        same = next(
            (s for s in found if (s.attrs, s.source, s.target, s.level) == ((), source, target, level)), None
        )  # fmt: skip
        if same is None:
            found.append(Shipment(len(found), (), source, target, level, (), (), (cfd,)))
        else:
            found[same.number] = Shipment(same.number, (), source, target, level, (), (), (*same.cfds, cfd))
    return found
