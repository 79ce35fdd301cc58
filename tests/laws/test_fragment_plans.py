"""Laws of plans: every id that is needed can be put together where it is, and no search is worse than none."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.fragments.exact_search import exact_plan
from holdstrue.fragments.hev_plan import Attrs, HevPlan, PlanningProblem, Ship
from holdstrue.fragments.opt_ver import chain_plan, opt_ver

ATTRS = "abcdefg"


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
