"""`holdstrue check`: find every violation in a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.alerting import OpenLineage, lineage_target, send_event
from holdstrue.cli.cluster import SparkOptions
from holdstrue.cli.failures import CLEAN, VIOLATED, guarded
from holdstrue.cli.options import (
    DATA_HELP,
    DEFAULT_LIMIT,
    AcceptedFile,
    AsReport,
    Index,
    Limit,
    OutputFile,
    RuleOptions,
    Tables,
    Threads,
    TypedFileOptions,
    column_names,
    named_paths,
)
from holdstrue.cli.output import Output, Working, left_out, tell_notes
from holdstrue.errors import HoldstrueError
from holdstrue.location import shown

if TYPE_CHECKING:
    from holdstrue.index.protocol import IndexKind
    from holdstrue.monitor.report import Findings, Report


@guarded
def check(
    data: Annotated[
        list[str],
        typer.Argument(metavar="DATA", help=DATA_HELP),
    ],
    given: RuleOptions = RuleOptions(),
    table: Tables = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLS", help="Columns that name a row in the output, separated by commas; else its number from 0."
        ),
    ] = None,
    limit: Limit = None,
    format: AsReport = "text",  # noqa: A002
    output: OutputFile = None,
    accepted: AcceptedFile = None,
    index: Index = "blocks",
    threads: Threads = None,
    openlineage: OpenLineage = None,
    place: SparkOptions = SparkOptions(),
    each: Annotated[
        bool,
        typer.Option("--each", help="Every DATA is a table of its own, checked by itself; else all are one table."),
    ] = False,
    reading: TypedFileOptions = TypedFileOptions(),
) -> int:
    """Find every violation of the rules in a table.

    Exit code 0: no rule of severity error is violated beyond its tolerance and what is accepted; 1: some are.
    """
    options: dict[str, Any] = {
        "given": given, "table": table, "key": key, "limit": limit, "format": format, "accepted": accepted,
        "index": index, "threads": threads, "openlineage": openlineage, "place": place, "reading": reading,
    }  # fmt: skip
    if not each or len(data) == 1:
        with Output(output, format) as out:
            return _checked(data, out, **options)
    if format != "text":
        raise HoldstrueError("--each answers in text", hint="leave out --format, or give one DATA at a time")
    with Output(output, format) as out:
        codes = []
        for number, one in enumerate(data):
            out.write([f"{'' if number == 0 else chr(10)}{shown(one)}\n"])
            codes.append(_checked([one], out, **options))
        return max(codes)


def _checked(
    data: list[str],
    out: Output,
    *,
    given: RuleOptions,
    table: list[str] | None,
    key: str | None,
    limit: int | None,
    format: str,  # noqa: A002
    accepted: str | None,
    index: IndexKind,
    threads: int | None,
    openlineage: str | None,
    place: SparkOptions,
    reading: TypedFileOptions,
) -> int:
    """The same of one table."""
    read = reading.options()
    tables = named_paths(table)
    cluster = place.cluster()
    lineage = lineage_target(openlineage)
    if threads is not None and cluster is not None:
        raise HoldstrueError("--threads is for checks in one process", hint="leave out --engine spark")
    with Working(f"checking {', '.join(map(shown, data))}"):
        from holdstrue.cli.ruleset import require_tables
        from holdstrue.monitor.check import check as check_data
        from holdstrue.plan.compile import main_table, needed_columns
        from holdstrue.report.forms import parts

        ruleset = given.ruleset(data, reading)
        main = main_table(ruleset, tuple(tables))
        if main in tables:
            raise HoldstrueError(
                f"--table {main}={shown(tables[main][0])} names the table that DATA is",
                hint="the rule file calls DATA by that name: give its files as DATA",
            )
        require_tables(tables, needed_columns(ruleset, main))
        listed = DEFAULT_LIMIT if limit is None else limit
        own = column_names(key)
        report: Findings
        if cluster is None:
            found = check_data(
                data, ruleset, key=own, tables=tables, limit=listed, index=index, threads=threads, **read
            )
            report = found if accepted is None else _without(found, accepted)
        else:
            named = replace(ruleset, table=main)
            files = {main: data, **tables}
            report = cluster.check(files, named, key=own, limit=listed, index=index, read=read, accepted=accepted)
    tell_notes(report.notes)
    out.write(parts(report, format, limit=limit, color=out.color))
    if lineage is not None:
        from holdstrue.report.openlineage import lineage_event, namespace_of_jobs

        places = {main: data[0], **{name: paths[0] for name, paths in tables.items()}}
        job = f"holdstrue check {main}"
        send_event(lineage, lineage_event(report, main, places, job, namespace_of_jobs()))
    if format in ("jsonl", "csv", "raw-csv"):
        left_out(min(listed, report.new), report.new)
    return CLEAN if report.ok else VIOLATED


def _without(report: Report, accepted: str) -> Report:
    from holdstrue.monitor.accepting import accepting

    return accepting(report, accepted)
