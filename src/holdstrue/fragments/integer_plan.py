"""The plan of the fewest expected bytes as an integer program (paper 000, Section 5, the problem of Theorem 7).

Chosen are the homes of all CFDs, which sets of attributes are put together where, and what is shipped. Single
attributes come straight from a site that holds them; a set of several from a site that puts it together. Looked at are
all sets where these are few, else those that a site with the left side of another CFD can put together. Bits of
conditions count at homes; the selectivity of shared ids is that of their widest CFD. So the program's bound is one
for all plans over these sets, and a plan is priced by `PlanCost` afterwards.

scipy's HiGHS solves it. Its interface takes no start values: plans that are known enter by the sets they use, and the
caller keeps the best of all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.byte_costs import BIT, PlanCost, share, width
from holdstrue.fragments.hev_plan import Attrs, HevPlan, Made, Need, PlanningProblem, Ship

MOST_SETS = 160
"""Sets of several attributes that are looked at. Chosen: 125 CFDs over 10 sites stay below a second."""
ALL_SETS = 64
"""Up to so many, all subsets of left sides are."""
SECONDS = 5.0
"""How long the solver may take before the best plan so far is taken."""

MISSING = "the integer program needs scipy: pip install 'holdstrue[sites]'"


@dataclass(frozen=True)
class IntegerPlan:
    """A plan, the bytes that no plan over the same sets goes below, and whether the search came to its end."""

    plan: HevPlan
    bound: float
    ended: bool


def available() -> bool:
    """Whether the solver is installed."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        return False
    return True


def integer_plan(problem: PlanningProblem, known: Iterable[HevPlan] = (), seconds: float = SECONDS) -> IntegerPlan:
    """The best plan that the solver finds in some seconds; `known` are plans whose sets are looked at too.

    >>> problem = PlanningProblem.of({"S1": "AB", "S2": "C", "S3": "D"}, [("ABC", "D"), ("AB", "D")])
    >>> found = integer_plan(problem)
    >>> len(found.plan.shipped), found.bound  # the id of (A, B), and C, to the site of D
    (2, 32.0)
    """
    if not available():
        raise HoldstrueError(MISSING, hint="or plan with optVer, which needs nothing else")
    if not problem.needs:
        return IntegerPlan(HevPlan(problem), 0.0, ended=True)
    plans = [*known]
    # single attributes, and sets that one site holds whole, are few: their programs are done at once
    simple = [_Program(problem, sets).solve(seconds) for sets in ([], _held(problem))]
    whole = _Program(problem, _sets(problem, [*plans, *(one.plan for one in simple)])).solve(seconds)
    found = min((one.plan for one in (*simple, whole) if one.plan.homes), key=lambda plan: PlanCost(plan).rank)
    return IntegerPlan(found, whole.bound, whole.ended)


@dataclass
class _Rows:
    """Variables and constraints as they are put down, for a sparse matrix."""

    cost: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def variable(self, cost: float = 0.0, *, whole: bool = True) -> int:
        self.cost.append(cost)
        self.whole.append(int(whole))
        return len(self.cost) - 1

    def row(self, terms: Iterable[tuple[int, float]], low: float, high: float) -> None:
        self.entries += [(len(self.low), at, value) for at, value in terms]
        self.low.append(low)
        self.high.append(high)

    def at_most(self, small: int, *large: int, times: float = 1.0) -> None:
        """`times` the one is at most the sum of the others."""
        self.row([(small, times), *((at, -1.0) for at in large)], -np.inf, 0.0)


Asked = tuple[Attrs, float]
"""A left side, and the share of rows that it is needed for."""


class _Program:
    def __init__(self, problem: PlanningProblem, sets: list[Attrs]) -> None:
        self._problem = problem
        self._needs = [*dict.fromkeys(problem.needs)]
        self._sites = range(len(problem.sites))
        self._sets = sets
        self._rows = _Rows()
        self._loads: dict[tuple[Attrs, int], int] = {}
        self._made: dict[Ship | tuple[Attrs, int], int] = {}
        self._covers: dict[tuple[Asked, int], dict[Attrs, int]] = {}
        self._parts: dict[tuple[Attrs, int], dict[Attrs, int]] = {}
        self._homes: dict[tuple[int, int], int] = {}
        self._bits: dict[tuple[str, int], int] = {}
        for attrs in sorted(self._sets, key=int.bit_count):
            self._put_together(attrs)
        for number in range(len(self._needs)):
            self._place(number)

    # --- the model ------------------------------------------------------------------------------------

    def _place(self, number: int) -> None:
        """Each need has one home; there, everything it needs."""
        need, rows = self._needs[number], self._rows
        rate = share(self._problem, need.guards)
        for site in self._sites:
            home = self._homes[number, site] = rows.variable()
            self._have((need.x, rate), site, home)
            if need.b & ~self._problem.holds[site]:
                rows.at_most(home, self._load(need.b, site), times=rate)
            for guard in need.guards:
                if not self._problem.answers(site, guard):
                    if (guard, site) not in self._bits:
                        self._bits[guard, site] = rows.variable(BIT, whole=False)
                    rows.at_most(home, self._bits[guard, site])
        rows.row([(self._homes[number, site], 1.0) for site in self._sites], 1.0, 1.0)

    def _have(self, asked: Asked, site: int, home: int) -> None:
        """A set at a site: single attributes, or sets without overlap."""
        attrs, rate = asked
        missing = attrs & ~self._problem.holds[site]
        usable = [one for one in self._sets if not one & ~attrs and one & missing and self._makers(one, site)]
        if not usable:
            for bit in _bits(missing):
                self._rows.at_most(home, self._load(bit, site), times=rate)
            return
        if (asked, site) not in self._covers:
            have = self._rows.variable()
            self._covers[asked, site] = {0: have} | self._cover(attrs, missing, usable, site, have, rate)
        self._rows.at_most(home, self._covers[asked, site][0])

    def _cover(
        self, attrs: Attrs, missing: Attrs, usable: list[Attrs], site: int, have: int, rate: float
    ) -> dict[Attrs, int]:
        chosen: dict[Attrs, int] = {}
        for part in (*_bits(missing), *usable):
            at = chosen[part] = self._rows.variable()
            self._rows.at_most(at, self._load(part, site), times=rate)
            makers = self._makers(part, site)
            if part.bit_count() > 1 and -1 not in makers:
                self._rows.at_most(at, *makers)
        for bit in _bits(attrs):
            terms = [(at, 1.0) for part, at in chosen.items() if part & bit]
            if terms:
                self._rows.row([*terms, (have, -1.0)], 0.0 if bit & missing else -np.inf, 0.0)
        return chosen

    def _makers(self, attrs: Attrs, site: int) -> list[int]:
        """Variables of other sites that put a set together; -1 for one that holds all of it."""
        if any(other != site and not attrs & ~self._problem.holds[other] for other in self._sites):
            return [-1]
        return [self._made[attrs, other] for other in self._sites if other != site and (attrs, other) in self._made]

    def _put_together(self, attrs: Attrs) -> None:
        """A set of several attributes at sites that hold some of it."""
        rates = [share(self._problem, need.guards) for need in self._needs if not attrs & ~need.x]
        rate = min(rates, default=1.0)
        for site in self._sites:
            missing = attrs & ~self._problem.holds[site]
            if missing and missing != attrs:
                usable = [c for c in self._sets if c != attrs and not c & ~attrs and c & missing]
                usable = [c for c in usable if self._makers(c, site)]
                made = self._made[attrs, site] = self._rows.variable()
                self._parts[attrs, site] = self._cover(attrs, missing, usable, site, made, rate)

    def _load(self, attrs: Attrs, site: int) -> int:
        """The share of rows for which the id of a set comes to a site."""
        if (attrs, site) not in self._loads:
            self._loads[attrs, site] = self._rows.variable(width(self._problem, attrs), whole=False)
        return self._loads[attrs, site]

    # --- its solution ---------------------------------------------------------------------------------

    def solve(self, seconds: float) -> IntegerPlan:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        rows = self._rows
        at, of, value = (np.array(part) for part in zip(*rows.entries, strict=True))
        matrix = csr_array((value, (at, of)), shape=(len(rows.low), len(rows.cost)))
        found: Any = milp(
            np.array(rows.cost),
            integrality=np.array(rows.whole),
            bounds=Bounds(0.0, 1.0),
            constraints=LinearConstraint(matrix, np.array(rows.low), np.array(rows.high)),
            options={"time_limit": seconds, "mip_rel_gap": 1e-6},
        )
        bound = found.mip_dual_bound if found.mip_dual_bound is not None else 0.0
        bound = max(0.0, round(float(bound), 6))
        if found.x is None:
            return IntegerPlan(HevPlan(self._problem), bound, ended=False)
        return IntegerPlan(_Reader(self, found.x > 0.5).plan(), bound, ended=found.status == 0)


class _Reader:
    """Reads a solution back as a plan."""

    def __init__(self, program: _Program, chosen: Any) -> None:
        self._program, self._chosen = program, chosen
        self._plan = HevPlan(program._problem)

    def plan(self) -> HevPlan:
        program = self._program
        for number, need in enumerate(program._problem.needs):
            known = program._needs.index(need)
            site = next(s for s in program._sites if self._chosen[program._homes[known, s]])
            asked = (need.x, share(program._problem, need.guards))
            cover = program._covers.get((asked, site), {})
            x = self._made(need.x, site, cover, need)
            self._plan.homes[number] = (site, x, self._made(need.b, site, {}, need))
        return self._plan

    def _made(self, attrs: Attrs, site: int, cover: dict[Attrs, int], need: Need | None) -> Made:
        missing = attrs & ~self._program._problem.holds[site]
        parts = [part for part, at in cover.items() if part and self._chosen[at]] if cover else [*_bits(missing)]
        ships = tuple(self._ship(part, site, need) for part in parts)
        own = attrs & ~sum(ship[0] for ship in ships)
        return own, ships

    def _ship(self, attrs: Attrs, site: int, need: Need | None) -> Ship:
        program, problem = self._program, self._program._problem
        holding = [s for s in program._sites if s != site and not attrs & ~problem.holds[s]]
        came = [s for s in holding if (attrs, s, site) in self._plan.shipped]
        # of several holders, one that answers what is asked of the rows
        holding.sort(key=lambda s: (-sum(problem.answers(s, g) for g in (need.guards if need else ())), s))
        made = [s for s in program._sites if s != site and self._is_made(attrs, s)]
        source = next(iter((*came, *holding, *made)))
        ship = (attrs, source, site)
        if ship not in self._plan.shipped:
            self._plan.shipped[ship] = (
                (attrs, ()) if source in holding else self._made(attrs, source, program._parts[attrs, source], need)
            )
        return ship

    def _is_made(self, attrs: Attrs, site: int) -> bool:
        at = self._program._made.get((attrs, site))
        return at is not None and bool(self._chosen[at])


def _bits(attrs: Attrs) -> list[Attrs]:
    return [1 << i for i in range(attrs.bit_length()) if attrs >> i & 1]


def _held(problem: PlanningProblem) -> list[Attrs]:
    """Parts of left sides that one site holds whole."""
    found = {need.x & own for need in problem.needs for own in problem.holds}
    return sorted(attrs for attrs in found if attrs.bit_count() > 1)


def _sets(problem: PlanningProblem, known: Iterable[HevPlan]) -> list[Attrs]:
    """Sets of several attributes that it may pay to put together, those of most left sides first."""
    sides = [*dict.fromkeys(need.x for need in problem.needs)]
    found = {attrs for plan in known for attrs, _, _ in plan.shipped if attrs.bit_count() > 1}
    everything = {
        sum(some)
        for x in sides
        for size in range(2, x.bit_count() + 1)
        for some in combinations(_bits(x), size)
        if x.bit_count() <= 6
    }
    if len(everything) <= ALL_SETS and all(x.bit_count() <= 6 for x in sides):
        return sorted(found | everything)
    for x in sides:
        found.add(x)
        for own in problem.holds:
            found |= {x & own} | {x & (other | own) for other in sides if other & x}
    useful = [attrs for attrs in found if attrs.bit_count() > 1]
    return sorted(useful, key=lambda a: (-sum(not a & ~x for x in sides), -a.bit_count(), a))[:MOST_SETS]
