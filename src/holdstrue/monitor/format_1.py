"""States of format 1, which digested values in another way: their rows are read, everything else is made anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.detect.engine import Engine
from holdstrue.shards.facts import Facts
from holdstrue.shards.layout import Layout
from holdstrue.shards.logged import parts_of
from holdstrue.shards.shard import Shard
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal
from holdstrue.state.runs import Runs
from holdstrue.typing import Mask


def is_format_1(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest was written in format 1."""
    return manifest.get("format") == 1


def loaded(journal: Journal, facts: Facts) -> Shard:
    """One shard with all rows of a monitor's state, in one piece or in shards. Complexity: O(table)."""
    plan = journal.read(lambda _: facts.plan())
    shard = Shard(plan, facts.keys)
    found = [living_rows(journal.files, runs, engine) for runs, engine in _parts(journal, facts, shard)]
    tables = {name: pa.concat_tables([rows[name] for rows in found]) for name in plan.schemas}
    shard.apply({name: shard.engine.first_rows(name, rows, facts.keys[name]) for name, rows in tables.items()}, 0)
    return shard


def _parts(journal: Journal, facts: Facts, shard: Shard) -> Iterable[tuple[Runs, Engine]]:
    """The runs that hold rows, each with an engine of its tables: of a state in shards those of its homes."""
    if "sharding" not in journal.facts:
        return [(journal.runs, shard.engine)]
    layout = Layout.of(shard.plan, facts.keys, journal.read(lambda data: data["sharding"]["shards"]), 1)
    engine = Shard(layout.home_plan, facts.keys).engine
    homes = (journal.facts.get("shards", {}).get(str(number)) for number in range(layout.shards))
    return [(Runs.of(home), engine) for home in homes if home is not None]


def living_rows(files: StateFiles, runs: Runs, engine: Engine) -> dict[str, pa.Table]:
    """The living rows of the tables of an engine, those of the checkpoint first. Complexity: O(row versions)."""
    tables = {name: _Versions([table.rows.schema.empty_table()], _NONE) for name, table in engine.tables.items()}
    if "arrays" in runs.base:
        arrays = files.map_arrays(runs.base["arrays"])
        for at, (name, versions) in enumerate(tables.items()):
            alive = arrays.get(f"t{at}.rows.alive", _NONE)
            kept = runs.base.get(f"values.{at}")
            if kept is None:
                raise files.damaged(runs.base["arrays"], f"table {name!r} has no values beside it")
            values = files.map_table(kept, engine.tables[name].rows.schema)
            if alive.ndim != 1 or alive.size < values.num_rows:
                raise files.damaged(runs.base["arrays"], f"it does not say which rows of table {name!r} live")
            versions.add(values, alive[: values.num_rows] != 0)
    for file in runs.log:
        for name, part in parts_of(files, file, engine):
            versions = tables[name]
            if part.old.size and not (part.old.min() >= 0 and part.old.max() < versions.alive.size):
                raise files.damaged(file, f"it removes rows that table {name!r} does not have")
            versions.alive[part.old] = False
            versions.add(part.values, np.ones(part.values.num_rows, dtype=np.bool_))
    return {name: pa.concat_tables(v.values).filter(pa.array(v.alive)) for name, v in tables.items()}


_NONE = np.empty(0, dtype=np.bool_)


@dataclass
class _Versions:
    """The versions of a table's rows by slot, and which of them live."""

    values: list[pa.Table]
    alive: Mask

    def add(self, values: pa.Table, alive: Mask) -> None:
        """Append some."""
        self.values.append(values)
        self.alive = np.concatenate((self.alive, alive))
