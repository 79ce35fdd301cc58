"""How a sharded state stands: its layout as plain data, its counts, its routes in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from holdstrue.detect.clock import wall
from holdstrue.detect.delta import RuleCounts
from holdstrue.shards.facts import Facts
from holdstrue.shards.layout import Job
from holdstrue.shards.ledger import Distinct, Ledger, layout_of
from holdstrue.shards.reading import Violating

Counting: TypeAlias = Callable[[Any, int], dict[int, int]]
"""Runs a stage over so many tasks and counts the distinct rows that it gives, by their first column."""

_DIGESTS = pa.schema({"rule": pa.int32(), "hi": pa.int64(), "lo": pa.int64()})


def sharded_counts(path: str, manifest: Mapping[str, Any], moment: int | None = None) -> dict[str, RuleCounts]:
    """How each rule of a sharded state stands, counted in this process; now, or at another moment.

    Complexity: O(shards); O(violating rows) for rules whose rows are scattered.
    """
    facts = Facts.of(manifest)
    layout = layout_of(manifest, facts)
    ledger = Ledger(layout, manifest["shards"])
    job = Job(layout, 1, 0, path, manifest["version"])
    distinct = told_apart(_counted_here, ledger, job)
    now = wall() if moment is None else moment
    return {rule.name: ledger.counts(i, now, distinct) for i, rule in enumerate(facts.rules)}


def _counted_here(stage: Any, tasks: int) -> dict[int, int]:
    """As `Counting`, in this process: the digests lie in one table, 20 bytes a row."""
    numbers = pa.table({"task": pa.array(range(tasks), pa.int32())})
    found = pa.Table.from_batches(stage(numbers.to_batches()), _DIGESTS)
    rows = found.group_by(found.column_names).aggregate([]).group_by("rule").aggregate([([], "count_all")])
    return {int(row["rule"]): int(row["count_all"]) for row in rows.to_pylist()}


def told_apart(counting: Counting, ledger: Ledger, job: Job) -> Distinct:
    """What only telling rows and groups apart can count, for rules whose rows several shards hold."""
    violating = Violating.of(ledger, job)
    return violating.counted(counting(violating, job.tasks)) if violating.rules else Distinct()


def explain_layout(ledger: Ledger) -> str:
    """The routes in words."""
    layout = ledger.layout
    names = [rule.name for rule in layout.plan.rules]
    lines = [f"{layout.shards} homes by key: {sum(ledger.rows().values()):,} rows"]
    if layout.home_checks:
        served = ", ".join(dict.fromkeys(repr(names[layout.plan.checks[n].rule]) for n in layout.home_checks))
        lines.append(f"  checks of single rows, and measures: {served}")
    for number, route in enumerate(layout.routes):
        served = ", ".join(dict.fromkeys(repr(names[layout.plan.checks[n].rule]) for n in route.checks))
        columns = {
            table: ", ".join(f"{f.name} {'digest' if str(f.type).startswith('fixed') else f.type}" for f in schema)
            for table, schema in layout.travelling(number).items()
        }
        lines.append(f"route {number}: {route}, for {served}")
        lines += [f"  of {table} travel {what}" for table, what in columns.items()]
        hot = len(layout.hot[number])
        if hot:
            cells = sum(spot.route == number and spot.hot >= 0 for spot in layout.spots)
            lines.append(f"  {hot} hot places on grids of {layout.blocks} blocks: {cells} cells")
    return "\n".join(lines)
