"""Discovered keys and FDs equal those that trying everything gives, from scratch and after every batch."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.discovery.dependencies.dependency_core import DependencyCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.index.checked import Checked
from laws.dependencies import meaning, table_of
from oracle_dependencies import Dependency, Row, breaks, extent, minimal_dependencies

Batch = tuple[list[int], list[Row]]


def found(core: DependencyCore, columns: int) -> set[Dependency]:
    """What a core says holds."""
    bodies = core.bodies()
    assert len(set(bodies)) == len(bodies)
    return {meaning(body, columns) for body in bodies}


def expected(rows: list[Row], columns: int, options: DiscoveryOptions) -> set[Dependency]:
    """What holds; a key of no columns (at most one row) is not a rule."""
    every = minimal_dependencies(rows, columns, equal=options.nulls == "equal", longest=options.max_lhs)
    return {dependency for dependency in every if dependency != (frozenset(), columns)}


@st.composite
def worlds(draw: st.DrawFn, batches: int = 0) -> tuple[int, list[Row], list[Batch], DiscoveryOptions]:
    """A table of few values, and batches of rows that go and rows that come."""
    columns = draw(st.integers(1, 5))
    domains = [draw(st.integers(0, 4)) for _ in range(columns)]
    cells = [st.one_of(st.none(), st.integers(0, high)) for high in domains]
    rows: st.SearchStrategy[list[Any]] = st.lists(st.tuples(*cells), max_size=12)
    changes = st.tuples(st.lists(st.integers(0, 1000), max_size=6), st.lists(st.tuples(*cells), max_size=5))
    options = DiscoveryOptions(
        nulls=draw(st.sampled_from(("unknown", "equal"))),
        max_predicates=draw(st.sampled_from((None, None, 1, 2))),
        threads=1,
    )
    return columns, draw(rows), [draw(changes) for _ in range(batches)], options


@given(worlds())
def test_all_minimal_dependencies_are_found(world: tuple[int, list[Row], list[Batch], DiscoveryOptions]) -> None:
    columns, rows, _, options = world
    core = DependencyCore.load(table_of(rows, columns), options)
    assert core.complete
    assert found(core, columns) == expected(rows, columns, options)


def check_measures(core: DependencyCore, rows: list[Row], columns: int, options: DiscoveryOptions) -> None:
    """Measures as counted, and all as from scratch."""
    for rule in core.rules():
        left, target = meaning(rule.body, columns)
        if target < columns:
            assert (rule.support, rule.groups) == extent(rows, left, equal=options.nulls == "equal")
    assert core.rules() == DependencyCore.load(table_of(rows, columns), options).rules()


@settings(max_examples=60)
@given(worlds(batches=4), st.booleans(), st.sampled_from([0.1, 100.0]))
def test_every_batch_leaves_what_from_scratch_would_give(
    world: tuple[int, list[Row], list[Batch], DiscoveryOptions], reopen: bool, many: float
) -> None:
    with patch("holdstrue.discovery.dependencies.search.MANY", many):
        follow(world, reopen=reopen)


def follow(world: tuple[int, list[Row], list[Batch], DiscoveryOptions], *, reopen: bool) -> None:
    columns, rows, batches, options = world
    table = table_of(rows, columns)
    core = DependencyCore.load(table, options)
    held = dict(enumerate(rows))
    for picks, added in batches:
        live = sorted(held)
        removed = sorted({live[pick % len(live)] for pick in picks}) if live else []
        before = set(core.bodies())
        turnover = core.apply(np.array(removed, dtype=np.int64), table_of(added, columns))
        start = core.codes.next_slot - len(added)
        held = {slot: row for slot, row in held.items() if slot not in removed} | dict(enumerate(added, start))
        assert core.complete
        assert found(core, columns) == expected(list(held.values()), columns, options)
        check_measures(core, list(held.values()), columns, options)
        after = set(core.bodies())
        assert {died.body for died in turnover.died} == before - after
        assert set(turnover.born) == after - before
        for died in turnover.died:
            left, target = meaning(died.body, columns)
            if died.rows:
                t, s = died.rows
                assert breaks(held[t], held[s], (left, target), equal=options.nulls == "equal")
            else:
                assert len(held) < 2 or any(meaning(body, columns)[0] < left for body in after)
        if reopen:
            arrays = {name: array.copy() for name, array in core.snapshot().items()}
            core = DependencyCore.restore(table.schema, options, Checked(arrays))


@pytest.mark.soak
@settings(max_examples=2000)
@given(worlds(batches=6))
def test_long_runs_of_batches(world: tuple[int, list[Row], list[Batch], DiscoveryOptions]) -> None:
    columns, rows, batches, options = world
    core = DependencyCore.load(table_of(rows, columns), options)
    held = dict(enumerate(rows))
    for picks, added in batches:
        live = sorted(held)
        removed = sorted({live[pick % len(live)] for pick in picks}) if live else []
        core.apply(np.array(removed, dtype=np.int64), table_of(added, columns))
        start = core.codes.next_slot - len(added)
        held = {slot: row for slot, row in held.items() if slot not in removed} | dict(enumerate(added, start))
        assert found(core, columns) == expected(list(held.values()), columns, options)
