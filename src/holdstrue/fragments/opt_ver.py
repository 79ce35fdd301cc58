"""Algorithm optVer: where HEVs and indexes live so that few ids are shipped (paper 000, Fig. 7).

Steps as in the paper: initialisation (an HEV for each left side), expansion (sets shared by several CFDs),
location (where most of a set is held; also at the right-hand side's site), and a search that removes HEVs
while it keeps the k best plans. Beyond the paper, the search also moves homes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from holdstrue.fragments.hev_plan import Attrs, Hev, HevPlan, PlanningProblem, plan_with

BEAM = 5
"""Plans that the search keeps, as in the paper's Example 8."""

MOST_HEVS = 200
"""Shared sets that expansion keeps, those of most CFDs first. Chosen, not tuned."""

SearchState = tuple[tuple[int, ...], frozenset[Hev]]


def chain_plan(problem: PlanningProblem) -> HevPlan:
    """The plan without optimisation: each CFD's left side along its attributes, the index at the last one.

    Attributes at several sites are taken where the ids of those before already are, if anywhere (Fig. 6(a), (b)).
    """
    plan = HevPlan(problem)
    for number, need in enumerate(problem.needs):
        attrs = [bit for bit in problem.holders if need.x & bit]
        site = _start(problem, need.x, attrs[0] if attrs else need.b)
        done: Attrs = 0
        for attr in attrs:
            if not problem.holds[site] & attr:
                previous, site = site, _next(plan, done, site, attr)
                if done & ~problem.holds[site]:
                    plan.ship((done, previous, site))
            done |= attr
        plan.settle(number, site)
    return plan


def _start(problem: PlanningProblem, x: Attrs, first: Attrs) -> int:
    return max(problem.holders[first], key=lambda s: ((problem.holds[s] & x).bit_count(), -s))


def _next(plan: HevPlan, done: Attrs, site: int, attr: Attrs) -> int:
    """The next site of a chain: one that what is put together goes to already, else the first that holds it."""
    return min(plan.problem.holders[attr], key=lambda to: ((done, site, to) not in plan.shipped, to))


def opt_ver(problem: PlanningProblem, k: int = BEAM) -> HevPlan:
    """The best plan that the search finds. Complexity: O(rounds x k x (HEVs + homes x sites) x needs)."""
    if not problem.needs:
        return HevPlan(problem)
    hevs = frozenset((attrs, site) for attrs in _expanded(problem) for site in _places(problem, attrs))
    start: SearchState = (tuple(_located(problem, need.x, need.b) for need in problem.needs), hevs)
    best, cost = start, plan_with(problem, *start).cost
    at_right = tuple(_located(problem, need.b, need.b) for need in problem.needs)
    starts = [(homes, own) for homes in (start[0], at_right) for own in (hevs, frozenset[Hev]())]
    for state in (_useful(problem, one) for one in starts):
        found = plan_with(problem, *state).cost
        if found <= cost:
            best, cost = state, found
    beam, seen = [best], {best}
    while beam:
        found_states: dict[SearchState, int] = {}
        for state in beam:
            for neighbour in _neighbours(problem, state):
                if neighbour not in seen:
                    seen.add(neighbour)
                    found_states[neighbour] = plan_with(problem, *neighbour).cost
        ranked = sorted(found_states, key=lambda s: (found_states[s], len(s[1]), s[0]))[:k]
        if not ranked or found_states[ranked[0]] > cost:
            break
        improved = found_states[ranked[0]] < cost
        best, cost = ranked[0], found_states[ranked[0]]
        # states as good as the best are looked at as long as they lose HEVs; then the search ends
        beam = ranked if improved else [s for s in ranked if found_states[s] == cost and len(s[1]) < len(beam[0][1])]
        beam = [_useful(problem, state) for state in beam]
    return plan_with(problem, *best)


def _expanded(problem: PlanningProblem) -> list[Attrs]:
    """Sets that several CFDs share, and left sides: what is put together once may be used often."""
    sides = [*dict.fromkeys(need.x for need in problem.needs)]
    counts: dict[Attrs, int] = {}
    for one, other in combinations(sides, 2):
        shared = one & other
        if shared.bit_count() > 1:
            counts[shared] = counts.get(shared, 0) + 1
    shared_by = {bit: sum(1 for x in sides if x & bit) for bit in problem.holders}
    for x in sides:
        # up to |X| pairs that hold the most shared attribute of X (Example 8: AI and AJ)
        bits = sorted((bit for bit in shared_by if x & bit), key=lambda bit: (-shared_by[bit], bit))
        for bit in bits[1:]:
            counts.setdefault(bits[0] | bit, 0)
        if x.bit_count() > 1:
            counts.setdefault(x, 0)
    return sorted(counts, key=lambda attrs: (-counts[attrs], attrs))[:MOST_HEVS]


def _places(problem: PlanningProblem, attrs: Attrs) -> list[int]:
    """Where a set may be put together: the sites that hold most of it."""
    held = [(own & attrs).bit_count() for own in problem.holds]
    return [site for site, count in enumerate(held) if count and count == max(held)]


def _located(problem: PlanningProblem, x: Attrs, b: Attrs) -> int:
    """findLoc: the site that holds most of a CFD, its right side included; then the one most CFDs read."""
    use = [sum(1 for need in problem.needs if own & (need.x | need.b)) for own in problem.holds]
    sites = range(len(problem.sites))
    return max(sites, key=lambda s: ((problem.holds[s] & (x | b)).bit_count(), bool(problem.holds[s] & b), use[s], -s))


def _useful(problem: PlanningProblem, state: SearchState) -> SearchState:
    """The same plan without the HEVs that nothing is taken from."""
    plan = plan_with(problem, *state)
    used = frozenset((attrs, source) for attrs, source, _ in plan.shipped)
    kept = (state[0], state[1] & used)
    return kept if plan_with(problem, *kept).cost <= plan.cost else state


def _neighbours(problem: PlanningProblem, state: SearchState) -> Iterable[SearchState]:
    homes, hevs = state
    for hev in hevs:
        yield homes, hevs - {hev}
    for number, need in enumerate(problem.needs):
        for other, own in enumerate(problem.holds):
            if own & (need.x | need.b) and other != homes[number]:
                yield (*homes[:number], other, *homes[number + 1 :]), hevs
    for source in set(homes):
        # CFDs of one home often gain only when they move together: what one needs then serves all
        for target, own in enumerate(problem.holds):
            moved = [source == h and own & need.b for h, need in zip(homes, problem.needs, strict=True)]
            if source != target and sum(map(bool, moved)) > 1:
                yield tuple(target if m else h for m, h in zip(moved, homes, strict=True)), hevs
