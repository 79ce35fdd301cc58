"""Predicates in the paper's order, rules in theirs, and prefixes shared where that pays."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.papers.schedule import (
    PredicateClass,
    PredicateStat,
    Refine,
    Schedule,
    classify,
    in_order,
    order_predicates,
    schedule,
    slack,
)
from holdstrue.rules.model import Op

K = PredicateClass


def test_classes() -> None:
    assert [classify(op, True) for op in (Op.EQ, Op.NE, Op.LT)] == [K.UNI_EQUAL, K.UNI_NOT_EQUAL, K.UNI_ORDER]
    assert [classify(op, False) for op in (Op.EQ, Op.NE, Op.GE)] == [K.BI_EQUAL, K.BI_NOT_EQUAL, K.BI_ORDER]


def test_order_within_a_class_is_by_selectivity() -> None:
    stats = [PredicateStat((kind, n), kind, n) for kind in reversed(K) for n in (5, 50)]
    falling = {K.UNI_EQUAL, K.BI_EQUAL}
    expected = [(kind, n) for kind in K for n in ((50, 5) if kind in falling else (5, 50))]
    assert [p.id for p in order_predicates(stats)] == expected
    assert in_order(order_predicates(stats)) and not in_order(stats)


def test_slack_is_the_smallest_gap_in_a_class() -> None:
    kinds = {"a": (K.UNI_EQUAL, 9), "b": (K.UNI_EQUAL, 7), "c": (K.UNI_ORDER, 7)}
    near = [PredicateStat(name, kind, n) for name, (kind, n) in kinds.items()]
    assert slack(near) == 2
    assert slack(near[1:]) is None


def test_a_rule_without_predicates_is_scheduled() -> None:
    plan = schedule({"all": (), "a": ("p",)}, [PredicateStat("p", K.UNI_EQUAL, 1)])
    assert [rule for rule, _ in plan.rules] == ["a", "all"]
    assert plan.steps() == (Refine("a", "p", ()),)


def test_identical_rules_are_computed_once() -> None:
    stats = [PredicateStat(p, K.UNI_EQUAL, 9 - i) for i, p in enumerate("xyz")]
    plan = schedule(dict.fromkeys(("one", "two", "three"), "xyz"), stats)
    assert len(plan.shared) == 1
    assert plan.shared[0].targets == ("two", "three")
    assert _applied(plan) == {"one": set("xyz"), "two": set("xyz"), "three": set("xyz")}


def _applied(plan: Schedule[str, str], finished: frozenset[str] = frozenset()) -> dict[str, set[str]]:
    """Run the steps on sets of predicates, with some rules without candidates from the start."""
    done: dict[str, set[str]] = {rule: set() for rule, _ in plan.rules}
    for step in plan.steps():
        if isinstance(step, Refine):
            if step.leader in finished or step.predicate in done[step.leader]:
                continue
            for rule in (step.leader, *step.followers):
                done[rule].add(step.predicate)
        else:
            if step.owner not in finished:
                assert done[step.owner] == set(step.predicates), "a copy holds its prefix only"
            for rule in step.targets:
                done[rule] |= set(step.predicates)
    return done


@settings(max_examples=200)
@given(
    st.lists(st.sets(st.sampled_from("abcdefg"), min_size=1), min_size=1, max_size=6),
    st.lists(st.tuples(st.sampled_from(PredicateClass), st.integers(0, 20)), min_size=7, max_size=7),
    st.sets(st.integers(0, 5)),
)
def test_every_rule_is_refined_by_exactly_its_predicates(
    rules: list[set[str]], kinds: list[tuple[PredicateClass, int]], finished: set[int]
) -> None:
    named = {f"r{i}": sorted(predicates) for i, predicates in enumerate(rules)}
    stats = [PredicateStat(p, kind, n) for p, (kind, n) in zip("abcdefg", kinds, strict=True)]
    plan = schedule(named, stats)
    assert _applied(plan) == {rule: set(path) for rule, path in named.items()}
    place = {p.id: i for i, p in enumerate(plan.predicates)}
    starts = [place[path[0]] for _, path in plan.rules]
    assert starts == sorted(starts, reverse=True)
    owners = {prefix.owner for prefix in plan.shared}
    for prefix in plan.shared:
        assert not owners & set(prefix.targets)
        assert all(set(prefix.predicates) <= set(named[rule]) for rule in prefix.targets)
    # A rule that runs out of candidates leaves the others complete; those that copy from it are empty too.
    gone = {f"r{i}" for i in finished}
    for rule, done in _applied(plan, frozenset(gone)).items():
        assert rule in gone or done == set(named[rule])
