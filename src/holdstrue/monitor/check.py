"""From scratch: one pass over the needed columns of each table, then every check (paper 002)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import python_rows
from holdstrue.data.notes import Notes
from holdstrue.data.values import family_of
from holdstrue.detect.delta import require_limit
from holdstrue.detect.engine import Engine
from holdstrue.detect.ordering import order_notes, ordered_text
from holdstrue.detect.scratch import ScratchEngine
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.index.arrays import Numbering
from holdstrue.index.protocol import IndexKind
from holdstrue.monitor.known import SHARED_KEY
from holdstrue.monitor.report import Report
from holdstrue.plan.bind import require_columns
from holdstrue.plan.compile import Plan, compile_rules, main_table, needed_columns
from holdstrue.plan.wanted import RowRange
from holdstrue.progress import doing
from holdstrue.rules.file import load_rules
from holdstrue.rules.model import CFD, FD, Demand, Key, NotNull, RuleSet
from holdstrue.rules.types import types_of_table, with_types
from holdstrue.sources.fit import plain_table
from holdstrue.sources.late_columns import WantedRows
from holdstrue.sources.read import TableSource, read_table, schema_of
from holdstrue.sources.validity import validated
from holdstrue.threads import available

MOST_THREADS = 1024
"""More are refused as a slip: every thread would get a part of the rows. Chosen, not tuned."""


def check(
    data: Any,
    rules: Any,
    *,
    key: str | Sequence[str] | None = None,
    tables: Mapping[str, Any] | None = None,
    limit: int | None = 1000,
    index: IndexKind = "blocks",
    types: Mapping[str, str] | None = None,
    threads: int | None = None,
    **read: Any,
) -> Report:
    """Find every violation of the rules in a table.

    Parameters
    ----------
    data
        A path (CSV, Parquet, Arrow IPC, JSON lines; a glob for several files), a pyarrow Table, a
        pandas or polars data frame; a mapping from names to such for several tables.
    rules
        Anything `load_rules` takes: a file, rule texts, rules.
    key
        Columns that name a row in the result; without it rows are named by their number from 0.
    tables
        Further tables by name, for inclusion dependencies.
    limit
        How many violations the report lists; counts are always exact.
    types
        What columns hold, beside what the rule file declares: `{"born": "date(%d.%m.%Y)"}`, and
        `{"orders.day": "date"}` for a further table (see `read_table`).
    threads
        How many threads check; as many as there are cores where it is None.
    read
        Options of `read_table`: `encoding`, `format`, `delimiter`, `null_values`.

    Complexity: O(rows) for keys, FDs and one-row rules, O(rows log rows) for rules with up to two
    inequalities, whatever the number of violations.
    """
    unknown = set(read) - {"encoding", "format", "delimiter", "null_values"}
    if unknown:
        raise HoldstrueError(f"unknown option {sorted(unknown)[0]!r}", hint="encoding, format, delimiter, null_values")
    require_limit(limit)
    if threads is not None and (type(threads) is not int or not 1 <= threads <= MOST_THREADS):
        hint = f"give how many threads to use, at most {MOST_THREADS}, None for one a core"
        raise HoldstrueError(f"threads is {threads!r}", hint=hint)
    ruleset = with_types(load_rules(rules), types)
    others = dict(tables or {})
    if _are_tables(data):
        others = {**data, **others}
        main = main_table(ruleset, tuple(others))
        if main not in others:
            raise HoldstrueError(f"the rules speak of a table {main!r}", hint=f"the tables are {', '.join(others)}")
        data = others.pop(main)
    else:
        main = main_table(ruleset, tuple(others))
    needed = needed_columns(ruleset, main)
    own = (key,) if isinstance(key, str) else tuple(key or ruleset.key)
    form = read.get("format")
    sources = {name: TableSource.of(source, form) for name, source in {main: data, **others}.items() if name in needed}
    declared = {name: types_of_table(ruleset.types, name, main, (main, *others, *needed)) for name in sources}
    schemas = {name: schema_of(source, types=declared[name], **read) for name, source in sources.items()}
    require_columns(ruleset, main, schemas)
    for column in own:
        if column not in schemas[main].names:
            raise DataError(f"no key column {column!r}", hint=f"the columns are {', '.join(schemas[main].names)}")
    columns_of = {}
    for name in sources:
        columns = list(dict.fromkeys((*(own if name == main else ()), *needed[name])))
        # rows of which only the number is asked for are told by any column
        columns_of[name] = columns or schemas[name].names[:1]
    loaded: dict[str, pa.Table] = {}
    notes = Notes()
    # a Parquet file tells its types before it is read, and the plan which rows to read
    early = {
        name: schema for name, schema in schemas.items() if sources[name].format == "parquet" and not declared[name]
    }
    early = {name: pa.schema([schema.field(c) for c in columns_of[name]]) for name, schema in early.items()}
    planned = compile_rules(ruleset, main, early, index) if early.keys() == sources.keys() else None
    wanted = {} if planned is None else _wanted(planned, sources, available(threads))
    for name, source in sources.items():
        columns = columns_of[name]
        types_read = {column: type_ for column, type_ in declared[name].items() if column in columns}
        loaded[name] = (
            plain_table(validated(source.given.select(columns), "the table"))
            if isinstance(source.given, pa.Table) and not types_read
            else read_table(
                source,
                columns=columns,
                types=types_read,
                notes=notes,
                dictionaries=_looked_up(ruleset, main, name, own),
                wanted=wanted.get(name),
                **read,
            )
        )
    found = {name: plain_table(pa.Table.from_batches([], schema=table.schema)).schema for name, table in loaded.items()}
    plan = planned if planned is not None and found == early else compile_rules(ruleset, main, found, index)
    ordered = ordered_text(ruleset, main, found)
    notes.add(*order_notes(ordered, lambda table, column: loaded[table].column(column), declared.__getitem__))
    engine = ScratchEngine(plan, found)
    some = {name: (part.origin, part.whole) for name, part in wanted.items() if part.origin is not None}
    rows = sum(table.num_rows for table in loaded.values())
    with doing(f"checking {len(ruleset)} rules" if len(ruleset) > 1 else "checking 1 rule", rows):
        engine.check(loaded, threads, some)
    if own and all(family_of(found[main].field(name).type) is not None for name in own):
        # which rows share a key is asked of all of them
        keys = read_table(sources[main], columns=own, **read) if main in some else loaded[main]
        notes.add(*_shared_keys(engine, main, keys, own))
    return Report.of(engine, {main: own}, limit, notes)


def _wanted(plan: Plan, sources: Mapping[str, TableSource], threads: int) -> dict[str, WantedRows]:
    """By table which rows of its one file the rules look at, where that is not all of them."""
    found = {}
    for table, schema in plan.schemas.items():
        rows = RowRange.of(plan, table) if len(sources[table].files) == 1 else None
        if rows is not None:
            found[table] = WantedRows(rows, schema, threads)
    return found


def _looked_up(rules: RuleSet, main: str, table: str, own: Sequence[str]) -> set[str]:
    """Columns of a table of which rules ask no more than which values are equal, or what a value is like."""
    found: set[str] = set()
    other = set(own)
    for rule in rules:
        single = isinstance(rule.body, Key | FD | CFD | Demand | NotNull)
        if (rule.own_table or main) == table:
            (found if single else other).update(rule.columns)
        other.update(rule.body.references.get(table, ()))
    return found - other


def _shared_keys(engine: Engine, table: str, rows: pa.Table, key: Sequence[str]) -> Iterator[str]:
    """What there is to say of a key that several rows have. Complexity: O(rows)."""
    everyone = np.ones(rows.num_rows, dtype=np.bool_)
    numbers, first = Numbering().assign_new(*engine.key_digest(table, rows, key), everyone)
    if first.size < rows.num_rows:
        again = int(np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1) == 0)[0])
        [example] = python_rows(rows.select(list(dict.fromkeys(key))).slice(again, 1))
        yield shared_key_note(example, rows.num_rows - first.size)


def shared_key_note(example: Mapping[str, Any], rows: int) -> str:
    """That rows cannot be told apart by a key.

    >>> shared_key_note({"id": 7}, 3)
    'the key is not unique: 3 rows have the key of another row (such as id 7), so keys do not tell rows apart'
    """
    named = ", ".join(f"{name} {value!r}" for name, value in example.items())
    have = "1 row has" if rows == 1 else f"{rows:,} rows have"
    return f"{SHARED_KEY}: {have} the key of another row (such as {named}), so keys do not tell rows apart"


def _are_tables(data: Any) -> bool:
    """Whether a mapping is of tables by name rather than of values by column."""
    if not isinstance(data, Mapping) or hasattr(data, "__arrow_c_stream__") or not data:
        return False
    return all(
        isinstance(part, str | PathLike) or hasattr(part, "column_names") or hasattr(part, "columns")
        for part in data.values()
    )
