"""Parts that workers keep open: used again only if their files are those of the version, or the first of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.errors import HoldstrueError, StateError
from holdstrue.fragments import part_pool
from holdstrue.fragments.part_pool import POOL, PartPool
from holdstrue.fragments.parts import cut_plan
from holdstrue.fragments.site_work import SiteWork
from laws.shards import Loops
from laws.test_parted_fragments import InLoops
from unit.fragments.test_fragments_site_state import FIRST, ROWS, RULES, SECOND, split, state_of, wanted


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    POOL.empty()
    yield
    POOL.empty()


def opened(shape: str, folder: Path, **options: Any) -> InLoops:
    sites = [replace(site, source=[site.source]) for site in split(shape, folder)]
    schemas = {site.name: site.source[0].schema for site in sites}
    return InLoops(Loops(), sites, RULES, "id", schema=schemas, **options)


def test_a_worker_that_missed_batches_reads_them_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened("mixed", tmp_path, parts=2) as relation:
        relation.load()
        relation.counts()
        behind = dict(POOL._open)
        POOL.empty()
        third = pa.table({"op": ["d"], "id": [6]})
        for number, batch in enumerate((FIRST, SECOND, third)):
            relation.apply(batch, str(number))
        POOL.empty()
        POOL._open.update(behind)
        expected = wanted("mixed", FIRST, SECOND, third)
        monkeypatch.setattr(SiteWork, "__init__", None)  # nothing may be opened
        assert state_of(relation) == expected


def test_what_was_never_committed_fits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("horizontal", tmp_path, parts=2) as relation:
        relation.load()
        before = state_of(relation)
        monkeypatch.setattr(relation._work, "commit", _no_room)
        with pytest.raises(StateError, match="apply it again"):
            relation.apply(FIRST, "one")
        monkeypatch.undo()
        assert state_of(relation) == before
        assert not relation.apply(FIRST, "one").repeated
        assert state_of(relation) == wanted("horizontal", FIRST)


def _no_room(*_: object) -> None:
    raise OSError("no room")


def test_a_batch_that_some_parts_have_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("mixed", tmp_path, parts=2) as relation:
        relation.load()
        whole = relation._work.commit

        def some(part: int, *told: Any) -> None:
            if part % 3:
                _no_room()
            whole(part, *told)

        monkeypatch.setattr(relation._work, "commit", some)
        with pytest.raises(StateError, match="apply it again"):
            relation.apply(FIRST, "one")
        monkeypatch.undo()
        with pytest.raises(StateError, match="committed at some sites only"):
            relation.apply(SECOND, "two")
    with opened("mixed", tmp_path) as relation:
        assert not relation.apply(FIRST, "one").repeated
        assert state_of(relation) == wanted("mixed", FIRST)


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with opened("vertical", tmp_path, parts=2) as relation:
        relation.load()
        plan = relation.plan()
        assert cut_plan(plan, 1) is plan and len(cut_plan(plan, 3).fragments) == 3 * len(plan.fragments)
        assert relation.sizes()["a"]["rows"] == ROWS.num_rows
        assert set(relation.share("a")) | set(relation.share("b")) | set(relation.share("c")) == {"ab", "abc"}
        with pytest.raises(HoldstrueError, match="no site is called 'z'"):
            relation.share("z")
    with pytest.raises(StateError, match="cut into 2 parts each, not 3"):
        opened("vertical", tmp_path, parts=3)
    with pytest.raises(HoldstrueError, match="cannot be cut into 0 parts"):
        opened("vertical", tmp_path / "new", parts=0)


def test_a_pool_holds_what_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("vertical", tmp_path) as relation:
        relation.load()
        monkeypatch.setattr(part_pool, "pooled_bytes", lambda _: 0)
        pool = PartPool()
        for part, standing in zip(relation._work.parts, relation._work.standing(), strict=True):
            pool.put(part, pool.take(part, standing))
        assert len(pool._open) == 1


def test_one_task_does_all_rounds_of_few_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one worker has room for all parts, and nobody asks for more; what fails leaves the parts as they were."""
    with opened("horizontal", tmp_path) as relation:
        relation.load()
        assert relation._spread_for(3).whole and relation._spread_for(3).tasks == 1
        assert not relation._spread_for(1e9).whole and not relation._spread_for(None).whole
        before = state_of(relation)
        with pytest.raises(HoldstrueError, match="which exists already"):
            relation.apply(pa.table({"op": ["i"], "id": [2], "a": [1], "b": [2], "c": [1]}), "twice")
        assert state_of(relation) == before
        relation.apply(FIRST, "one")
        assert state_of(relation) == wanted("horizontal", FIRST)
        monkeypatch.setattr(relation._work, "room", lambda: 0)
        assert not relation._spread_for(3).whole
        relation.apply(SECOND, "two")
        assert state_of(relation) == wanted("horizontal", FIRST, SECOND)
    with opened("horizontal", tmp_path, tasks=2) as relation:
        assert not relation._spread_for(3).whole
