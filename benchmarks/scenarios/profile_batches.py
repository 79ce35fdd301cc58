"""Which of our functions a batch spends its time in, ranked."""

from __future__ import annotations

from jobs import Job
from rules import label, rule_sets
from scenarios.setting import Outcome, Setting, Table, attempt, base_file, batch_file


def run(setting: Setting) -> Outcome:
    """One table a rule set and size."""
    outcome = Outcome()
    for rows in setting.sizes:
        for rules in rule_sets(setting.rules):
            workload = rules[0].workload
            corrupt = setting.corrupt_salaries if workload == "tax" else 0.0
            base = base_file(setting.folder, workload, rows, corrupt)
            batches = batch_file(setting.folder, workload, rows, setting.batch, setting.batches + 10, corrupt)
            names = tuple(rule.name for rule in rules)
            answer = attempt(Job("hotspots", "holdstrue", names, base, (batches,), 10, setting.limit), setting.timeout)
            plain = answer.figures.get("plain_us", answer.failure)
            title = f"{label(rules)}, {setting.batch:,} rows into {rows:,}: {plain} us a batch"
            table = Table(title, ("own us", "with callees", "calls", "function"))
            for spot in answer.figures.get("spots", []):
                table.rows.append((spot["us"], spot["with_callees_us"], spot["calls"], spot["place"]))
            outcome.tables.append(table)
            outcome.records.append({"rule": label(rules), "rows": rows, **answer.figures})
    return outcome
