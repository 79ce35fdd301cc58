"""A discovery that follows changes finds what one from scratch finds, in memory and on disk."""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import Discovery, HoldstrueError, check, discover
from holdstrue.discovery.found import RuleChanges
from holdstrue.rules.model import Inclusion, Rule
from oracle_inclusions import Database, holds, lacking, same, tuples
from places import Buckets, Folders

SCHEMA = pa.schema({"id": pa.int64(), "a": pa.int64(), "b": pa.string(), "c": pa.float64()})
OTHER = pa.schema({"id": pa.int64(), "x": pa.string(), "y": pa.int64()})
KEYS = {"r": "id", "q": "id"}
MEASURES = st.sampled_from(["pairs", "rows"])

ints = st.one_of(st.none(), st.integers(0, 3))
texts = st.one_of(st.none(), st.sampled_from(["", "x", "yé"]))
floats = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, float("nan")]))


def row(key: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"id": st.just(key), "a": ints, "b": texts, "c": floats})


def other(key: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"id": st.just(key), "x": texts, "y": ints})


def said(found: Discovery) -> dict[tuple[str | None, str], dict[str, Any]]:
    """The rules with all their measures."""
    return {(rule.table, rule.text): rule.to_dict() for rule in found}


def check_endings(what: RuleChanges, database: Database, error: Fraction, *, rows: bool, nulls: str) -> None:
    """A broken inclusion names values that are missing and rows that have them; others say what else it is."""
    for ended in what.died:
        body = ended.body
        if not isinstance(body, Inclusion):
            assert bool(ended.rows) == (ended.why == "broken") and not ended.values
            if not error and nulls == "unknown":
                now = pa.Table.from_pylist(database[str(ended.table)], schema=SCHEMA if ended.table == "r" else OTHER)
                assert check(now, [Rule(body, "it")]).ok == (ended.why != "broken"), ended
            continue
        left, right = (str(body.table), body.columns), (body.ref_table, body.ref_columns)
        missing = lacking(database, left, right)
        if holds(database, left, right, error, rows=rows):
            assert not ended.values and not ended.rows and ended.why != "broken"
            assert tuples(database, left) or ended.why == "no value is left in a column of it"
            continue
        values = {value if isinstance(value, tuple) else (value,) for value in ended.values}
        assert {same(value) for value in values} <= missing
        assert len(values) == len(ended.values) == min(10, len(missing))
        assert (ended.why, ended.missing) == ("broken", len(missing))
        by_key = {row["id"]: row for row in database[str(body.table)]}
        assert ended.rows
        for key in ended.rows:
            assert same(tuple(by_key[key][column] for column in body.columns)) in missing


@st.composite
def batches(draw: st.DrawFn, keys: frozenset[int], of: Any) -> list[dict[str, Any]]:
    """Operations on different keys."""
    found = []
    for key in draw(st.lists(st.integers(0, 9), unique=True, max_size=4)):
        if key not in keys:
            found.append(draw(of(key)) | {"op": "insert"})
        elif draw(st.booleans()):
            found.append(draw(of(key)) | {"op": "update"})
        else:
            found.append(draw(of(key)) | {"op": "delete"})
    return found


def applied(rows: dict[int, dict[str, Any]], batch: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    after = dict(rows)
    for change in batch:
        after.pop(change["id"], None)
        if change["op"] != "delete":
            after[change["id"]] = {name: value for name, value in change.items() if name != "op"}
    return after


def table(rows: dict[int, dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), schema=schema)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_following_equals_finding_anew(folders: Folders, data: st.DataObject) -> None:
    """Rules and measures, also where the extents of left sides follow a batch of most rows."""
    with patch("holdstrue.discovery.dependencies.search.MANY", data.draw(st.sampled_from([0.1, 100.0]))):
        follow(folders.fresh(), data)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_following_equals_finding_anew_in_an_object_store(buckets: Buckets, data: st.DataObject) -> None:
    follow(buckets.fresh(), data)


def follow(place: str, data: st.DataObject) -> None:
    kinds = tuple(data.draw(st.sets(st.sampled_from(["dc", "fd", "key", "cfd", "ind"]), min_size=1)))
    first = {i: data.draw(row(i)) for i in range(data.draw(st.integers(0, 6)))}
    second = {i: data.draw(other(i)) for i in range(data.draw(st.integers(0, 4)))}
    # the comparisons of denial constraints are chosen once: across columns they depend on the values
    options: dict[str, Any] = {"kinds": kinds, "key": KEYS, "cross": False, "arity": 2, "support": 2}
    options |= {"nulls": data.draw(st.sampled_from(["unknown", "unknown", "equal"]))}
    error = data.draw(st.sampled_from(["0", "0", "0.1", "0.25"]))
    options |= {"error": error, "measure": data.draw(MEASURES)}
    if error != "0" and (kinds == ("cfd",) or ("dc" in kinds and options["measure"] == "rows")):
        with pytest.raises(HoldstrueError, match=r"error|rows"):
            discover({"r": table(first, SCHEMA), "q": table(second, OTHER)}, **options)
        return
    found = discover({"r": table(first, SCHEMA), "q": table(second, OTHER)}, **options)
    found.save(place)
    for _ in range(data.draw(st.integers(1, 3))):
        before = said(found)
        one, two = data.draw(batches(frozenset(first), row)), data.draw(batches(frozenset(second), other))
        changes = {
            "r": pa.Table.from_pylist(one, schema=SCHEMA.append(pa.field("op", pa.string()))),
            "q": pa.Table.from_pylist(two, schema=OTHER.append(pa.field("op", pa.string()))),
        }
        what = found.apply(changes, feed="ops", op_column="op")
        first, second = applied(first, one), applied(second, two)
        after = said(found)
        assert {(e.table, e.text) for e in what.died} == before.keys() - after.keys()
        assert {(b.table, b.text) for b in what.born} == after.keys() - before.keys()
        assert all(after[b.table, b.text] == b.to_dict() for b in what.born)
        database = {"r": list(first.values()), "q": list(second.values())}
        check_endings(what, database, Fraction(error), rows=options["measure"] == "rows", nulls=options["nulls"])
        if data.draw(st.booleans()):
            found.close()
            found = Discovery.open(place)
            assert said(found) == after
        anew = discover({"r": table(first, SCHEMA), "q": table(second, OTHER)}, **options)
        assert said(anew) == after
    found.close()
