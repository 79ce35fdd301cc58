"""One row a call, in memory: how long a caller waits for its delta."""

from __future__ import annotations

from jobs import Job
from measure import median, quantile
from rules import label, rule_sets
from scenarios.setting import Outcome, Setting, Table, attempt, base_file, batch_file


def run(setting: Setting) -> Outcome:
    """Median and 99th percentile of single-row applies."""
    outcome = Outcome()
    head = ("rule", "base", "wall ms median", "p99", "max", "CPU ms median")
    table = Table("single-row apply in memory", head)
    count = 300 if setting.quick else 2000
    for rows in setting.sizes:
        for rules in rule_sets(setting.rules):
            workload = rules[0].workload
            base = base_file(setting.folder, workload, rows, 0.0)
            batches = batch_file(setting.folder, workload, rows, 1, count, 0.0)
            names = tuple(rule.name for rule in rules)
            answer = attempt(Job("changes", "holdstrue", names, base, (batches,), 50, setting.limit), setting.timeout)
            if answer.failure:
                table.rows.append((label(rules), rows, answer.failure, "-", "-", "-"))
                continue
            series = answer.figures["series"][0]
            wall, cpu = series["wall_ms"], series["cpu_ms"]
            figures = (median(wall), quantile(wall, 0.99), max(wall), median(cpu))
            table.rows.append((label(rules), rows, *(f"{value:.3f}" for value in figures)))
            outcome.records.append(
                {
                    "rule": label(rules),
                    "rows": rows,
                    "wall_ms": figures[0],
                    "wall_ms_p99": figures[1],
                    "wall_ms_max": round(figures[2], 3),
                    "cpu_ms": figures[3],
                }
            )
    outcome.tables.append(table)
    return outcome
