"""A plan in the making: attribute sets as bits, shipments found by need, counted as they come (N_eqid).

`PlanningProblem` is what cannot be changed: which site holds what, what each CFD needs. A `HevPlan` grows: `obtain`
makes an attribute set available at a site at the least number of new shipments that one greedy look finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

Attrs = int
"""A set of attributes, one bit each."""
Ship = tuple[Attrs, int, int]
"""Attribute set, source, target."""
Made = tuple[Attrs, tuple[Ship, ...]]
"""How a set is put together at a site: which attributes are its own, and the shipments of the others."""
Guards = tuple[str, ...]
"""What a row must fulfil to matter to a CFD, by the names of columns with a constant and of parts of filters."""
Hev = tuple[Attrs, int]
"""A non-base HEV: an attribute set that is put together at a site for others to use."""


@dataclass(frozen=True)
class Need:
    """What a variable CFD needs at its home: the ids of its left side and of its right side."""

    x: Attrs
    b: Attrs
    guards: Guards = ()


@dataclass(frozen=True)
class PlanningProblem:
    """Sites and needs of one fragment, as bits.

    `guards` says by site which conditions on single rows it can answer, `shares` what share of the rows fulfils
    each, `widths` how many bytes the id of an attribute takes.
    """

    attrs: tuple[str, ...]
    sites: tuple[str, ...]
    holds: tuple[Attrs, ...]
    needs: tuple[Need, ...]
    guards: tuple[frozenset[str], ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    widths: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def of(sites: Mapping[str, Iterable[str]], needs: Sequence[tuple[Iterable[str], str]]) -> PlanningProblem:
        """From names.

        >>> PlanningProblem.of({"S1": "A", "S2": "B"}, [("A", "B")]).needs
        (Need(x=1, b=2, guards=()),)
        """
        attrs = tuple(dict.fromkeys(name for x, b in needs for name in (*x, b)))
        bit = {name: 1 << i for i, name in enumerate(attrs)}
        holds = tuple(sum(bit.get(name, 0) for name in set(own)) for own in sites.values())
        found = tuple(Need(sum(bit[name] for name in set(x)), bit[b]) for x, b in needs)
        return PlanningProblem(attrs, tuple(sites), holds, found)

    def names(self, attrs: Attrs) -> tuple[str, ...]:
        """The attributes of a set."""
        return tuple(name for i, name in enumerate(self.attrs) if attrs >> i & 1)

    def answers(self, site: int, guard: str) -> bool:
        """Whether a site knows by itself which rows fulfil a condition."""
        return bool(self.guards) and guard in self.guards[site]

    @cached_property
    def holders(self) -> dict[Attrs, tuple[int, ...]]:
        """By attribute the sites that hold it."""
        bits = [1 << i for i in range(len(self.attrs))]
        return {bit: tuple(s for s, own in enumerate(self.holds) if own & bit) for bit in bits}


@dataclass
class HevPlan:
    """Shipments so far, each with how its ids are put together at the source.

    Examples
    --------
    >>> problem = PlanningProblem.of({"S1": "AB", "S2": "C", "S3": "D"}, [("ABC", "D"), ("AB", "D")])
    >>> plan = plan_with(problem, homes=[2, 2])  # both indexes where D is: A, B and C are shipped there, once
    >>> plan.cost, plan_with(problem, [2, 2], frozenset({(0b0011, 0)})).cost  # or the id of (A, B), and C
    (3, 2)
    """

    problem: PlanningProblem
    hevs: frozenset[Hev] = frozenset()
    shipped: dict[Ship, Made] = field(default_factory=dict)
    homes: dict[int, tuple[int, Made, Made]] = field(default_factory=dict)
    """By need its site, and how left and right side are put together there."""

    @property
    def cost(self) -> int:
        """Ids shipped for one changed row."""
        return len(self.shipped)

    def settle(self, need: int, site: int) -> None:
        """Give a CFD its home and ship there what it needs."""
        wanted = self.problem.needs[need]
        self.homes[need] = (site, self.obtain(wanted.x, site), self.obtain(wanted.b, site))

    def obtain(self, wanted: Attrs, site: int) -> Made:
        """Make a set available at a site. Parts are disjoint, so that ids add up."""
        parts: list[Ship] = []
        own = self.problem.holds[site]
        rest = wanted
        while rest & ~own:
            ship = self._came(rest, rest & ~own, site)
            if ship is None:
                ship = self._best(rest & ~own, site)
                self.ship(ship)
            parts.append(ship)
            rest &= ~ship[0]
        return rest, tuple(parts)

    def _came(self, rest: Attrs, missing: Attrs, site: int) -> Ship | None:
        """The largest set that is shipped to the site anyway and fits into what is left."""
        found = [s for s in self.shipped if s[2] == site and s[0] & ~rest == 0 and s[0] & missing]
        return max(found, key=lambda s: ((s[0] & missing).bit_count(), -s[1]), default=None)

    def _best(self, missing: Attrs, site: int) -> Ship:
        """The shipment that covers most for what it costs."""
        choices: list[tuple[float, int, Ship]] = []
        for attrs, place in self.hevs:
            if attrs & ~missing or place == site:
                continue
            ship = (attrs, place, site)
            cost = 1 + self._extra(attrs, place)
            choices.append((cost / attrs.bit_count(), attrs.bit_count(), ship))
        for bit, holders in self.problem.holders.items():
            if bit & missing:
                choices += [(1.0, 1, (bit, holder, site)) for holder in holders]
        return min(choices)[2]

    def _extra(self, attrs: Attrs, place: int) -> int:
        trial = HevPlan(self.problem, self._smaller(attrs), dict(self.shipped))
        trial.obtain(attrs, place)
        return trial.cost - self.cost

    def _smaller(self, attrs: Attrs) -> frozenset[Hev]:
        return frozenset(h for h in self.hevs if h[0] & ~attrs == 0 and h[0] != attrs)

    def ship(self, ship: Ship) -> None:
        """Add a shipment, and those that its ids are put together from."""
        attrs, source, _ = ship
        if ship not in self.shipped:
            self.shipped[ship] = HevPlan(self.problem, self._smaller(attrs), self.shipped).obtain(attrs, source)


def plan_with(problem: PlanningProblem, homes: Sequence[int], hevs: frozenset[Hev] = frozenset()) -> HevPlan:
    """The shipments that given homes and HEVs lead to."""
    plan = HevPlan(problem, hevs)
    for need, site in enumerate(homes):
        plan.settle(need, site)
    return plan
