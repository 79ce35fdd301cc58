"""More violating pairs than could be stored: phi12 counted exactly, in memory that does not grow with them."""

from __future__ import annotations

from jobs import Job
from measure import median
from scenarios.setting import Outcome, Setting, Table, attempt, base_file, batch_file


def run(setting: Setting) -> Outcome:
    """From scratch and under changes; the exact count is checked by a self join where that ends."""
    outcome = Outcome()
    head = ("rows", "pairs", "check CPU s", "check peak RSS MB", "1000 inserts CPU ms", "pairs they add", "peak RSS MB")
    table = Table("phi12: pairs counted, never stored", (*head, "DuckDB self join"))
    for rows in setting.sizes:
        base = base_file(setting.folder, "flights", rows, 0.0)
        batches = batch_file(setting.folder, "flights", rows, setting.batch, setting.warm + setting.batches, 0.0)
        scratch = attempt(Job("scratch", "holdstrue", ("phi12",), base, (), 1, 0, {"repeats": 2}), setting.timeout)
        changes = attempt(
            Job("changes", "holdstrue", ("phi12",), base, (batches,), setting.warm, setting.limit), setting.timeout
        )
        peer = attempt(Job("scratch", "duckdb", ("phi12",), base, (), 0, 0, {"repeats": 1}), setting.timeout)
        if scratch.failure or changes.failure:
            table.rows.append((rows, scratch.failure, changes.failure, *("-",) * 5))
            continue
        series = changes.figures["series"][0]
        pairs = scratch.figures["answer"]["pairs"]
        same = peer.failure or (
            f"equal, {median(peer.figures['cpu_ms']) / 1e3:.1f} s"
            if peer.figures["answer"]["pairs"] == pairs
            else f"WRONG ANSWER {peer.figures['answer']}"
        )
        figures = (
            rows,
            pairs,
            median(scratch.figures["cpu_ms"]) / 1e3,
            scratch.figures["peak_rss_mb"],
            median(series["cpu_ms"]),
            int(median([float(sum(counts)) for counts in series["counts"]])),
            changes.figures["peak_rss_mb"],
            same,
        )
        table.rows.append(figures)
        outcome.records.append(dict(zip((*head, "self_join"), figures, strict=True)))
    outcome.tables.append(table)
    return outcome
