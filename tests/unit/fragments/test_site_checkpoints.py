"""Checkpoints of sites that are written beside their batches: what is opened is what was left, whenever they end."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import load_rules
from holdstrue.fragments import Relation, key_slots, site_checkpoint, site_runs, site_state
from holdstrue.fragments.site_state import SiteState
from holdstrue.state import runs as state_runs
from laws import worlds
from laws.test_fragments import draw_rules, draw_sites, keys, loaded_from, truth
from unit.fragments.test_fragments_site_state import FIRST, RULES, SECOND, split, state_of, wanted

_write_rows = site_runs.write_rows


@contextmanager
def often(most_rows: int) -> Iterator[None]:
    """Checkpoints beside the work, of few rows and after few changes; files that nobody names are looked for often."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(site_state, "BESIDE_FROM", 0))
        patches.enter_context(patch.object(site_state, "COLLECT_EVERY", 1))
        patches.enter_context(patch.object(state_runs, "CHECKPOINT_FROM", most_rows))
        patches.enter_context(patch.object(key_slots, "MOVED_FROM", 1))
        patches.enter_context(patch.object(key_slots, "MOVED_FOR", 1))
        patches.enter_context(patch.object(key_slots, "MOVED_AT_LEAST", 1))
        yield


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=12)
@given(data=st.data())
def test_violations_are_the_oracles_whenever_a_checkpoint_ends(data: st.DataObject) -> None:
    rules = draw_rules(data)
    sites = draw_sites(data, data.draw(st.sampled_from(["vertical", "horizontal", "mixed"])))
    rows = {i: data.draw(worlds.row(i)) for i in range(data.draw(st.integers(1, 6)))}
    with tempfile.TemporaryDirectory() as folder, often(data.draw(st.integers(1, 6))):
        placed = [replace(site, state=f"{folder}/{site.name}") for site in loaded_from(sites, rows)]
        relation = Relation(placed, rules, key="id")
        relation.load()
        for number in range(data.draw(st.integers(3, 8))):
            match data.draw(st.sampled_from(["go on", "ends", "again"])):
                case "ends":
                    wait_for(relation)
                case "again":
                    relation.close()
                    relation = Relation(placed, rules, key="id")
                case _:
                    pass
            batch = data.draw(worlds.changes(set(rows)))
            relation.apply(worlds.as_table(batch), str(number), op_column="_op", feed="ops")
            rows = worlds.applied(rows, batch)
            assert keys(relation.violations()) == truth(rules, rows)
        relation.close()
        with Relation(placed, rules, key="id") as opened:
            assert keys(opened.violations()) == truth(rules, rows) == keys(opened.check().added)
            assert all(opened.apply(worlds.as_table([]), str(n), op_column="_op").repeated for n in range(number))


def wait_for(relation: Relation) -> None:
    for state in states_of(relation):
        if state._beside is not None:
            state._beside.wait()


def states_of(relation: Relation) -> list[SiteState]:
    kept = [work._state for work in relation._host._works.values()]
    return [state for state in kept if isinstance(state, SiteState)]


def test_batches_go_on_while_a_checkpoint_is_written(tmp_path: Path) -> None:
    """It is taken over with the first batch after it is done, and names the batches that came meanwhile as its log."""
    go = threading.Event()

    def slowly(*args: Any) -> Any:
        assert go.wait(30)
        return _write_rows(*args)

    with often(1), patch.object(site_checkpoint, "write_rows", slowly):
        relation = Relation(split("vertical", tmp_path), RULES, key="id")
        relation.load()
        relation.apply(FIRST, "one")
        [state, *_] = states_of(relation)
        under_way = state._beside
        assert under_way is not None and under_way.running
        relation.apply(SECOND, "two")
        assert state._beside is under_way and len(state.journal.runs.log) == 2
        go.set()
        wait_for(relation)
        relation.apply({"op": ["d"], "id": [6]}, "three")
        assert len(state.journal.runs.log) == 2 and under_way.base is not None
        assert state.journal.runs.base["arrays"] == under_way.base["arrays"]
        expected = state_of(relation)
        relation.close()
        with Relation(split("vertical", tmp_path), RULES, key="id") as opened:
            assert state_of(opened) == expected


def test_one_that_cannot_be_written_beside_is_written_in_place(tmp_path: Path) -> None:
    def full(*_: Any) -> Any:
        raise OSError("no room")

    with often(1), patch.object(site_checkpoint, "write_rows", full):
        relation = Relation(split("horizontal", tmp_path), RULES, key="id")
        relation.load()
        for name, batch in (("one", FIRST), ("two", SECOND)):
            relation.apply(batch, name)
            wait_for(relation)
        relation.apply({"op": ["i"], "id": [7], "a": [1], "b": [9], "c": [1]}, "three")
        high = states_of(relation)[1]
        assert high._beside is None and not high.journal.runs.log  # the last batch is in the checkpoint
        expected = state_of(relation)
        relation.close()
    with Relation(split("horizontal", tmp_path), RULES, key="id") as opened:
        assert state_of(opened) == expected


def test_a_state_that_cannot_take_it_over_when_it_is_closed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise OSError("no room")

    with often(1):
        relation = Relation(split("vertical", tmp_path), RULES, key="id")
        relation.load()
        relation.apply(FIRST, "one")
        for state in states_of(relation):
            monkeypatch.setattr(state.journal, "commit", full)
        with pytest.warns(RuntimeWarning, match="no room"):
            relation.close()
    with Relation(split("vertical", tmp_path), load_rules(RULES), key="id") as opened:
        assert state_of(opened) == wanted("vertical", FIRST)
