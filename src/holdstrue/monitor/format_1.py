"""States of format 1, which digested values in another way: their rows are read, everything else is made anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.plan.compile import Plan
from holdstrue.shards.facts import Facts
from holdstrue.shards.layout import Layout
from holdstrue.shards.shard import Shard, parts_in
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import Journal, Runs
from holdstrue.typing import Mask


def is_format_1(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest was written in format 1."""
    return manifest.get("format") == 1


def loaded(journal: Journal, facts: Facts) -> Shard:
    """One shard with all rows of a monitor's state, in one piece or in shards. Complexity: O(table)."""
    plan = facts.plan()
    shard = Shard(plan, facts.keys)
    found = [living_rows(journal.files, runs, tables) for runs, tables in _parts(journal, facts, plan)]
    tables = {}
    for name, schema in plan.schemas.items():
        parts = [rows[name].select(schema.names).cast(schema) for rows in found if name in rows]
        if parts:
            tables[name] = pa.concat_tables(parts)
    shard.apply({name: shard.engine.first_rows(name, rows, facts.keys[name]) for name, rows in tables.items()}, 0)
    return shard


def _parts(journal: Journal, facts: Facts, plan: Plan) -> Iterable[tuple[Runs, Iterable[str]]]:
    """The runs that hold rows, each with its tables in their order: of a state in shards those of its homes."""
    if "sharding" not in journal.facts:
        return [(journal.runs, plan.schemas)]
    layout = Layout.of(plan, facts.keys, journal.facts["sharding"]["shards"], 1)
    homes = (journal.facts["shards"].get(str(number)) for number in range(layout.shards))
    return [(Runs.of(home), layout.home_plan.schemas) for home in homes if home is not None]


def living_rows(files: StateFiles, runs: Runs, tables: Iterable[str]) -> dict[str, pa.Table]:
    """The living rows of tables, those of the checkpoint first; tables are named in the order of their files.

    Complexity: O(row versions).
    """
    values: dict[str, list[pa.Table]] = {}
    alive: dict[str, list[Mask]] = {}
    if "arrays" in runs.base:
        file = runs.base["arrays"]
        arrays = files.map_arrays(file)
        for at, name in enumerate(tables):
            kept = files.read_tables(runs.base[f"values.{at}"])
            living = arrays.get(f"t{at}.rows.alive", np.empty(0, dtype=np.uint8))
            if len(kept) != 1 or living.ndim != 1 or living.size < kept[0].num_rows:
                raise files.damaged(file, f"it does not say which rows of table {name!r} live")
            values[name], alive[name] = kept, [living[: kept[0].num_rows] != 0]
    for run in runs.log:
        for name, part in parts_in(files, run):
            if name not in tables:
                raise files.damaged(run, "it holds rows of another table")
            known = np.concatenate(alive.get(name, [np.empty(0, dtype=np.bool_)]))
            if part.old.size and not (part.old.min() >= 0 and part.old.max() < known.size):
                raise files.damaged(run, f"it removes rows that table {name!r} does not have")
            known[part.old] = False
            alive[name] = [known, np.ones(part.values.num_rows, dtype=np.bool_)]
            values.setdefault(name, []).append(part.values)
    return {
        name: pa.concat_tables(parts).filter(pa.array(np.concatenate(alive[name]))) for name, parts in values.items()
    }
