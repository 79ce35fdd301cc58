"""Batches of changes against a base: ours end to end, peers by joining the delta or counting anew."""

from __future__ import annotations

from typing import Any

from competitors.protocol import RECOMPUTES
from jobs import Answer, Job
from measure import median
from rules import BenchRule, label, rule_sets
from scenarios.setting import Outcome, Setting, Table, attempt, base_file, batch_file, delete_file, ratio

SELF_JOIN_UPTO = 100_000
"""Peers count phi10 to phi12 anew by a self join, which beyond this size does not end in minutes."""

SLOW_UPTO = 1_000_000
"""The papers' indexes hold every row in Python objects; beyond this size they need more memory than we have."""


def run(setting: Setting) -> Outcome:
    """Every size, rule set and competitor; a time counts only if its answers equal ours."""
    outcome = Outcome()
    dirty = f", {setting.corrupt_salaries:.0%} corrupted salaries" if setting.corrupt_salaries else ""
    for rows in setting.sizes:
        for rules in rule_sets(setting.rules):
            answers = {name: _answer(setting, name, rules, rows) for name in setting.competitors}
            outcome.records += _records(answers, rules, rows, setting)
    for kind, size in dict.fromkeys((r["kind"], r["batch"]) for r in outcome.records):
        part = [r for r in outcome.records if (r["kind"], r["batch"]) == (kind, size)]
        outcome.tables.append(_table(part, f"{kind} {size:,} rows, CPU ms a batch (ratio to ours){dirty}", setting))
    if len(setting.sizes) > 1:
        outcome.tables.append(_growth(outcome.records, setting, dirty))
    return outcome


def _answer(setting: Setting, name: str, rules: tuple[BenchRule, ...], rows: int) -> Answer:
    if name in RECOMPUTES and rows > SELF_JOIN_UPTO and not all(rule.grouped for rule in rules):
        return Answer({}, "not run")
    if name in ("lt_tree", "chains") and rows > SLOW_UPTO:
        return Answer({}, "not run")
    workload = rules[0].workload
    corrupt = setting.corrupt_salaries if workload == "tax" else 0.0
    batches = _files(setting, workload, rows, corrupt)
    base = base_file(setting.folder, workload, rows, corrupt)
    job = Job("changes", name, tuple(r.name for r in rules), base, batches, setting.warm, setting.limit)
    return attempt(job, setting.timeout)


def _files(setting: Setting, workload: str, rows: int, corrupt: float) -> tuple[str, ...]:
    """The batches that are timed; with `sweep` also other sizes, and deletes."""
    plan = [(setting.batch, setting.warm + setting.batches)]
    if setting.sweep:
        plan += [(1, 30), (100, 20), (10_000, 5), (100_000, 3)]
    files, start = [], rows
    for size, count in plan:
        files.append(batch_file(setting.folder, workload, start, size, count, corrupt))
        start += size * count
    if setting.sweep:
        files.append(delete_file(setting.folder, rows, setting.batch, setting.batches))
    return tuple(files)


def _records(
    answers: dict[str, Answer], rules: tuple[BenchRule, ...], rows: int, setting: Setting
) -> list[dict[str, Any]]:
    given = [answer for name, answer in answers.items() if answer.figures and name not in RECOMPUTES]
    reference = given[0] if given else Answer({})
    records = []
    for name, answer in answers.items():
        for at, series in enumerate(answer.figures.get("series", [])):
            expected = reference.figures["series"][at]["counts"] if reference.figures else []
            agrees = bool(expected) and _agrees(name, series["counts"], expected, reference, at)
            records.append(
                {
                    "rule": label(rules),
                    "rows": rows,
                    "kind": series["kind"],
                    "batch": series["rows"],
                    "competitor": name,
                    "agrees": agrees,
                    "cpu_ms": median(series["cpu_ms"]) if agrees else None,
                    "cpu_ms_min": round(min(series["cpu_ms"]), 3) if agrees else None,
                    "wall_ms": median(series["wall_ms"]) if agrees else None,
                    "pairs": sum(sum(counts) for counts in expected),
                    "load_cpu_ms": round(answer.figures["load_cpu_ms"], 1),
                    "peak_rss_mb": answer.figures["peak_rss_mb"],
                    "corrupt_salaries": setting.corrupt_salaries,
                    "limit": setting.limit,
                }
            )
        if answer.failure:
            records.append(
                {
                    "rule": label(rules),
                    "rows": rows,
                    "kind": "insert",
                    "batch": setting.batch,
                    "competitor": name,
                    "failure": answer.failure,
                }
            )
    return records


def _agrees(name: str, counts: list[list[int]], expected: list[list[int]], reference: Answer, at: int) -> bool:
    """Equal answers; for a competitor that counts anew, its counts grow by what the others say each batch adds."""
    if name not in RECOMPUTES:
        return counts == expected
    sign = -1 if reference.figures["series"][at]["kind"] == "delete" else 1
    steps = zip(counts, counts[1:], expected[1:], strict=False)
    grown = all([a + sign * e for a, e in zip(x, z, strict=True)] == y for x, y, z in steps)
    last = at == len(reference.figures["series"]) - 1
    return grown and (not last or counts[-1] == reference.figures.get("totals", counts[-1]))


def _cell(record: dict[str, Any] | None, own: float | None) -> str:
    if record is None:
        return "-"
    if "failure" in record:
        return str(record["failure"])
    if not record["agrees"]:
        return "WRONG ANSWER"
    if record["competitor"] == "holdstrue":
        return f"{record['cpu_ms']:.2f}"
    by = ratio(record["cpu_ms"], own)
    return f"{record['cpu_ms']:.1f}" + (f" ({by:.1f}x)" if isinstance(by, float) else "")


def _table(records: list[dict[str, Any]], title: str, setting: Setting) -> Table:
    table = Table(title, ("rule", "base", "pairs in all", *setting.competitors))
    for rule, rows in dict.fromkeys((r["rule"], r["rows"]) for r in records):
        by_name = {r["competitor"]: r for r in records if (r["rule"], r["rows"]) == (rule, rows)}
        own = by_name.get("holdstrue", {}).get("cpu_ms")
        pairs = next((r["pairs"] for r in by_name.values() if "pairs" in r), 0)
        table.rows.append((rule, rows, pairs, *(_cell(by_name.get(name), own) for name in setting.competitors)))
    return table


def _growth(records: list[dict[str, Any]], setting: Setting, dirty: str) -> Table:
    """Our time on the largest base over that on the smallest."""
    low, high = min(setting.sizes), max(setting.sizes)
    table = Table(
        f"our batches of {setting.batch:,} from {low:,} to {high:,} rows{dirty}",
        ("rule", "CPU ms", "at the largest", "growth"),
    )
    own = {
        (r["rule"], r["rows"]): r.get("cpu_ms")
        for r in records
        if r["competitor"] == "holdstrue" and r["kind"] == "insert" and r["batch"] == setting.batch
    }
    for rule in dict.fromkeys(rule for rule, _ in own):
        first, last = own.get((rule, low)), own.get((rule, high))
        if first and last:
            table.rows.append((rule, first, last, last / first))
    return table
