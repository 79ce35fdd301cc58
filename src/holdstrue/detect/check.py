"""From scratch: one pass over the needed columns of each table, then every check (paper 002)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.detect.engine import Engine, Incoming
from holdstrue.detect.report import Report
from holdstrue.errors import DataError
from holdstrue.io.read import read_table
from holdstrue.plan.compile import IndexKind, compile_rules, main_table, needed_columns
from holdstrue.rules.file import load_rules


def check(
    data: Any,
    rules: Any,
    *,
    key: str | Sequence[str] | None = None,
    tables: Mapping[str, Any] | None = None,
    limit: int | None = 1000,
    index: IndexKind = "blocks",
    **read: Any,
) -> Report:
    """Find every violation of the rules in a table.

    Parameters
    ----------
    data
        A path (CSV, Parquet, Arrow IPC, JSON lines; a glob for several files), a pyarrow Table, a
        pandas or polars data frame.
    rules
        Anything `load_rules` takes: a file, rule texts, rules.
    key
        Columns that name a row in the result; without it rows are named by their number from 0.
    tables
        Further tables by name, for inclusion dependencies.
    limit
        How many violations the report lists; counts are always exact.
    read
        Options of `read_table`: `encoding`, `format`, `delimiter`, `null_values`.

    Complexity: O(rows) for keys, FDs and one-row rules, O(rows log rows) for rules with up to two
    inequalities, whatever the number of violations.
    """
    ruleset = load_rules(rules)
    others = dict(tables or {})
    main = main_table(ruleset, tuple(others))
    needed = needed_columns(ruleset, main)
    own = (key,) if isinstance(key, str) else tuple(key or ruleset.key)
    loaded: dict[str, pa.Table] = {}
    for name, source in {main: data, **others}.items():
        if name in needed:
            columns = tuple(dict.fromkeys((*(own if name == main else ()), *needed[name])))
            loaded[name] = load_needed(source, columns, read)
    plan = compile_rules(ruleset, main, {name: table.schema for name, table in loaded.items()}, index)
    for column in own:
        if column not in loaded[main].column_names:
            raise DataError(f"no key column {column!r}", hint=f"the columns are {', '.join(loaded[main].column_names)}")
    engine = Engine(plan, {name: table.schema for name, table in loaded.items()}, keyed=False)
    nobody = np.empty(0, dtype=np.int32)
    engine.apply(
        {name: Incoming(table, nobody, np.full(table.num_rows, -1, dtype=np.int32)) for name, table in loaded.items()},
        0,
    )
    return Report.of(engine, {main: own}, limit)


def load_needed(source: Any, columns: tuple[str, ...], read: Mapping[str, Any]) -> pa.Table:
    """The needed columns that are there; columns that are not are for the rules to complain about, underlined."""
    table = source if isinstance(source, pa.Table) else None
    if table is None:
        from holdstrue.io.read import schema_of

        present = set(schema_of(source, **{k: v for k, v in read.items() if k != "null_values"}).names)
        table = read_table(source, columns=[c for c in columns if c in present] or None, **read)
    return (
        table
        if not set(columns) & set(table.column_names)
        else table.select([name for name in columns if name in table.column_names])
    )
