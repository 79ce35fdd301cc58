"""`holdstrue explain`: what each rule becomes, which index serves it and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import Index, OutputFile, RuleOptions, Tables, TypedFileOptions, named_paths
from holdstrue.cli.output import Output, Working, tell_notes

if TYPE_CHECKING:
    from holdstrue.index.protocol import IndexKind
    from holdstrue.rules import RuleSet


@guarded
def explain(
    data: Annotated[list[str] | None, typer.Argument(metavar="DATA", help="The table that the rules speak of.")] = None,
    given: RuleOptions = RuleOptions(),
    table: Tables = None,
    index: Index = "blocks",
    output: OutputFile = None,
    reading: TypedFileOptions = TypedFileOptions(),
) -> int:
    """Say how the rules are checked: passes, groups, indexes and the order of predicates.

    With DATA they are held against it, since some orders depend on the values; without it types are left open.
    """
    tables = named_paths(table)
    with Output(output, "text") as out:
        with Working("planning"):
            from holdstrue.cli.ruleset import require_tables
            from holdstrue.plan.compile import main_table, needed_columns
            from holdstrue.report.answers import Explanation
            from holdstrue.report.forms import parts

            ruleset = given.ruleset(data, reading)
            require_tables(tables, needed_columns(ruleset, main_table(ruleset, tuple(tables))))
            said = (
                _with_data(ruleset, data, tables, index, reading.options())
                if data
                else _without_data(ruleset, tables, index)
            )
        out.write(parts(Explanation(said)))
    return CLEAN


def _with_data(
    ruleset: RuleSet, data: list[str], tables: dict[str, list[str]], index: IndexKind, read: dict[str, Any]
) -> str:
    from holdstrue.monitor.check import check

    report = check(data, ruleset, tables=tables, limit=0, index=index, **read)
    tell_notes(report.notes)
    return report.explain()


def _without_data(ruleset: RuleSet, tables: dict[str, list[str]], index: IndexKind) -> str:
    """The plan for columns that have no type yet, which every comparison fits, unless one is declared."""
    import pyarrow as pa

    from holdstrue.detect.engine import Engine
    from holdstrue.plan.compile import compile_rules, main_table, needed_columns
    from holdstrue.plan.explain import explain as explained
    from holdstrue.rules.types import types_of_table
    from holdstrue.sources.declared import arrow_type

    main = main_table(ruleset, tuple(tables))
    needed = needed_columns(ruleset, main)
    declared = {name: types_of_table(ruleset.types, name, main, needed) for name in needed}
    types = {name: {c: arrow_type(d) for c, d in own.items()} for name, own in declared.items()}
    schemas = {
        name: pa.schema([pa.field(column, types[name].get(column) or pa.null()) for column in columns])
        for name, columns in needed.items()
    }
    plan = compile_rules(ruleset, main, schemas, index)
    return explained(plan, Engine(plan, schemas).explain())
