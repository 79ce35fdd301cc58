"""Texts of every syntax parse to the bodies they mean, and print back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings

from holdstrue.rules import (
    CFD,
    DC,
    FD,
    Body,
    Column,
    Condition,
    Constant,
    Inclusion,
    Key,
    NotNull,
    Op,
    Pattern,
    Predicate,
    condition_text,
    parse_condition,
    parse_rule,
    text_of,
)
from holdstrue.rules.parser import parse_body
from unit.rules.strategies import bodies, conditions


def T(name: str) -> Column:
    """A column of the first row."""
    return Column("t", name)


def S(name: str) -> Column:
    """A column of the second row."""
    return Column("s", name)


TWO = "not(t.a = s.a and t.b < s.b)"

BODIES: list[tuple[str, Body]] = [
    ("key(id)", Key(("id",))),
    ("KEY ( area_code, phone )", Key(("area_code", "phone"))),
    ("zip -> city, state", FD(("zip",), ("city", "state"))),
    ("[zip] → [city]", FD(("zip",), ("city",))),
    ("key -> `key`", FD(("key",), ("key",))),
    ("[CC=44, zip] -> [street]", CFD(("CC", "zip"), ("street",), (Pattern((Constant(44), None), (None,)),))),
    (
        "([CC=44, zip] -> [street])",
        CFD(("CC", "zip"), ("street",), (Pattern((Constant(44), None), (None,)),)),
    ),
    (
        "[CC=44, AC=131] -> [city='EDI']",
        CFD(("CC", "AC"), ("city",), (Pattern((Constant(44), Constant(131)), (Constant("EDI"),)),)),
    ),
    (
        "[CC, zip] -> [street] with (44, _ || _), (01, 'x' || 'y')",
        CFD(
            ("CC", "zip"),
            ("street",),
            (Pattern((Constant(44), None), (None,)), Pattern((Constant(1, "01"), Constant("x")), (Constant("y"),))),
        ),
    ),
    (
        "Dept, Title -> BP, (1, 2 || 2000)",
        CFD(("Dept", "Title"), ("BP",), (Pattern((Constant(1), Constant(2)), (Constant(2000),)),)),
    ),
    (
        "([CC, zip] -> [street], tp = (44, _, _))",
        CFD(("CC", "zip"), ("street",), (Pattern((Constant(44), None), (None,)),)),
    ),
    ("a -> b, (_ ∥ _)", CFD(("a",), ("b",), (Pattern((None,), (None,)),))),
    ("not null(col)", NotNull(("col",))),
    ("not null(a, `b c`)", NotNull(("a", "b c"))),
    ("orders.customer_id in customers.id", Inclusion("orders", ("customer_id",), "customers", ("id",))),
    ("orders.(a, b) in customers.(x, y)", Inclusion("orders", ("a", "b"), "customers", ("x", "y"))),
    ("orders[a, b] ⊆ customers[x, y]", Inclusion("orders", ("a", "b"), "customers", ("x", "y"))),
    ("customer_id in customers.id", Inclusion(None, ("customer_id",), "customers", ("id",))),
    ("(a, b) in customers.(x, y)", Inclusion(None, ("a", "b"), "customers", ("x", "y"))),
    ("sales.orders.id in `x.y`.z", Inclusion("sales.orders", ("id",), "x.y", ("z",))),
    ("not(t.age < 0)", DC((Predicate(T("age"), Op.LT, Constant(0)),))),
    ("not(x.age < 0)", DC((Predicate(T("age"), Op.LT, Constant(0)),))),
    ("not(s.age < 0)", DC((Predicate(T("age"), Op.LT, Constant(0)),))),
    ("not(0 > t.age)", DC((Predicate(T("age"), Op.LT, Constant(0)),))),
    (
        "not(AT > 20 and IL >= 10)",
        DC((Predicate(T("AT"), Op.GT, Constant(20)), Predicate(T("IL"), Op.GE, Constant(10)))),
    ),
    ('not("zip code" = "a b")', DC((Predicate(T("zip code"), Op.EQ, Constant("a b")),))),
    (
        "not(t.`a``b` = 'it''s' and t.c != \"say \\\"hi\\\"\")",
        DC((Predicate(T("a`b"), Op.EQ, Constant("it's")), Predicate(T("c"), Op.NE, Constant('say "hi"')))),
    ),
    (
        "not(t.origin = s.dest and t.d != s.d)",
        DC((Predicate(T("origin"), Op.EQ, S("dest")), Predicate(T("d"), Op.NE, S("d")))),
    ),
]


@pytest.mark.parametrize(("text", "body"), BODIES)
def test_a_text_means_its_body(text: str, body: Body) -> None:
    assert parse_body(text).body == body
    assert parse_body(text_of(body)).body == body


@pytest.mark.parametrize(
    "text",
    [
        TWO,
        "NOT(t.a == s.a AND t.b < s.b)",
        "!(t.a = s.a && t.b < s.b)",
        "¬(t.a = s.a ∧ t.b < s.b)",
        "¬{ t.a == s.a ∧ t.b < s.b }",
        "not(t.a = s.a & t.b < s.b)",
        "not(t.a = s.a, t.b < s.b)",
        "not((t.a = s.a) and (t.b < s.b))",
        "∀t,s: ¬(t.a = s.a and t.b < s.b)",
        "forall t, s: not(t.a = s.a and t.b < s.b)",
        "∀ s, t ∈ r: ¬(t.a = s.a ∧ t.b < s.b)",
        "not(t1.a = t2.a and t1.b < t2.b)",
        "not(t0.a = t1.a and t0.b < t1.b)",
        "not(t.a = t'.a and t.b < t'.b)",
        "not(r1.a = r2.a and r1.b < r2.b)",
        "not(x.a = y.a and x.b < y.b)",
        "forall y, x: not(y.a = x.a and y.b < x.b)",
        "t1&t2&EQ(t1.a,t2.a)&LT(t1.b,t2.b)",
        " t1 & t2 & EQ( t1.a , t2.a ) & LT(t1.b, t2.b) ",
        "[DC: t0.a == t1.a  t0.b < t1.b  ]",
        "not(t.a = s.a and t.b < s.b)  # a comment",
    ],
)
def test_spellings_of_one_denial_constraint(text: str) -> None:
    assert text_of(parse_body(text).body) == TWO


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("!(s.A == t.A and s.B < t.B)", "not(s.A = t.A and s.B < t.B)"),
        ("not(t2.a < t1.a)", "not(s.a < t.a)"),
        ("not(y.a < x.a)", "not(t.a < s.a)"),
        ("t1&t2&GT(t2.a,t1.a)", "not(s.a > t.a)"),
        ('t1&t2&EQ(t2.a,"x")', "not(t.a = 'x')"),
        ('t1&EQ(t1.a,"x, y)")', "not(t.a = 'x, y)')"),
        ("t1&t2&EQ(t1.Bed & Board (n),t2.Bed & Board (n))", "not(t.`Bed & Board (n)` = s.`Bed & Board (n)`)"),
        ("t1&t2&LTE(t1.a,t2.a)&GTE(t1.b,-3)&IQ(t1.c,2.5)", "not(t.a <= s.a and t.b >= -3 and t.c != 2.5)"),
        ("¬{ t0.a(String) == t1.a(String) }", "not(t.`a(String)` = s.`a(String)`)"),
        (
            "[DC: t0.zip code(String) == t1.b c  t0.x <> t1.x]",
            "not(t.`zip code(String)` = s.`b c` and t.x != s.x)",
        ),
        ("not(t.a <> s.a ∧ t.b ≠ s.b)", "not(t.a != s.a and t.b != s.b)"),
        ("not(t.c ≤ s.c ∧ t.d ≥ s.d)", "not(t.c <= s.c and t.d >= s.d)"),
    ],
)
def test_roles_and_foreign_syntaxes(text: str, printed: str) -> None:
    assert text_of(parse_body(text).body) == printed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-3", -3),
        ("+3", 3),
        ("2.50", 2.5),
        ("-1.5e3", -1500.0),
        (".5", 0.5),
        ("1.00000000000000000001", Decimal("1.00000000000000000001")),
        ("1e400", Decimal("1e400")),
        ("true", True),
        ("FALSE", False),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r"'C:\new'", r"C:\new"),
        (r"'a\\b'", r"a\b"),
        (r"'\u{1F600}'", "😀"),
        ('"x"', "x"),
        ("date '2024-01-01'", dt.date(2024, 1, 1)),
        ("timestamp '2024-01-01 10:30:00'", dt.datetime(2024, 1, 1, 10, 30)),
        ("timestamp '2024-01-01T10:30:00Z'", dt.datetime(2024, 1, 1, 10, 30, tzinfo=dt.UTC)),
        ("decimal '1.50'", Decimal("1.50")),
        ("float '-inf'", float("-inf")),
    ],
)
def test_constants(text: str, value: Any) -> None:
    body = parse_body(f"not(t.a = {text})").body
    assert isinstance(body, DC)
    (predicate,) = body.predicates
    assert isinstance(predicate.right, Constant)
    assert (type(predicate.right.value), predicate.right.value) == (type(value), value)


@given(bodies)
@settings(max_examples=400, deadline=None)
def test_printing_then_parsing_is_the_identity(body: Body) -> None:
    again = parse_body(text_of(body)).body
    assert again == body
    # True == 1 == 1.0 in Python; the types must survive as well.
    assert repr(again) == repr(body)
    assert "\n" not in text_of(body)


@given(conditions)
@settings(max_examples=300, deadline=None)
def test_filters_print_and_parse_back(condition: Condition) -> None:
    assert repr(parse_condition(condition_text(condition))) == repr(condition)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("state = 'CA' and (age > 5 or not vip = true)", "state = 'CA' and (age > 5 or not vip = true)"),
        ("t.x is null or X IS NOT NULL", "x is null or X is not null"),
        ("x in (1, 2, 3)", "x = 1 or x = 2 or x = 3"),
        ("x in ('a')", "x = 'a'"),
        ("x not in (1, 2)", "x != 1 and x != 2"),
        ("x between 1 and 5 and y", "(x >= 1 and x <= 5) and y = true"),
        ("not x between 1 and 5", "not (x >= 1 and x <= 5)"),
        ("x not between 1 and 5", "x < 1 or x > 5"),
        ("3 < x", "x > 3"),
        ("date '2024-01-01' <= date", "date >= date '2024-01-01'"),
        ('"zip code" = "a"', "`zip code` = 'a'"),
        ("a != b", "a != b"),
        ("not vip", "not vip = true"),
    ],
)
def test_filters(text: str, printed: str) -> None:
    assert condition_text(parse_condition(text)) == printed


def test_places_are_kept_for_messages() -> None:
    text = "not(t1.`zip code` = t2.zip and 3 < t1.age)"
    source = parse_rule(text).source
    assert source is not None
    shown = {name: text[start:end] for name, start, end in source.spans}
    assert shown["t.zip code"] == "t1.`zip code`"
    assert shown["s.zip"] == "t2.zip"
    assert shown["t.`zip code` = s.zip"] == shown["s.zip = t.`zip code`"] == "t1.`zip code` = t2.zip"
    assert shown["t.age > 3"] == "3 < t1.age"
    source = parse_rule("[CC=44, zip] -> [street]").source
    assert source is not None and source.span("zip") == (8, 11) and source.span("nothing") == (0, 24)


def test_names_and_fields() -> None:
    rule = parse_rule("zip->city", where="a = 1", severity="warn", description="d", table="t")
    assert (rule.name, rule.kind, rule.text) == ("zip -> city where a = 1", "fd", "zip -> city")
    assert (rule.severity, rule.description, rule.table) == ("warn", "d", "t")
    assert parse_rule("key(a)", name="mine").name == "mine"
    kinds = [parse_rule(t).kind for t in ("key(a)", "a->b", "[a=1]->[b]", TWO, "not null(a)", "a in b.c")]
    assert kinds == ["key", "fd", "cfd", "dc", "not_null", "inclusion"]
