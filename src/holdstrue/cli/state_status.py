"""How a state stands, read from its manifest; only rows that several shards count are looked at."""

from __future__ import annotations

from holdstrue.detect.clock import wall
from holdstrue.detect.delta import RuleCounts, RuleResult
from holdstrue.monitor.format_1 import is_format_1
from holdstrue.monitor.one_piece import OnePiece
from holdstrue.monitor.views import status_of
from holdstrue.report.answers import Status
from holdstrue.shards.facts import HISTORY, Facts, history_of
from holdstrue.state.journal import Journal
from holdstrue.state.moment import At


def read_status(path: str, *, history: bool = False, at: At | None = None) -> Status:
    """Rules with their counts, tables and batches, of the newest version or of an earlier one.

    Complexity: O(rules), with the history O(batches); in a sharded state O(violating rows) for rules
    whose rows may be in several shards.
    """
    with Journal.open(path, "monitor", HISTORY, read_only=True, at=at) as journal:
        manifest, state, moment = journal.facts, journal.read(Facts.of), journal.moment
        lines = tuple(history_of(journal.history())) if history else None
        # what depends on the time is as it is now, or as it was when an earlier version was made
        now = wall() if at is None or moment.time is None else int(moment.time.timestamp() * 10**6) * 1000
        known, measured = state.judged(now).counts, state.measured(now)
        if is_format_1(manifest):
            # what was counted then may not be what is counted now
            known = OnePiece.opened(path, read_only=True, at=journal.version).counts()
        elif manifest.get("sharding") is not None:
            from holdstrue.shards.status import sharded_counts

            known = journal.read(lambda facts: sharded_counts(path, facts, now))
    results = []
    for rule in state.rules:
        counts = known.get(rule.name, RuleCounts(0, 0, 0, 0))
        rows = state.rows.get(rule.own_table or state.main, 0)
        status = status_of(rule, counts, rows)
        results.append(RuleResult(rule, rule.text, counts, status, measured=measured.get(rule.name)))
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
        moment=None if at is None else moment,
    )
