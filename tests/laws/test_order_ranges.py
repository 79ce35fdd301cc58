"""Order rules that go by ranges: a check in shards says what one process and the oracle say, whatever the types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import holdstrue
from holdstrue import HoldstrueError, load_rules
from holdstrue.monitor import order_ranges
from holdstrue.monitor.sharded_check import ShardedFindings, from_scratch
from holdstrue.rules import Rule, RuleSet
from holdstrue.shards import hot
from holdstrue.shards import routes as work
from holdstrue.shards.lists import by_table, violation_of
from holdstrue.shards.ranges import is_ranged
from holdstrue.shards.runner import Sizing
from laws.shards import Loops
from laws.test_detection import assert_counts
from laws.test_moving_rows import assert_listed, cut_somewhere
from translate import expected

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int64(), [0, 1, 2, 3, 2**63 - 1, -(2**63)]),
    "short": (pa.int16(), [0, 1, 2, -7]),
    "unsigned": (pa.uint64(), [0, 1, 2**64 - 1, 2**63]),
    "float": (pa.float64(), [0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf")]),
    "text": (pa.string(), ["", "a", "b", "ab", "é", "\uffff", "\U0001f600"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
    "price": (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("-1.50"), Decimal("7.25")]),
    "long": (pa.decimal128(38, 3), [Decimal("0.000"), Decimal("-99999999999999999999.5"), Decimal("1E+20")]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 3, 29)]),
    "moment": (
        pa.timestamp("us"),
        [dt.datetime(1582, 10, 10, 3), dt.datetime(2026, 3, 29, 2, 30), dt.datetime(2026, 1, 1)],
    ),
    "clock": (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999)]),
}
SCHEMA = pa.schema(
    {"id": pa.int64(), "cell": pa.int64(), "part": pa.int64()} | {name: own for name, (own, _) in TYPES.items()}
)


class Counted(Loops):
    """Tables whose rows are known before they are read, as those of Parquet files are."""

    def known_rows(self, frame: list[pa.Table]) -> int | None:
        return self.count(frame)


@contextmanager
def thresholds(data: st.DataObject) -> Iterator[None]:
    """Sizes at which anything changes, so small that a few rows pass them."""
    small: list[tuple[Any, str, Any]] = [
        (order_ranges, "LEAST_CUTS", data.draw(st.sampled_from([1, 2, 4]))),
        (order_ranges, "CUTS_A_TASK", data.draw(st.sampled_from([0, 1]))),
        (order_ranges, "SAMPLE", data.draw(st.sampled_from([1, 3, 100]))),
        (order_ranges, "_pays", lambda *_: True),
        (hot, "SPREAD_FROM", 3),
        (hot, "SEEN_AT_LEAST", data.draw(st.sampled_from([1, 32]))),
        (work, "CROWDED", data.draw(st.sampled_from([3, 1000]))),
        (work, "SPREAD_FROM", 3),
    ]
    with ExitStack() as stack:
        for module, name, value in small:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


@st.composite
def order_rule(draw: st.DrawFn) -> str:
    """One to five inequalities of columns with themselves; conditions on one of the rows, and what ranges do not do."""
    terms = []
    for name in draw(st.lists(st.sampled_from([*TYPES]), min_size=1, max_size=5, unique=True)):
        terms.append(f"t.{name} {draw(st.sampled_from(['<', '<=', '>', '>=']))} s.{name}")
    if draw(st.integers(0, 2)) == 0:
        terms.append(f"{draw(st.sampled_from('ts'))}.part {draw(st.sampled_from(['=', '<', '!=']))} 1")
    other = draw(st.integers(0, 9))
    if other < 2:
        name = draw(st.sampled_from([*TYPES]))
        terms.append(f"t.{name} {'=' if other else '!='} s.{name}")
    return f"not({' and '.join(draw(st.permutations(terms)))})"


def draw_rules(data: st.DataObject) -> RuleSet:
    rules: list[Rule] = []
    for i, text in enumerate(data.draw(st.lists(order_rule(), min_size=1, max_size=3))):
        try:
            rules.extend(load_rules([{"name": f"r{i}", "rule": text}]))
        except HoldstrueError:
            continue  # it can never be violated
    if data.draw(st.booleans()):
        rules.extend(
            load_rules([{"name": "key", "rule": "key(part, short)"}, {"name": "one", "rule": "not(t.part = 1)"}])
        )
    assume(rules)
    return RuleSet(tuple(rules))


def draw_rows(data: st.DataObject) -> list[dict[str, Any]]:
    size = data.draw(st.integers(1, 14))
    few = {
        name: data.draw(st.lists(st.sampled_from([*own, None]), min_size=1, max_size=4))
        for name, (_, own) in TYPES.items()
    }
    return [
        {"id": i, "cell": -i, "part": data.draw(st.sampled_from([0, 1, None]))}
        | {name: data.draw(st.sampled_from(own)) for name, own in few.items()}
        for i in range(size)
    ]


def listed(checked: ShardedFindings) -> list[Any]:
    return [violation_of(row) for table in by_table(checked.lists) for row in table.to_pylist()]


@SETTINGS
@given(data=st.data())
def test_a_check_by_ranges(data: st.DataObject) -> None:
    rules, rows = draw_rules(data), draw_rows(data)
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    parts = cut_somewhere(data, table)
    key: tuple[str, ...] = data.draw(st.sampled_from([(), ("id",), ("id", "part"), ("cell",)]))
    names: list[Any] = [(at << 33) + i for at, part in enumerate(parts) for i in range(part.num_rows)]
    if key:
        names = [row[key[0]] if len(key) == 1 else (row["id"], row["part"]) for row in rows]
    tasks, limit = data.draw(st.sampled_from([2, 3, 5])), data.draw(st.sampled_from([0, 1, 2, 5, 20, 1000]))
    with thresholds(data):
        sizing = Sizing(hot_from=data.draw(st.sampled_from([0, 1000])))
        checked = from_scratch(Counted(tasks), {"data": parts}, rules, "data", key, limit, "blocks", sizing)
    truth = expected(rules, rows, names)
    assert_counts({result.rule.name: result.counts for result in checked.results}, truth)
    one = holdstrue.check(table, rules, key=key or None)
    assert [(r.counts, r.status) for r in checked.results] == [(r.counts, r.status) for r in one.results]
    for rule in rules:
        own = [violation for violation in listed(checked) if violation.rule == rule.name]
        assert_listed(own[:limit], {rule.name: truth[rule.name]}, limit)


@pytest.mark.parametrize("share", [False, True])
def test_rules_go_by_ranges(share: bool) -> None:
    """What the law is about happens: also where rows share a key, and where a value fills its range."""
    rows = [{"id": i % 4 if share else i, "whole": i % 3, "short": -(i // 2)} for i in range(40)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    rules = load_rules(
        ["not(t.whole > s.whole and t.short < s.short)", "not(t.whole <= s.whole and t.short < s.short)"]
    )
    with mock.patch.multiple(order_ranges, _pays=lambda *_: True, LEAST_CUTS=4):
        checked = from_scratch(Counted(2), {"data": [table]}, rules, "data", ("id",), 10, "blocks", Sizing())
    assert checked.ranges is not None
    [ranged] = checked.ranges.tables.values()
    assert [*ranged.checks] == [0, 1]
    assert not any(is_ranged(check) for check in checked.ranges.plan.checks)
    assert "by ranges (7 of whole, 41 of short)" in next(checked.ranges.explain())
    one = holdstrue.check(table, rules, key="id")
    assert [r.counts for r in checked.results] == [r.counts for r in one.results]


@pytest.mark.parametrize(
    ("sizing", "most", "tasks"), [(Sizing(blocks=3), 5, 2), (Sizing(), work.MOST, 2), (Sizing(), 5, 1)]
)
def test_where_ranges_are_not_asked_for(sizing: Sizing, most: int, tasks: int) -> None:
    table = pa.Table.from_pylist([{"id": i, "whole": i, "short": i} for i in range(9)], schema=SCHEMA)
    rules = load_rules(["not(t.whole > s.whole and t.short < s.short)"])
    with mock.patch.object(order_ranges, "_pays", lambda *_: True):
        checked = from_scratch(Counted(tasks), {"data": [table]}, rules, "data", ("id",), most, "blocks", sizing)
    assert checked.ranges is None
