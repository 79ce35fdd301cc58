"""What a run is asked for, the data files it shares, and the results it gathers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs import Answer, Job, run_job
from workloads.flights import flights
from workloads.tax import tax

PUBLIC_DATA = Path(__file__).parents[3] / "shared" / "data"
"""Public tables beside the checkout, which the project does not ship; what needs them is left out without them."""


@dataclass(frozen=True)
class Setting:
    """Sizes, rules and limits of a run; files of generated data live in `folder` while it lasts."""

    folder: Path
    sizes: tuple[int, ...]
    rules: str
    competitors: tuple[str, ...]
    batches: int = 15
    batch: int = 1000
    warm: int = 4
    limit: int = 1000
    sweep: bool = False
    corrupt_salaries: float = 0.0
    timeout: float = 300.0
    quick: bool = False


@dataclass
class Table:
    """A table of figures with a title, written as Markdown."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def markdown(self) -> str:
        """The table with aligned columns."""
        cells = [self.head, *([_shown(value) for value in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.head))]
        lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in cells]
        rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
        return "\n".join([f"### {self.title}", "", lines[0], rule, *lines[1:]])


@dataclass
class Outcome:
    """Everything a scenario found."""

    tables: list[Table] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def make(workload: str, rows: int, start: int, corrupt_salaries: float) -> pa.Table:
    """Rows of a workload."""
    if workload == "flights":
        return flights(rows, start=start)
    return tax(rows, start=start, corrupt_salaries=corrupt_salaries)


@cache
def base_file(folder: Path, workload: str, rows: int, corrupt_salaries: float) -> str:
    """The file of a base table, made once a run."""
    path = folder / f"{workload}-{rows}-{corrupt_salaries}.arrow"
    write(path, [make(workload, rows, 0, corrupt_salaries)])
    return str(path)


@cache
def batch_file(folder: Path, workload: str, start: int, rows: int, count: int, corrupt_salaries: float) -> str:
    """A file of further rows, one record batch for each batch to apply."""
    path = folder / f"{workload}-{start}-{rows}x{count}-{corrupt_salaries}.arrow"
    write(path, [make(workload, rows, start + i * rows, corrupt_salaries) for i in range(count)])
    return str(path)


@cache
def delete_file(folder: Path, base: int, rows: int, count: int) -> str:
    """A file of deletes: keys spread over the base, none twice."""
    path = folder / f"delete-{base}-{rows}x{count}.arrow"
    step = base // (rows * count)
    parts = []
    for i in range(count):
        ids = pa.array([(i * rows + j) * step for j in range(rows)], type=pa.int64())
        parts.append(pa.table({"id": ids, "op": ["delete"] * rows}))
    write(path, parts)
    return str(path)


def write(path: Path, tables: list[pa.Table]) -> None:
    """Write tables as the record batches of an Arrow file."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_batch(table.combine_chunks().to_batches()[0])


def attempt(job: Job, timeout: float) -> Answer:
    """Run a job and say so."""
    print(f"  {job.task} {job.competitor} {'+'.join(job.rules)} ...", end="", file=sys.stderr, flush=True)
    answer = run_job(job, timeout)
    print(f" {answer.failure or 'done'}", file=sys.stderr, flush=True)
    return answer


def ratio(theirs: float | None, ours: float | None) -> float | str:
    """How many times faster we are."""
    return "-" if not theirs or not ours else theirs / ours
