"""Sites with state directories: batches are whole everywhere or can be finished, and states open as they were left."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fault_calls import Fail, FaultCalls
from holdstrue import Monitor
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.fragments import Relation, Site, design, first_load, site_state
from holdstrue.fragments.site_host import SiteHost, local_host, open_site
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.fragments.site_state import SiteState
from holdstrue.state import runs as state_runs

RULES = [
    {"name": "ab", "rule": "a -> b"},
    {"name": "abc", "rule": "a, b -> c"},
    {"name": "k", "rule": "[a=1] -> [c=5]"},
]
ROWS = pa.table({"id": [1, 2, 3, 4], "a": [1, 1, 2, 2], "b": [1, 2, 2, 2], "c": [5, 5, 6, 7]})
FIRST = pa.table({"op": ["i", "u", "d"], "id": [5, 3, 1], "a": [1, 1, None], "b": [3, 2, None], "c": [4, 5, None]})
SECOND = pa.table({"op": ["u", "i"], "id": [4, 6], "a": [1, 2], "b": [2, 9], "c": [5, 1]})


def split(shape: str, folder: str | Path | None) -> list[Site]:
    def state(name: str) -> str | None:
        return None if folder is None else f"{folder}/{name}"

    if shape == "vertical":
        return [Site(c, (c,), source=ROWS.select(["id", c]), state=state(c)) for c in "abc"]
    sites = []
    for low, where in enumerate(("b < 2", "b >= 2")):
        own = ROWS.filter(pa.compute.field("b") < 2 if low == 0 else pa.compute.field("b") >= 2)
        if shape == "horizontal":
            sites.append(Site(f"h{low}", where=where, source=own, state=state(f"h{low}")))
        else:
            sites += [
                Site(
                    f"h{low}{i}",
                    tuple(columns),
                    where=where,
                    source=own.select(["id", *columns]),
                    state=state(f"h{low}{i}"),
                )
                for i, columns in enumerate(("ab", "c"))
            ]
    return sites


class Failing(SiteHost):
    """A site goes down when it is asked for something for the n-th time."""

    down: tuple[str, str] | None = None

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        if self.down is not None and self.down[0] == site and self.down[1] in (verb, "anything"):
            raise HoldstrueError(f"site {site!r} does not answer", hint="apply the batch again later")
        return super().ask(site, verb, *args)


def failing(hosts: list[Failing]) -> Any:
    def make(specs: Mapping[str, SiteSpec], sites: Mapping[str, Site]) -> SiteHost:
        hosts.append(Failing({name: open_site(spec, sites[name]) for name, spec in specs.items()}))
        return hosts[-1]

    return make


def state_of(relation: Relation) -> Any:
    return {rule: sorted(table.column("id").to_pylist()) for rule, table in relation.violations().items()}


def told(delta: Any) -> Any:
    """A delta without what depends on the seed of ids: bytes, by the order of rows, and what goes from one fragment to
    another, by the owners of groups."""
    found = delta.to_dict()
    inside = [one for one in found["shipments"] if one["source"][:2] == one["target"][:2] or one["source"][0] != "h"]
    return found | {"shipments": [{k: v for k, v in one.items() if k != "bytes"} for one in inside]}


def wanted(shape: str, *batches: pa.Table) -> Any:
    relation = Relation(split(shape, None), RULES, key="id")
    relation.load()
    for batch in batches:
        relation.apply(batch)
    return state_of(relation)


SHAPES = ["vertical", "horizontal", "mixed"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("every", [False, True])
def test_what_is_opened_is_what_was_left(shape: str, every: bool, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without a checkpoint after every batch."""
    if every:
        monkeypatch.setattr(state_runs, "CHECKPOINT_FROM", -1)
        monkeypatch.setattr(state_runs, "CHECKPOINT_SHARE", 1 << 30)
    with Relation(split(shape, place), RULES, key="id") as relation:
        assert not relation.loaded
        relation.load()
        relation.apply(FIRST, batch_id="one")
    with Relation(split(shape, place), RULES, key="id") as relation:
        assert relation.loaded and state_of(relation) == wanted(shape, FIRST)
        assert relation.apply(FIRST, batch_id="one").repeated
        assert relation.load().repeated
        delta = relation.apply(SECOND, batch_id="two")
        assert not delta.repeated and state_of(relation) == wanted(shape, FIRST, SECOND)
    with Relation(split(shape, place), RULES, key="id") as relation:
        assert state_of(relation) == wanted(shape, FIRST, SECOND)
        assert relation.apply(FIRST, batch_id="one").repeated
        assert {r: sorted(t.column("id").to_pylist()) for r, t in relation.check().added.items()} == state_of(relation)


VERBS = ["begin", "ship", "receive", "announce", "finish", "prepare", "commit"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kept", [False, True])
def test_a_site_that_is_down(shape: str, verb: str, kept: bool, tmp_path: Path) -> None:
    """The batch fails, nothing of it shows, and it can be applied again: by who was there and by who opens anew."""
    hosts: list[Failing] = []
    folder = tmp_path if kept else None
    relation = Relation(split(shape, folder), RULES, key="id", host=failing(hosts))
    relation.load()
    hosts[0].down = (hosts[0].sites[-1], verb)
    met = False
    try:
        delta = relation.apply(FIRST, batch_id="one")
    except HoldstrueError as error:
        met = True
        assert "does not answer" in str(error)
        if verb == "commit":
            with pytest.raises(StateError, match="'one' was committed at some sites only"):
                hosts[0].down = None
                relation.apply(SECOND, batch_id="two")
        if kept:
            relation.close() if hosts[0].down is None else [hosts[0].ask(s, "close") for s in hosts[0].sites[:-1]]
            hosts[0].down = None
            relation.close()
            relation = Relation(split(shape, folder), RULES, key="id", host=failing(hosts))
        hosts[-1].down = None
        delta = relation.apply(FIRST, batch_id="one")
    assert met or verb in ("ship", "receive", "announce")
    plain = Relation(split(shape, None), RULES, key="id")
    plain.load()
    assert delta.to_dict()["added"] == plain.apply(FIRST, batch_id="one").to_dict()["added"]
    assert state_of(relation) == wanted(shape, FIRST)
    assert relation.apply(FIRST, batch_id="one").repeated
    relation.apply(SECOND)
    assert state_of(relation) == wanted(shape, FIRST, SECOND)
    relation.close()


LOADING = ["begin_load", "portions", "ship", "receive", "settle", "slices", "announce", "finish", "prepare", "commit"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("verb", LOADING)
@pytest.mark.parametrize("kept", [False, True])
def test_a_site_that_is_down_while_it_loads(
    shape: str, verb: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the load shows, and loading again finishes it: sites that have it answer from what they wrote down."""
    monkeypatch.setattr(first_load, "PORTION", 1)
    monkeypatch.setattr(first_load, "SLICE", 2)
    hosts: list[Failing] = []
    folder = tmp_path if kept else None
    relation = Relation(split(shape, folder), RULES, key="id", host=failing(hosts))
    hosts[0].down = (hosts[0].sites[-1], verb)
    try:
        relation.load()
    except HoldstrueError as error:
        assert "does not answer" in str(error)
        hosts[0].down = None
        if kept:
            relation.close()
            relation = Relation(split(shape, folder), RULES, key="id", host=failing(hosts))
        assert not relation.loaded
        relation.load()
    else:
        assert verb in ("ship", "receive", "slices", "announce")
        hosts[0].down = None
    assert relation.loaded and state_of(relation) == wanted(shape)
    relation.apply(FIRST)
    assert state_of(relation) == wanted(shape, FIRST)
    relation.close()
    if kept:
        with Relation(split(shape, folder), RULES, key="id") as opened:
            assert state_of(opened) == wanted(shape, FIRST)


def test_a_state_of_other_rules_is_refused(place: str) -> None:
    with Relation(split("vertical", place), RULES, key="id") as relation:
        relation.load()
    with pytest.raises(StateError, match="made for other rules"):
        Relation(split("vertical", place), RULES[:1], key="id")


def test_a_state_keeps_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver may find another plan the next time: what was loaded with one goes on with it."""
    with Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        relation.load()
        plan = relation.plan()

    def refused(*_: Any) -> None:
        raise AssertionError("planned again")

    monkeypatch.setattr(design, "plan_of", refused)
    with Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        assert relation.plan() == plan and str(relation.plan()) == str(plan)
        relation.apply(FIRST)
        assert state_of(relation) == wanted_with(plan, FIRST)


def wanted_with(plan: Any, *batches: pa.Table) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "plan_of", lambda *_: plan)
        return wanted("vertical", *batches)


def test_a_state_of_an_earlier_shape_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_state, "SHAPE", 1)
    with Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        relation.load()
    monkeypatch.undo()
    with pytest.raises(StateError, match=r"state of a site in shape 1 of another version") as told:
        Relation(split("vertical", tmp_path), RULES, key="id")
    assert "load the relation anew" in str(told.value.hint)


def test_loading_comes_first() -> None:
    relation = Relation(split("vertical", None), RULES, key="id", host=local_host)
    with pytest.raises(HoldstrueError, match="not loaded"):
        relation.apply(FIRST)


def test_a_site_that_lost_its_state_is_refused(tmp_path: Path) -> None:
    with Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        relation.load()
        relation.apply(FIRST, batch_id="one")
    shutil.rmtree(tmp_path / "b")
    with Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        for batch in ("one", "two"):
            with pytest.raises(StateError, match="site 'b' has 0 of 2 batches"):
                relation.apply(FIRST, batch_id=batch)
        with pytest.raises(StateError, match="site 'b' has 0 of 2 batches"):
            relation.check()


def test_an_old_copy_of_a_state_is_refused(tmp_path: Path) -> None:
    with Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        relation.load()
    shutil.copytree(tmp_path / "b", tmp_path / "copy")
    with Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        relation.apply(FIRST, batch_id="one")
        relation.apply(SECOND, batch_id="two")
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "copy").rename(tmp_path / "b")
    relation = Relation(split("vertical", tmp_path), RULES, key="id")
    with pytest.raises(StateError, match="site 'b' has 1 of 3 batches"):
        relation.apply(SECOND, batch_id="two")
    relation.close()


def test_nothing_is_checked_between_two_states() -> None:
    hosts: list[Failing] = []
    relation = Relation(split("vertical", None), RULES, key="id", host=failing(hosts))
    relation.load()
    hosts[0].down = ("c", "commit")
    with pytest.raises(StateError, match="committed at some sites only"):
        relation.apply(FIRST, batch_id="one")
    hosts[0].down = None
    for ask in (relation.check, relation.violations, relation.counts):
        with pytest.raises(StateError, match="committed at some sites only"):
            ask()
    relation.apply(FIRST, batch_id="one")
    assert state_of(relation) == wanted("vertical", FIRST)
    assert {r: sorted(t.column("id").to_pylist()) for r, t in relation.check().added.items()} == state_of(relation)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kept", [False, True])
def test_a_batch_that_some_sites_have_is_finished_by_its_own_changes_alone(
    shape: str, kept: bool, tmp_path: Path
) -> None:
    """Sites that have it answered for what they were given; others must not be given something else under its id."""
    hosts: list[Failing] = []
    folder = tmp_path if kept else None
    relation = Relation(split(shape, folder), RULES, key="id", host=failing(hosts))
    relation.load()
    hosts[0].down = (hosts[0].sites[-1], "commit")
    with pytest.raises(StateError, match="committed at some sites only"):
        relation.apply(FIRST, batch_id="one")
    hosts[0].down = None
    if kept:
        relation.close()
        relation = Relation(split(shape, folder), RULES, key="id")
    other_value = FIRST.set_column(4, "c", pa.array([4, 6, None]))
    other_side = FIRST.set_column(3, "b", pa.array([1, 2, None]))
    for changes in (other_value, other_side, FIRST.slice(0, 2), FIRST.slice(1)):
        with pytest.raises(StateError, match=r"'one' was committed at site .* with other changes"):
            relation.apply(changes, batch_id="one")
    # what a deleted row is said to have been does not matter
    assert not relation.apply(FIRST.set_column(2, "a", pa.array([1, 1, 9])), batch_id="one").repeated
    assert state_of(relation) == wanted(shape, FIRST)
    relation.apply(SECOND, batch_id="two")
    assert state_of(relation) == wanted(shape, FIRST, SECOND)
    relation.close()


def test_a_site_that_cannot_write_a_checkpoint_has_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is applied again and found to be there; the site's indexes are as they should be."""

    def failing(*_: Any) -> None:
        raise StateError("no room for a checkpoint")

    with Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        relation.load()
        with monkeypatch.context() as patch:
            patch.setattr(SiteState, "tidy", failing)
            for _ in range(3):
                with pytest.raises(StateError, match=r"not known whether batch 'one' .* no room for a checkpoint"):
                    relation.apply(FIRST, batch_id="one")
            assert relation.apply(FIRST, batch_id="one").repeated
        assert state_of(relation) == wanted("vertical", FIRST)
        relation.apply(SECOND, batch_id="two")
        assert state_of(relation) == wanted("vertical", FIRST, SECOND)


def test_a_site_that_is_not_sure_of_a_batch_says_so(tmp_path: Path) -> None:
    with FaultCalls(tmp_path) as calls, Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        relation.load()
        calls.plan()
        commit = SiteState.commit

        def lasting(state: SiteState, prepared: Any) -> None:
            calls.plan(dict.fromkeys(range(2, 100), Fail(errno.EIO)))  # once its run is surely there
            commit(state, prepared)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SiteState, "commit", lasting)
            with pytest.raises(StateError, match="not known whether batch 'one' was committed at some sites only"):
                relation.apply(FIRST, batch_id="one")
        calls.plan()
        with pytest.raises(StateError, match="does not know whether its state has the last batch") as told:
            relation.apply(FIRST, batch_id="one")
        assert "open the relation (start the sites) again" in str(told.value.hint)
    with Relation(split("vertical", tmp_path), RULES, key="id") as relation:
        relation.apply(FIRST, batch_id="one")
        assert state_of(relation) == wanted("vertical", FIRST)


def test_filters_that_overlap_are_refused() -> None:
    low, high = ROWS.slice(0, 1), ROWS.slice(1)
    sites = [Site("h0", where="b < 2", source=low), Site("h1", where="b >= 2 or a = 9", source=high)]
    Relation(sites, RULES, key="id").load()  # they overlap, but no row is in both
    sites = [Site("h0", where="b < 2", source=low), Site("h1", where="b >= 0", source=high)]
    with pytest.raises(HoldstrueError, match="row id=1 of site 'h0' is in the fragment 'b >= 0' too"):
        Relation(sites, RULES, key="id").load()


def test_filters_on_unknown_columns_are_named() -> None:
    with pytest.raises(HoldstrueError, match="site 'h' speaks of a column 'nope'"):
        Relation([Site("h", where="nope = 1", source=ROWS)], RULES, key="id")


def test_a_tolerance_is_refused_by_name() -> None:
    rule = {"name": "ab", "rule": "a -> b", "tolerance": "1%"}
    with pytest.raises(HoldstrueError, match="rule 'ab' has a tolerance"):
        Relation(split("vertical", None), [rule], key="id")


def test_the_state_of_a_monitor_is_no_site(tmp_path: Path) -> None:
    with Monitor.create(tmp_path / "a", ["key(id)"], key="id"):
        pass
    with pytest.raises(StateError, match="is the state of a monitor, not of a site"):
        Relation(split("vertical", tmp_path), RULES, key="id")
    with Relation(split("horizontal", tmp_path), RULES, key="id") as relation:
        relation.load()
    with pytest.raises(StateError, match="is the state of a site, not of a monitor"):
        Monitor.open(tmp_path / "h0")
