"""Normal forms keep every violation, and rules that say the same share a fingerprint."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings

from holdstrue.errors import RuleError
from holdstrue.rules import (
    CFD,
    DC,
    Body,
    Column,
    Constant,
    Op,
    Pattern,
    Predicate,
    Rule,
    fingerprint,
    normalise,
    parse_condition,
    parse_rule,
    text_of,
)
from holdstrue.rules.order import Order
from unit.rules.meaning import COMPARE, violations
from unit.rules.strategies import bodies, small_bodies, small_dcs, tables


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("not(s.a > t.b)", "not(t.b < s.a)"),
        ("not(t.b < t.a)", "not(t.a > t.b)"),
        ("not(t.a = s.a and s.a = t.a and t.b < 3)", "not(t.a = s.a and t.b < 3)"),
        ("not(t.a <= s.a and t.a != s.a)", "not(t.a < s.a)"),
        ("not(t.a <= s.a and s.a <= t.a)", "not(t.a = s.a)"),
        ("not(t.a > 3 and t.a > 5)", "not(t.a > 5)"),
        ("not(t.a > 3 and t.a >= 3 and t.a != 2)", "not(t.a > 3)"),
        ("not(t.a >= 3 and t.a <= 3.0)", "not(t.a = 3)"),
        ("not(t.a = 4 and t.a > 3 and t.a != 7)", "not(t.a = 4)"),
        ("not(t.a > 1 and t.a < 5 and t.a != 3)", "not(t.a != 3 and t.a < 5 and t.a > 1)"),
        ("not(t.a = 1 and t.a = true)", "not(t.a = 1 and t.a = true)"),
        ("not(t.b < s.b and t.c != s.c and t.a = s.a)", "not(t.a = s.a and t.c != s.c and t.b < s.b)"),
        ("not(s.a = 1 and t.b = 1)", "not(s.a = 1 and t.b = 1)"),
        ("not(t.a = t.a and t.a < 3)", "not(t.a < 3)"),
        ("not(t.a >= t.a and t.b < 3)", "not(t.a = t.a and t.b < 3)"),
        ("b, a -> c, b, d", "a, b -> c, d"),
        ("key(b, a)", "key(b, a)"),
        ("a, b -> c, (_, _ || _)", "a, b -> c"),
        ("[b, a=1] -> [c]", "[a=1, b] -> [c]"),
        ("[a, b] -> [c] with (1, _ || _), (1, 2 || _), (1, _ || _)", "[a=1, b] -> [c]"),
        ("[a, b] -> [c] with (1, 2 || _), (_, _ || _)", "a, b -> c"),
        ("[a, b] -> [c] with (2, _ || _), (1, _ || 3)", "[a, b] -> [c] with (1, _ || 3), (2, _ || _)"),
        ("o.(b, a) in c.(x, y)", "o.(a, b) in c.(y, x)"),
    ],
)
def test_normal_forms(text: str, normal: str) -> None:
    rule = normalise(parse_rule(text))
    assert rule.text == normal
    assert normalise(rule) == rule


def test_a_rule_of_s_alone_becomes_one_of_t() -> None:
    rule = Rule(DC((Predicate(Column("s", "a"), Op.LT, Constant(0)),)), "r")
    assert normalise(rule).text == "not(t.a < 0)"


@given(small_bodies, tables)
@settings(max_examples=400, deadline=None)
def test_normalising_keeps_every_violation(body: Body, rows: list[dict[str, Any]]) -> None:
    try:
        normal = normalise(Rule(body, "r"))
    except RuleError as error:
        if "can never be violated" in error.message:
            assert violations(body, rows) == set()
        else:
            refused = ("every row violates", "named twice", "contradicts itself")
            assert any(reason in error.message for reason in refused)
        return
    assert violations(normal.body, rows) == violations(body, rows)
    assert normalise(normal) == normal


@given(small_dcs)
@settings(max_examples=200, deadline=None)
def test_an_accepted_denial_constraint_can_be_violated(body: DC) -> None:
    # Complete over dense orders: four comparisons put at most three values between two constants (3, 7, 11).
    wide = DC(tuple(_spread(p) for p in body.predicates))
    if not Order(wide.predicates).possible:
        return
    read = sorted({(c.var, c.name) for p in wide.predicates for c in (p.left, p.right) if isinstance(c, Column)})
    assume(len(read) <= 4)
    assert any(_holds(wide, dict(zip(read, values))) for values in product(range(15), repeat=len(read)))


def _spread(predicate: Predicate) -> Predicate:
    if isinstance(predicate.right, Column):
        return predicate
    assert isinstance(predicate.right.value, int)
    return Predicate(predicate.left, predicate.op, Constant(predicate.right.value * 4 + 3))


def _holds(body: DC, values: dict[tuple[str, str], int]) -> bool:
    def value(side: Column | Constant) -> Any:
        return values[side.var, side.name] if isinstance(side, Column) else side.value

    return all(COMPARE[p.op](value(p.left), value(p.right)) for p in body.predicates)


@pytest.mark.parametrize(
    "texts",
    [
        ("key(a)", "not(t.a = s.a)", "not(s.a = t.a)"),
        ("key(a, b)", "key(b, a)", "not(t.b = s.b and t.a = s.a)"),
        (
            "zip -> city",
            "not(t.zip = s.zip and t.city != s.city)",
            "zip -> city, (_ || _)",
            "zip -> zip, city",
        ),
        ("not(t.a < s.b)", "not(t.b > s.a)", "not(s.a < t.b)"),
        ("not(t.a < s.a and t.b > s.b)", "not(t.a > s.a and t.b < s.b)"),
        ("not(t.a < 3)", "not(3.0 > x.a)", "not(t.a < decimal '3.00')"),
        ("not null(a, b)", "not null(b, a)"),
        ("a, b -> c, d", "b, a -> d, c"),
        ("o.(a, b) in c.(x, y)", "o.(b, a) in c.(y, x)"),
        ("[a=1.0, b] -> [c]", "[b, a=1] -> [c]"),
    ],
)
def test_same_fingerprint(texts: tuple[str, ...]) -> None:
    assert len({fingerprint(parse_rule(text)) for text in texts}) == 1


def test_different_fingerprints() -> None:
    texts = ["key(a)", "key(b)", "a -> b", "not null(a)", "not(t.a < s.b)", "not(t.a > s.b)", "not(t.a = 1)"]
    texts += [
        "not(t.a = true)",
        "not(t.a = '1')",
        "o.a in c.x",
        "p.a in c.x",
        "[a=1] -> [b]",
        "not(t.a < s.a)",
    ]
    texts += ["not(t.a = decimal '0.1000000000000000000001')", "not(t.a = 0.1)"]
    assert len({fingerprint(parse_rule(text)) for text in texts}) == len(texts)


def test_what_counts_for_a_fingerprint() -> None:
    rule = parse_rule("key(a)", where="x = 1 and (y = 2 or z = 3)")
    same = parse_rule("key(a)", name="n", severity="warn", description="d", where="(z = 3.0 or y = 2) and x = 1")
    assert fingerprint(rule) == fingerprint(same)
    assert fingerprint(rule) != fingerprint(parse_rule("key(a)"))
    assert fingerprint(rule) != fingerprint(parse_rule("key(a)", where="x = 2"))
    assert fingerprint(parse_rule("key(a)", table="t")) != fingerprint(parse_rule("key(a)"))
    assert fingerprint(parse_rule("a in c.x", table="o")) == fingerprint(parse_rule("o.a in c.x"))
    assert parse_condition("a = b") != parse_condition("b = a")
    assert fingerprint(parse_rule("key(k)", where="a < b")) == fingerprint(parse_rule("key(k)", where="b > a"))


def test_fingerprints_never_change_between_versions() -> None:
    # Stored states carry them: if this fails, states of older versions would not be recognised.
    assert fingerprint(parse_rule("zip -> city")) == "f18f7f4ac17cdb7e"
    assert fingerprint(parse_rule("[CC=44, zip] -> [street]", where="a = 'x'", table="t")) == "bbdcfbc8f41aae20"


@given(bodies)
@settings(max_examples=150, deadline=None)
def test_every_accepted_rule_has_a_fingerprint(body: Body) -> None:
    rule = Rule(body, "r")
    try:
        normal = normalise(rule)
    except RuleError:
        return
    assert fingerprint(rule) == fingerprint(normal)
    assert len(fingerprint(rule)) == 16
    assert fingerprint(parse_rule(text_of(normal.body))) == fingerprint(rule)


def test_a_pattern_is_kept_apart_from_its_look_alike() -> None:
    one, true = (CFD(("a",), ("b",), (Pattern((Constant(v),), (None,)),)) for v in (1, True))
    assert one == true  # Python's equality
    assert fingerprint(Rule(one, "r")) != fingerprint(Rule(true, "r"))
