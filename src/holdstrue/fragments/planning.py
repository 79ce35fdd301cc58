"""From rules and sites to a plan: drafts with names and rounds, and the routes of constant CFDs.

A constant CFD is checked along a chain of sites: the site of the right side starts with the rows that would
violate it, each further site strikes out rows that do not match its part of the pattern, and the last one
keeps the violations. So rows that keep the rule ship nothing, where incVer (Fig. 5, lines 5-7) ships every row
that matches.

Constants of patterns and parts of filters are the same in all rows that match: the ways of the paper (optVer, exact,
chains) ship them as ids, the others as one bit a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Literal

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.byte_costs import PlanCost
from holdstrue.fragments.exact_search import exact_plan
from holdstrue.fragments.fragment_layout import Fragment, FragmentLayout
from holdstrue.fragments.hev_plan import Attrs, Hev, HevPlan, PlanningProblem, Ship, plan_with
from holdstrue.fragments.integer_plan import MISSING, SECONDS, available, integer_plan
from holdstrue.fragments.normal_cfds import GUARD, NormalCFD, answerable, participants
from holdstrue.fragments.opt_ver import BEAM, chain_plan, opt_ver
from holdstrue.fragments.shipping_plan import COPIES, FragmentPlan, Home, Shipment, ShippingPlan
from holdstrue.rules.model import RuleSet
from holdstrue.rules.terms import condition_columns
from holdstrue.rules.text import condition_text, constant_text

Hop = tuple[str, str, int]
"""Row numbers from a source to a target, in a round."""

How = Literal["auto", "integer", "optVer", "exact", "chains"]
HOWS: tuple[How, ...] = ("auto", "integer", "optVer", "exact", "chains")

MOST_STARTS = 20
"""Needs up to which optVer is run beside the integer program: a second. Its time grows with their square."""


@dataclass(frozen=True)
class PlanOptions:
    """How to plan.

    Parameters
    ----------
    how
        integer: the fewest expected bytes, by an integer program (needs scipy); auto: the same, and without scipy
        the best of optVer, the exact search and one home for all; optVer, exact (an error when the rule set is too
        large for it), chains (no optimisation, as the paper's Fig. 6(a)): the ways of the paper, with the fewest ids
        in mind.
    k
        Plans that optVer keeps.
    seconds
        How long the integer program may take.
    shares
        By column what share of the rows has the constant that a pattern asks for, where it is known.
    widths
        By column how many bytes its ids take, where that is less than 16.
    """

    how: How = "auto"
    k: int = BEAM
    seconds: float = SECONDS
    shares: Mapping[str, float] = field(default_factory=dict)
    widths: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise HoldstrueError(f"unknown way to plan {self.how!r}", hint=f"one of {', '.join(HOWS)}")
        if self.k < 1:
            raise HoldstrueError(f"optVer cannot keep {self.k} plans", hint="k is 1 or more")
        if not self.seconds > 0:
            raise HoldstrueError(f"the integer program cannot take {self.seconds} seconds", hint="seconds above 0")
        for column, share in self.shares.items():
            if not 0 < share <= 1:
                raise HoldstrueError(f"the share of column {column!r} is {share}", hint="above 0, and at most 1")


def plan_of(
    layout: FragmentLayout, rules: RuleSet, cfds: Sequence[NormalCFD], options: PlanOptions | None = None
) -> ShippingPlan:
    """Plan every fragment."""
    how = options or PlanOptions()
    for column in how.shares:
        if column not in layout.columns:
            raise HoldstrueError(
                f"shares speak of a column {column!r} that no site has",
                hint=f"the columns are {', '.join(layout.columns)}",
            )
    names = tuple(text_of(cfd, rules) for cfd in cfds)
    found = tuple(_fragment_plan(fragment, cfds, how) for fragment in layout.fragments)
    taking = tuple(participants(cfd, layout.fragments) for cfd in cfds)
    return ShippingPlan(found, taking, names, tuple(cfd.rule for cfd in cfds))


def fits(plan: ShippingPlan, layout: FragmentLayout, rules: RuleSet, cfds: Sequence[NormalCFD]) -> bool:
    """Whether a plan is one of these rules over these sites."""
    held = [{site.name: site.columns for site in fragment.sites} for fragment in layout.fragments]
    return (
        plan.names == tuple(text_of(cfd, rules) for cfd in cfds)
        and plan.rules == tuple(cfd.rule for cfd in cfds)
        and plan.participants == tuple(participants(cfd, layout.fragments) for cfd in cfds)
        and [part.columns for part in plan.fragments] == held
        and [part.fragment for part in plan.fragments] == [fragment.name for fragment in layout.fragments]
    )


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
    return replace(plan, fragments=tuple(_copy_plan(fragment, cfds) for fragment in layout.fragments))


NeedKey = tuple[tuple[str, ...], str, tuple[str, ...]]
"""What a variable CFD needs at its home: columns of its left side, its right side, what it asks of rows."""


def _fragment_plan(fragment: Fragment, cfds: Sequence[NormalCFD], options: PlanOptions) -> FragmentPlan:
    holds = {site.name: answerable(site.columns or (), cfds) for site in fragment.sites}
    if options.how in ("auto", "integer"):
        keys = {cfd.number: (cfd.free, cfd.b, cfd.asks) for cfd in cfds if not cfd.is_constant}
        problem = _bit_problem(fragment, cfds, options, keys)
        chosen = _fewest_bytes(problem, options)
    else:
        keys = _paper_keys(cfds)
        problem = _problem(holds, keys)
        chosen = _as_in_the_paper(problem, options)
    return _Writer(fragment, chosen).write(cfds, holds, keys)


def _copy_plan(fragment: Fragment, cfds: Sequence[NormalCFD]) -> FragmentPlan:
    holds = {site.name: answerable(site.columns or (), cfds) for site in fragment.sites}
    keys = _paper_keys(cfds)
    problem = _problem(holds, keys)
    plan = plan_with(problem, [most_of(problem.holds, need.x | need.b) for need in problem.needs])
    return _Writer(fragment, _Chosen(plan, COPIES)).write(cfds, holds, keys)


def _paper_keys(cfds: Sequence[NormalCFD]) -> dict[int, NeedKey]:
    """Needs as the paper has them: constants and filters are attributes like others."""
    return {cfd.number: (cfd.x, cfd.b, ()) for cfd in cfds if not cfd.is_constant}


def _problem(holds: Mapping[str, Iterable[str]], keys: Mapping[int, NeedKey]) -> PlanningProblem:
    # the order of columns in the sites is that of the paper's chains
    return PlanningProblem.of(holds, [(x, b) for x, b, _ in dict.fromkeys(keys.values())])


def _bit_problem(
    fragment: Fragment, cfds: Sequence[NormalCFD], options: PlanOptions, keys: Mapping[int, NeedKey]
) -> PlanningProblem:
    """The same with conditions on rows apart."""
    asked = {condition_text(condition): condition for cfd in cfds for condition in cfd.conditions}
    holds = {site.name: {*(site.columns or ())} for site in fragment.sites}
    bare = _problem(holds, keys)
    needs = tuple(
        replace(need, guards=asks) for need, (_, _, asks) in zip(bare.needs, dict.fromkeys(keys.values()), strict=True)
    )
    columns = {text: set(condition_columns(condition)) for text, condition in asked.items()}
    guards = tuple(frozenset(text for text, read in columns.items() if read <= own) for own in holds.values())
    shares = {
        text: prod(options.shares.get(column, 1.0) for column in read)
        for text, read in columns.items()
        if read & options.shares.keys()
    }
    return replace(bare, needs=needs, guards=guards, shares=shares, widths=options.widths)


@dataclass(frozen=True)
class _Chosen:
    """A plan, how it was found, and below what no plan goes."""

    plan: HevPlan
    how: str
    bound: float | None = None
    proven: bool = False


def _fewest_bytes(problem: PlanningProblem, options: PlanOptions) -> _Chosen:
    starts = [one_home(problem)]
    if len(problem.needs) <= MOST_STARTS or not available():
        starts += [opt_ver(problem, options.k), chain_plan(problem)]
    best = min(starts, key=lambda plan: PlanCost(plan).rank)
    if options.how == "auto" and not available():
        searched = exact_plan(problem, best)
        found = min((best, searched or best), key=lambda plan: PlanCost(plan).rank)
        return _Chosen(found, f"best of optVer and one home; {MISSING}")
    solved = integer_plan(problem, starts, options.seconds)
    found = min((*starts, *([solved.plan] if solved.plan.homes else [])), key=lambda plan: PlanCost(plan).rank)
    return _Chosen(found, "integer", min(solved.bound, PlanCost(found).bytes), solved.ended)


def one_home(problem: PlanningProblem) -> HevPlan:
    """All indexes at one site, the one that is told least."""
    held = frozenset(
        (need.x & own, site)
        for need in problem.needs
        for site, own in enumerate(problem.holds)
        if (need.x & own).bit_count() > 1
    )
    plans = [plan_with(problem, [site] * len(problem.needs), sets) for site in range(len(problem.sites))
             for sets in (held, frozenset[Hev]())]  # fmt: skip
    return min(plans, key=lambda plan: PlanCost(plan).rank)


def _as_in_the_paper(problem: PlanningProblem, options: PlanOptions) -> _Chosen:
    chains = chain_plan(problem)
    if options.how == "chains":
        return _Chosen(chains, "chains")
    plan = min((opt_ver(problem, options.k), chains), key=lambda d: d.cost)
    if options.how == "optVer":
        return _Chosen(plan, "optVer")
    best = exact_plan(problem, plan)
    if best is None:
        raise HoldstrueError(
            f"{len(problem.needs)} CFDs over {len(problem.sites)} sites are too many for the exact search",
            hint="plan with integer, or with optVer",
        )
    return _Chosen(best, "exact", PlanCost(best).bytes, proven=True)


def most_of(holds: Sequence[Attrs], attrs: Attrs) -> int:
    """The first site that holds most of a set."""
    return max(range(len(holds)), key=lambda site: (holds[site] & attrs).bit_count())


class _Writer:
    """Writes the HEVs and homes of a fragment down as its plan."""

    def __init__(self, fragment: Fragment, chosen: _Chosen) -> None:
        self._fragment, self._plan, self._chosen = fragment, chosen.plan, chosen
        self._cost = PlanCost(chosen.plan)
        self._early = {target: set[int]() for _, _, target in self._cost.hops}
        for need, _, target in self._cost.hops:
            self._early[target].add(need)

    def write(self, cfds: Sequence[NormalCFD], holds: dict[str, set[str]], keys: Mapping[int, NeedKey]) -> FragmentPlan:
        number = {key: i for i, key in enumerate(dict.fromkeys(keys.values()))}
        of_need: dict[int, list[int]] = {}
        for user, key in keys.items():
            of_need.setdefault(number[key], []).append(user)
        ships = sorted(self._cost.users, key=lambda s: (self._level(s), s))
        at = {ship: i for i, ship in enumerate(ships)}
        shipments = [self._shipment(i, ship, at, of_need) for ship, i in at.items()]
        names, sites = self._plan.problem.names, self._plan.problem.sites
        for need, source, target in self._cost.hops:
            for user in of_need[need]:
                shipments = _with_hops(shipments, [(sites[source], sites[target], 0)], user)
        homes: list[Home] = []
        for cfd in cfds:
            if cfd.is_constant:
                site, hops = (_copies if self._chosen.how == COPIES else _route)(cfd, holds)
                shipments = _with_hops(shipments, hops, cfd.number)
                homes.append(Home(cfd.number, site))
            else:
                home, (own, x), (_, b) = self._plan.homes[number[keys[cfd.number]]]
                received = tuple(at[s] for s in x), tuple(at[s] for s in b)
                homes.append(Home(cfd.number, sites[home], names(own), received[0], not b, received[1]))
        columns = {site.name: site.columns or () for site in self._fragment.sites}
        chosen, cost = self._chosen, self._cost
        return FragmentPlan(
            self._fragment.name, tuple(homes), tuple(shipments), chosen.how, columns,
            cost.bytes, cost.bits, chosen.bound, chosen.proven,
        )  # fmt: skip

    def _level(self, ship: Ship) -> int:
        """The round of a shipment: after what it is put together from, and after bits that its source waits for."""
        waits = bool(self._early.get(ship[1], set()) & self._cost.users[ship])
        return max((self._level(before) + 1 for before in self._plan.shipped[ship][1]), default=int(waits))

    def _shipment(self, number: int, ship: Ship, at: dict[Ship, int], of_need: dict[int, list[int]]) -> Shipment:
        (attrs, source, target), (own, received) = ship, self._plan.shipped[ship]
        names, sites = self._plan.problem.names, self._plan.problem.sites
        taken = tuple(at[s] for s in received)
        users = tuple(sorted(cfd for need in self._cost.users[ship] for cfd in of_need[need]))
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
