"""Tables so small that a job of stages would mostly wait: fetched in one bounded job, and checked in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from holdstrue.monitor.check import check as check_here
from holdstrue.monitor.report import Report
from holdstrue.monitor.sharded_check import Prepared
from holdstrue.plan.checks import MeasureCheck
from holdstrue.sources.fit import is_text
from holdstrue.spark.estimates import estimated_bytes

BYTES = 256 << 10
"""Of a table, by Spark's estimate, up to which it is fetched. A check by Catalyst of ten rows took 0.5 to 2.5 s on two
cores, by its number of passes, and this 0.15 s; from some 100,000 rows on the passes are the faster way."""
ROWS = 10_000
"""Of a table, in any case: an estimate may be wrong, and what passes through the driver is bounded."""


def fetched(frames: Mapping[str, DataFrame], schemas: Mapping[str, pa.Schema]) -> dict[str, pa.Table] | None:
    """The tables themselves where all of them are small; None where one is not."""
    for frame in frames.values():
        size = estimated_bytes(frame)
        if size is None or size > BYTES:
            return None
    found = {}
    for name, frame in frames.items():
        try:
            rows = frame.limit(ROWS + 1).toArrow()
        except Exception:  # noqa: BLE001  PySpark's own, or py4j's, which is not there with Connect
            # more than the driver may be sent, or values that cannot be read: stages do without, or say what is wrong
            return None
        if rows.num_rows > ROWS:
            return None
        found[name] = rows.select(schemas[name].names).cast(schemas[name])
    return found


def check_small(given: Prepared, limit: int | None) -> Report | None:
    """How small tables stand to their rules; None where they are not small, or where other tables' rows are named."""
    plan = given.plan
    if any(check.table != plan.main for check in plan.checks if not isinstance(check, MeasureCheck)):
        return None
    tables = fetched(given.sources, plan.schemas)
    if tables is None:
        return None
    # what text is like was said of the data frame
    text = {f"{name}.{f.name}": "text" for name, t in tables.items() for f in t.schema if is_text(f.type)}
    rules = replace(plan.rules, types=(), key=())
    own: Sequence[str] = given.keys.get(plan.main, ())
    others = {name: table for name, table in tables.items() if name != plan.main}
    if plan.main not in tables:
        return None
    return check_here(tables[plan.main], rules, key=own, tables=others, limit=limit, types=text, index=plan.index)
