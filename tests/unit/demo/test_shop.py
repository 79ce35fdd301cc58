"""The shop: the same every time, true before it is spoilt, and broken only where its stories say."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.demo.draw import Draws
from holdstrue.demo.shop import RULES, SEED, Shop, clean_shop, spoilt
from holdstrue.demo.walk import TABLES, make_shop
from holdstrue.demo.week import STORIES, week
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.monitor import Monitor
from holdstrue.rules import load_rules


def _tables(shop: Shop) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(getattr(shop, name)) for name in TABLES}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_shop_every_time(tmp_path: Path) -> None:
    make_shop(tmp_path / "one")
    make_shop(tmp_path / "two")
    assert _files(tmp_path / "one") == _files(tmp_path / "two")
    assert len(_files(tmp_path / "one")) > 15


def test_a_clean_shop_breaks_nothing() -> None:
    report = holdstrue.check(_tables(clean_shop(Draws(SEED))), load_rules(RULES))
    assert report.total == 0


def test_a_spoilt_shop_breaks_what_was_spoilt() -> None:
    report = holdstrue.check(_tables(spoilt(clean_shop(Draws(SEED)))), load_rules(RULES))
    broken = {result.rule.name for result in report.results if result.counts.open}
    assert broken == {
        "products are known",
        "shipped after ordered",
        "a zip code lies in one town",
        "tax by category",
    }


BROKEN_BY = {
    "monday": set(),
    "tuesday": {"a zip code lies in one town"},
    "wednesday": {"customers are known"},
    "thursday": {"tax by category", "sold above cost"},
    "friday": {"heavier is not cheaper to ship", "one account for an e-mail address"},
    "saturday": {"heavier is not cheaper to ship"},  # new orders beside the free parcels of Friday
    "sunday": set(),
}


def test_every_day_breaks_what_its_story_says() -> None:
    draw = Draws(SEED)
    shop = clean_shop(draw)
    monitor = Monitor(load_rules(RULES), dict.fromkeys(TABLES, "id"))
    monitor.apply(_tables(shop))
    assert set(BROKEN_BY) == set(STORIES)
    for day in week(shop, draw):
        changes = {name: pa.Table.from_pylist(rows) for name, rows in day.changes.items()}
        delta = monitor.apply(changes, op_column="op")
        assert {name for name, step in delta.counts.items() if step.added} == BROKEN_BY[day.name], day.name
    open_now = {name for name, step in delta.counts.items() if step.open}
    assert open_now == {"one account for an e-mail address"}


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("a\n", encoding="utf-8")
    with pytest.raises(HoldstrueError, match="not an empty directory"):
        make_shop(tmp_path)
    with pytest.raises(HoldstrueError, match="not an empty directory"):
        make_shop(tmp_path / "mine.csv")
    assert _files(tmp_path) == {"mine.csv": b"a\n"}
