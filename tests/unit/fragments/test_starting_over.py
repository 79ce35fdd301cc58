"""Batches of most of the rows, which start over: the oracle's answers, and everywhere or nowhere at every death."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue.errors import HoldstrueError, StateError
from holdstrue.fragments import Relation, Site, first_load, relation
from laws import worlds
from laws.test_fragments import differences, draw_rules, draw_sites, keys, loaded_from, small_portions, truth
from unit.fragments.test_fragments_site_state import (
    FIRST,
    RULES,
    SECOND,
    SHAPES,
    Failing,
    failing,
    split,
    state_of,
    wanted,
)
from unit.fragments.test_site_checkpoints import often
from unit.fragments.test_sites_apart import DeathError, Net, faults


@contextmanager
def starting_over(share: float = 0.0) -> Iterator[None]:
    """Batches of more images than a share of the rows start over, however few these are."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(relation, "ANEW_FROM", 0))
        patches.enter_context(patch.object(relation, "ANEW_SHARE", share))
        yield


@pytest.mark.parametrize("shape", SHAPES)
@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=6)
@given(data=st.data())
def test_violations_are_the_oracles_however_a_batch_is_worked_out(shape: str, data: st.DataObject) -> None:
    rules, sites = draw_rules(data), draw_sites(data, shape)
    rows = {i: data.draw(worlds.row(i)) for i in range(data.draw(st.integers(0, 6)))}
    share, recall = data.draw(st.sampled_from([0.0, 0.5, 1.0])), data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as folder, starting_over(share), often(data.draw(st.integers(1, 6))):
        placed = [replace(site, state=f"{folder}/{site.name}") for site in loaded_from(sites, rows)]
        known = Relation(placed, rules, key="id", recall=recall)
        with small_portions(data):
            before = keys(known.load().added)
            for number in range(data.draw(st.integers(1, 4))):
                batch = data.draw(worlds.changes(set(rows)))
                delta = known.apply(worlds.as_table(batch), str(number), op_column="_op", feed="ops")
                rows = worlds.applied(rows, batch)
                after = truth(rules, rows)
                assert keys(known.violations()) == after
                assert keys(delta.added) == differences(after, before)
                assert keys(delta.removed) == differences(before, after)
                before = after
                if data.draw(st.booleans()):
                    known.close()
                    known = Relation(placed, rules, key="id", recall=recall)
        assert keys(known.violations()) == before == keys(known.check().added)
        known.close()


VERBS = ["weigh", "start_over", "portions", "ship", "settle", "slices", "announce", "finish", "prepare", "commit"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_site_that_is_down_while_it_starts_over(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the batch shows; whoever opens the states applies it again, or finishes it as it was begun."""
    monkeypatch.setattr(first_load, "PORTION", 1)
    monkeypatch.setattr(first_load, "SLICE", 2)
    for verb in VERBS:
        hosts: list[Failing] = []
        folder = tmp_path / verb
        known = Relation(split(shape, folder), RULES, key="id", host=failing(hosts))
        known.load()
        hosts[0].down = (hosts[0].sites[-1], verb)
        with starting_over():
            try:
                known.apply(FIRST, batch_id="one")
            except HoldstrueError as error:
                assert "does not answer" in str(error)
            else:
                assert verb in ("ship", "slices", "announce")
        hosts[0].down = None
        if verb == "commit":
            with pytest.raises(StateError, match="'one' was committed at some sites only"):
                known.apply(SECOND, batch_id="two")
        else:
            assert state_of(known) in (wanted(shape), wanted(shape, FIRST))
        known.close()
        # sites that have the batch started over: so do those that finish it, whatever they would choose themselves
        known = Relation(split(shape, folder), RULES, key="id")
        known.apply(FIRST, batch_id="one")
        assert state_of(known) == wanted(shape, FIRST)
        known.apply(SECOND)
        assert state_of(known) == wanted(shape, FIRST, SECOND)
        known.close()


@pytest.mark.parametrize("shape", ["vertical", "horizontal"])
def test_sites_apart_start_over_everywhere_or_nowhere(shape: str, tmp_path: Path) -> None:
    """One fault at a word of a batch, each in a world of its own; then another site goes on."""
    before, after = wanted(shape), wanted(shape, FIRST)
    with starting_over():
        for turn, kind in enumerate(("unanswered", "dies", "dies after", "orphaned", "orphaned after")):
            for at in range(12 + turn, 70, 19):
                net = Net(shape, tmp_path / f"{kind}-{at}")
                first, *_, last = net.services
                net.act(first, "load")
                net.offer(FIRST, "one")
                plain, net.words = net.fault, 0
                net.fault = faults(net, at)[kind]
                try:
                    net.act(last, "apply", batch="one")
                except DeathError:
                    net.fault = plain
                    net.start(last)
                except HoldstrueError:
                    pass
                net.fault = plain
                assert net.state() in (before, after), (kind, at)
                net.act(first, "apply", batch="one")
                assert net.state() == after, (kind, at)
                net.close()


def test_the_cheaper_way_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates of most rows start over; those of few, and all where rows are few, are counted in."""
    rows = pa.table({"id": np.arange(200), "zip": np.arange(200) // 4, "city": np.arange(200) // 8})

    def ways(share: float, least: int) -> list[str]:
        monkeypatch.setattr(relation, "ANEW_FROM", least)
        sites = [Site("a", ("zip",), source=rows), Site("b", ("city",), source=rows)]
        known = Relation(sites, ["zip -> city"], key="id")
        known.load()
        said: list[str] = []
        ask = known._host.ask

        def listened(site: str, verb: str, *args: Any) -> Any:
            said.append(verb)
            return ask(site, verb, *args)

        monkeypatch.setattr(known._host, "ask", listened)
        some = rows.slice(0, int(200 * share)).append_column("op", pa.array(["u"] * int(200 * share)))
        assert not known.apply(some).added
        return said

    assert "start_over" in ways(0.9, 0)
    assert "start_over" not in ways(0.4, 0)
    assert "start_over" not in ways(0.9, 1 << 16)
