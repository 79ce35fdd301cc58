"""Inclusions: from scratch against Desbordante's Spider, and under changes by attributes, values and structure.

`--sizes` are distinct values of the base under changes and (up to six million) rows of TPC-H's `lineitem`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from jobs import Answer, Job
from measure import median
from scenarios.setting import PUBLIC_DATA, Outcome, Setting, Table, attempt, ratio
from workloads.tpch import tpch

NYC = PUBLIC_DATA / "nycflights13"
MOST_LINES = 6_000_000
ATTRIBUTES = (60, 396)
BY_ATTRIBUTES = (12, 60, 120, 240, 396)
"""Numbers of attributes at which clusters and counters are compared, on the smallest base."""


def run(setting: Setting) -> Outcome:
    """From scratch, under changes, and both structures."""
    outcome = Outcome()
    _scratch(setting, outcome)
    _growth(setting, outcome)
    _structures(setting, outcome)
    return outcome


def _scratch(setting: Setting, outcome: Outcome) -> None:
    table = Table(
        "all inclusions between columns of CSV files, read as text, CPU ms",
        ("data", "inclusions", "holdstrue", "wall", "spider", "wall", "ratio CPU", "ratio wall"),
    )
    for name, folder in _folders(setting):
        files = sorted(path.name for path in folder.iterdir())
        options = {"files": files, "repeats": 3}
        answers = {
            peer: attempt(Job("inclusions", peer, (name,), str(folder), (), 1, 0, options), setting.timeout)
            for peer in ("holdstrue", "spider")
        }
        records = [_record(name, peer, answer, answers["holdstrue"]) for peer, answer in answers.items()]
        outcome.records += records
        ours, theirs = records
        table.rows.append(
            (
                name,
                ours.get("inclusions", ours.get("failure")),
                *(_shown(record, key) for record in records for key in ("cpu_ms", "wall_ms")),
                ratio(theirs.get("cpu_ms"), ours.get("cpu_ms")),
                ratio(theirs.get("wall_ms"), ours.get("wall_ms")),
            )
        )
    outcome.tables.append(table)


def _folders(setting: Setting) -> list[tuple[str, Path]]:
    """Folders of CSV files: nycflights13 where it is beside the repository, and TPC-H by size."""
    found = []
    if NYC.is_dir() and not setting.quick:
        folder = setting.folder / "nycflights13"
        folder.mkdir(exist_ok=True)
        nulls = pacsv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
        for path in NYC.iterdir():
            table = pq.read_table(path) if path.suffix == ".parquet" else pacsv.read_csv(path, convert_options=nulls)
            _write(table, folder / f"{path.stem}.csv")
        found.append(("nycflights13", folder))
    for lines in dict.fromkeys(min(size, MOST_LINES) for size in setting.sizes):
        folder = setting.folder / f"tpch-{lines}"
        folder.mkdir(exist_ok=True)
        for name, table in tpch(lines).items():
            _write(table, folder / f"{name}.csv")
        found.append((f"TPC-H, {lines:,} lines", folder))
    return found


def _write(table: Any, path: Path) -> None:
    pacsv.write_csv(table, path, pacsv.WriteOptions(quoting_style="needed"))


def _record(data: str, peer: str, answer: Answer, ours: Answer) -> dict[str, Any]:
    if answer.failure:
        return {"data": data, "competitor": peer, "failure": answer.failure}
    agrees = answer.figures["answer"] == ours.figures.get("answer")
    return {
        "data": data,
        "competitor": peer,
        "agrees": agrees,
        "inclusions": answer.figures["inclusions"],
        "cpu_ms": median(answer.figures["cpu_ms"]) if agrees else None,
        "wall_ms": median(answer.figures["wall_ms"]) if agrees else None,
        "peak_rss_mb": answer.figures["peak_rss_mb"],
    }


def _shown(record: dict[str, Any], key: str) -> Any:
    if "failure" in record:
        return record["failure"]
    return record[key] if record["agrees"] else f"OTHER ANSWER ({record['inclusions']})"


def _changes(setting: Setting, structure: str, attributes: int, values: int) -> Answer:
    options = {"values": values, "attributes": attributes, "batch": setting.batch, "batches": setting.batches}
    job = Job("inclusion_changes", structure, (f"{attributes} attributes",), "", (), setting.warm, 0, options)
    return attempt(job, setting.timeout)


def _growth(setting: Setting, outcome: Outcome) -> None:
    """Time a changed row and bytes a value by attributes and values."""
    table = Table(
        f"batches of {setting.batch:,} rows of twelve columns, CPU us a changed row",
        ("attributes", "distinct values", "insert", "delete", "update", "load s", "bytes a value"),
    )
    for attributes in ATTRIBUTES:
        for values in setting.sizes:
            answer = _changes(setting, "counters", attributes, values)
            outcome.records.append(_change_record("counters", attributes, values, answer, answer))
            table.rows.append(_row(answer, attributes, values))
    outcome.tables.append(table)


def _row(answer: Answer, attributes: int, values: int) -> tuple[Any, ...]:
    figures = answer.figures
    if not figures:
        return attributes, values, answer.failure, "", "", "", ""
    times = (figures[kind] for kind in ("insert", "delete", "update"))
    return (figures["attributes"], figures["distinct"], *times, figures["load_cpu_ms"] / 1e3, figures["bytes_a_value"])


def _structures(setting: Setting, outcome: Outcome) -> None:
    """Counters against the paper's clusters by number of attributes: equal answers, time a changed row."""
    values = min(setting.sizes)
    table = Table(
        f"counters against attribute clusters, {values:,} values, CPU us a changed row",
        ("attributes", "counters: insert", "delete", "clusters: insert", "delete", "ratio insert", "ratio delete"),
    )
    for attributes in BY_ATTRIBUTES:
        answers = {name: _changes(setting, name, attributes, values) for name in ("counters", "clusters")}
        records = [_change_record(n, attributes, values, a, answers["counters"]) for n, a in answers.items()]
        outcome.records += records
        ours, theirs = records
        if not all(record.get("agrees") for record in records):
            table.rows.append(
                (attributes, *(str(record.get("failure", "OTHER ANSWER")) for record in records), *"----")
            )
            continue
        cells = (record[kind] for record in records for kind in ("insert", "delete"))
        ratios = (ratio(theirs[kind], ours[kind]) for kind in ("insert", "delete"))
        table.rows.append((attributes, *cells, *ratios))
    outcome.tables.append(table)


def _change_record(structure: str, attributes: int, values: int, answer: Answer, reference: Answer) -> dict[str, Any]:
    record: dict[str, Any] = {"competitor": structure, "attributes": attributes, "values": values}
    if answer.failure:
        return record | {"failure": answer.failure}
    return record | answer.figures | {"agrees": answer.figures["answer"] == reference.figures.get("answer")}
