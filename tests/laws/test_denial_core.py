"""Discovered denial constraints equal the oracle's, from scratch and after every batch in both directions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.discovery.denials import agreeing_pairs, lower_bounds
from holdstrue.discovery.denials.batch_costs import BatchCosts
from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.denials.sweeping_way import SweepingWay
from holdstrue.discovery.options import DiscoveryOptions, Method
from holdstrue.discovery.work import Work
from holdstrue.index.checked import Checked
from holdstrue.rules.model import Column
from laws.shares import shares
from oracle_denial import Comparison, Constraint, Row, breaking, minimal, satisfied, signature

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())])
WIDE = pa.schema([("c", pa.string()), ("d", pa.string()), ("e", pa.string())])
ONE = Work(threads=1)

rows_of = {
    "mixed": st.fixed_dictionaries(
        {
            "a": st.one_of(st.none(), st.integers(0, 3)),
            "b": st.one_of(st.none(), st.integers(0, 3)),
            "c": st.one_of(st.none(), st.sampled_from("xyz")),
        }
    ),
    "known": st.fixed_dictionaries({"a": st.integers(0, 4), "b": st.integers(0, 4), "c": st.sampled_from("xyz")}),
    "text": st.fixed_dictionaries({name: st.sampled_from("xyz") for name in "cde"}),
}
schemas = {"mixed": SCHEMA, "known": SCHEMA, "text": WIDE}


def comparisons(space: Space) -> list[Comparison]:
    return [(space.columns[c.left], space.columns[c.right], c.ordered) for c in space.comparisons]


def constraint(body: Any) -> Constraint:
    found = []
    for predicate in body.predicates:
        assert isinstance(predicate.right, Column) and predicate.left.var == "t" and predicate.right.var == "s"
        found.append((predicate.left.name, str(predicate.op), predicate.right.name))
    return frozenset(found)


def found(core: DenialCore) -> dict[bytes, Constraint]:
    bodies = [constraint(rule.body) for rule in core.rules()]
    by_meaning = {signature(comparisons(core.space), body): body for body in bodies}
    assert len(by_meaning) == len(bodies)
    return by_meaning


def core_of(
    rows: list[Row], schema: pa.Schema, options: DiscoveryOptions, both_ways: bool = False, **choices: Any
) -> DenialCore:
    table = pa.Table.from_pylist(rows, schema=schema)
    # three text columns both ways are too many predicate sets for the oracle
    space = choose_space(table, options, both_ways=both_ways and schema is not WIDE)
    return DenialCore.load(table, options, ONE, space=space, **choices)


spaces = st.builds(
    lambda shared, nulls: DiscoveryOptions(shared=shared or 0, cross=shared is not None, nulls=nulls),
    st.sampled_from([0.0, 0.3, None]),
    st.sampled_from(["unknown", "equal"]),
)


@pytest.mark.parametrize("kind", list(rows_of))
def test_from_scratch(kind: str) -> None:
    @given(st.lists(rows_of[kind], min_size=2, max_size=8), spaces, st.sampled_from([None, 1, 2]), st.booleans())
    @settings(max_examples=40)
    def law(rows: list[Row], options: DiscoveryOptions, most: int | None, both_ways: bool) -> None:
        if any(all(row[name] is None for row in rows) for name in schemas[kind].names):
            return
        core = core_of(rows, schemas[kind], replace(options, max_predicates=most), both_ways)
        expected = minimal(comparisons(core.space), rows, options.nulls, most)
        assert found(core).keys() == expected.keys(), (sorted(map(sorted, found(core).values())), expected.values())
        assert core.complete

    law()


WAYS: dict[str, tuple[Method, int | None]] = {
    "evidence": ("evidence", None),
    "index": ("index", 2),
    "indexes": ("index", 3),
    "verifying": ("index", 2),
    "agreeing": ("index", 2),
}


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("kind", list(rows_of))
def test_after_every_batch(kind: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way in ("indexes", "verifying", "agreeing"):
        # small batches are always counted
        monkeypatch.setattr(BatchCosts, "cheapest", "verifying" if way == "agreeing" else way)
    if way == "agreeing":
        # whatever rules ask to be equal is listed
        for cost in ("PAIR_SECONDS", "PARTNERS_SECONDS", "ARRANGING_SECONDS"):
            monkeypatch.setattr(agreeing_pairs, cost, 0.0)
    batch = st.tuples(st.lists(st.integers(0, 30), max_size=4), st.lists(rows_of[kind], max_size=4))

    @given(
        st.lists(rows_of[kind], min_size=1, max_size=6), st.lists(batch, min_size=1, max_size=4), spaces, st.booleans()
    )
    @settings(max_examples=20)
    def law(
        rows: list[Row], batches: list[tuple[list[int], list[Row]]], options: DiscoveryOptions, both_ways: bool
    ) -> None:
        schema = schemas[kind]
        if any(all(row[name] is None for row in rows) for name in schema.names):
            return
        method, sample = WAYS[way]
        core = core_of(rows, schema, replace(options, sample=sample), both_ways, method=method)
        slots = dict(enumerate(rows))
        for places, added in batches:
            removed = sorted({sorted(slots)[place % len(slots)] for place in places} if slots else set())
            before = found(core)
            turnover = core.apply(np.array(removed, dtype=np.int64), pa.Table.from_pylist(added, schema=schema))
            for slot in removed:
                del slots[slot]
            slots |= dict(enumerate(added, start=core.slots - len(added)))
            after = found(core)
            now = pa.Table.from_pylist(list(slots.values()), schema=schema)
            scratch = DenialCore.load(now, options, ONE, space=core.space)
            assert {rule.body for rule in scratch.rules()} == {rule.body for rule in core.rules()}
            assert core.complete
            check_turnover(before, after, turnover, slots, options.nulls)
        expected = minimal(comparisons(core.space), list(slots.values()), options.nulls)
        assert after.keys() == expected.keys()

    law()


def check_turnover(before: Any, after: Any, turnover: Any, slots: dict[int, Row], nulls: str) -> None:
    died = {constraint(one.body): one.rows for one in turnover.died}
    assert set(died) == set(before.values()) - set(after.values())
    assert {constraint(body) for body in turnover.born} == set(after.values()) - set(before.values())
    for body, witness in died.items():
        broken = any(satisfied(body, t, s, nulls) for i, t in slots.items() for j, s in slots.items() if i != j)
        assert bool(witness) == broken
        if witness:
            assert satisfied(body, slots[witness[0]], slots[witness[1]], nulls) and witness[0] != witness[1]


@given(st.lists(rows_of["mixed"], min_size=2, max_size=8), st.lists(rows_of["mixed"], max_size=5))
@settings(max_examples=20)
def test_undo_and_restore(rows: list[Row], more: list[Row]) -> None:
    if any(all(row[name] is None for row in rows) for name in SCHEMA.names):
        return
    options = DiscoveryOptions(shared=0.0)
    core = DenialCore.load(pa.Table.from_pylist(rows, schema=SCHEMA), options, ONE)
    left = core.rules()
    again = DenialCore.restore(SCHEMA, options, Checked(core.snapshot()))
    assert again.rules() == left
    for one in (core, again):
        one.apply(np.zeros(0, dtype=np.int64), pa.Table.from_pylist(more, schema=SCHEMA))
    assert again.rules() == core.rules()
    again = DenialCore.restore(SCHEMA, options, Checked(again.snapshot()))
    for one in (core, again):
        one.apply(np.arange(len(rows), len(rows) + len(more)), pa.Table.from_pylist([], schema=SCHEMA))
        assert one.rules() == left


@given(st.lists(rows_of["mixed"], min_size=2, max_size=7), st.data(), spaces, st.booleans())
@settings(max_examples=40)
def test_rules_with_exceptions(
    rows: list[Row], data: st.DataObject, options: DiscoveryOptions, both_ways: bool
) -> None:
    error, exactly = data.draw(shares(len(rows) * (len(rows) - 1)))
    if any(all(row[name] is None for row in rows) for name in SCHEMA.names):
        return
    core = core_of(rows, SCHEMA, replace(options, error=error), both_ways)
    allowed = math.floor(exactly * len(rows) * (len(rows) - 1))
    expected = minimal(comparisons(core.space), rows, options.nulls, allowed=allowed)
    assert found(core).keys() == expected.keys()
    for rule in core.rules():
        assert rule.violations == len(breaking(constraint(rule.body), rows, options.nulls)) <= allowed


@given(st.lists(rows_of["mixed"], min_size=3, max_size=7), spaces, st.booleans())
@settings(max_examples=20)
def test_near_misses_name_their_pairs(rows: list[Row], options: DiscoveryOptions, both_ways: bool) -> None:
    if any(all(row[name] is None for row in rows) for name in SCHEMA.names):
        return
    core = core_of(rows, SCHEMA, options, both_ways)
    expected = minimal(comparisons(core.space), rows, options.nulls, allowed=3)
    broken = {key: pairs for key, body in expected.items() if (pairs := set(breaking(body, rows, options.nulls)))}
    misses = {
        signature(comparisons(core.space), constraint(miss.body)): miss
        for miss in core.near_misses(3, ONE, limit=10_000)[0]
    }
    assert misses.keys() == broken.keys()
    for miss in misses.values():
        body = constraint(miss.body)
        listed = breaking(body, rows, options.nulls)
        assert round(miss.error * len(rows) * (len(rows) - 1)) == len(listed)
        assert set(miss.rows) <= set(listed) and {frozenset(p) for p in miss.rows} == {frozenset(p) for p in listed}


def counts_of(core: DenialCore) -> dict[str, int]:
    return {rule.body.text: rule.violations for rule in core.rules()}


@given(st.data(), spaces, st.booleans(), st.sampled_from([None, 2]))
@settings(max_examples=12)
def test_rules_counted_by_sweeps_are_those_of_all_pairs(
    data: st.DataObject, options: DiscoveryOptions, both_ways: bool, most: int | None
) -> None:
    """From scratch, near misses and their pairs, batches followed and searched anew, states, few bounds and all."""
    a_row: Any = rows_of["mixed"]
    rows: list[Row] = data.draw(st.lists(a_row, min_size=2, max_size=9))
    if any(all(row[name] is None for row in rows) for name in SCHEMA.names):
        return
    error, exactly = data.draw(shares(len(rows) * (len(rows) - 1)))
    options = replace(options, error=error, max_predicates=most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lower_bounds, "FIRST_ROWS", data.draw(st.sampled_from([1, 3, 64])))
        swept = core_of(rows, SCHEMA, options, both_ways, method="sweep")
        counted = core_of(rows, SCHEMA, options, both_ways, method="evidence")
        assert (swept.method, swept.complete, swept.length) == ("sweep", True, None)
        expected = minimal(
            comparisons(swept.space), rows, options.nulls, most, math.floor(exactly * len(rows) * (len(rows) - 1))
        )
        assert found(swept).keys() == expected.keys()
        for _ in range(2):
            assert counts_of(swept) == counts_of(counted)
            near = [
                {(one.text, one.rows) for one in core.near_misses(2, ONE, limit=1000)[0]} for core in (swept, counted)
            ]
            assert near[0] == near[1]
            living = swept.living().tolist()
            gone = np.array(
                sorted(data.draw(st.sets(st.sampled_from(living), max_size=3)) if living else ()), dtype=np.int64
            )
            added = pa.Table.from_pylist(data.draw(st.lists(rows_of["mixed"], max_size=3)), schema=SCHEMA)
            if data.draw(st.booleans()):
                swept = DenialCore.restore(SCHEMA, options, Checked(swept.snapshot()))
            assert isinstance(swept._way, SweepingWay)
            # followed where searching took long
            swept._way._seconds = data.draw(st.sampled_from([0.0, 1e9]))
            one, other = swept.apply(gone, added, ONE), counted.apply(gone, added, ONE)
            assert {(died.body, bool(died.rows)) for died in one.died} == {(d.body, bool(d.rows)) for d in other.died}
            assert set(one.born) == set(other.born)


@given(st.lists(rows_of["known"], min_size=6, max_size=9), spaces)
@settings(max_examples=8)
def test_near_misses_by_sweeps_where_rules_are_verified(rows: list[Row], options: DiscoveryOptions) -> None:
    probing, counted = (core_of(rows, SCHEMA, options, method=method) for method in ("index", "evidence"))
    one, other = (
        {(miss.text, miss.rows) for miss in core.near_misses(2, ONE, limit=1000)[0]} for core in (probing, counted)
    )
    assert one == other


def test_sweeps_that_end_early_say_up_to_which_length() -> None:
    """What is told of shorter rules is all there is."""
    generator = np.random.default_rng(3)
    table = pa.table({name: generator.integers(0, 9, 300) for name in "abcdef"})
    options = DiscoveryOptions(kinds=("dc",), error="0.001", cross=False)
    whole = DenialCore.load(table, options, ONE, method="sweep")
    short = DenialCore.load(table, replace(options, max_predicates=2), ONE, method="sweep")
    assert short.complete
    stopped = DenialCore.load(table, options, ONE, method="sweep", most_rules=len(short.bodies()) + 1)
    assert stopped.length is not None and not stopped.complete
    upto = {body for body in whole.bodies() if len(body.predicates) <= stopped.length}
    assert upto <= set(stopped.bodies()) <= set(whole.bodies())
    none = DenialCore.load(table, options, Work.lasting(1e-9, threads=1), method="sweep")
    assert (none.length, none.complete) == (0, False)
