"""Paper 000, Examples 7 and 8: ids shipped by the paper's plans, and the fewest there are."""

from __future__ import annotations

import pytest

from holdstrue.fragments.exact_search import exact_plan
from holdstrue.fragments.hev_plan import HevPlan, PlanningProblem, plan_with
from holdstrue.fragments.integer_plan import integer_plan
from holdstrue.fragments.opt_ver import chain_plan, opt_ver

SITES = {"S1": "A", "S2": "B", "S3": "C", "S4": "D", "S5": "EF", "S6": "GH", "S7": "I", "S8": "JK"}
CFDS = [("ABC", "E"), ("ACD", "F"), ("AG", "H"), ("AIJ", "K")]


def problem(*, replica: bool) -> PlanningProblem:
    return PlanningProblem.of(SITES | ({"S6": "GHI"} if replica else {}), CFDS)


def shipped(plan: HevPlan) -> set[tuple[str, str, str]]:
    own = plan.problem
    return {("".join(own.names(a)), own.sites[s], own.sites[t]) for a, s, t in plan.shipped}


def test_without_sharing_9() -> None:
    """Fig. 6(a)."""
    assert shipped(chain_plan(problem(replica=False))) == {
        ("A", "S1", "S2"), ("AB", "S2", "S3"), ("E", "S5", "S3"), ("A", "S1", "S3"), ("AC", "S3", "S4"),
        ("F", "S5", "S4"), ("A", "S1", "S6"), ("A", "S1", "S7"), ("AI", "S7", "S8"),
    }  # fmt: skip


def test_with_the_replica_8() -> None:
    """Fig. 6(b): AI is put together at S6, where A goes anyway."""
    plan = chain_plan(problem(replica=True))
    assert plan.cost == 8 and ("AI", "S6", "S8") in shipped(plan)


def test_sharing_ac_7() -> None:
    """Fig. 6(c): both indexes at S3."""
    own = problem(replica=True)
    bit = {name: 1 << i for i, name in enumerate(own.attrs)}
    plan = plan_with(own, [2, 2, 5, 7], frozenset({(bit["A"] | bit["I"], 5)}))
    assert shipped(plan) == {
        ("A", "S1", "S3"), ("B", "S2", "S3"), ("D", "S4", "S3"), ("E", "S5", "S3"), ("F", "S5", "S3"),
        ("A", "S1", "S6"), ("AI", "S6", "S8"),
    }  # fmt: skip


@pytest.mark.parametrize(("replica", "fewest"), [(False, 7), (True, 6)])
def test_the_fewest(replica: bool, fewest: int) -> None:
    """Example 8 ends at 7 with the replica; indexes at the right-hand sides' sites make 6."""
    own = problem(replica=replica)
    found = opt_ver(own)
    assert found.cost == fewest
    best = exact_plan(own, chain_plan(own))
    assert best is not None and best.cost == fewest
    again = exact_plan(own, found)
    assert again is found
    solved = integer_plan(own)
    assert len(shipped(solved.plan)) == fewest and solved.bound == 16 * fewest and solved.ended


def test_the_plan_of_6() -> None:
    assert shipped(opt_ver(problem(replica=True))) == {
        ("A", "S1", "S5"), ("B", "S2", "S5"), ("C", "S3", "S5"), ("D", "S4", "S5"), ("A", "S1", "S6"),
        ("AI", "S6", "S8"),
    }  # fmt: skip


def test_beam_of_one_is_a_plan_too() -> None:
    assert opt_ver(problem(replica=True), k=1).cost <= 7
