"""`holdstrue init`: make a state that watches tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from holdstrue.cli.cluster import SparkOptions
from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import (
    AsStatus,
    Index,
    OutputFile,
    RuleOptions,
    SequenceBy,
    State,
    Tables,
    TypedFileOptions,
    column_names,
    keep_seconds,
    named_paths,
    sequences_of,
)
from holdstrue.cli.output import Output, Working, tell_notes
from holdstrue.errors import ChangeError, HoldstrueError

if TYPE_CHECKING:
    from holdstrue.rules import RuleSet


@guarded
def init(
    state: State,
    given: RuleOptions = RuleOptions(),
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLS", help="Columns that tell the rows apart, separated by commas; else the rule file's key."
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="DATA", help="Rows to start with, from wherever check takes them; may be repeated."),
    ] = None,
    table: Tables = None,
    table_key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COLS", help="The key of a further table; else the columns that refer to it."),
    ] = None,
    index: Index = "blocks",
    sequence_by: SequenceBy = None,
    keep: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Keep versions so long (7d), to be read with --at; see vacuum."),
    ] = None,
    format: AsStatus = "text",  # noqa: A002
    output: OutputFile = None,
    place: SparkOptions = SparkOptions(),
    reading: TypedFileOptions = TypedFileOptions(),
) -> int:
    """Make a state for rules and tables, with rows to start with or without.

    Exit code 0 when the state was made, whether or not its rows break rules.
    """
    read = reading.options()
    tables = named_paths(table)
    cluster = place.cluster()
    seconds = None if keep is None else keep_seconds(keep)
    keys = {
        name: column_names(texts[-1], "--table-key") for name, texts in named_paths(table_key, "--table-key").items()
    }
    with Output(output, format) as out:
        with Working(f"making {state}"):
            from holdstrue.cli.any_state import vacuum
            from holdstrue.cli.ruleset import require_tables
            from holdstrue.cli.state_status import read_status
            from holdstrue.monitor.monitor import Monitor
            from holdstrue.plan.compile import main_table, needed_columns
            from holdstrue.report.forms import parts

            ruleset = given.ruleset(data, reading)
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
            empty = [name for name in known if rows and name not in rows]
            by = sequences_of(sequence_by, main)
            require_tables(by, known)
            try:
                if cluster is None:
                    with Monitor.create(
                        state, ruleset, keys, data=rows or None, index=index, read=read, sequence_by=by
                    ) as monitor:
                        notes = monitor.notes
                else:
                    notes = cluster.create(state, ruleset, keys, rows, index, read, by)
            except ChangeError as error:
                raise _unique(error) from error
            if seconds:
                vacuum(state, seconds)
        lacking = (f"table {name!r} starts without rows: give some with {_given(name, main)}" for name in empty)
        notes = (*notes, *lacking)
        tell_notes(notes)
        out.write(parts(replace(read_status(state), notes=notes), format, color=out.color))
    return CLEAN


def _given(name: str, main: str) -> str:
    return "--data PATH" if name == main else f"--table {name}=PATH"


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
