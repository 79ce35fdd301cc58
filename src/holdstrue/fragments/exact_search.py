"""The fewest ids a plan can ship, by exhaustive search with bounds: for small rule sets (paper 000, Theorem 7).

Looked at are all plans whose indexes are at sites that hold an attribute of their CFD or that something for it
is shipped to, and whose ids are put together at sites that hold part of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdstrue.fragments.hev_plan import Attrs, HevPlan, Made, PlanningProblem, Ship

MOST_NEEDS = 6
MOST_STEPS = 60_000
"""Steps before the search gives up: half a second. Example 7 takes 46,000 from the plan without sharing."""

Shipped = dict[Ship, Made]


def exact_plan(problem: PlanningProblem, known: HevPlan) -> HevPlan | None:
    """The best plan of all, or None when the search is too large; `known` is a plan to beat.

    Complexity: exponential in the rule set, at most `MOST_STEPS`.
    """
    if len(problem.needs) > MOST_NEEDS:
        return None
    search = _Search(problem, known)
    return search.best if search.run() else None


class _Search:
    def __init__(self, problem: PlanningProblem, known: HevPlan) -> None:
        self._problem = problem
        self.best = known
        self._steps = 0
        self._seen: set[tuple[int, frozenset[Ship]]] = set()
        self._order = sorted(range(len(problem.needs)), key=lambda n: -problem.needs[n].x.bit_count())

    def run(self) -> bool:
        self._place(0, {}, {})
        return self._steps <= MOST_STEPS

    def _place(self, at: int, shipped: Shipped, homes: dict[int, tuple[int, Made, Made]]) -> None:
        if self._steps > MOST_STEPS or len(shipped) >= self.best.cost:
            return
        if at == len(self._order):
            self.best = HevPlan(self._problem, frozenset(), dict(shipped), dict(homes))
            return
        state = (at, frozenset(shipped))
        if state in self._seen:
            return
        self._seen.add(state)
        number = self._order[at]
        need = self._problem.needs[number]
        for site in self._sites(need.x | need.b, shipped):
            for with_x, x in self._cover(need.x, site, shipped, ()):
                for with_b, b in self._cover(need.b, site, with_x, ()):
                    self._place(at + 1, with_b, {**homes, number: (site, x, b)})

    def _sites(self, wanted: Attrs, shipped: Shipped) -> list[int]:
        told = {target for attrs, _, target in shipped if attrs & wanted}
        held = [(own & wanted).bit_count() for own in self._problem.holds]
        sites = [s for s, count in enumerate(held) if count or s in told]
        return sorted(sites, key=lambda s: -held[s])

    def _cover(
        self, rest: Attrs, site: int, shipped: Shipped, parts: tuple[Ship, ...]
    ) -> Iterator[tuple[Shipped, Made]]:
        """Every way to make the rest of a set available at a site, with the shipments it adds."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            return
        missing = rest & ~self._problem.holds[site]
        if not missing:
            yield shipped, (rest, parts)
            return
        first = missing & -missing
        for ship in [s for s in shipped if s[2] == site and s[0] & first and not s[0] & ~rest]:
            yield from self._cover(rest & ~ship[0], site, shipped, (*parts, ship))
        if len(shipped) + 1 >= self.best.cost:
            return
        for attrs in _subsets(missing, first):
            for source in self._sources(attrs):
                ship = (attrs, source, site)
                if source == site or ship in shipped:
                    continue
                for grown, made in self._cover(attrs, source, shipped, ()):
                    if len(grown) + 1 < self.best.cost and ship not in grown:
                        yield from self._cover(rest & ~attrs, site, {**grown, ship: made}, (*parts, ship))

    def _sources(self, attrs: Attrs) -> list[int]:
        if attrs.bit_count() == 1:
            return list(self._problem.holders[attrs])
        return [s for s, own in enumerate(self._problem.holds) if own & attrs]


def _subsets(attrs: Attrs, having: Attrs) -> Iterator[Attrs]:
    """The subsets of a set that hold one of its members, small ones first."""
    others = attrs & ~having
    found, sub = [], others
    while True:
        found.append(sub | having)
        if not sub:
            break
        sub = (sub - 1) & others
    yield from sorted(found, key=int.bit_count)
