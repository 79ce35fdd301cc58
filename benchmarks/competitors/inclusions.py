"""InclusionCore in a process of their own: found from scratch in files, and kept current by our two structures."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from jobs import Job
from measure import Span, median, peak_rss_mb, timed
from workloads.wide import rows_for, table_count, wide, wide_table


def scratch(job: Job) -> dict[str, Any]:
    """All inclusions between columns of CSV files, read as text, several times; the first is not counted."""
    paths = [Path(job.base) / name for name in job.options["files"]]
    find = {"holdstrue": _ours, "spider": _spider}[job.competitor]
    spans: list[Span] = []
    found: set[str] = set()
    for _ in range(job.options.get("repeats", 3) + job.warm):
        found, span = timed(partial(find, paths))
        spans.append(span)
    kept = spans[job.warm :]
    return {
        "answer": _fingerprint(sorted(found)),
        "inclusions": len(found),
        "cpu_ms": [span.cpu_ms for span in kept],
        "wall_ms": [span.wall_ms for span in kept],
        "peak_rss_mb": peak_rss_mb(),
    }


def _ours(paths: list[Path]) -> set[str]:
    from holdstrue.discovery.inclusions.unary import UnaryInclusions

    core = UnaryInclusions.load({path.stem: _read(path) for path in paths})
    return {
        f"{body.table}.{body.columns[0]} in {body.ref_table}.{body.ref_columns[0]}"
        for body in (rule.body for rule in core.rules())
    }


def _read(path: Path) -> pa.Table:
    names = pacsv.open_csv(path).schema.names
    return pacsv.read_csv(
        path,
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )


def _spider(paths: list[Path]) -> set[str]:
    import desbordante

    spider = desbordante.ind.algorithms.Spider()
    spider.load_data(tables=[(str(path), ",", True) for path in paths])
    spider.execute(threads=2)
    names = [pacsv.open_csv(path).schema.names for path in paths]

    def text(side: Any) -> str:
        table, [column] = side.table_index, side.column_indices
        return f"{paths[table].stem}.{names[table][column]}"

    return {f"{text(found.get_lhs())} in {text(found.get_rhs())}" for found in spider.get_inds()}


def changes(job: Job) -> dict[str, Any]:
    """Batches of inserts, deletes and updates against a base of many values, by one structure."""
    from holdstrue.discovery.inclusions.attributes import RowChanges
    from holdstrue.discovery.inclusions.unary import UnaryInclusions, ValueLayout

    values, attributes, size = job.options["values"], job.options["attributes"], job.options["batch"]
    base = wide(rows_for(values, attributes), attributes, 2 * values, seed=1)
    options = ValueLayout(structure=job.competitor)  # type: ignore[arg-type]
    core, load = timed(lambda: UnaryInclusions.load(base, options))
    distinct = core.structure.distinct_values()
    figures: dict[str, Any] = {"distinct": distinct, "attributes": len(core.attributes), "load_cpu_ms": load.cpu_ms}
    figures["bytes_a_value"] = core.size_bytes() / distinct
    rng, tables, born = np.random.default_rng(2), table_count(attributes), 0
    for kind in ("insert", "delete", "update"):
        spans: list[Span] = []
        for i in range(job.options["batches"] + job.warm):
            name = f"t{i % tables}"
            start = (len(spans) + (0 if kind == "delete" else 500)) * size
            old = base[name].slice(start % max(1, base[name].num_rows - size), size)
            new = wide_table(rng, size, i % tables, 2 * values)
            batch = {
                "insert": RowChanges(added=new),
                "delete": RowChanges(removed=old),
                "update": RowChanges(removed=old, added=new),
            }[kind]
            base[name] = _after(base[name], batch, start % max(1, base[name].num_rows - size))
            turnover, span = timed(partial(core.apply, {name: batch}))
            born += len(turnover.born) + len(turnover.died)
            spans.append(span)
        figures[kind] = median([span.cpu_ms for span in spans[job.warm :]]) * 1e3 / size
    held = hashlib.blake2b(np.packbits(core.held()).tobytes(), digest_size=8).hexdigest()
    figures["answer"] = f"{held} {int(core.structure.shared().sum())} {born}"
    figures["peak_rss_mb"] = peak_rss_mb()
    return figures


def _after(table: pa.Table, batch: Any, start: int) -> pa.Table:
    """The table after a batch: its rows stay where they are, new ones follow."""
    if batch.removed is not None:
        table = pa.concat_tables([table.slice(0, start), table.slice(start + batch.removed.num_rows)])
    return table if batch.added is None else pa.concat_tables([table, batch.added])


def _fingerprint(lines: list[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()
