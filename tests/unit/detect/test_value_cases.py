"""Answers that were wrong once, because of what happened to values before they were compared."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import HoldstrueError, Monitor, check, discover

QTY = pa.table(
    {
        "id": [1, 2],
        "qty": pa.array([5, 7], pa.int64()),
        "price": pa.array([Decimal("1.00"), Decimal("9.50")], pa.decimal128(12, 2)),
    }
)
LONG = pa.table(
    {
        "id": [1],
        "a": pa.array([Decimal("1.50")], pa.decimal128(20, 2)),
        "b": pa.array([Decimal("1.50")], pa.decimal128(38, 18)),
    }
)
ZIPS = pa.table({"id": [1, 2, 3, 4], "zip": ["01907", "1907", "1.50", "+5"], "city": ["a", "b", "c", "d"]})


def keys(data: Any, rule: Any, **more: Any) -> list[Any]:
    return [v.t if v.s is None else (v.t, v.s) for v in check(data, rule, key="id", limit=None, **more)]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("not(t.qty > t.price)", [1]),
        ("not(t.qty < t.price)", [2]),
        ("not(t.qty > s.price)", [(2, 1)]),
        ({"rule": "key(id)", "where": "qty > price"}, []),
    ],
)
def test_integers_beside_decimals(rule: Any, wanted: list[Any]) -> None:
    assert keys(QTY, [rule]) == wanted
    assert keys(pa.concat_tables([QTY, QTY.schema.empty_table()]), [rule]) == wanted
    gap = pa.table({"id": [9], "qty": pa.nulls(1, pa.int64()), "price": pa.nulls(1, pa.decimal128(12, 2))})
    assert keys(pa.concat_tables([QTY, gap]), [rule]) == wanted, "with a NULL in the batch the answer is the same"


def test_integers_in_decimals() -> None:
    tables = {"r": pa.table({"id": [1, 2], "x": [5, 7]}), "q": pa.table({"y": pa.array([Decimal("5.00")])})}
    assert [v.t for v in check(tables, "r.x in q.y", key="id")] == [2]


def test_decimals_of_different_scale_beyond_18_digits() -> None:
    assert keys(LONG, "not(t.a != t.b)") == []
    tables = {"r": LONG.select(["id", "a"]), "q": LONG.select(["b"])}
    assert [v.t for v in check(tables, "r.a in q.b", key="id")] == []
    found = discover(tables, kinds=("ind",))
    assert "r.a in q.b" in [rule.text for rule in found]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("not(t.zip = 01907)", [1]),
        ("not(t.zip = 1907)", [2]),
        ("not(t.zip = 1.50)", [3]),
        ("not(t.zip = 1.5)", []),
        ("not(t.zip = +5)", [4]),
        ("[zip=01907] -> [city='x']", [1]),
        ({"rule": "not null(id)", "where": "zip = 01907"}, []),
        ({"rule": "not(t.city != 'z')", "where": "zip = 01907"}, [1]),
        ({"rule": "not(t.city != 'z')", "where": "zip in (01907, 1.50)"}, [1, 3]),
    ],
)
def test_numbers_are_text_as_they_are_written(rule: Any, wanted: list[int], tmp_path: Path) -> None:
    assert keys(ZIPS, [rule]) == wanted
    monitor = Monitor.create(tmp_path / "state", [rule], key="id", data=ZIPS)
    monitor.close()
    with Monitor.open(tmp_path / "state") as again:
        assert [v.t for v in again.violations()] == wanted, "a state keeps how they are written"


def test_exponents_as_written() -> None:
    data = pa.table({"id": [1, 2], "x": ["1e3", "1000"]})
    assert keys(data, "not(t.x = 1e3)") == [1]


@pytest.mark.parametrize(
    "values",
    [["a\0", "b"], [b"\x01\x00", b"\x02"], ["", "\x01"], ["", "\0"], ["a", "a\0", "a\0\0"]],
)
def test_short_strings_do_not_collide(values: list[Any]) -> None:
    data = pa.table({"id": range(len(values)), "x": values})
    assert keys(data, "key(x)") == []
    monitor = Monitor("key(x)", key="x", data=data)
    assert monitor.rows == {"data": len(values)}
    monitor.apply(data.slice(1).append_column("op", pa.array(["upsert"] * (len(values) - 1))))
    assert monitor.rows == {"data": len(values)}, "an upsert changes its own row"


@pytest.mark.parametrize(("share", "status"), [("29%", "tolerated"), ("28.9%", "violated"), (0.29, "tolerated")])
def test_tolerance_is_exact(share: Any, status: str) -> None:
    data = pa.table({"id": range(100), "x": [1] * 29 + [0] * 71})
    [result] = check(data, [{"rule": "not(t.x = 1)", "tolerance": share}], key="id").results
    assert result.status == status


def test_decimals_of_negative_scale() -> None:
    hundreds = pa.Array.from_buffers(pa.decimal128(5, -2), 3, [None, pa.py_buffer(b"".join(
        n.to_bytes(16, "little", signed=True) for n in (12, 12, -3)))])  # 1200, 1200, -300  # fmt: skip
    data = pa.table({"id": [1, 2, 3], "x": hundreds, "y": pa.array([1200, 5, 5])})
    assert keys(data, "key(x)") == [(1, 2)]
    assert keys(data, "not(t.x = t.y)") == [1]
    assert keys(data, "not(t.x > s.x)") == [(1, 3), (2, 3)]
    assert keys(data, "not(t.x < 1199.5)") == [3]


def test_constants_beyond_a_columns_digits() -> None:
    data = pa.table({"id": [1, 2], "x": pa.array([Decimal("1.5"), Decimal("-2")], pa.decimal128(38, 10))})
    assert keys(data, "not(t.x > 1.49999999999999999999)") == [1]
    assert keys(data, "not(t.x = 1.50000000000000000001)") == []
    doubles = pa.table({"id": [1, 2, 3], "x": [1e308, float("inf"), 9007199254740992.0]})
    assert keys(doubles, f"not(t.x < {'9' * 400})") == [1, 3]
    assert keys(doubles, f"not(t.x > {'9' * 400})") == [2]
    assert keys(doubles, "not(t.x = 9007199254740993)") == []
    assert keys(doubles, "not(t.x = 9007199254740992)") == [3]


def test_a_row_without_its_left_side_matches_no_pattern() -> None:
    data = pa.table({"id": [1, 2, 3], "a": [None, 1, 1], "c": [5, 2, 3]})
    rule = "[a] -> [c] with (_ || 2)"
    assert keys(data, rule) == [3]
    equal = {"rules": [rule], "nulls": "equal"}
    assert [v.t for v in check(data, _with_nulls(equal), key="id")] == [1, 3]


def _with_nulls(told: dict[str, Any]) -> Any:
    from holdstrue import load_rules
    from holdstrue.rules import RuleSet

    return RuleSet(tuple(load_rules(told["rules"])), nulls=told["nulls"])


def test_decimals_and_floats_are_refused_before_anything_is_read() -> None:
    data = pa.table({"id": [1], "a": pa.array([Decimal("0.1")]), "b": [0.1]})
    with pytest.raises(HoldstrueError, match="does not compare"):
        check(data, "not(t.a = t.b)")
