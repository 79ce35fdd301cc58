"""Laws of plans: every id that is needed can be put together where it is, and no search is worse than none."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.fragments.byte_costs import PlanCost
from holdstrue.fragments.exact_search import exact_plan
from holdstrue.fragments.hev_plan import Attrs, HevPlan, PlanningProblem, Ship
from holdstrue.fragments.integer_plan import integer_plan
from holdstrue.fragments.opt_ver import chain_plan, opt_ver
from holdstrue.fragments.planning import PlanOptions, _fewest_bytes, one_home

ATTRS = "abcdefg"
FEW = 30 if settings().max_examples <= 100 else max(settings().max_examples, 200)
"""Examples of what takes a solver: all 200 of them in the soak, and in the benchmark of plans."""


@st.composite
def grounds(draw: st.DrawFn) -> PlanningProblem:
    """Up to five sites, columns at one or two of them, up to five CFDs."""
    count = draw(st.integers(1, 5))
    sites: dict[str, set[str]] = {f"s{i}": set() for i in range(count)}
    for attr in ATTRS:
        for _ in range(draw(st.integers(1, 2))):
            sites[f"s{draw(st.integers(0, count - 1))}"].add(attr)
    needs = []
    for _ in range(draw(st.integers(1, 5))):
        x = draw(st.lists(st.sampled_from(ATTRS), min_size=1, max_size=4, unique=True))
        needs.append((x, draw(st.sampled_from([attr for attr in ATTRS if attr not in x]))))
    return PlanningProblem.of(sites, needs)


def check_made(plan: HevPlan, wanted: Attrs, site: int, made: tuple[Attrs, tuple[Ship, ...]], depth: int = 0) -> None:
    """Own columns and shipments that end here, without overlap, make up the set; and so do theirs."""
    own, parts = made
    assert depth < 20, "ids are not put together in circles"
    assert not own & ~plan.problem.holds[site]
    together = own
    for attrs, source, target in parts:
        assert target == site and source != site and not together & attrs
        together |= attrs
        check_made(plan, attrs, source, plan.shipped[attrs, source, target], depth + 1)
    assert together == wanted


@settings(deadline=None)
@given(problem=grounds())
def test_plans_put_every_id_together(problem: PlanningProblem) -> None:
    chains, found = chain_plan(problem), opt_ver(problem)
    best = exact_plan(problem, min((found, chains), key=lambda plan: plan.cost))
    for plan in (chains, found, *([] if best is None else [best])):
        assert sorted(plan.homes) == list(range(len(problem.needs)))
        for number, (site, x, b) in plan.homes.items():
            check_made(plan, problem.needs[number].x, site, x)
            check_made(plan, problem.needs[number].b, site, b)
    assert best is None or best.cost <= min(found.cost, chains.cost)


@st.composite
def guarded(draw: st.DrawFn) -> PlanningProblem:
    """The same with conditions on rows: on columns, so that who holds the column answers them."""
    problem = draw(grounds())
    needs = []
    for need in problem.needs:
        asked = draw(st.lists(st.sampled_from(ATTRS), max_size=2, unique=True))
        needs.append(replace(need, guards=tuple(sorted(f"{name} = 1" for name in asked))))
    holds = [set(problem.names(own)) for own in problem.holds]
    home = draw(st.integers(0, len(holds) - 1))
    unused = set(ATTRS) - set().union(*holds)
    holds[home] |= unused  # columns that only conditions read
    guards = tuple(frozenset(f"{name} = 1" for name in own) for own in holds)
    shares = {f"{name} = 1": draw(st.sampled_from([0.01, 0.5, 1.0])) for name in draw(st.sets(st.sampled_from(ATTRS)))}
    widths = dict.fromkeys(draw(st.sets(st.sampled_from(ATTRS), max_size=2)), 0.25)
    return replace(problem, needs=tuple(needs), guards=guards, shares=shares, widths=widths)


@settings(deadline=None, max_examples=FEW)
@given(problem=guarded())
def test_the_integer_plan_is_never_worse_and_keeps_its_bound(problem: PlanningProblem) -> None:
    chosen = _fewest_bytes(problem, PlanOptions("integer"))
    cost = PlanCost(chosen.plan).bytes
    for number, (site, x, b) in chosen.plan.homes.items():
        check_made(chosen.plan, problem.needs[number].x, site, x)
        check_made(chosen.plan, problem.needs[number].b, site, b)
    others = [one_home(problem), opt_ver(problem), chain_plan(problem)]
    searched = exact_plan(problem, others[1])
    others += [] if searched is None else [searched]
    assert cost <= min(PlanCost(plan).bytes for plan in others) + 1e-6
    assert chosen.bound is not None and chosen.bound <= cost + 1e-6
    for plan in others:
        assert PlanCost(plan).bytes >= chosen.bound - 1e-4, "no plan goes below the bound"


@settings(deadline=None, max_examples=FEW)
@given(problem=grounds())
def test_the_integer_plan_is_the_exhaustive_one(problem: PlanningProblem) -> None:
    best = exact_plan(problem, opt_ver(problem))
    found = integer_plan(problem)
    if best is not None and found.ended:
        assert len(PlanCost(found.plan).users) == best.cost and abs(found.bound - 16 * best.cost) < 1e-4


@settings(deadline=None)
@given(problem=guarded())
def test_every_home_hears_of_every_condition(problem: PlanningProblem) -> None:
    """Bits and ids together tell each home what is asked of rows, and nobody waits for itself."""
    for plan in (one_home(problem), opt_ver(problem), chain_plan(problem)):
        cost = PlanCost(plan)
        for number, (home, _, _) in plan.homes.items():
            sources = {ship[1] for ship, needs in cost.users.items() if number in needs}
            told = {home} | sources
            told |= {source for need, source, target in cost.hops if need == number and target in told}
            for guard in problem.needs[number].guards:
                assert any(problem.answers(site, guard) for site in told)
        assert all(source != target for _, source, target in cost.hops)
