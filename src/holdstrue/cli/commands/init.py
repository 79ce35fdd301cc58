"""`holdstrue init`: make a state directory that watches tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import (
    AsList,
    Delimiter,
    Encoding,
    Index,
    IndexKind,
    InputFormat,
    ListFormat,
    NullValues,
    OutputFile,
    Rules,
    RuleTexts,
    State,
    Tables,
    column_names,
    named_paths,
    reading,
)
from holdstrue.cli.output import Output
from holdstrue.cli.progress import Working
from holdstrue.errors import HoldstrueError


@guarded
def init(
    state: State,
    rules: Rules = None,
    rule: RuleTexts = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLS", help="Columns that tell the rows apart, separated by commas; else the rule file's key."
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="DATA", help="Rows to start with: a file or a quoted pattern; may be repeated."),
    ] = None,
    table: Tables = None,
    table_key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLS", help="The key of a further table; else the columns that refer to it."),
    ] = None,
    index: IndexKind = Index.blocks,
    format: AsList = ListFormat.text,  # noqa: A002
    output: OutputFile = None,
    encoding: Encoding = "utf8",
    delimiter: Delimiter = None,
    null_value: NullValues = None,
    input_format: InputFormat = None,
) -> int:
    """Make a state directory for rules and tables, with rows to start with or without.

    Exit code 0 when the state was made, whether or not its rows break rules.
    """
    read = reading(encoding, delimiter, null_value, input_format)
    tables = named_paths(table)
    keys = {
        name: column_names(given[-1], "--table-key") for name, given in named_paths(table_key, "--table-key").items()
    }
    with Output(output, format) as out:
        with Working(f"making {state}"):
            from holdstrue.cli.ruleset import rules_of
            from holdstrue.cli.standing import standing_of
            from holdstrue.detect.monitor import Monitor
            from holdstrue.plan.compile import main_table, needed_columns
            from holdstrue.report.forms import parts

            ruleset = rules_of(rules, rule, data or (), read)
            main = main_table(ruleset, tuple({**tables, **keys}))
            known = needed_columns(ruleset, main)
            for name in (*tables, *keys):
                if name not in known:
                    raise HoldstrueError(
                        f"no rule speaks of table {name!r}", hint=f"the rules speak of {', '.join(known)}"
                    )
            if main in tables and data:
                raise HoldstrueError(f"table {main!r} is given both as --data and as --table", hint="give it once")
            # Named, so that the monitor takes the same table for the main one whatever keys are given.
            ruleset = replace(ruleset, table=main)
            own = column_names(key) or ruleset.key
            rows = {**({main: data} if data else {}), **tables}
            made = Monitor.create(
                state,
                ruleset,
                {**({main: own} if own else {}), **keys},
                data=rows or None,
                index=index.value,
                read=read,
            )
            made.close()
        out.write(parts(standing_of(state), format, color=out.color))
    return CLEAN
