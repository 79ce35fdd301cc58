"""`holdstrue apply`: apply a batch of changes and say what it broke and mended."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdstrue.cli.failures import CLEAN, VIOLATED, guarded
from holdstrue.cli.options import (
    DEFAULT_LIMIT,
    AsList,
    Conflict,
    Delimiter,
    Encoding,
    Feed,
    InputFormat,
    Limit,
    ListFormat,
    NullValues,
    OutputFile,
    State,
    named_paths,
    reading,
)
from holdstrue.cli.output import Output, left_out
from holdstrue.cli.progress import Working
from holdstrue.errors import ChangeError, HoldstrueError


@guarded
def apply(
    state: State,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="CHANGES", help="Rows or a change feed: CSV, Parquet, Arrow or JSON lines."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", metavar="NAME=CHANGES", help="Changes of a further table, in the same batch; may be repeated."
        ),
    ] = None,
    batch_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Names the batch: applied a second time, it does nothing.")
    ] = None,
    feed: Annotated[
        Feed, typer.Option(help="How the changes are written; auto tells it by their columns.")
    ] = Feed.auto,
    op_column: Annotated[
        str | None, typer.Option(metavar="COL", help="The column that says insert, update or delete.")
    ] = None,
    on_conflict: Annotated[
        Conflict,
        typer.Option(
            help="Inserts of rows that exist, updates and deletes of rows that do not: "
            "refuse the batch, make them fit, or skip them."
        ),
    ] = Conflict.error,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="OLD",
            help="CHANGES is the new version of the whole table; what differs from OLD, by key, is applied.",
        ),
    ] = None,
    limit: Limit = None,
    format: AsList = ListFormat.text,  # noqa: A002
    output: OutputFile = None,
    encoding: Encoding = "utf8",
    delimiter: Delimiter = None,
    null_value: NullValues = None,
    input_format: InputFormat = None,
) -> int:
    """Apply one batch of changes, whole or not at all, and say which violations it added and removed.

    Exit code 1: the batch added violations of a rule of severity error; 0: it added none (others may be
    open from before: see status), or it had been applied before.
    """
    read = reading(encoding, delimiter, null_value, input_format)
    tables = named_paths(table)
    if not changes and not tables:
        raise HoldstrueError("no changes are given", hint="holdstrue apply STATE CHANGES")
    if batch_id is not None and not batch_id.strip():
        raise HoldstrueError("--batch-id is empty", hint="give the batch a name, or leave the option out")
    if against is not None and (not changes or feed is not Feed.auto or op_column is not None):
        raise HoldstrueError(
            "--against compares CHANGES, a whole table, with an older one",
            hint="give CHANGES, and neither --feed nor --op-column",
        )
    listed = DEFAULT_LIMIT if limit is None else limit
    with Output(output, format) as out:
        with Working(f"applying {', '.join(changes or [path for paths in tables.values() for path in paths])}"):
            from holdstrue.detect.monitor import Monitor
            from holdstrue.report.forms import parts

            with Monitor.open(state) as monitor:
                batch = _batch(state, changes, tables, against, read)
                try:
                    delta = monitor.apply(
                        batch,
                        batch_id=batch_id,
                        limit=listed,
                        on_conflict=on_conflict.value,
                        feed=feed.value,
                        op_column=op_column,
                        **read,
                    )
                except ChangeError as error:
                    raise _with_option(error) from error
                report = monitor.report(limit=0) if format == "text" and (delta.added or delta.removed) else None
        out.write(parts(delta, format, limit=limit, color=out.color, report=report))
    if format in ("jsonl", "csv") and delta.truncated:
        steps = delta.counts.values()
        left_out(len(delta.added) + len(delta.removed), sum(step.added + step.removed for step in steps))
    severe = {known.name for known in monitor.rules if known.severity == "error"}
    return VIOLATED if any(step.added and name in severe for name, step in delta.counts.items()) else CLEAN


def _batch(
    path: str, changes: list[str] | None, tables: dict[str, list[str]], against: str | None, read: dict[str, Any]
) -> Any:
    """The changes of one table, or of several by name."""
    if against is None and not tables:
        return changes
    from holdstrue.cli.ruleset import require_tables
    from holdstrue.detect.durable import State as Known
    from holdstrue.io.feeds import diff_tables
    from holdstrue.io.store import Store

    known = Known.of(Store(path).manifest())
    require_tables(tables, known.keys)
    own: Any = changes
    if against is not None:
        own = diff_tables(against, changes, known.keys[known.main], schema=known.schemas.get(known.main), **read)
    if changes and known.main in tables:
        raise HoldstrueError(f"table {known.main!r} is given both as CHANGES and as --table", hint="give it once")
    return {**({known.main: own} if changes else {}), **tables}


def _with_option(error: ChangeError) -> ChangeError:
    """The same error; a hint about conflicts names the option as it is written here."""
    if error.hint is None or not error.hint.startswith("on conflict "):
        return error
    return ChangeError(error.message, hint=error.hint.replace("on conflict ", "--on-conflict "))
