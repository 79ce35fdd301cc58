"""Tables so small that a job of stages would mostly wait: fetched in one bounded job, and checked in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from holdstrue.monitor.check import check as check_here
from holdstrue.monitor.report import Report
from holdstrue.monitor.sharded_check import Prepared
from holdstrue.plan.checks import MeasureCheck, PairCheck
from holdstrue.sources.fit import is_text
from holdstrue.spark.estimates import estimated_bytes
from holdstrue.spark.footers import footer_rows


@dataclass(frozen=True)
class Reach:
    """Up to which size a table is fetched: what passes through the driver is bounded, whatever an estimate says."""

    bytes: int
    """By Spark's estimate."""
    rows: int


FOR_PASSES = Reach(256 << 10, 10_000)
"""Where Catalyst can check the rules: of ten rows it took 0.5 to 2.5 s on two cores, by its number of passes, and this
0.15 s; from some 100,000 rows on the passes are the faster way."""
FOR_STAGES = Reach(4 << 20, 200_000)
"""Where a rule compares pairs of rows by order: 100,000 rows of phi10 took 0.6 s of CPU through stages, 0.13 s so."""


def reach_for(given: Prepared) -> Reach:
    """How large a table may be to be fetched, by what would check it otherwise."""
    return FOR_STAGES if any(isinstance(check, PairCheck) for check in given.plan.checks) else FOR_PASSES


def fetched(given: Prepared, reach: Reach) -> dict[str, pa.Table] | None:
    """The tables themselves where all of them are small; None where one is not."""
    known: dict[str, int | None] = {}
    for name, frame in given.frames.items():
        size = estimated_bytes(frame)
        if size is None or size > reach.bytes:
            return None
        known[name] = footer_rows(frame)
        if (known[name] or 0) > reach.rows:
            return None
    found = {}
    for name, frame in given.sources.items():
        try:
            # a limit that is not needed would have all rows go to one task first
            rows = (frame if known[name] is not None else frame.limit(reach.rows + 1)).toArrow()
        except Exception:  # noqa: BLE001  PySpark's own, or py4j's, which is not there with Connect
            # more than the driver may be sent, or values that cannot be read: stages do without, or say what is wrong
            return None
        if rows.num_rows > reach.rows:
            return None
        found[name] = rows.select(given.plan.schemas[name].names).cast(given.plan.schemas[name])
    return found


def check_small(given: Prepared, limit: int | None) -> Report | None:
    """How small tables stand to their rules; None where they are not small, or where other tables' rows are named."""
    plan = given.plan
    if any(check.table != plan.main for check in plan.checks if not isinstance(check, MeasureCheck)):
        return None
    tables = fetched(given, reach_for(given))
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
