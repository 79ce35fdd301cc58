"""Checks on Spark that Catalyst runs, against queries that a person would write, with the same counts.

CPU seconds are those of Java and of Python's workers together; the queries and our checks run in turns in one session.
`--rules "CFD,20 rules"` runs some of the cases, by their names without commas.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from measure import median
from rules import RULES
from scenarios.setting import Outcome, Setting, Table, make

TASKS = 2
TURNS = ((2_000_000, 2, 3), (10_000_000, 1, 2), (2**63, 1, 1))
"""Up to so many rows, turns that warm up and turns that count."""
MORE_TURNS, SHORT = 15, 15.0
"""Where turns that count take less than `SHORT` seconds together there are more of them, up to `MORE_TURNS`: of queries
of a sixth of a second three say little on a machine that others use."""
ORDER = "phi10"
JOINED = 100_000
"""Rows of a self join by order: it takes minutes beyond."""
COLUMNS = (
    "id",
    "concat('Z', id % 40000) as zip",
    "concat('City', id % 40000 + if(id % 10007 = 3, 1, 0)) as city",
    "concat('S', cast(id % 40000 as int) % 50 + if(id % 9001 = 7, 1, 0)) as state",
    "cast(id % 50 as int) as region",
    "cast(id % 50 + if(id % 100003 = 5, 1, 0) as int) as manager",
    "cast(id % 2 as int) as half",
    "cast(if(id % 7 = 0, 1, 0) as int) as flag",
    "cast((id * 7919) % 500000 as int) as account",
    "cast(((id * 7919) % 500000) % 13 as int) as branch",
    "cast(id % 1000 as int) as salary",
    "if(id % 50021 = 1, null, id % 300) as rate",
)
"""A table in which some rows are wrong."""


@dataclass(frozen=True)
class Case:
    """Rules, and a query for each that gives (violating groups, rows, pairs)."""

    name: str
    rules: tuple[str, ...]
    queries: tuple[str, ...]


def fd(left: str, right: str, where: str = "true") -> str:
    """Groups, rows and pairs of an FD."""
    return (
        f"select count(1), coalesce(sum(n), 0), coalesce(sum((n * n - q) div 2), 0) from (select sum(c) n, count(1) k, "
        f"sum(c * c) q from (select {left}, {right}, count(1) c from base where {left} is not null and "
        f"{right} is not null and {where} group by {left}, {right}) group by {left}) where k > 1"
    )


def key(columns: str) -> str:
    """The same of a key."""
    return (
        "select count(1), coalesce(sum(n), 0), coalesce(sum(n * (n - 1) div 2), 0) "
        f"from (select count(1) n from base where {columns} is not null group by {columns}) where n > 1"
    )


def row(condition: str) -> str:
    """The same of a rule on single rows."""
    return f"select 0, count(1), 0 from base where {condition}"


MANY = Case("FD, 40,000 groups of text", ("zip -> city",), (fd("zip", "city"),))
CASES = (
    Case("key, all rows differ", ("key(id)",), (key("id"),)),
    MANY,
    Case("FD, 50 groups", ("region -> manager",), (fd("region", "manager"),)),
    Case("FD, two huge groups", ("half -> flag",), (fd("half", "flag"),)),
    Case("CFD", ("[region, half] -> [manager] with (7, _ || _)",), (
        "select count(1), coalesce(sum(n), 0), coalesce(sum((n * n - q) div 2), 0) from (select sum(c) n, count(1) k, "
        "sum(c * c) q from (select half, manager, count(1) c from base where region = 7 and half is not null and "
        "manager is not null group by half, manager) group by half) where k > 1",)),
    Case("one row", ("not(t.salary > 990 and t.rate < 100)",), (row("salary > 990 and rate < 100"),)),
    Case("not null", ("not null(rate, zip)",), (row("rate is null or zip is null"),)),
    Case("inclusion", ("base.account in accounts.account",), (
        "select 0, count(1), 0 from base left anti join accounts on base.account = accounts.account "
        "where base.account is not null",)),
)  # fmt: skip
_RIGHT = {"zip": ("city", "state", "region", "branch"), "account": ("branch", "half", "region", "flag"),
          "city": ("zip", "state"), "region": ("manager", "half", "state")}  # fmt: skip
MIXED = Case(
    "20 rules",
    (
        *(f"{left} -> {right}" for left, some in _RIGHT.items() for right in some),
        "key(id)", "key(id, zip)", "not null(rate, zip)", "not(t.salary > 990 and t.rate < 100)", "not(t.salary < 0)",
        "not(t.region > t.manager)", "not(t.half > 1)",
    ),
    (
        *(fd(left, right) for left, some in _RIGHT.items() for right in some),
        key("id"), key("id, zip").replace("id, zip is", "id is not null and zip is"),
        row("rate is null or zip is null"),
        row("salary > 990 and rate < 100"), row("salary < 0"), row("region > manager"), row("half > 1"),
    ),
)  # fmt: skip


def run(setting: Setting) -> Outcome:
    """Every case at every size; a list of violations only where it is said."""
    import holdstrue.spark

    outcome = Outcome()
    spark = holdstrue.spark.start(f"local[{TASKS}]")
    for rows in setting.sizes:
        path = str(setting.folder / f"base-{rows}")
        if not Path(path).exists():
            spark.range(rows).repartition(TASKS).selectExpr(*COLUMNS).write.parquet(path)
        base = spark.read.parquet(path)
        accounts = base.where("account % 1000 != 3").select("account").distinct()
        accounts.write.mode("overwrite").parquet(f"{path}-accounts")
        frames = {"base": base, "accounts": spark.read.parquet(f"{path}-accounts")}
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        head = ("rules", "CPU s", "SQL CPU s", "ours / SQL", "wall s", "SQL wall s", "ours / SQL, wall")
        table = Table(f"{rows:,} rows of Parquet, counts, Catalyst against SQL by hand", head)
        for case in chosen(setting):
            table.rows.append(measured(outcome, spark, case, frames, rows))
            print(" | ".join(map(str, table.rows[-1])), flush=True)
        outcome.tables.append(table)
    if ORDER in setting.rules.split(","):
        outcome.tables.append(order_rule(outcome, spark, setting))
    spark.stop()
    return outcome


def chosen(setting: Setting) -> Sequence[Case]:
    """The cases that `--rules` names; all of them where it names none."""
    every, names = (*CASES, MIXED), setting.rules.split(",")
    own = [case for case in every if case.name.replace(",", "") in names]
    return own or (every if setting.rules != ORDER else ())


def order_rule(outcome: Outcome, spark: Any, setting: Setting) -> Table:
    """Phi10 on the Tax table: the self join where it ends, and how a check grows."""
    import holdstrue.spark

    head = ("rows", "CPU s", "wall s", "pairs", "self join CPU s", "wall s", "SQL / ours", "SQL / ours, wall")
    table = Table("phi10 on generated taxes, from scratch", head)
    rule = RULES["phi10"]
    for rows in (JOINED, *setting.sizes):
        folder = setting.folder / f"tax-{rows}"
        folder.mkdir(exist_ok=True)
        for start in range(0, rows, min(rows, 1_000_000)):
            part = make("tax", min(rows, 1_000_000), start, 0.0).select(["state", "salary", "rate"])
            pq.write_table(part, folder / f"{start}.parquet", row_group_size=125_000)
        frame = spark.read.parquet(str(folder))
        frame.createOrReplaceTempView("tax")
        ours = partial(holdstrue.spark.check, frame, [rule.text], limit=0)
        joined = partial(answers, spark, (
            "select 0, 0, count(1) from tax t join tax s "
            "on t.state = s.state and t.salary > s.salary and t.rate < s.rate",
        ))  # fmt: skip
        times: dict[str, list[tuple[float, float]]] = {"ours": [], "sql": []}
        warm, counted = turns_for(rows)
        for turn in range(warm + counted):
            report, own = clocked(ours)
            expected, other = clocked(joined) if rows <= JOINED else ([], (0.0, 0.0))
            if turn >= warm:
                times["ours"].append(own)
                times["sql"].append(other)
        pairs = report.results[0].counts.pairs
        agrees = not expected or pairs == expected[0][2]
        (cpu, wall), (sql_cpu, sql_wall) = ([median([t[i] for t in times[who]]) for i in (0, 1)] for who in times)
        outcome.records.append({"case": "phi10", "rows": rows, "agrees": agrees, **times})
        beside = (sql_cpu, sql_wall, sql_cpu / cpu, sql_wall / wall) if expected else ("-",) * 4
        table.rows.append((rows, cpu, wall, pairs, *beside))
        print(" | ".join(map(str, table.rows[-1])), flush=True)
    return table


def measured(outcome: Outcome, spark: Any, case: Case, frames: dict[str, Any], rows: int) -> tuple[Any, ...]:
    """A line of the table: both sides in turns, after some that do not count where tables are small."""
    import holdstrue.spark

    data = frames if case.name == "inclusion" else frames["base"]
    ours, theirs = partial(holdstrue.spark.check, data, case.rules, limit=0), partial(answers, spark, case.queries)
    times: dict[str, list[tuple[float, float]]] = {"ours": [], "sql": []}
    warm, counted = turns_for(rows)
    spent, turn = 0.0, 0
    while turn < warm + counted or (spent < SHORT and turn < warm + MORE_TURNS):
        report, own = clocked(ours)
        expected, other = clocked(theirs)
        if turn >= warm:
            times["ours"].append(own)
            times["sql"].append(other)
            spent += own[1] + other[1]
        turn += 1
    counts = [(r.counts.groups, r.counts.rows, r.counts.pairs) for r in report.results]
    agrees = counts == expected
    cpu, wall = (median([t[i] for t in times["ours"]]) for i in (0, 1))
    sql_cpu, sql_wall = (median([t[i] for t in times["sql"]]) for i in (0, 1))
    outcome.records.append({"case": case.name, "rows": rows, "agrees": agrees, **times})
    return case.name, cpu, sql_cpu, cpu / sql_cpu, wall, sql_wall, wall / sql_wall


def turns_for(rows: int) -> tuple[int, int]:
    """Turns that do not count, while Java compiles, and turns that do."""
    return next((warm, counted) for most, warm, counted in TURNS if rows <= most)


def answers(spark: Any, queries: Sequence[str]) -> list[tuple[int, int, int]]:
    """What each query gives."""
    found = (spark.sql(query).first() for query in queries)
    return [(int(groups), int(rows), int(pairs)) for groups, rows, pairs in found]


def clocked(work: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """The answer, CPU seconds of all processes that this one started, and seconds."""
    cpu, wall = children_cpu(), time.perf_counter()
    answer = work()
    return answer, (round(children_cpu() - cpu, 3), round(time.perf_counter() - wall, 3))


def children_cpu() -> float:
    """CPU seconds of this process and of all below it: Java, and the workers that Java starts.

    Of each by its own clock, which counts nanoseconds; with those that it has outlived, which are counted in ticks.
    """
    tick, parents, used = os.sysconf("SC_CLK_TCK"), {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                # what pthread_getcpuclockid makes of a process's number
                own = time.clock_gettime((~int(entry.name) << 3) | 2)
            except OSError:  # it ended meanwhile
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = own + sum(map(int, fields[13:15])) / tick
    me, total = os.getpid(), 0.0
    for process, seconds in used.items():
        above = process
        while above not in (me, 0, 1):
            above = parents.get(above, 0)
        total += seconds if above == me else 0.0
    return total
