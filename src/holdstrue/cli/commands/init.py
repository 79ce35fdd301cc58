"""`holdstrue init`: make a state directory that watches tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from holdstrue.cli.cluster import cluster_of
from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import (
    AsList,
    ColumnTypes,
    Conf,
    Delimiter,
    Encoding,
    Engine,
    EngineKind,
    Index,
    IndexKind,
    InputFormat,
    ListFormat,
    Master,
    NullValues,
    OutputFile,
    Rules,
    RuleTexts,
    State,
    Tables,
    column_names,
    column_types,
    named_paths,
    reading,
)
from holdstrue.cli.output import Output, tell_notes
from holdstrue.cli.progress import Working
from holdstrue.errors import ChangeError, HoldstrueError

if TYPE_CHECKING:
    from holdstrue.rules import RuleSet


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
    engine: EngineKind = Engine.process,
    master: Master = None,
    conf: Conf = None,
    encoding: Encoding = "utf8",
    delimiter: Delimiter = None,
    null_value: NullValues = None,
    type_: ColumnTypes = None,
    input_format: InputFormat = None,
) -> int:
    """Make a state directory for rules and tables, with rows to start with or without.

    Exit code 0 when the state was made, whether or not its rows break rules.
    """
    read = reading(encoding, delimiter, null_value, input_format)
    types = column_types(type_)
    tables = named_paths(table)
    cluster = cluster_of(engine, master, conf)
    keys = {
        name: column_names(given[-1], "--table-key") for name, given in named_paths(table_key, "--table-key").items()
    }
    with Output(output, format) as out:
        with Working(f"making {state}"):
            from holdstrue.cli.ruleset import require_tables, rules_of
            from holdstrue.cli.standing import standing_of
            from holdstrue.monitor.monitor import Monitor
            from holdstrue.plan.compile import main_table, needed_columns
            from holdstrue.report.forms import parts
            from holdstrue.rules.types import with_types

            ruleset = with_types(rules_of(rules, rule, data or (), read), types)
            main = main_table(ruleset, tuple({**tables, **keys}))
            known = needed_columns(ruleset, main)
            require_tables((*tables, *keys), known)
            if main in tables and data:
                raise HoldstrueError(f"table {main!r} is given both as --data and as --table", hint="give it once")
            # Named, so that the monitor takes the same table for the main one whatever keys are given.
            ruleset = replace(ruleset, table=main)
            own = column_names(key) or ruleset.key
            keys = {**({main: own} if own else {}), **keys}
            _require_keys(ruleset, main, known, keys)
            rows = {**({main: data} if data else {}), **tables}
            try:
                if cluster is None:
                    with Monitor.create(
                        state, ruleset, keys, data=rows or None, index=index.value, read=read
                    ) as monitor:
                        notes = monitor.notes
                else:
                    notes = cluster.create(state, ruleset, keys, rows, index.value, read)
            except ChangeError as error:
                raise _unique(error) from error
        tell_notes(notes)
        out.write(parts(replace(standing_of(state), notes=notes), format, color=out.color))
    return CLEAN


def _require_keys(ruleset: RuleSet, main: str, tables: Iterable[str], keys: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a table whose key is neither given nor told by the columns that refer to it."""
    from holdstrue.rules import Inclusion

    referred = {rule.body.ref_table for rule in ruleset if isinstance(rule.body, Inclusion)}
    for name in tables:
        if name not in keys and name not in referred:
            option = "--key COLS" if name == main else f"--table-key {name}=COLS"
            raise HoldstrueError(
                f"table {name!r} needs a key, so that its rows can be updated and deleted",
                hint=f"name its key columns with {option}",
            )


def _unique(error: ChangeError) -> ChangeError:
    """The same error with a hint that fits `init`, which has no --on-conflict."""
    if "exists already" not in error.message:
        return error
    return ChangeError(
        error.message.replace("; nothing was applied", ""),
        hint="the key must be unique in the data: choose other columns with --key, "
        "or --table-key NAME=COLS for a further table",
    )
