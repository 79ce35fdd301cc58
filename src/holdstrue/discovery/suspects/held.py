"""Suspects of rows that were read, or that a monitor or a discovery holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from holdstrue.data.buffers import python_rows
from holdstrue.discovery.suspects.answer import Suspects
from holdstrue.discovery.suspects.declared import declared_rules
from holdstrue.discovery.suspects.search import Declared, find_suspects
from holdstrue.discovery.work import Work
from holdstrue.errors import DataError
from holdstrue.plan.bind import require_columns
from holdstrue.rules.model import Rule, RuleSet
from holdstrue.sources.fit import comparable_table

BUDGET = 120.0
"""Seconds that the search for rules may take."""


def suspects_of(
    table: pa.Table,
    ruleset: RuleSet | None,
    key: tuple[str, ...],
    *,
    main: str,
    discover: bool,
    columns: Sequence[str] = (),
    work: Work,
) -> Suspects:
    """The suspects of a table that was read."""
    for column in (*key, *columns):
        if column not in table.column_names:
            what = "key column" if column in key else "column"
            raise DataError(f"no {what} {column!r}", hint=f"the columns are {', '.join(table.column_names)}")
    plain = comparable_table(main, table)
    if columns:
        plain = plain.select([name for name in plain.column_names if name in columns])
    given: Declared | None = None
    if ruleset is not None:
        own = replace(ruleset, rules=tuple(r for r in ruleset if (r.own_table or main) == main and _here(r)))
        require_columns(own, main, {main: plain.schema})
        given = partial(declared_rules, ruleset, main)
    names = python_rows(table.select(list(key))) if key else []

    def name(row: int) -> Any:
        if not key:
            return row
        values = tuple(names[row].values())
        return values[0] if len(values) == 1 else values

    found, places, rules, notes = find_suspects(plain, given, learn=discover, work=work, name=name)
    return Suspects(tuple(found), table.num_rows, key, table, tuple(places), tuple(rules), tuple(notes))


def _here(rule: Rule) -> bool:
    """Whether a rule speaks of rows of one table."""
    return not rule.body.references and rule.kind != "measure"


def suspects_of_monitor(
    rows: pa.Table, ruleset: RuleSet, main: str, key: tuple[str, ...], table: str, *, discover: bool
) -> Suspects:
    """The suspects among the rows of one of a monitor's tables; rules that name none speak of `main`."""
    own = replace(ruleset, rules=tuple(rule for rule in ruleset if (rule.own_table or main) == table))
    return suspects_of(rows, own, key, main=table, discover=discover, work=Work.lasting(BUDGET))
