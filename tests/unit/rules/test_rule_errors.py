"""Every refused rule says what was met, underlines the place and gives a hint."""

from __future__ import annotations

import pytest

from holdstrue.errors import RuleError
from holdstrue.rules import parse_condition, parse_rule
from holdstrue.rules.tokens import DENIAL

# The text, the part that must be underlined, a piece of the message and a piece of the hint.
SYNTAX = [
    ("zip -> 'city'", "'city'", "expected a column name, got 'city'", "backticks"),
    ("zip-code -> city", "-code", "cannot read '-'", "backticks"),
    ("1st -> city", "1st", "starts with a digit", "backticks"),
    ("not(t.a = 'x)", "'x)", "never closed", "''"),
    ("key(id", "", "expected ')' after the columns, but the text ends", ""),
    ("key()", ")", "expected a column name, got )", ""),
    ("key(a) key(b)", "key", "should end here", "one rule"),
    ("key(a, b, a)", "a", "'a' is named twice", "once"),
    ("a, a -> b", "a", "named twice", "once"),
    ("zip", "zip", "this is not a rule", "key(a)"),
    ("t.a < 3", "t", "expected not(...)", DENIAL),
    ("not(t.a ~ 3)", "~", "expected a comparison", DENIAL),
    ("not(t.a = )", ")", "expected a constant, got )", DENIAL),
    ("not(t.a = s.a or t.b < 3)", "or", "expected ')'", "one rule for each"),
    ("not(t.a = s.a and not t.b = 3)", "not", "expected a comparison", "opposite operator"),
    ("not t.a = 3", "t", "expected '('", DENIAL),
    ("not(t.a = null)", "null", "NULL cannot be compared", "not null(column)"),
    ("not(t.a = CA)", "CA", "which row's 'CA'", "'CA' in single quotes"),
    ("not(a = t.b)", "a", "which row's 'a'", "t.a"),
    ("not(1 = 2)", "1 = 2", "two constants", DENIAL),
    ("not(t.a = s.a and r.b < 3)", "r.b", "a third row variable 'r'", DENIAL),
    ("not(t.a = date '2024-13-01')", "'2024-13-01'", "is not a date", "date '2024-01-31'"),
    ("not(t.a = decimal 'x')", "'x'", "is not a decimal", "1.50"),
    ("not(t.a = '\\u{110000}')", "\\u{110000}", "no such character", "10FFFF"),
    ("[CC=44, zip] -> [street] with (44, _ || _)", "CC", "a constant here and a pattern", "tableau"),
    ("[CC, zip] -> [street] with (44 || _)", "(44 || _)", "1 || 1 values for 2 attributes", "one value or _"),
    ("[CC, zip] -> [street] with (44, _)", "(44, _)", "2 values for 2 attributes", "one value or _"),
    ("[CC, zip] -> [street] with (44, EDI || _)", "EDI", "expected a constant", "'quotes'"),
    ("[CC, zip -> [street]", "->", "expected ']'", ""),
    ("a in b", "b", "which table", "customers.b"),
    ("o.(a, b) in c.x", "o.(a, b) in c.x", "2 columns refer to 1", "same number"),
    ("orders.a in orders.a", "a", "can never be violated", "another table"),
    ("count()", "", "expected a comparison: = != < <= > >=, but the text ends", "count() > 1000"),
    ("count() >", "", "expected a constant, but the text ends", "against a number"),
    ("count() > 5 rows", "rows", "there is no unit 'rows'", "hours"),
    ("count() > 5 > 4", ">", "should end here", "one rule"),
    ("sum() > 3", "sum()", "sum of which column?", "sum(column)"),
    ("orders.sum(orders.total) > 3", "orders.sum(orders.total)", "named twice", "orders.sum(total)"),
    ("avg(total) > 3", "avg", "no such measure", "sum(column)"),
    ("row_count() > 3", "row_count", "no such measure", "count()"),
    ("age(at) < 2 days", "age", "no such measure", "fresh(column)"),
    ("fresh(at) < 2", "fresh(at) < 2", "a length of time", "2 days"),
    ("fresh(at) < 2 moons", "moons", "there is no unit 'moons'", "weeks"),
    ("fresh(at) = 2 days", "fresh(at) = 2 days", "freshness by =", "<"),
    ("fresh(a) < max(b)", "fresh(a) < max(b)", "a length of time", "2 days"),
    ("sum(a) < 2 days", "sum(a) < 2 days", "no length of time", "fresh"),
    ("orders.count() > count()", "orders.count() > count()", "of which table is count()?", "orders.count()"),
    ("count() >= 0", "count()", "can never be violated", "another number"),
    ("count() != 1.5", "count()", "can never be violated", "another number"),
    ("sum(a) <= sum(a)", "sum(a)", "can never be violated", "another number"),
    ("count() between 5 and 2", "count()", "nothing lies between", "smaller"),
    ("t1&t2&XX(t1.a,t2.a)", "XX", "unknown operator 'XX'", "EQ IQ LT GT LTE GTE"),
    ("t1&t2&EQ(t1.a,t3.a)", "t3.a", "expected t1.column or t2.column", DENIAL),
    ("t1&t2&EQ(t1.a)", "EQ(t1.a)", "one side", DENIAL),
    ("t1&t2&EQ(t1.a,t2.a", "EQ(t1.a,t2.a", "expected a comparison", DENIAL),
    ("[DC: t0.a ? t1.a  ]", "t0.a ? t1.a", "expected a comparison", DENIAL),
    ("[DC: t0.a == b  ]", "b", "expected a column", DENIAL),
    ("[DC: t0.a == t1.a", "", "expected ']'", DENIAL),
    ("[DC: ]", "[DC: ]", "empty", DENIAL),
]

NEVER = [
    ("not(t.a < s.a and t.a > s.a)", "t.a > s.a", "t.a < s.a and t.a > s.a cannot hold together"),
    ("not(t.a = 3 and t.b = 1 and t.a = 4)", "t.a = 4", "t.a = 3 and t.a = 4 cannot hold together"),
    ("not(t.a < t.a)", "t.a < t.a", "t.a < t.a cannot hold"),
    ("not(t.a != t.a and t.b = s.b)", "t.a != t.a", "t.a != t.a cannot hold"),
    ("not(t.a > 5 and t.a < 3)", "t.a < 3", "t.a > 5 and t.a < 3 cannot hold together"),
    ("not(t.a < s.a and s.a <= t.a)", "s.a <= t.a", "t.a < s.a and s.a <= t.a cannot"),
    ("not(t.a < s.b and s.b <= t.c and t.c = t.a)", "t.c = t.a", "cannot hold together"),
    ("not(t.a = s.b and s.b = t.c and t.a != t.c)", "t.a != t.c", "cannot hold together"),
    ("not(t.a = 'x' and t.a = t.b and t.b = 'y')", "t.b = 'y'", "cannot hold together"),
    ("not(t.a >= s.a and t.a <= s.a and t.a != s.a)", "t.a != s.a", "cannot hold together"),
    ("not(t.a <= s.b and s.b <= t.c and t.a != s.b and t.c <= t.a)", "t.c <= t.a", "cannot hold together"),
    ("not(t.a = date '2024-01-01' and t.a < date '2023-01-01')", "t.a < date '2023-01-01'", "cannot hold"),
    ("not(t.a = float 'nan' and t.a != float 'nan')", "t.a != float 'nan'", "cannot hold"),
]


def underlined(error: RuleError) -> str:
    """The marked part of the message's shown line."""
    lines = error.message.split("\n")
    marks = next(i for i, line in enumerate(lines) if line.strip() and set(line.strip()) == {"^"})
    start = lines[marks].index("^")
    return lines[marks - 1][start : start + lines[marks].count("^")]


@pytest.mark.parametrize(("text", "place", "message", "hint"), SYNTAX)
def test_a_bad_text_is_underlined(text: str, place: str, message: str, hint: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule(text)
    assert message in caught.value.message
    assert underlined(caught.value) == place
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(("text", "place", "message"), NEVER)
def test_a_rule_that_contradicts_itself_is_refused(text: str, place: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule(text)
    assert "can never be violated" in caught.value.message
    assert message in caught.value.message
    assert underlined(caught.value) == place
    assert DENIAL in (caught.value.hint or "")


def test_a_whole_message() -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule("not(t.a < s.a and t.a > s.a)")
    assert str(caught.value) == (
        "this denial constraint can never be violated: t.a < s.a and t.a > s.a cannot hold together\n"
        "  not(t.a < s.a and t.a > s.a)\n"
        "                    ^^^^^^^^^\n"
        "hint: a denial constraint lists what must never hold together: "
        "describe a violation, not the healthy state"
    )


@pytest.mark.parametrize("text", ["not(t.a = t.a)", "not(t.a <= t.a and t.b >= t.b)", "not(t.a = t.a and s.b = s.b)"])
def test_a_rule_that_every_row_violates_is_refused(text: str) -> None:
    with pytest.raises(RuleError, match="every row violates this rule") as caught:
        parse_rule(text)
    assert DENIAL in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["a, b -> a", "a -> a", "[a=1, b] -> [a]", "[a=1, b] -> [a=1]", "a, b -> b, a"])
def test_a_trivial_dependency_is_refused(text: str) -> None:
    with pytest.raises(RuleError, match="can never be violated"):
        parse_rule(text)


@pytest.mark.parametrize(
    "text",
    [
        "not(t.a != s.a and t.b != s.b)",
        "not(t.a < s.b and s.a < t.b)",
        "not(t.a > 3 and t.a < 4)",
        "not(t.a = 3 and t.a = 'x')",
        "not(t.a <= s.a and t.a >= s.a)",
        "[zip=3, CC] -> [CC=44]",
    ],
)
def test_a_rule_that_can_be_violated_is_kept(text: str) -> None:
    assert parse_rule(text).text == text


@pytest.mark.parametrize("text", ["", "   ", "# nothing"])
def test_an_empty_rule(text: str) -> None:
    with pytest.raises(RuleError, match="the rule is empty"):
        parse_rule(text)


def test_deep_nesting_is_refused_not_a_crash() -> None:
    for text in ("not(" + "(" * 5000, "not(" + "(" * 5000 + "t.a = 1" + ")" * 5001):
        with pytest.raises(RuleError, match="nested too deeply"):
            parse_rule(text)
    with pytest.raises(RuleError, match="nested too deeply"):
        parse_condition("not " * 5000 + "a")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "", "the filter is empty"),
        ("a = 1 b", "b", "expected and, or"),
        ("a not 1", "not", "expected a comparison"),
        ("a is 3", "3", "expected 'null'"),
        ("a in 3", "3", "expected '('"),
        ("a in (b)", "b", "expected a constant"),
        ("s.a = 1", "s.a", "one row t"),
        ("1 = 2", "1 = 2", "two constants"),
        ("(a = 1", "", "expected ')'"),
        ("a = null", "null", "NULL cannot be compared"),
        ("a between 1 or 2", "or", "expected 'and'"),
    ],
)
def test_bad_filters(text: str, place: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_condition(text)
    assert message in caught.value.message
    assert underlined(caught.value) == place
