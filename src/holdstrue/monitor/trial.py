"""Rules tried on the rows of a monitor: counted from scratch, beside what it keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from holdstrue.detect.engine import Engine, Incoming
from holdstrue.detect.ordering import order_notes, ordered_text
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.monitor import Monitor
from holdstrue.monitor.report import Report
from holdstrue.plan.bind import require_columns
from holdstrue.plan.compile import compile_rules, needed_columns
from holdstrue.rules.file import load_rules
from holdstrue.rules.types import types_of_table


def try_rules(monitor: Monitor, rules: Any, *, limit: int | None = 1000) -> Report:
    """How the rows of a monitor stand to other rules; the monitor stays as it is.

    A monitor keeps the key and what its own rules read, so that only rules over these columns can be tried; of any of
    its tables, and across them. Rows are named by the keys of their tables.

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
    needed = needed_columns(tried, facts.main)
    for table, columns in needed.items():
        facts.known_table(table)
        if table not in facts.schemas:
            raise HoldstrueError(
                f"table {table!r} has had no rows yet, so that its columns are not known",
                hint=f"give it some: holdstrue apply STATE --table {table}=FILE",
            )
        seen = facts.schemas[table].names if table in facts.schemas else ()
        for column in columns:
            if column in seen and column not in held[table].column_names:
                raise HoldstrueError(
                    f"column {column!r} of {table!r} is not kept: a state keeps its key and what its rules read",
                    hint=f"kept are {', '.join(held[table].column_names)}; or check the data itself: holdstrue check",
                )
    require_columns(tried, facts.main, {table: held[table].schema for table in needed})
    keys = {table: tuple(facts.keys[table]) for table in needed}
    rows = {table: held[table].select(list(dict.fromkeys((*keys[table], *needed[table])))) for table in needed}
    schemas = {table: own.schema for table, own in rows.items()}
    trial = Engine(compile_rules(tried, facts.main, schemas, engine.plan.index), schemas)
    nobody = np.empty(0, dtype=np.int32)
    trial.apply({t: Incoming(own, nobody, np.full(own.num_rows, -1, dtype=np.int32)) for t, own in rows.items()}, 0)
    text = ordered_text(tried, facts.main, schemas)
    declared = {t: types_of_table(facts.rules.types, t, facts.main, tuple(facts.keys)) for t in needed}
    notes = order_notes(text, lambda table, column: rows[table].column(column), declared.__getitem__)
    return Report.of(trial, keys, limit, notes)
