"""Discovery on Spark with a small driver and small workers, beside one process and SQL that validates the same rules.

The table is that of taxes without noise, as Parquet. Every side reads the same files: our search finds the rules; SQL
is told them and asks of each, one by one, whether it holds, for `SQL_SECONDS`; one process searches up to
`HERE` rows. CPU seconds are of Java and of Python's workers together. `--rules "fd,key"` runs some of the kinds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenarios.setting import Outcome, Setting, Table
from scenarios.spark_sql import TASKS, clocked
from workloads.tax import tax

SMALL = {
    "spark.driver.memory": "1g",
    "spark.driver.maxResultSize": "4m",
    "spark.executor.pyspark.memory": "1g",
}
"""In local mode the driver's memory is that of the tasks as well, but for Python."""
KINDS = ("key", "fd", "cfd", "ind", "dc")
LONGEST = 3
"""Columns of rules at most."""
ORDERED = ("state", "has_child", "salary", "rate", "child_exemp")
"""The columns of denial constraints."""
HERE = 10_000_000
"""Rows that one process searches at most: it holds them all."""
SQL_SECONDS = 60.0
"""What SQL may take before it is asked no further: of ten million rows it takes up to a minute for a rule."""
PIECE = 1_000_000
PLACE = ["zip", "city", "state"]


def run(setting: Setting) -> Outcome:
    """Every kind at every size."""
    import holdstrue.spark

    outcome = Outcome()
    spark = holdstrue.spark.start(f"local[{TASKS}]", SMALL)
    for rows in setting.sizes:
        files = written(setting.folder, rows)
        frames = {name: spark.read.parquet(path) for name, path in files.items()}
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        head = (
            "kind", "rules", "CPU s", "wall s", "SQL: of rules", "CPU s", "wall s", "one process CPU s", "wall s",
            "same rules",
        )  # fmt: skip
        what = "driver and workers of 1 GB: search on Spark, SQL told the rules one by one, one process"
        table = Table(f"{rows:,} rows of taxes, {what}", head)
        for kind in [kind for kind in KINDS if kind in setting.rules.split(",")] or KINDS:
            table.rows.append(measured(outcome, spark, kind, frames, files, rows, setting))
            print(" | ".join(map(str, table.rows[-1])), flush=True)
        outcome.tables.append(table)
    spark.stop()
    return outcome


def written(folder: Path, rows: int) -> dict[str, str]:
    """Files of the taxes, and of the places in them."""
    base, places = folder / f"taxes-{rows}", folder / f"places-{rows}"
    if (places / "places.parquet").exists():
        return {"base": str(base), "places": str(places)}
    for path in (base, places):
        path.mkdir(exist_ok=True)
    found = None
    for start in range(0, rows, PIECE):
        part = tax(min(PIECE, rows - start), start=start, noise=0.0)
        pq.write_table(part, base / f"{start:010}.parquet", row_group_size=PIECE // 4)
        every = part.select(PLACE) if found is None else pa.concat_tables([found, part.select(PLACE)])
        found = every.group_by(PLACE).aggregate([])
    pq.write_table(found, places / "places.parquet")
    return {"base": str(base), "places": str(places)}


def measured(
    outcome: Outcome, spark: Any, kind: str, frames: Any, files: Any, rows: int, setting: Setting
) -> tuple[Any, ...]:
    """A line of the table."""
    import holdstrue
    import holdstrue.spark

    asked: dict[str, Any] = {
        "kinds": kind, "columns": ORDERED if kind == "dc" else (), "max_predicates": LONGEST, "budget": setting.timeout,
    }  # fmt: skip
    on_spark, here_too = (frames, files) if kind == "ind" else (frames["base"], files["base"])
    found, ours = clocked(lambda: holdstrue.spark.discover(on_spark, whole=0, **asked))
    queries = list(validations(found))
    held, sql = clocked(lambda: validated(spark, queries, SQL_SECONDS))
    here, own = (None, ("-", "-")) if rows > HERE else clocked(lambda: holdstrue.discover(here_too, **asked))
    same = None
    if here is not None and here.complete and found.complete:
        same = {rule.text for rule in here.rules} == {rule.text for rule in found.rules}
    record = {"kind": kind, "rows": rows, "ours": ours, "sql": sql, "here": own, "same": same, "held": all(held)}
    outcome.records.append(record | {"rules": len(found.rules), "complete": found.complete, "queries": len(queries)})
    told = {True: "yes", False: "NO", None: "not compared" if found.complete else "not complete"}[same]
    asked_of = f"{len(held)} of {len(queries)}" if queries else "-"
    return kind, len(found.rules), *ours, asked_of, *(sql if queries else ("-", "-")), *own, told


def validated(spark: Any, queries: list[str], seconds: float) -> list[bool]:
    """What queries say, of as many as there is time for."""
    ends, held = time.monotonic() + seconds, []
    for query in queries:
        if time.monotonic() > ends:
            break
        held.append(spark.sql(query).first()[0])
    return held


def validations(found: Any) -> Iterator[str]:
    """For each rule that no other implies a query that says whether it holds; none for denial constraints."""
    for rule in found.telling:
        body = rule.body
        match rule.kind:
            case "key":
                names, known = ", ".join(body.columns), known_in(body.columns)
                yield (
                    f"select count(1) = 0 from (select 1 from base where {known} group by {names} having count(1) > 1)"
                )
            case "fd":
                yield dependency(body.lhs, body.rhs[0], "true")
            case "cfd":
                for pattern in body.tableau:
                    given = list(zip(body.lhs, pattern.lhs, strict=True))
                    where = " and ".join(f"{c} = {literal(one.value)}" for c, one in given if one is not None)
                    right = pattern.rhs[0]
                    if right is None:
                        yield dependency([c for c, one in given if one is None], body.rhs[0], where)
                    else:
                        yield (
                            f"select count(1) = 0 from base where {where} and {body.rhs[0]} <> {literal(right.value)}"
                        )
            case "inclusion":
                on = " and ".join(f"l.{a} = r.{b}" for a, b in zip(body.columns, body.ref_columns, strict=True))
                known = " and ".join(f"l.{c} is not null" for c in body.columns)
                yield (
                    f"select count(1) = 0 from {body.table} l left anti join {body.ref_table} r on {on} where {known}"
                )


def dependency(left: Any, right: str, where: str) -> str:
    """Whether a column depends on others where a condition holds."""
    names = ", ".join(left)
    return (
        f"select count(1) = 0 from (select 1 from base where {where} and {known_in(left)} group by {names} "
        f"having min({right}) <> max({right}))"
    )


def known_in(columns: Any) -> str:
    """That columns have values."""
    return " and ".join(f"{column} is not null" for column in columns) or "true"


def literal(value: Any) -> str:
    """A constant of a pattern in SQL."""
    return f"'{value}'" if isinstance(value, str) else str(value)
