"""Rules of every kind over a small table of awkward values, for databases that answer rules written as SQL."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa

from holdstrue import RuleSet, check, load_rules
from laws.test_detection import found

NAN = float("nan")
DAY, LATER = dt.date(2024, 1, 1), dt.date(2024, 6, 1)
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "a": 1, "b": 2, "c": "it's", "d": 0.0, "e": "é", "g": DAY, "h": Decimal("1.50"), "z": NOON},
    {"id": 2, "a": 1, "b": None, "c": "x\\", "d": -0.0, "e": "Z", "g": LATER, "h": Decimal("1.49"), "z": NOON},
    {"id": 3, "a": 1, "b": 2**63 - 1, "c": "it's", "d": NAN, "e": "a", "g": DAY, "h": None, "z": None},
    {"id": 4, "a": None, "b": 2, "c": None, "d": NAN, "e": None, "g": None, "h": Decimal("-3.00"), "z": NOON},
    {"id": 5, "a": 2, "b": 5, "c": "a\nb", "d": 1.5, "e": "日", "g": DAY, "h": Decimal("1.50"), "z": None},
    {"id": 6, "a": None, "b": 5, "c": None, "d": 1.5, "e": "\U0001f600", "g": None, "h": Decimal("2.00"), "z": NOON},
]
SCHEMA = pa.schema(
    {
        "id": pa.int64(), "a": pa.int32(), "b": pa.int64(), "c": pa.string(), "d": pa.float64(), "e": pa.string(),
        "g": pa.date32(), "h": pa.decimal128(10, 2), "z": pa.timestamp("us", "UTC"),
    }
)  # fmt: skip
TABLE = pa.Table.from_pylist(ROWS, schema=SCHEMA)
OTHER = pa.table({"x": pa.array([1, 1, None, 5], pa.int64()), "y": ["it's", None, "é", "a\nb"]})
RULES = [
    "key(a)", "key(d)", "key(a, c)", "a -> b, c", "d -> c", "not null(b, c)", "not(t.d > 1.4)", "not(t.d = 0)",
    "not(t.c = 'it''s')", "not(t.c = 'x\\\\')", "not(t.c != 'a\nb')", "not(t.a < 1.5)", "not(t.b <= t.a)",
    "not(t.e < s.e and t.id > s.id)", "not(t.h > 1.495)", "not(t.g = s.g and t.h > s.h)", "not(t.d < s.d)",
    "not(t.z = '2024-01-01T13:00+01:00')", "not(t.g > '2024-02-01')", "not(t.a = s.b)",
    "not(t.b > t.d)", "not(t.d >= t.b)", "not(t.d != t.b)", "not(t.a != s.a and t.d = s.d)",
    "[a=1, g] -> [c]", "[g, a] -> [h, d] with (date '2024-01-01', _ || decimal '1.50', _), (_, 1 || _, float 'nan')",
    "data.(a, c) in other.(x, y)", "a between 1 and 2", "c in ('é', 'a\nb')", "len(c) between 2 and 3", "len(e) != 1",
    "c matches '^.$'", "c not matches '[^a-z]'", "e matches '^(x|.*[^\\w])$'", "c matches '\\\\$'",
]  # fmt: skip
FILTERS = [None, "not (b >= 5) or c is null"]


def entries() -> list[dict[str, str]]:
    return [
        {"name": f"{i} {where}", "rule": text} | ({} if where is None else {"where": where})
        for i, text in enumerate(RULES)
        for where in FILTERS
    ]


def expected(nulls: Literal["unknown", "equal"]) -> tuple[RuleSet, dict[str, set[tuple[Any, ...]]]]:
    """The rules, and what `check` finds of each."""
    rules = replace(load_rules(entries()), table="data", nulls=nulls)
    report = check({"data": TABLE, "other": OTHER}, rules, key="id", limit=None)
    return rules, {rule.name: found(report).get(rule.name, set()) for rule in rules}


MEASURES = [
    "count() > 5", "count() > 6", "count(a) = 4", "count(a) between 5 and 9", "sum(b) > 9223372036854775807",
    "sum(b) <= 9223372036854775807", "sum(h) = 3.49", "sum(h) < 3.495", "min(a) >= 1", "max(b) < 9223372036854775807",
    "max(h) > 1.9999", "min(g) = date '2024-01-01'", "max(z) < timestamp '2024-01-01T13:00+01:00'",
    "data.count() > other.count()", "data.count() = other.count(y)", "data.sum(a) < other.sum(x)",
    "fresh(g) < 1 day", "fresh(g) > 1 day", "fresh(z) <= 3 hours", "fresh(z) > 3 hours", "count() = count(b)",
]  # fmt: skip
"""Rules about whole tables, of which about half are broken."""


def measured() -> tuple[RuleSet, dict[str, int]]:
    """Rules about whole tables, with and without a filter, and which of them `check` finds broken."""
    texts = [
        {"name": f"{i} {where}", "rule": text} | ({} if where is None else {"where": where})
        for i, text in enumerate(MEASURES)
        for where in FILTERS
    ]
    rules = replace(load_rules(texts), table="data")
    report = check({"data": TABLE, "other": OTHER}, rules, key="id")
    found_ = {result.rule.name: result.counts.open for result in report.results}
    assert len(found_) / 3 < sum(found_.values()) < 2 * len(found_) / 3
    return rules, found_
