"""Duplicates and implied rules are pointed out, and never wrongly."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.errors import RuleError
from holdstrue.rules import Body, Rule, RuleSet, Tolerance, implication, normalise, parse_rule, review
from unit.rules.meaning import violations
from unit.rules.strategies import small_bodies, tables


def pointed_out(*texts: str, nulls: Literal["unknown", "equal"] = "unknown") -> list[tuple[str, tuple[str, ...], str]]:
    """Findings by the rules' positions: the rule, the others, the kind."""
    rules = [parse_rule(text, name=str(i)) for i, text in enumerate(texts)]
    return [(f.rule, f.others, f.kind) for f in review(RuleSet(tuple(rules), nulls=nulls))]


@pytest.mark.parametrize(
    ("general", "implied"),
    [
        ("not(t.a = s.a)", "not(t.a = s.a and t.b < s.b)"),
        ("not(t.a <= s.a)", "not(t.a < s.a)"),
        ("not(t.a != s.a and t.b = s.b)", "not(t.a < s.a and t.b = s.b)"),
        ("not(t.a <= s.a)", "not(t.a = s.a)"),
        ("not(t.a > 3)", "not(t.a > 5)"),
        ("not(t.a != 3)", "not(t.a = 4)"),
        ("not(t.a > 3)", "not(t.a = s.a and s.a > 5)"),
        ("not(t.a < s.b)", "not(t.b > s.a and t.c = s.c)"),
        ("not(t.a < s.c)", "not(t.a < s.b and s.b < s.c)"),
        ("key(a)", "key(a, b)"),
        ("key(a)", "a, b -> c"),
        ("key(a)", "[a=1, b] -> [c]"),
        ("a -> c", "a, b -> c"),
        ("a -> b, c", "a -> b"),
        ("a -> b", "[a=1] -> [b]"),
        ("[a=1] -> [b]", "[a=1, c] -> [b]"),
        ("[a=1] -> [b=2]", "[a=1, c=3] -> [b=2]"),
        ("a -> b", "not(t.a = s.a and t.b < s.b)"),
        ("not null(a, b)", "not null(a)"),
    ],
)
def test_one_rule_implies_another(general: str, implied: str) -> None:
    assert pointed_out(general, implied) == [("1", ("0",), "implied")]
    assert pointed_out(implied, general) == [("0", ("1",), "implied")]


@pytest.mark.parametrize(
    "texts",
    [
        ("a -> b", "b -> c", "a -> c"),  # NULL in b
        ("o.(a, b) in c.(x, y)", "o.a in c.x"),  # NULL in b
        ("o.a in c.x", "p.a in c.x"),
        ("not(t.a < s.a and t.b < s.b)", "not(t.a < s.a and t.b > s.b)"),
        ("not(t.a < s.a)", "not(t.a < 3)"),
        ("[a=1] -> [b]", "a -> b"),
        ("[a=1, c] -> [b=2]", "[a=1] -> [b=2]"),
        ("not(t.a = s.a)", "not(t.a = 3)"),
        ("not(t.a > 3)", "not(t.a > 'x')"),
        ("not(t.b = t.b and t.a < 3)", "not(t.a < 3)"),
        ("not(t.a != s.a and t.b != s.b)", "a -> b"),
    ],
)
def test_the_last_is_not_claimed_to_follow(texts: tuple[str, ...]) -> None:
    assert str(len(texts) - 1) not in [rule for rule, _, _ in pointed_out(*texts)]


def test_duplicates_name_the_first() -> None:
    found = pointed_out("key(a)", "b -> c", "not(t.a = s.a)", "not(t.b = s.b and s.c != t.c)")
    assert found == [("2", ("0",), "duplicate"), ("3", ("1",), "duplicate")]
    rules = [parse_rule("key(a)", name="one"), parse_rule("not(t.a = s.a)", name="two")]
    assert review(rules)[0].message == "'two' says the same as 'one'"


def test_several_rules_together() -> None:
    assert pointed_out("a -> b", "a -> c", "a -> b, c") == [("2", ("0", "1"), "implied")]
    assert pointed_out("not null(a)", "not null(b)", "not null(a, b)") == [("2", ("0", "1"), "implied")]


def test_nulls_equal_allows_transitivity_but_keeps_kinds_apart() -> None:
    assert pointed_out("a -> b", "b -> c", "a -> c", nulls="equal") == [("2", ("0", "1"), "implied")]
    assert pointed_out("x -> y", "a -> b", "b, d -> c", "a, d -> c", nulls="equal") == [("3", ("1", "2"), "implied")]
    assert pointed_out("a -> b", "not(t.a = s.a and t.b != s.b)", "key(a)", nulls="equal") == []
    assert review([parse_rule("a -> b"), parse_rule("a, c -> b")], nulls="equal")[0].kind == "implied"


def test_of_two_equivalent_rules_only_the_later_is_named() -> None:
    found = pointed_out("not(t.a < s.b and s.b < t.c)", "not(t.a < s.b and s.b < t.c and t.a < t.c)")
    assert found == [("1", ("0",), "implied")]
    assert pointed_out("[a=1] -> [b=2]", "not(t.a = 1 and t.b != 2)") == [("1", ("0",), "implied")]


def test_filters_tables_and_tolerances() -> None:
    wide, narrow = parse_rule("key(a)", name="wide"), parse_rule("key(a, b)", name="narrow", where="c = 1")
    assert [f.rule for f in review([wide, narrow])] == ["narrow"]
    assert review([parse_rule("key(a)", name="wide", where="c = 1"), parse_rule("key(a, b)")]) == ()
    assert len(review([parse_rule("key(a)", where="c = 1"), parse_rule("key(a, b)", where="c = 1")])) == 1
    assert review([parse_rule("key(a)", where="c = 1"), parse_rule("key(a, b)", where="c = 2")]) == ()
    assert review([parse_rule("key(a)", table="t"), parse_rule("key(a, b)", table="u")]) == ()
    assert review([parse_rule("key(a)", tolerance=Tolerance(count=1)), parse_rule("key(a, b)")]) == ()
    assert len(review([parse_rule("a in c.x"), parse_rule("a in c.x", where="b = 1")])) == 1


@given(st.lists(small_bodies, min_size=2, max_size=4), st.sampled_from(["unknown", "equal"]), st.data())
@settings(max_examples=300, deadline=None)
def test_what_is_pointed_out_follows(
    found: list[Body], nulls: Literal["unknown", "equal"], data: st.DataObject
) -> None:
    rules = {}
    for i, body in enumerate(found):
        try:
            rules[str(i)] = normalise(Rule(body, str(i)))
        except RuleError:
            continue
    findings = review(rules.values(), nulls=nulls)
    rows: list[dict[str, Any]] = data.draw(tables)
    for finding in findings:
        others = [_broken(rules[name], rows, nulls) for name in finding.others]
        assert any(others) or not _broken(rules[finding.rule], rows, nulls)
    # Dropping all that is pointed out loses nothing.
    kept = rules.keys() - {finding.rule for finding in findings}
    if not any(_broken(rules[name], rows, nulls) for name in kept):
        assert not any(_broken(rule, rows, nulls) for rule in rules.values())


def _broken(rule: Rule, rows: list[dict[str, Any]], nulls: str) -> bool:
    # With `nulls: equal` only FDs and CFDs change their meaning.
    return bool(violations(rule.body, rows, nulls_equal=nulls == "equal" and rule.kind in ("fd", "cfd")))


def test_many_rules_are_compared_where_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    follows = implication._follows

    def counted(*args: Any) -> bool:
        nonlocal compared
        compared += 1
        return follows(*args)

    monkeypatch.setattr(implication, "_follows", counted)
    rules = [parse_rule(f"a{i % 20}, b{i // 20} -> c{i}") for i in range(400)]
    found = review([*rules, parse_rule("a3, b4, c9 -> c83")])
    assert [(finding.rule, finding.others) for finding in found] == [("a3, b4, c9 -> c83", ("a3, b4 -> c83",))]
    assert compared < 2 * len(rules)
