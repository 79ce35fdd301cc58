"""Rules about whole tables: how they are written, and what says the same."""

from __future__ import annotations

import pytest

from holdstrue.errors import RuleError
from holdstrue.rules import dump_rules, fingerprint, load_rules, parse_rule, review


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("COUNT(*) >= 1", "count() >= 1"),
        ("1000 < count()", "count() > 1000"),
        ("sum(orders.total) = sum(lines.amount)", "orders.sum(total) = lines.sum(amount)"),
        ("sales.orders.count() > 3", "`sales.orders`.count() > 3"),
        ("fresh(updated_at) < 1 hour", "fresh(updated_at) < 1 hour"),
        ("fresh(updated_at) < 2 DAYS", "fresh(updated_at) < 2 days"),
        ("max(`key`) <= 1.5", "max(`key`) <= 1.5"),
        ("min(day) between date '2024-01-01' and date '2024-12-31'",) * 2,
    ],
)
def test_texts(written: str, printed: str) -> None:
    rule = parse_rule(written)
    assert rule.text == printed
    assert parse_rule(printed).body == rule.body
    assert load_rules(dump_rules(load_rules([written]))).rules[0].body == rule.body


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("fresh(a) < 2 days", "fresh(a) < 48 hours"),
        ("count() > 3", "count() > 3.0"),
        ("sum(a) <= sum(b)", "sum(b) >= sum(a)"),
        ("orders.sum(a) < 3", "sum(orders.a) < 3"),
    ],
)
def test_what_says_the_same_has_one_fingerprint(one: str, other: str) -> None:
    assert fingerprint(parse_rule(one)) == fingerprint(parse_rule(other))
    assert [finding.kind for finding in review([parse_rule(one), parse_rule(other, name="other")])] == ["duplicate"]


def test_what_says_something_else_has_another() -> None:
    texts = ["count() > 3", "count(a) > 3", "sum(a) > 3", "max(a) > 3", "orders.count() > 3", "count() >= 3"]
    assert len({fingerprint(parse_rule(text)) for text in texts}) == len(texts)
    assert review([*map(parse_rule, texts), parse_rule("key(a)"), parse_rule("not(t.a > 3)")]) == ()


def test_names_that_are_measures_elsewhere_are_names_of_columns_too() -> None:
    assert parse_rule("count -> sum, max").kind == "fd"
    assert parse_rule("not(t.count > 3 and t.fresh = s.fresh)").kind == "dc"


def test_a_tolerance_is_refused() -> None:
    with pytest.raises(RuleError, match="a tolerance, which counts rows"):
        load_rules([{"rule": "count() > 1000", "tolerance": "1%"}])


def test_words() -> None:
    assert parse_rule("orders.sum(total) >= 3").body.words == "the sum of total of orders is at least 3"
    assert parse_rule("fresh(at) < 2 days").body.words == "the age of the newest at is less than 2 days"
