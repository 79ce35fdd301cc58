"""Keys finer than microseconds keep all their digits in every form."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.report.forms import render

FIRST = 1_700_000_000_000_000_001
SPAN = 3_600_000_000_001


@pytest.mark.parametrize(
    ("type_", "first", "text"),
    [
        (pa.timestamp("ns"), FIRST, "2023-11-14 22:13:20.000000001"),
        (pa.timestamp("ns", "UTC"), FIRST, "2023-11-14 22:13:20.000000001+00:00"),
        (pa.timestamp("ns", "Asia/Tokyo"), FIRST, "2023-11-15 07:13:20.000000001+09:00"),
        (pa.duration("ns"), SPAN, "0 days 01:00:00.000000001"),
        (pa.time64("ns"), SPAN, "01:00:00.000000001"),
    ],
)
def test_nanoseconds_are_kept(type_: Any, first: int, text: str) -> None:
    keys = pa.array([first, first + 1], pa.int64()).cast(type_)
    table = pa.table({"at": keys, "zip": [1, 1], "city": ["Bonn", "Ulm"]})
    report = holdstrue.check(table, "zip -> city", key="at")
    with holdstrue.Monitor("zip -> city", key="at") as monitor:
        delta = monitor.apply(table)
    for answer in (report, delta):
        found = answer.to_arrow()
        pair = [found.column(name)[0] for name in ("t", "s")]
        if pa.types.is_time(type_):
            assert [one.as_py() for one in pair] == [text, text[:-1] + "2"]
        else:
            assert found.schema.field("t").type == type_
            assert [one.value for one in pair] == [first, first + 1]
            assert answer.to_pandas()["s"][0].nanosecond == 2 if pa.types.is_timestamp(type_) else True
            assert answer.to_polars()["t"].to_physical()[0] == first
    [violation] = report.to_dict()["violations"]
    assert violation["t"] == text
    [_, line] = csv.reader(io.StringIO(render(report, "csv")))
    assert line[1] == text and line[2] != text


def test_large_keys_stay_whole_in_pandas() -> None:
    first = 2**53 + 1
    table = pa.table({"id": [first, first + 2, first + 4, first + 6], "z": ["a", None, "a", "b"]})
    found = holdstrue.check(table, ["key(z)", "not null(z)"], key="id").to_pandas()
    assert set(found["s"].dropna()) == {first + 4}


def test_keys_beyond_their_type_are_refused() -> None:
    monitor = holdstrue.Monitor(["key(z)"], key="id", data=pa.table({"id": [1], "z": ["a"]}))
    for asked in (monitor.row, monitor.violations_of):
        with pytest.raises(holdstrue.HoldstrueError, match="is no key of"):
            asked(2**70)
