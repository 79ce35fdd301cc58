"""Discovery on Spark with a small driver, beside one process and beside SQL that validates the same rules one by one.

Every side answers in turn on the same Parquet files: our search finds the rules; SQL is told them and asks of each
whether it holds; one process searches the same table. CPU seconds are those of Java and of Python's workers together.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scenarios.setting import Outcome, Setting, Table
from scenarios.spark_sql import TASKS, clocked

DRIVER = {"spark.driver.memory": "1g", "spark.driver.maxResultSize": "64m"}
COLUMNS = (
    "id",
    "concat('Z', id % 40000) as zip",
    "concat('City', (id % 40000) div 3) as city",
    "cast((id % 40000) div 800 as int) as state",
    "cast(((id % 40000) div 800) % 7 as int) as region",
    "cast((id * 7919) % 500009 as int) as account",
    "cast(((id * 7919) % 500009) % 13 as int) as branch",
    "cast(id div 40000 as int) as batch",
    "if(id % 50021 = 1, null, cast(id % 300 as int)) as rate",
)
"""zip -> city, state -> region, account -> branch, two keys, and columns that agree by chance only."""
KINDS = ("key", "fd", "cfd", "ind", "dc")
LONGEST = 3
"""Columns of rules at most."""


def run(setting: Setting) -> Outcome:
    """Every kind at every size."""
    import holdstrue.spark

    outcome = Outcome()
    spark = holdstrue.spark.start(f"local[{TASKS}]", DRIVER)
    for rows in setting.sizes:
        path = str(setting.folder / f"discover-{rows}")
        if not Path(path).exists():
            spark.range(rows).repartition(TASKS).selectExpr(*COLUMNS).write.parquet(path)
        frame = spark.read.parquet(path)
        accounts = f"{path}-accounts"
        frame.select("account", "branch").distinct().write.mode("overwrite").parquet(accounts)
        head = ("kind", "rules", "CPU s", "wall s", "SQL CPU s", "SQL wall s", "one process CPU s", "same rules")
        table = Table(
            f"{rows:,} rows of Parquet, driver of 1 GB: search on Spark, SQL told the rules, one process", head
        )
        for kind in KINDS:
            data = {"base": frame, "accounts": spark.read.parquet(accounts)} if kind == "ind" else frame
            files = {"base": path, "accounts": accounts} if kind == "ind" else path
            table.rows.append(measured(outcome, spark, kind, data, files, rows, setting))
            print(" | ".join(map(str, table.rows[-1])), flush=True)
        outcome.tables.append(table)
    spark.stop()
    return outcome


def measured(
    outcome: Outcome, spark: Any, kind: str, data: Any, files: Any, rows: int, setting: Setting
) -> tuple[Any, ...]:
    """A line of the table."""
    import holdstrue
    import holdstrue.spark

    columns = ("state", "region", "branch", "rate") if kind == "dc" else ()
    asked: dict[str, Any] = {"kinds": kind, "columns": columns, "max_predicates": LONGEST, "budget": setting.timeout}
    found, ours = clocked(lambda: holdstrue.spark.discover(data, whole=0, **asked))
    for name, frame in data.items() if isinstance(data, dict) else [("base", data)]:
        frame.createOrReplaceTempView(name)
    queries = list(validations(found))
    held, sql = clocked(lambda: [spark.sql(query).first()[0] for query in queries])
    here, own = clocked(lambda: holdstrue.discover(files, **asked))
    same = {r.text for r in here.rules} == {r.text for r in found.rules} if here.complete and found.complete else None
    record = {"kind": kind, "rows": rows, "ours": ours, "sql": sql, "here": own, "same": same, "held": all(held)}
    outcome.records.append(record | {"rules": len(found.rules), "complete": found.complete, "queries": len(queries)})
    return kind, len(found.rules), *ours, *sql, own[0], {True: "yes", False: "no", None: "not complete"}[same]


def validations(found: Any) -> Iterator[str]:
    """For each rule that no other implies a query that says whether it holds."""
    for rule in found.telling:
        body = rule.body
        match rule.kind:
            case "key":
                names = ", ".join(body.columns)
                known = " and ".join(f"{c} is not null" for c in body.columns)
                yield (
                    f"select count(1) = 0 from (select 1 from base where {known} group by {names} having count(1) > 1)"
                )
            case "fd":
                names, known = ", ".join(body.lhs), " and ".join(f"{c} is not null" for c in body.lhs)
                yield (
                    f"select count(1) = 0 from (select 1 from base where {known} group by {names} "
                    f"having min({body.rhs[0]}) <> max({body.rhs[0]}))"
                )
            case "inclusion":
                on = " and ".join(f"l.{a} = r.{b}" for a, b in zip(body.columns, body.ref_columns, strict=True))
                known = " and ".join(f"l.{c} is not null" for c in body.columns)
                yield (
                    f"select count(1) = 0 from {body.table} l left anti join {body.ref_table} r on {on} where {known}"
                )
