"""Bytes a row: what each rule's index holds beside the rows' own values."""

from __future__ import annotations

from jobs import Job
from rules import label, rule_sets
from scenarios.setting import Outcome, Setting, Table, attempt, base_file, batch_file


def run(setting: Setting) -> Outcome:
    """Size of every part after loading the base and a few batches (so that listing structures exist)."""
    outcome = Outcome()
    table = Table(
        "memory", ("rule", "rows", "index bytes a row", "a rule", "rows' bytes a row", "peak RSS MB", "parts")
    )
    for rows in setting.sizes:
        for rules in rule_sets(setting.rules):
            workload = rules[0].workload
            base = base_file(setting.folder, workload, rows, 0.0)
            batches = batch_file(setting.folder, workload, rows, 1000, 3, 0.0)
            names = tuple(rule.name for rule in rules)
            answer = attempt(Job("memory", "holdstrue", names, base, (batches,), 0, setting.limit), setting.timeout)
            if answer.failure:
                table.rows.append((label(rules), rows, answer.failure, "-", "-", "-", "-"))
                continue
            parts: dict[str, float] = answer.figures["bytes_a_row"]
            values = sum(size for part, size in parts.items() if part.startswith("rows of"))
            index = sum(parts.values()) - values
            shown = ", ".join(f"{part} {size:.0f}" for part, size in parts.items())
            peak = answer.figures["peak_rss_mb"]
            table.rows.append((label(rules), rows, index, index / len(rules), values, peak, shown))
            outcome.records.append({"rule": label(rules), "index_bytes_a_row": round(index, 2), **answer.figures})
    outcome.tables.append(table)
    return outcome
