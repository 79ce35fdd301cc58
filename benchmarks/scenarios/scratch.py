"""Whole tables from scratch: ours against GROUP BY for keys and FDs and against self joins for the rest."""

from __future__ import annotations

from typing import Any

from jobs import Answer, Job
from measure import median
from rules import rule_sets
from scenarios.setting import Outcome, Setting, Table, attempt, base_file, ratio

SELF_JOIN_UPTO = 100_000

PEERS = ("duckdb", "duckdb_groups", "polars")


def run(setting: Setting) -> Outcome:
    """Every size and single rule; counts of pairs must be equal (`duckdb_groups`: of violating groups)."""
    outcome = Outcome()
    table = Table("from scratch, CPU ms (ratio to ours)", ("rule", "rows", "pairs", "holdstrue", "wall", *PEERS))
    for rule_set in rule_sets(setting.rules):
        if len(rule_set) > 1:
            continue
        rule = rule_set[0]
        for rows in setting.sizes:
            corrupt = setting.corrupt_salaries if rule.workload == "tax" else 0.0
            base = base_file(setting.folder, rule.workload, rows, corrupt)
            answers: dict[str, Answer] = {}
            for name in ("holdstrue", *PEERS):
                slow = name != "holdstrue" and not rule.grouped
                if slow and (rows > SELF_JOIN_UPTO or name == "duckdb_groups"):
                    answers[name] = Answer({}, "-" if name == "duckdb_groups" else "not run")
                    continue
                options = {"repeats": 1 if slow else 5}
                job = Job("scratch", name, (rule.name,), base, (), 0 if slow else 1, 0, options)
                answers[name] = attempt(job, setting.timeout)
            ours = answers["holdstrue"]
            own = median(ours.figures["cpu_ms"]) if ours.figures else None
            cells = []
            for name, answer in answers.items():
                record = _record(rule.name, rows, name, answer, ours)
                outcome.records.append(record)
                if name != "holdstrue":
                    cells.append(_cell(record, own))
            wall = median(ours.figures["wall_ms"]) if ours.figures else ours.failure
            table.rows.append((rule.name, rows, ours.figures.get("answer", {}).get("pairs", 0), own, wall, *cells))
    outcome.tables.append(table)
    return outcome


def _record(rule: str, rows: int, name: str, answer: Answer, ours: Answer) -> dict[str, Any]:
    if answer.failure:
        return {"rule": rule, "rows": rows, "competitor": name, "failure": answer.failure}
    known = ours.figures.get("answer", {})
    agrees = all(known.get(what) == count for what, count in answer.figures["answer"].items())
    return {
        "rule": rule,
        "rows": rows,
        "competitor": name,
        "agrees": agrees,
        "answer": answer.figures["answer"],
        "cpu_ms": median(answer.figures["cpu_ms"]) if agrees else None,
        "cpu_ms_min": round(min(answer.figures["cpu_ms"]), 2),
        "wall_ms": median(answer.figures["wall_ms"]),
        "peak_rss_mb": answer.figures["peak_rss_mb"],
    }


def _cell(record: dict[str, Any], own: float | None) -> str:
    if "failure" in record:
        return str(record["failure"])
    if not record["agrees"]:
        return f"WRONG ANSWER {record['answer']}"
    by = ratio(record["cpu_ms"], own)
    return f"{record['cpu_ms']:.0f}" + (f" ({by:.2f}x)" if isinstance(by, float) else "")
