"""What a plan ships for a changed row, in expected bytes: ids by their widths and the rows they go for, and bits.

A condition on single rows (a constant of a pattern, a part of a filter) travels as one bit a row to each home that
cannot answer it; an id goes for the rows that can matter to one of its CFDs, as far as its source knows. To a
source all of whose CFDs have such conditions the bits go first, so that it ships only the rows that fulfil them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import pyarrow as pa

from holdstrue.fragments.hev_plan import Attrs, Guards, HevPlan, PlanningProblem, Ship

ID_BYTES = 16.0
BIT = 1 / 8
SHARE = 0.1
"""The share of rows that is expected to fulfil a condition of which nothing else is said."""

BitHop = tuple[int, int, int]
"""Bits of what a need asks of rows, from a source to a target."""


def id_width(types: Iterable[pa.DataType]) -> float:
    """Bytes that the id of a column's value is expected to take: where values are few, a message numbers them."""
    return max(0.25 if pa.types.is_boolean(t) else 1.0 if pa.types.is_integer(t) and t.bit_width == 8 else ID_BYTES
               for t in types)  # fmt: skip


def width(problem: PlanningProblem, attrs: Attrs) -> float:
    """Bytes that an id of a set takes: at most those of an id, fewer where its columns have few values."""
    return min(ID_BYTES, sum(problem.widths.get(name, ID_BYTES) for name in problem.names(attrs)))


def share(problem: PlanningProblem, guards: Iterable[str]) -> float:
    """The share of rows that fulfil all of some conditions, as if they knew nothing of each other."""
    return prod(problem.shares.get(guard, SHARE) for guard in guards)


@dataclass(frozen=True)
class PlanCost:
    """A plan with the bits that it needs beside its ids.

    Examples
    --------
    >>> from holdstrue.fragments.hev_plan import Need, plan_with
    >>> knows = (frozenset({"CC"}), frozenset())
    >>> problem = PlanningProblem(("zip", "street"), ("S1", "S2"), (1, 2), (Need(1, 2, ("CC",)),), knows)
    >>> cost = PlanCost(plan_with(problem, [1]))  # the index is at S2; S1 ships zip of rows with the right CC
    >>> cost.bytes, cost.hops
    (1.725, ())
    """

    plan: HevPlan

    @cached_property
    def users(self) -> dict[Ship, set[int]]:
        """By shipment the needs that it serves."""
        found: dict[Ship, set[int]] = {}

        def use(ship: Ship, need: int) -> None:
            found.setdefault(ship, set()).add(need)
            for before in self.plan.shipped[ship][1]:
                use(before, need)

        for need, (_, (_, x), (_, b)) in self.plan.homes.items():
            for ship in (*x, *b):
                use(ship, need)
        return found

    @cached_property
    def hops(self) -> tuple[BitHop, ...]:
        """Which bits must go where before ids do, and which to homes that would not hear of them."""
        return tuple(dict.fromkeys((*self._early, *self._late())))

    @cached_property
    def _early(self) -> tuple[BitHop, ...]:
        """Bits to sources that otherwise would ship rows in vain."""
        problem, found = self.plan.problem, []
        for ship, needs in self.users.items():
            if all(problem.needs[need].guards for need in needs):
                for need in sorted(needs):
                    unknown = [g for g in problem.needs[need].guards if not problem.answers(ship[1], g)]
                    found += [(need, source, ship[1]) for source in self._answering(unknown)]
        return tuple(found)

    def _late(self) -> Iterator[BitHop]:
        """Bits to homes of which nothing that comes there tells."""
        for need, (home, _, _) in self.plan.homes.items():
            told = self._told(need) | {home}
            unknown = [g for g in self.plan.problem.needs[need].guards if not self._heard(g, told, need)]
            yield from ((need, source, home) for source in self._answering(unknown))

    def _told(self, need: int) -> set[int]:
        """The sites that what a need uses starts from."""
        return {ship[1] for ship, needs in self.users.items() if need in needs}

    def _heard(self, guard: str, sites: set[int], need: int) -> bool:
        bits = {source for n, source, target in self._early if n == need and target in sites}
        return any(self.plan.problem.answers(site, guard) for site in sites | bits)

    def _answering(self, guards: Iterable[str]) -> list[int]:
        """Few sites that together answer some conditions."""
        problem, left, found = self.plan.problem, set(guards), []
        while left:
            best = max(range(len(problem.sites)), key=lambda s: (sum(problem.answers(s, g) for g in left), -s))
            found.append(best)
            left = {g for g in left if not problem.answers(best, g)}
        return found

    def _known(self, need: int, site: int) -> Guards:
        """What a source knows of the rows of a need, by itself and by the bits that came."""
        problem = self.plan.problem
        asked = [source for n, source, target in self._early if n == need and target == site]
        known = [g for g in problem.needs[need].guards if any(problem.answers(s, g) for s in (site, *asked))]
        return tuple(sorted(known))

    def rows(self, ship: Ship) -> float:
        """The share of rows that a shipment is expected to be of."""
        problem = self.plan.problem
        asked = {self._known(need, ship[1]) for need in self.users[ship]}
        return 1.0 if () in asked else 1.0 - prod(1.0 - share(problem, guards) for guards in asked)

    @cached_property
    def bits(self) -> int:
        """Bits a row: one for each condition and home that cannot answer it, and those that go to sources first."""
        problem = self.plan.problem
        at_homes = {
            (guard, home)
            for need, (home, _, _) in self.plan.homes.items()
            for guard in problem.needs[need].guards
            if not problem.answers(home, guard)
        }
        early = {(problem.needs[need].guards, source, target) for need, source, target in self._early}
        return len(at_homes) + len(early)

    @cached_property
    def bytes(self) -> float:
        """Expected bytes for a changed row."""
        ids = sum(width(self.plan.problem, ship[0]) * self.rows(ship) for ship in self.users)
        return round(ids + BIT * self.bits, 6)

    @property
    def rank(self) -> tuple[float, int, int]:
        """To compare plans: bytes, then ids, then attributes in them, since ids of larger sets repeat less often."""
        return self.bytes, len(self.users), sum(ship[0].bit_count() for ship in self.users)
