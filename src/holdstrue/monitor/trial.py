"""Rules tried on the rows of a monitor: counted from scratch, beside what it keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdstrue.errors import HoldstrueError
from holdstrue.monitor.check import check
from holdstrue.monitor.monitor import Monitor
from holdstrue.monitor.report import Report
from holdstrue.plan.compile import needed_columns
from holdstrue.rules.file import load_rules


def try_rules(monitor: Monitor, rules: Any, *, limit: int | None = 1000) -> Report:
    """How the rows of a monitor stand to other rules; the monitor stays as it is.

    A monitor keeps the key and what its own rules read, so that only rules over these columns can be tried.

    Complexity: that of `check` over its rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"id": [1, 2], "zip": ["1", "1"], "city": ["Bonn", "Ulm"]})
    >>> try_rules(Monitor("zip -> city", key="id", data=rows), "key(zip)").total
    1
    """
    tried = load_rules(rules)
    with monitor._here() as piece:
        facts = piece.facts
        engine = monitor._shard().engine
        held = {name: table.rows.take(table.rows.living_slots()) for name, table in engine.tables.items()}
    tried = replace(tried, table=tried.table or facts.main, nulls=facts.rules.nulls)
    for table, columns in needed_columns(tried, facts.main).items():
        facts.known_table(table)
        seen = facts.schemas[table].names if table in facts.schemas else ()
        for column in columns:
            if column in seen and column not in held[table].column_names:
                raise HoldstrueError(
                    f"column {column!r} of {table!r} is not kept: a state keeps its key and what its rules read",
                    hint=f"kept are {', '.join(held[table].column_names)}; or check the data itself: holdstrue check",
                )
    return check(held, tried, key=facts.keys[facts.main], limit=limit)
