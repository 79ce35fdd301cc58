"""What a caller gives that cannot be is refused by name, before anything changes."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import HoldstrueError, Monitor, check

TEXT = {"id": pa.int64(), "u": pa.string(), "a": pa.string()}


def monitor_of(columns: dict[str, pa.DataType], *rules: str) -> Monitor:
    return Monitor(list(rules or ("u -> a",)), key="id", data=pa.schema(columns).empty_table())


@pytest.mark.parametrize("value", ["\ud800", Decimal("NaN"), 1 + 2j, object, 10**30, uuid.UUID(int=1), 5])
@pytest.mark.parametrize("more", [[], [{"id": 2, "u": "k", "a": "x"}]])
def test_values_that_are_no_text(value: Any, more: list[Any]) -> None:
    monitor = monitor_of(TEXT)
    with pytest.raises(HoldstrueError, match=r"column 'u' holds .* expected text"):
        monitor.apply([{"id": 1, "u": value, "a": "x"}, *more])
    with pytest.raises(HoldstrueError, match=r"column 'u' holds .* expected text"):
        monitor.apply({"id": 1, "u": value, "a": "x"})
    assert monitor.rows == {"data": 0}


def test_large_whole_numbers_beside_others() -> None:
    columns = {"id": pa.int64(), "u": pa.uint64(), "a": pa.string(), "at": pa.timestamp("us", "Europe/Berlin")}
    monitor = monitor_of(columns, "u -> a", "at -> a")
    monitor.apply({"id": 1, "u": 2**63, "a": "x", "at": None})
    monitor.apply([{"id": 2 + at, "u": u, "a": "x", "at": None} for at, u in enumerate((2**64 - 1, 5, None))])
    assert [monitor.values(key)["u"] for key in (1, 2, 3, 4)] == [2**63, 2**64 - 1, 5, None]
    with pytest.raises(HoldstrueError, match="which is beyond uint64"):
        monitor.apply([{"id": 5 + at, "u": u, "a": "x", "at": None} for at, u in enumerate((2**64, 1))])


def test_a_time_of_day_with_a_zone() -> None:
    monitor = monitor_of({"id": pa.int64(), "u": pa.time64("us"), "a": pa.string()})
    with pytest.raises(HoldstrueError, match="expected a time like"):
        monitor.apply({"id": 1, "u": dt.time(1, 2, tzinfo=dt.UTC), "a": "x"})


@pytest.mark.parametrize("limit", [-1, 1.5, "x", True])
def test_limits(limit: Any) -> None:
    monitor = monitor_of(TEXT)
    for ask in (monitor.apply, monitor.preview):
        for rows in ({"id": 1, "u": "k", "a": "x"}, [{"id": 1, "u": "k", "a": "x"}, {"id": 2, "u": "k", "a": "y"}]):
            with pytest.raises(HoldstrueError, match="limit is"):
                ask(rows, limit=limit)
    assert monitor.rows == {"data": 0} and monitor.batches == 1
    with pytest.raises(HoldstrueError, match="limit is"):
        check([{"id": 1}], "key(id)", limit=limit)


def test_ids_options_and_records() -> None:
    monitor = monitor_of(TEXT)
    row = {"id": 1, "u": "k", "a": "x"}
    with pytest.raises(HoldstrueError, match="holds half a letter"):
        monitor.apply(row, batch_id="\ud800")
    with pytest.raises(HoldstrueError, match="unknown option 'foo'"):
        monitor.apply([row], foo=3)
    with pytest.raises(HoldstrueError, match="record 1 is None"):
        monitor.apply([None])
    with pytest.raises(HoldstrueError, match=r"column 'u' holds \[1\], which is no value"):
        monitor.apply({"id": 1, "u": [1], "a": "x"})
    with pytest.raises(HoldstrueError, match="no table 'nope'"):
        monitor.apply({"nope": pa.table({"id": [1]})})


def test_a_snapshot_that_lacks_most_rows_says_so() -> None:
    monitor = Monitor("zip -> city", key="id", data=pa.table({"id": [1, 2, 3], "zip": ["a"] * 3, "city": ["x"] * 3}))
    delta = monitor.apply(pa.table({"id": [1], "zip": ["a"], "city": ["x"]}), snapshot=True)
    assert delta.notes == ("the snapshot lacked 2 rows, which were deleted; 1 are left",)
    assert not monitor.apply(pa.table({"id": [1], "zip": ["b"], "city": ["x"]}), snapshot=True).notes


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True, float("nan"), 2**70])
def test_threads(threads: Any) -> None:
    with pytest.raises(HoldstrueError, match=r"threads is .*\s*hint: give how many"):
        check([{"id": 1}], "key(id)", threads=threads)
