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
from holdstrue.fragments.atoms import GUARD, Atom, condition_columns
from holdstrue.fragments.draft import Draft, Ground, Ship
from holdstrue.fragments.exact import exact_plan
from holdstrue.fragments.local import participants
from holdstrue.fragments.model import Fragment, Layout
from holdstrue.fragments.optimise import BEAM, chain_plan, opt_ver
from holdstrue.fragments.plan import FragmentPlan, Home, Plan, Shipment
from holdstrue.rules.model import RuleSet
from holdstrue.rules.text import constant_text

How = Literal["auto", "optVer", "exact", "chains"]
HOWS: tuple[How, ...] = ("auto", "optVer", "exact", "chains")


def plan_of(layout: Layout, rules: RuleSet, atoms: Sequence[Atom], how: How = "auto", k: int = BEAM) -> Plan:
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
    names = tuple(text_of(atom, rules) for atom in atoms)
    found = tuple(_fragment_plan(fragment, atoms, how, k) for fragment in layout.fragments)
    taking = tuple(participants(atom, layout.fragments) for atom in atoms)
    return Plan(found, taking, names, tuple(atom.rule for atom in atoms))


def text_of(atom: Atom, rules: RuleSet) -> str:
    """An atom as people write it, after the name of its rule."""
    cells = dict(atom.constants)
    left = ", ".join(
        name.removeprefix(GUARD) if name.startswith(GUARD) or name not in cells
        else f"{name}={constant_text(cells[name])}"
        for name in atom.x
    )  # fmt: skip
    right = atom.b if atom.wanted is None else f"{atom.b}={constant_text(atom.wanted)}"
    text = f"[{left}] -> [{right}]"
    name = rules.rules[atom.rule].name
    return text if name == rules.rules[atom.rule].text else f"{name}: {text}"


def held(fragment: Fragment, atoms: Sequence[Atom]) -> dict[str, set[str]]:
    """By site its columns, and the parts of filters that it can answer."""
    parts = {name: set(condition_columns(part)) for atom in atoms for name, part in atom.parts}
    found = {}
    for site in fragment.sites:
        own = set(site.columns or ())
        found[site.name] = own | {name for name, columns in parts.items() if columns <= own}
    return found


def _fragment_plan(fragment: Fragment, atoms: Sequence[Atom], how: How, k: int) -> FragmentPlan:
    holds = held(fragment, atoms)
    variable = [atom for atom in atoms if not atom.is_constant]
    needs = {_need(atom): None for atom in variable}
    # the order of columns in the sites is that of the paper's chains
    ground = Ground.of(holds, [(x, b) for x, b in needs])
    draft, named = _drafted(ground, how, k)
    number = {need: i for i, need in enumerate(needs)}
    return _Writer(fragment, ground, draft, named).write(atoms, holds, number)


def _need(atom: Atom) -> tuple[tuple[str, ...], str]:
    return atom.x, atom.b


def _drafted(ground: Ground, how: How, k: int) -> tuple[Draft, str]:
    chains = chain_plan(ground)
    if how == "chains":
        return chains, how
    draft = min((opt_ver(ground, k), chains), key=lambda d: d.cost)
    if how == "optVer":
        return draft, how
    best = exact_plan(ground, draft)
    if best is None and how == "exact":
        raise HoldstrueError(
            f"{len(ground.needs)} CFDs over {len(ground.sites)} sites are too many for the exact search",
            hint="plan with optVer",
        )
    return (draft, "optVer") if best is None else (best, "exact")


class _Writer:
    """Writes a draft down as a plan."""

    def __init__(self, fragment: Fragment, ground: Ground, draft: Draft, how: str) -> None:
        self._fragment, self._ground, self._draft, self._how = fragment, ground, draft, how
        self._users: dict[Ship, set[int]] = {}

    def write(
        self, atoms: Sequence[Atom], holds: dict[str, set[str]], number: dict[tuple[tuple[str, ...], str], int]
    ) -> FragmentPlan:
        for atom in atoms:
            if not atom.is_constant:
                _, (_, x), (_, b) = self._draft.homes[number[_need(atom)]]
                for ship in (*x, *b):
                    self._use(ship, atom.number)
        ships = sorted((s for s in self._draft.shipped if s in self._users), key=lambda s: (self._level(s), s))
        at = {ship: i for i, ship in enumerate(ships)}
        shipments = [self._shipment(i, ship, at) for ship, i in at.items()]
        homes: list[Home] = []
        for atom in atoms:
            if atom.is_constant:
                chain = _route(atom, holds)
                shipments = _with_hops(shipments, chain, atom.number)
                homes.append(Home(atom.number, chain[-1]))
            else:
                site, (x_own, x), (_, b) = self._draft.homes[number[_need(atom)]]
                received = tuple(at[s] for s in x), tuple(at[s] for s in b)
                homes.append(
                    Home(atom.number, self._ground.sites[site], self._names(x_own), received[0], not b, received[1])
                )
        return FragmentPlan(self._fragment.name, tuple(homes), tuple(shipments), self._how)

    def _names(self, attrs: int) -> tuple[str, ...]:
        return self._ground.names(attrs)

    def _use(self, ship: Ship, atom: int) -> None:
        self._users.setdefault(ship, set()).add(atom)
        for before in self._draft.shipped[ship][1]:
            self._use(before, atom)

    def _level(self, ship: Ship) -> int:
        return max((self._level(before) + 1 for before in self._draft.shipped[ship][1]), default=0)

    def _shipment(self, number: int, ship: Ship, at: dict[Ship, int]) -> Shipment:
        attrs, source, target = ship
        own, received = self._draft.shipped[ship]
        sites = self._ground.sites
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


def _route(atom: Atom, holds: dict[str, set[str]]) -> list[str]:
    """The sites that a constant CFD is checked at, from the right side's on."""
    wanted = set(atom.x)
    first = max((site for site, own in holds.items() if atom.b in own), key=lambda site: len(holds[site] & wanted))
    route, left = [first], wanted - holds[first]
    while left:
        best = max(holds, key=lambda site: len(holds[site] & left))
        route.append(best)
        left -= holds[best]
    return route


def _with_hops(shipments: list[Shipment], route: Sequence[str], atom: int) -> list[Shipment]:
    """The shipments with those of a route, shared with the routes of other constant CFDs."""
    found = list(shipments)
    for level, (source, target) in enumerate(pairwise(route)):
        same = next(
            (s for s in found if (s.attrs, s.source, s.target, s.level) == ((), source, target, level)), None
        )  # fmt: skip
        if same is None:
            found.append(Shipment(len(found), (), source, target, level, (), (), (atom,)))
        else:
            found[same.number] = Shipment(same.number, (), source, target, level, (), (), (*same.atoms, atom))
    return found
