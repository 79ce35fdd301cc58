"""The rows of a monitor's state, in whatever form it keeps them, as one shard in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from holdstrue.detect.clock import Clock
from holdstrue.monitor.format_1 import is_format_1, loaded
from holdstrue.shards.facts import Facts
from holdstrue.shards.layout import Layout
from holdstrue.shards.shard import Shard
from holdstrue.state.journal import Journal
from holdstrue.state.runs import Runs


def shard_of(journal: Journal, facts: Facts, clock: Clock | None) -> tuple[Shard | None, bool]:
    """The rows, None before any table is known, and whether they are kept in another form than one piece."""
    if is_format_1(journal.facts):
        return (loaded(journal, facts) if facts.schemas else None), True
    if "sharding" in journal.facts:
        return _gathered(journal, facts, clock), True
    if not facts.schemas:
        return None, False
    plan = journal.read(lambda _: facts.plan())
    return Shard.open(journal.files, plan, facts.all_keys, journal.runs, clock), False


def require_same(journal: Journal, what: str, told: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """The manifest and the files must be of the same rows."""
    if dict(told) != dict(found):
        raise journal.files.broken(journal.version, f"it tells of other {what} than its files: {told}, not {found}")


def clock_of(journal: Journal) -> Clock | None:
    """Shows when a version was made, as far as the state says so: an earlier version is judged as it was then."""
    time = journal.moment.time
    return None if time is None else Clock(lambda: int(time.timestamp() * 10**6) * 1000)


def _gathered(journal: Journal, facts: Facts, clock: Clock | None) -> Shard:
    """One shard with all rows of a state that is in shards, which its homes hold. Complexity: O(table)."""
    plan = journal.read(lambda _: facts.plan())
    layout = journal.read(lambda data: Layout.restored(data["sharding"], plan, facts.all_keys))
    found: dict[str, list[pa.Table]] = {name: [] for name in plan.schemas}
    for number in range(layout.shards):
        if str(number) in journal.facts.get("shards", {}):
            runs = Runs.of(journal.facts["shards"][str(number)])
            home = Shard.open(journal.files, layout.home_plan, facts.all_keys, runs)
            for name, table in home.engine.tables.items():
                found[name].append(table.rows.take(table.rows.living_slots()))
    shard = Shard(plan, facts.all_keys, clock=clock)
    tables = {name: pa.concat_tables(parts) for name, parts in found.items() if parts}
    shard.apply({name: shard.engine.first_rows(name, rows, facts.all_keys[name]) for name, rows in tables.items()}, 0)
    return shard
