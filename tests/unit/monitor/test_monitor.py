"""What a monitor says about changes that do not fit, and what it can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import HoldstrueError, Monitor, check

BASE = {"id": [1, 2, 3], "zip": ["1", "1", "2"], "city": ["Bonn", "Ulm", "Kiel"]}


def monitor(**options: Any) -> Monitor:
    return Monitor("zip -> city", key="id", data=pa.table(BASE), **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": [9, 1], "zip": ["1", "1"], "city": ["a", "b"]}, "row 2 .*insert of id=1, which exists already"),
        ({"id": [7], "op": ["delete"]}, "row 1 .*delete of id=7, which does not exist"),
        ({"id": [7], "zip": ["1"], "city": ["x"], "op": ["update"]}, "row 1 .*update of id=7, which does not exist"),
        (
            {"id": pa.array([9, None]), "zip": ["1", "1"], "city": ["a", "b"]},
            "row 2.*(NULL|null)",
        ),
        ({"id": ["x"], "zip": ["1"], "city": ["a"]}, "row 1.*'?id'?"),
        ({"id": [9], "zip": [1.5], "city": ["a"]}, "row 1.*zip"),
        ({"id": [9], "zip": ["1"]}, "no column 'city'"),
    ],
)
def test_changes_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    watched = monitor()
    before = watched.counts(), watched.rows
    with pytest.raises(HoldstrueError, match=message):
        watched.apply(pa.table(change))
    assert (watched.counts(), watched.rows) == before
    assert watched.apply(pa.table({"id": [2], "op": ["delete"]})).counts["zip -> city"].open == 0


def test_on_conflict() -> None:
    change = pa.table({"id": [1, 9], "zip": ["1", "1"], "city": ["Ulm", "Ulm"]})
    assert monitor().apply(change, on_conflict="upsert").counts["zip -> city"].open == 0
    assert monitor().apply(change, on_conflict="ignore").counts["zip -> city"].open == 2
    gone = pa.table({"id": [8, 1], "op": ["delete", "delete"]})
    assert monitor().apply(gone, on_conflict="ignore").counts["zip -> city"].open == 0


def test_changes_of_one_key_follow_each_other() -> None:
    watched = monitor()
    steps = pa.table(
        {
            "op": ["insert", "update", "delete", "delete", "insert", "insert", "delete"],
            "id": [9, 9, 9, 1, 1, 5, 5],
            "zip": ["1", "2", None, None, "1", "2", None],
            "city": ["a", "b", None, None, "Bonn", "c", None],
        }
    )
    delta = watched.apply(steps)
    assert (delta.added, delta.removed) == ((), ())
    assert watched.rows == {"data": 3}


def test_a_column_of_nulls_gets_its_type_later() -> None:
    watched = Monitor("zip -> city", key="id", data=pa.table({"id": [1, 2], "zip": ["1", "1"], "city": [None, None]}))
    delta = watched.apply(pa.table({"id": [3, 4], "zip": ["1", "1"], "city": ["Bonn", "Ulm"]}))
    assert [(v.t, v.s) for v in delta.added] == [(3, 4)]


def test_limits_cut_lists_not_counts() -> None:
    rows = pa.table({"id": list(range(100)), "zip": ["1"] * 100, "city": [f"c{i}" for i in range(100)]})
    watched = Monitor("zip -> city", key="id")
    delta = watched.apply(rows, limit=7)
    assert len(delta.added) == 7 and delta.truncated and delta.counts["zip -> city"].added == 4950
    assert len(list(watched.violations(limit=11))) == 11
    assert watched.offenders(2)[0].total == 99
    assert watched.row(5) == {"zip -> city": 99}


def test_keys_of_several_columns_and_rows_with_null_keys() -> None:
    rows = pa.table({"a": [1, 1], "b": ["x", "y"], "k": [1, 1], "v": [1, 2]})
    [violation] = Monitor("k -> v", key=["a", "b"], data=rows).violations()
    assert violation.to_dict() == {"rule": "k -> v", "t": [1, "x"], "s": [1, "y"]}
    named = check(pa.table({"id": [None, 1], "k": [1, 1], "v": [1, 2]}), "k -> v", key="id")
    assert "s" in named.to_dict()["violations"][0]


def test_batch_ids() -> None:
    watched = monitor()
    watched.apply(pa.table({"id": [2], "op": ["delete"]}))
    assert not watched.apply(pa.table({"id": [3], "op": ["delete"]}), batch_id="1").duplicate
    assert watched.apply(pa.table({"id": [1], "op": ["delete"]}), batch_id=1).duplicate
    with pytest.raises(HoldstrueError, match="starts with '#'"):
        watched.apply(pa.table({"id": [1], "op": ["delete"]}), batch_id="#2")


def test_a_tolerance_counts_rows() -> None:
    rows = pa.table({"id": [1, 2, 3, 4], "zip": ["1", "1", "2", "3"], "city": ["a", "b", "c", "d"]})
    for tolerance, status in (("2", "tolerated"), ("1", "violated"), ("50%", "tolerated"), ("0.4", "violated")):
        report = check(
            rows,
            [
                {
                    "rule": "zip -> city",
                    "tolerance": float(tolerance)
                    if "." in tolerance
                    else tolerance
                    if "%" in tolerance
                    else int(tolerance),
                }
            ],
        )
        assert report.results[0].status == status
        assert report.ok == (status == "tolerated")


def test_explain_names_indexes_and_sharing() -> None:
    rules = ["zip -> city", "key(zip, id)", "not(t.zip = s.zip and t.id < s.id and t.city > s.city)"]
    text = Monitor(rules, key="id", data=pa.table(BASE)).explain()
    assert "hash on (zip)" in text and "shares its groups with" in text and "search t.id < s.id" in text
    for index in ("lt_tree", "chains"):
        other = Monitor(rules, key="id", data=pa.table(BASE), index=index).explain()
        assert f"index {index}" in other and "t.zip" in other


def test_a_refused_first_batch_teaches_nothing() -> None:
    watched = Monitor("zip -> city", key="id")
    with pytest.raises(HoldstrueError, match="exists already"):
        watched.apply(pa.table({"id": ["a", "a"], "zip": [1, 2], "city": ["x", "y"]}))
    watched.apply(pa.table(BASE))
    assert watched.rows == {"data": 3}


def test_facts_are_those_of_now(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "zip": ["1", "1"], "city": ["Bonn", "Ulm"]})
    with Monitor.create(tmp_path / "s", "zip -> city", key="id", data=rows.slice(0, 1)) as monitor:
        monitor.apply(rows.slice(1))
        facts = monitor.facts
        assert (facts.batches, facts.last_batch, facts.rows, facts.counts) == (2, "#2", monitor.rows, monitor.counts())
