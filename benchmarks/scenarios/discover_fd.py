"""Keys and FDs: from scratch against Desbordante's HyFD, Pyro, HyUCC and PyroUCC, and batches against from scratch.

`--sizes` are rows of the generated order lines (30 columns); real tables come from beside the repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from jobs import Answer, Job
from measure import median
from scenarios.setting import PUBLIC_DATA, Outcome, Setting, Table, attempt, ratio
from workloads.orders import orders

PEERS = {"fd": ("hyfd", "pyro"), "key": ("hyucc", "pyroucc")}
ORDERS_LHS = 3
"""Left sides of the order lines: longer ones are accidents of 30 columns, tens of thousands of them."""


def run(setting: Setting) -> Outcome:
    """Every table and kind from scratch, then batches."""
    outcome = Outcome()
    tables = list(_tables(setting))
    _scratch(setting, tables, outcome)
    _changes(setting, tables, outcome)
    return outcome


def _tables(setting: Setting) -> list[tuple[str, Path, int | None]]:
    """CSV files with the longest left side to look for; columns are called by number, as UCCs name them."""
    found: list[tuple[str, Path, int | None]] = []
    if PUBLIC_DATA.is_dir():
        adult = pacsv.read_csv(PUBLIC_DATA / "adult" / "adult.csv")
        found.append(("adult", _written(adult, setting.folder / "adult.csv"), None))
        if not setting.quick:
            flights = pq.read_table(PUBLIC_DATA / "nycflights13" / "flights.parquet")
            found.append(("nycflights13 flights", _written(flights, setting.folder / "flights.csv"), None))
    for rows in setting.sizes:
        path = _written(orders(rows), setting.folder / f"orders-{rows}.csv")
        found.append((f"orders, {rows:,} rows", path, ORDERS_LHS))
    return found


def _written(table: pa.Table, path: Path) -> Path:
    # a word for NULL, which Desbordante's algorithms do not all take for equal to itself
    columns = (column.cast(pa.string()).fill_null("none") for column in table.columns)
    numbered = pa.table({str(i): column for i, column in enumerate(columns)})
    pacsv.write_csv(numbered, path, pacsv.WriteOptions(quoting_style="needed"))
    return path


def _scratch(setting: Setting, tables: list[tuple[str, Path, int | None]], outcome: Outcome) -> None:
    for kind, peers in PEERS.items():
        table = Table(
            f"all minimal {kind}s of CSV files, search in CPU s (wall s; ratio of CPU times)",
            ("data", "longest", f"{kind}s", "holdstrue", "read", *peers),
        )
        for name, path, longest in tables:
            options = {"kind": kind, "max_lhs": longest}
            ours = attempt(
                Job("dependencies", "holdstrue", (name, kind), str(path), (), 1, 0, options), setting.timeout
            )
            cells = []
            for peer in peers:
                if longest is not None and peer != "hyfd":
                    cells.append("has no such bound")
                    continue
                answer = attempt(Job("dependencies", peer, (name, kind), str(path), (), 0, 0, options), setting.timeout)
                record = _record(name, kind, peer, answer, ours)
                outcome.records.append(record)
                cells.append(_cell(record, ours))
            outcome.records.append(_record(name, kind, "holdstrue", ours, ours))
            table.rows.append((name, longest or "any", *_own(ours), *cells))
        outcome.tables.append(table)


def _own(answer: Answer) -> tuple[Any, ...]:
    figures = answer.figures
    if not figures:
        return answer.failure, "", ""
    shown = f"{median(figures['cpu_ms']) / 1e3:.2f} ({median(figures['wall_ms']) / 1e3:.2f})"
    return figures["rules"], shown, median(figures["read_ms"]) / 1e3


def _record(data: str, kind: str, peer: str, answer: Answer, ours: Answer) -> dict[str, Any]:
    about = {"data": data, "kind": kind, "competitor": peer}
    if answer.failure:
        return {**about, "failure": answer.failure}
    figures = answer.figures
    agrees = not ours.failure and figures["answer"] == ours.figures["answer"]
    times = {name: median(figures[name]) for name in ("read_ms", "cpu_ms", "wall_ms")}
    return {**about, "agrees": agrees, "rules": figures["rules"], **times, "peak_rss_mb": figures["peak_rss_mb"]}


def _cell(record: dict[str, Any], ours: Answer) -> str:
    if "failure" in record:
        return str(record["failure"])
    if not record["agrees"]:
        return f"OTHER ANSWER ({record['rules']:,})"
    by = ratio(record["cpu_ms"], median(ours.figures["cpu_ms"]))
    times = f"{record['cpu_ms'] / 1e3:.2f} ({record['wall_ms'] / 1e3:.2f}"
    return f"{times}; {by:.1f}x)" if isinstance(by, float) else f"{times})"


def _changes(setting: Setting, tables: list[tuple[str, Path, int | None]], outcome: Outcome) -> None:
    table = Table(
        f"keys and FDs under batches of {setting.batch:,} rows, CPU ms a batch (median), against from scratch",
        ("data", "longest", "rules", "insert", "delete", "update", "from scratch", "ratio insert", "bytes a row"),
    )
    for name, path, longest in tables:
        options = {"batch": setting.batch, "batches": min(setting.batches, 5), "max_lhs": longest}
        answer = attempt(Job("dependency_changes", "holdstrue", (name,), str(path), (), 0, 0, options), setting.timeout)
        outcome.records.append({"data": name, "competitor": "holdstrue", **answer.figures, "failure": answer.failure})
        figures = answer.figures
        if not figures or not figures["agrees"]:
            table.rows.append((name, longest or "any", answer.failure or "OTHER ANSWER", *("",) * 6))
            continue
        times = [median(figures[kind]) for kind in ("insert", "delete", "update")]
        scratch = figures["scratch_cpu_ms"]
        table.rows.append(
            (
                name,
                longest or "any",
                figures["rules"],
                *times,
                scratch,
                ratio(scratch, times[0]),
                figures["bytes_a_row"],
            )
        )
    outcome.tables.append(table)
