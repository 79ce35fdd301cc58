"""How a state directory stands, read from its manifest; only rows that several shards count are looked at."""

from __future__ import annotations

from holdstrue.detect.delta import RuleCounts, RuleResult
from holdstrue.monitor.views import status_of
from holdstrue.plan.compile import table_of
from holdstrue.report.answers import Status
from holdstrue.shards.durable import Durable, State
from holdstrue.state.store import Store


def read_status(path: str, *, history: bool = False) -> Status:
    """Rules with their counts, tables and batches.

    Complexity: O(rules), with the history O(batches); in a sharded state O(violating rows) for rules
    whose rows may be in several shards.
    """
    store = Store(path)
    manifest = store.manifest()
    state = State.of(manifest)
    known = state.counts
    if manifest.get("sharding") is not None:
        from holdstrue.shards.standing import standing_counts

        known = standing_counts(path)
    results = []
    for rule in state.rules:
        counts = known.get(rule.name, RuleCounts(0, 0, 0, 0))
        rows = state.rows.get(table_of(rule, state.main), 0)
        results.append(RuleResult(rule, rule.text, counts, status_of(rule, counts, rows)))
    lines = tuple(Durable(store, manifest, read_only=True).history()) if history else None
    return Status(
        path=path,
        version=manifest["version"],
        index=state.index,
        batches=state.batches,
        last_batch=state.last_batch,
        rows=state.rows,
        keys=state.keys,
        results=tuple(results),
        history=lines,
    )
