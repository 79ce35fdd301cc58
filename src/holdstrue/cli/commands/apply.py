"""`holdstrue apply`: apply a batch of changes and say what it broke and mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.alerting import AlertOptions, OpenLineage, lineage_target, send_alert, send_event
from holdstrue.cli.cluster import SparkOptions
from holdstrue.cli.failures import CLEAN, VIOLATED, guarded, with_option
from holdstrue.cli.options import (
    DEFAULT_LIMIT,
    AsDelta,
    FeedKind,
    Limit,
    OnConflict,
    OpColumn,
    OutputFile,
    State,
    TypedFileOptions,
    Units,
    named_paths,
    units_of,
)
from holdstrue.cli.output import Output, Working, left_out, tell_notes
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.location import shown

if TYPE_CHECKING:
    from holdstrue.detect.delta import Delta
    from holdstrue.monitor.monitor import Monitor
    from holdstrue.monitor.report import Report
    from holdstrue.report.lookup import Lookup
    from holdstrue.rules import RuleSet
    from holdstrue.shards.facts import Facts


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
    feed: FeedKind = "auto",
    op_column: OpColumn = None,
    unit: Units = None,
    on_conflict: OnConflict = "error",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="OLD",
            help="CHANGES is the new version of the whole table; what differs from OLD, by key, is applied.",
        ),
    ] = None,
    snapshot: Annotated[
        bool,
        typer.Option(
            "--snapshot",
            help="CHANGES are all rows of the table as it is now; what differs from the state, by key, is applied.",
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="CHANGES is a table of Delta Lake or Iceberg: apply what happened to it since the state last saw it.",
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="With --follow, at the first time: the first version that is applied."),
    ] = None,
    limit: Limit = None,
    format: AsDelta = "text",  # noqa: A002
    output: OutputFile = None,
    openlineage: OpenLineage = None,
    alerts: AlertOptions = AlertOptions(),
    place: SparkOptions = SparkOptions(),
    reading: TypedFileOptions = TypedFileOptions(),
) -> int:
    """Apply one batch of changes, whole or not at all, and say which violations it added and removed.

    Exit code 1: the batch added violations of a rule of severity error; 0: it added none (others may be
    open from before: see status), or it had been applied before.
    """
    read, types = reading.options(), reading.types()
    tables = named_paths(table)
    cluster = place.cluster()
    told, lineage = alerts.target(), lineage_target(openlineage)
    if lineage is not None and cluster is not None:
        raise HoldstrueError("--openlineage counts the rows in one process", hint="leave out --engine spark")
    if not changes and not tables:
        raise HoldstrueError("no changes are given", hint="holdstrue apply STATE CHANGES")
    if batch_id is not None and not batch_id.strip():
        raise HoldstrueError("--batch-id is empty", hint="give the batch a name, or leave the option out")
    if against is not None and (not changes or feed != "auto" or op_column is not None or unit):
        raise HoldstrueError(
            "--against compares CHANGES, a whole table, with an older one",
            hint="give CHANGES, and none of --feed, --op-column and --unit",
        )
    if against is not None and cluster is not None:
        raise HoldstrueError("--against compares whole tables in one process", hint="leave out --engine spark")
    if snapshot and (against is not None or feed != "auto" or op_column is not None or unit or on_conflict != "error"):
        raise HoldstrueError(
            "--snapshot compares CHANGES, a whole table, with the state",
            hint="leave out --against, --feed, --op-column, --unit and --on-conflict",
        )
    if follow:
        plain = TypedFileOptions().options()  # a table of a lakehouse has no encoding, and no format to be told
        others = against, snapshot or None, op_column, unit, batch_id, cluster, tables or None
        if any(others) or feed != "auto" or on_conflict != "error" or len(changes or ()) != 1 or types or plain != read:
            raise HoldstrueError(
                "--follow applies the change log of one table of Delta Lake or Iceberg, which says what happened",
                hint="holdstrue apply STATE TABLE --follow [--since VERSION]",
            )
    elif since is not None:
        raise HoldstrueError("--since is about tables that are followed", hint="add --follow")
    if snapshot and cluster is not None:
        raise HoldstrueError("--snapshot compares whole tables in one process", hint="leave out --engine spark")
    listed = DEFAULT_LIMIT if limit is None else limit
    with Output(output, format) as out:
        with Working(f"applying {', '.join(map(shown, changes or chain(*tables.values())))}"):
            from holdstrue.data.notes import Notes
            from holdstrue.report.forms import parts
            from holdstrue.report.state_lookup import StateLookup
            from holdstrue.shards.facts import Facts
            from holdstrue.state.journal import facts_of

            notes = Notes()
            batch = partial(_batch, changes, tables, against, read | {"notes": notes}, types)
            how: dict[str, Any] = {"batch_id": batch_id, "limit": listed, "on_conflict": on_conflict}
            how["types"] = types
            read = read | {"feed": feed, "op_column": op_column, **units_of(unit)}
            rows: Report | Lookup | None
            stands: tuple[Report, str] | None = None
            try:
                if cluster is None:
                    whole = how | read | {"snapshot": snapshot}
                    change = partial(_followed, changes, since) if follow else partial(_applied, batch, whole)
                    delta, known, rows, stands = _in_process(
                        state, change, listed, text=format == "text", stand=lineage is not None
                    )
                else:
                    facts = facts_of(state, "monitor", Facts.of)
                    how["limit"] = _listed(listed, facts.rules, text=format == "text")
                    delta = cluster.apply(state, facts, batch(facts), **how, read=read)
                    known, rows = facts.rules, StateLookup.of(state)
            except ChangeError as error:
                said = with_option(error)
                if "exists already" in said.message and said.hint is not None and said is not error:
                    said = ChangeError(said.message, hint=f"{said.hint}; --snapshot if these are all rows of the table")
                raise said from error
            notes.add(*delta.notes)
        tell_notes(notes)
        delta = replace(delta, notes=tuple(notes))
        out.write(parts(delta, format, limit=limit, color=out.color, report=rows))
    if format in ("jsonl", "csv", "raw-csv") and delta.truncated:
        steps = delta.counts.values()
        left_out(len(delta.added) + len(delta.removed), sum(step.added + step.removed for step in steps))
    send_alert(alerts.made(told, state, known), delta)
    if lineage is not None and stands is not None and not delta.duplicate:
        send_event(lineage, _event(state, *stands))
    severe = {rule.name for rule in known if rule.severity == "error"}
    return VIOLATED if any(step.added and name in severe for name, step in delta.counts.items()) else CLEAN


def _in_process(
    state: str, change: Callable[[int, Monitor], Delta], listed: int, *, text: bool, stand: bool
) -> tuple[Delta, RuleSet, Report | None, tuple[Report, str] | None]:
    """What the batch did, the rules, where text finds the rows of new violations; how the state stands, if asked."""
    from holdstrue.monitor.monitor import Monitor

    with Monitor.open(state) as monitor:
        delta = change(_listed(listed, monitor.rules, text=text), monitor)
        rows = monitor.report(limit=0) if text and (delta.added or delta.removed) else None
        stands = (monitor.report(limit=0), monitor.facts.main) if stand and monitor.rows else None
        return delta, monitor.rules, rows, stands


def _event(state: str, report: Report, main: str) -> dict[str, Any]:
    """How the state stands after the batch; its tables are named by it."""
    from holdstrue.alerts.delivery import without_secrets
    from holdstrue.report.openlineage import lineage_event, namespace_of_jobs

    places = {table: f"{state}/{table}" for table in report.rows}
    return lineage_event(report, main, places, f"holdstrue apply {without_secrets(state)}", namespace_of_jobs())


def _listed(limit: int, rules: RuleSet, *, text: bool) -> int:
    """How many violations are listed: text shows so many of each rule, other forms so many in all."""
    return limit * len(rules) if text else limit


def _applied(batch: Callable[[Facts], dict[str, Any]], options: dict[str, Any], limit: int, monitor: Monitor) -> Delta:
    return monitor.apply(batch(monitor.facts), **options | {"limit": limit})


def _followed(changes: list[str] | None, since: str | None, limit: int, monitor: Monitor) -> Delta:
    """The same for what happened to a table since the state last saw it."""
    from holdstrue.monitor.following import follow

    [source] = changes or [""]
    [delta] = follow(monitor, source, since=since, limit=limit)
    return delta


def _batch(
    changes: list[str] | None,
    tables: dict[str, list[str]],
    against: str | None,
    read: dict[str, Any],
    types: dict[str, str],
    known: Facts,
) -> dict[str, Any]:
    """The changes of each table that the state has."""
    from holdstrue.cli.ruleset import require_tables
    from holdstrue.shards.facts import types_for_batch
    from holdstrue.sources.feeds import diff_tables

    require_tables(tables, known.keys)
    own: Any = changes
    if against is not None:
        _, declared = types_for_batch(known.rules, known.main, known.keys, known.schemas, types)
        needed = known.kept_names(known.main)
        read = {**read, "types": declared[known.main], "needed": needed}
        own = diff_tables(against, changes, known.keys[known.main], schema=known.schemas.get(known.main), **read)
    if changes and known.main in tables:
        raise HoldstrueError(f"table {known.main!r} is given both as CHANGES and as --table", hint="give it once")
    return {**({known.main: own} if changes else {}), **tables}
