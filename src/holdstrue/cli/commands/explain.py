"""`holdstrue explain`: what each rule becomes, which index serves it and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import (
    Delimiter,
    Encoding,
    Index,
    IndexKind,
    InputFormat,
    OutputFile,
    Rules,
    RuleTexts,
    Tables,
    named_paths,
    reading,
)
from holdstrue.cli.output import Output


@guarded
def explain(
    data: Annotated[
        list[str] | None, typer.Argument(metavar="DATA...", help="Tells the types of the columns; it is not checked.")
    ] = None,
    rules: Rules = None,
    rule: RuleTexts = None,
    table: Tables = None,
    index: IndexKind = Index.blocks,
    output: OutputFile = None,
    encoding: Encoding = "utf8",
    delimiter: Delimiter = None,
    input_format: InputFormat = None,
) -> int:
    """Say how the rules would be checked: passes, groups, indexes and the order of predicates.

    With DATA the rules are also held against its columns.
    """
    read = reading(encoding, delimiter, None, input_format)
    with Output(output, "text") as out:
        from holdstrue.cli.ruleset import rules_of
        from holdstrue.detect.engine import Engine
        from holdstrue.plan.compile import compile_rules, main_table
        from holdstrue.plan.explain import explain as explained

        ruleset = rules_of(rules, rule, data or (), read)
        sources = named_paths(table)
        main = main_table(ruleset, tuple(sources))
        schemas = _schemas(ruleset, main, {**sources, **({main: data} if data else {})}, read)
        plan = compile_rules(ruleset, main, schemas, index.value)
        out.write([explained(plan, Engine(plan, schemas, keyed=False).explain()) + "\n"])
    return CLEAN


def _schemas(ruleset: Any, main: str, sources: dict[str, list[str]], read: dict[str, Any]) -> dict[str, Any]:
    """The needed columns of each table; those of a table that is not given have no type yet."""
    import pyarrow as pa

    from holdstrue.io.read import schema_of
    from holdstrue.plan.compile import needed_columns

    schemas = {}
    for name, columns in needed_columns(ruleset, main).items():
        if name in sources:
            known = schema_of(sources[name], **read)
            schemas[name] = pa.schema([known.field(column) for column in columns if column in known.names])
        else:
            schemas[name] = pa.schema([pa.field(column, pa.null()) for column in columns])
    return schemas
