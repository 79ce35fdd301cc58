"""A discovery that follows changes finds what one from scratch finds, in memory and on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue import Discovery, discover

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


def said(found: Discovery) -> set[tuple[str | None, str]]:
    return {(rule.table, rule.text) for rule in found}


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


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_following_equals_finding_anew(data: st.DataObject) -> None:
    kinds = tuple(data.draw(st.sets(st.sampled_from(["dc", "fd", "key", "cfd", "ind"]), min_size=1)))
    first = {i: data.draw(row(i)) for i in range(data.draw(st.integers(0, 6)))}
    second = {i: data.draw(other(i)) for i in range(data.draw(st.integers(0, 4)))}
    # the comparisons of denial constraints are chosen once: across columns they depend on the values
    options: dict[str, Any] = {"kinds": kinds, "key": KEYS, "cross": False, "arity": 2, "support": 2}
    options |= {"nulls": data.draw(st.sampled_from(["unknown", "unknown", "equal"]))}
    options |= {"error": data.draw(st.sampled_from([0.0, 0.0, 0.1])), "measure": data.draw(MEASURES)}
    found = discover({"r": table(first, SCHEMA), "q": table(second, OTHER)}, **options)
    with tempfile.TemporaryDirectory() as folder:
        found.save(Path(folder) / "state")
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
            assert {(e.table, e.text) for e in what.died} == before - after
            assert {(b.table, b.text) for b in what.born} == after - before
            if data.draw(st.booleans()):
                found.close()
                found = Discovery.open(Path(folder) / "state")
                assert said(found) == after
            anew = discover({"r": table(first, SCHEMA), "q": table(second, OTHER)}, **options)
            assert said(anew) == after
        found.close()
