"""Laws of fragments: however a relation is split, its violations are the oracle's after every batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdstrue import HoldstrueError, load_rules
from holdstrue.fragments import Relation, Site, first_load
from holdstrue.index import rows as index_rows
from holdstrue.plan.filter import holds
from holdstrue.rules import Rule, RuleSet
from laws import worlds
from translate import expected

# a relation is slower to set up than a monitor: fewer examples in the suite, all of them in the soak
EXAMPLES = 40 if settings().max_examples <= 100 else settings().max_examples
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=EXAMPLES)
COLUMNS = [name for name in worlds.TYPES if name != "id"]
FILTERS = [
    ["a = 0", "a = 1", "not (a = 0 or a = 1) or a is null"],
    ["a < 1", "a >= 1", "a is null"],
    ["a = 0 and f = true", "a = 0 and not f = true", "a = 0 and f is null", "a != 0 or a is null"],
    ["c in ('x', 'y')", "c not in ('x', 'y')", "c is null"],
    ["f = true", "f = false or f is null"],
]
WHERE = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(["a = 1", "a > 0 and f = true", "c is null"]))


def draw_rules(data: st.DataObject) -> RuleSet:
    texts = data.draw(st.lists(st.tuples(st.one_of(worlds.fd(), worlds.cfd()), WHERE), min_size=1, max_size=4))
    if data.draw(st.integers(0, 3)) == 0:
        # rules that differ in a constant alone, whose groups are named by the same open columns or are not
        x, y = data.draw(st.permutations(["b", "c", "d"]))[:2]
        texts += [(f"[{x}] -> [{y}]", None), (f"[a=1, {x}] -> [{y}]", None)]
    rules: list[Rule] = []
    for i, (text, where) in enumerate(texts):
        entry: dict[str, Any] = {"name": f"r{i}", "rule": text} | ({} if where is None else {"where": where})
        try:
            rules.extend(load_rules([entry]))
        except HoldstrueError:
            continue
    assume(rules)
    return RuleSet(tuple(rules), nulls=data.draw(st.sampled_from(["unknown", "unknown", "equal"])))


def draw_columns(data: st.DataObject, sites: int) -> list[tuple[str, ...]]:
    """Columns over sites; some at several."""
    held: list[list[str]] = [[] for _ in range(sites)]
    for column in COLUMNS:
        # the parts of filters must be answered somewhere: a and f stay together at the first site
        places = {0} if column in ("a", "f") else {data.draw(st.integers(0, sites - 1))}
        if data.draw(st.integers(0, 4)) == 0:
            places.add(data.draw(st.integers(0, sites - 1)))
        for place in places:
            held[place].append(column)
    return [tuple(columns) for columns in held]


def loaded_from(sites: list[Site], rows: dict[int, worlds.Row]) -> list[Site]:
    """The same sites, each with its part of the rows as its source."""
    table = pa.Table.from_pylist(list(rows.values()), schema=worlds.SCHEMA)
    found = []
    for site in sites:
        own = holds(site.condition, lambda name: table.column(name).combine_chunks(), table.num_rows)
        found.append(replace(site, source=table.filter(pa.array(own)).select(["id", *(site.columns or ())])))
    return found


def draw_sites(data: st.DataObject, shape: str) -> list[Site]:
    filters: list[Any] = [None] if shape == "vertical" else data.draw(st.sampled_from(FILTERS))
    sites = []
    for number, where in enumerate(filters):
        split = 1 if shape == "horizontal" else data.draw(st.integers(1, 4))
        for part, columns in enumerate(draw_columns(data, split)):
            sites.append(Site(f"s{number}.{part}", columns, where=where))
    return sites


def truth(rules: RuleSet, rows: dict[int, worlds.Row]) -> dict[str, set[int]]:
    """By rule the keys of the rows in a violation."""
    found = expected(rules, list(rows.values()), list(rows))
    return {rule: {key for violation in some for key in violation} for rule, some in found.items() if some}


def keys(found: Any) -> dict[str, set[int]]:
    listed = {rule: table.column("id").to_pylist() for rule, table in found.items() if table.num_rows}
    for rule, some in listed.items():
        assert len(set(some)) == len(some), f"a row is listed once: {rule}"
    return {rule: set(some) for rule, some in listed.items()}


def differences(one: dict[str, set[int]], other: dict[str, set[int]]) -> dict[str, set[int]]:
    return {rule: some - other.get(rule, set()) for rule, some in one.items() if some - other.get(rule, set())}


@contextmanager
def small_portions(data: st.DataObject) -> Iterator[None]:
    """A first load in portions of few rows and slices of few groups, its values packed, or as it is."""
    with ExitStack() as patches:
        if data.draw(st.booleans()):
            patches.enter_context(patch.object(first_load, "PORTION", data.draw(st.integers(1, 3))))
            patches.enter_context(patch.object(first_load, "SLICE", data.draw(st.integers(1, 4))))
        if data.draw(st.booleans()):
            patches.enter_context(patch.object(index_rows, "LARGE_PART", 1))
        yield


@pytest.mark.parametrize("shape", ["vertical", "horizontal", "mixed"])
@SETTINGS
@given(data=st.data())
def test_violations_are_the_oracles(shape: str, data: st.DataObject) -> None:
    rules = draw_rules(data)
    sites = draw_sites(data, shape)
    how: Any = data.draw(st.sampled_from(["auto", "optVer", "chains"]))
    recall = data.draw(st.booleans())
    rows = {i: data.draw(worlds.row(i)) for i in range(data.draw(st.integers(0, 6)))}
    relation = Relation(loaded_from(sites, rows), rules, key="id", plan=how, recall=recall)
    with small_portions(data):
        before = keys(relation.load().added)
    assert before == truth(rules, rows) == keys(relation.violations())
    for _ in range(data.draw(st.integers(1, 4))):
        batch = data.draw(worlds.changes(set(rows)))
        delta = relation.apply(worlds.as_table(batch), op_column="_op", feed="ops")
        rows = worlds.applied(rows, batch)
        after = truth(rules, rows)
        assert keys(relation.violations()) == after
        assert keys(delta.added) == differences(after, before)
        assert keys(delta.removed) == differences(before, after)
        assert keys(relation.check().added) == after
        before = after
