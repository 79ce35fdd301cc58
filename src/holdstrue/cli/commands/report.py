"""`holdstrue report`: a page that shows how data stands to its rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import (
    AcceptedFile,
    AsOverview,
    AtVersion,
    OutputFile,
    RuleOptions,
    Tables,
    TypedFileOptions,
    at_option,
    column_names,
    named_paths,
)
from holdstrue.cli.output import Output, Working, tell_notes
from holdstrue.errors import HoldstrueError
from holdstrue.location import shown
from holdstrue.state.object_url import is_object_url

if TYPE_CHECKING:
    from holdstrue.discovery.suspects.answer import Suspects
    from holdstrue.report.overview import Overview


@guarded
def report(
    source: Annotated[
        list[str],
        typer.Argument(metavar="STATE|DATA", help="The state of a monitor or a discovery, or data with --rules."),
    ],
    given: RuleOptions = RuleOptions(),
    table: Tables = None,
    key: Annotated[
        str | None, typer.Option(metavar="COLS", help="Of data: columns that name a row, separated by commas.")
    ] = None,
    accepted: AcceptedFile = None,
    found: Annotated[
        str | None,
        typer.Option(
            metavar="STATE", help="A discovery that is kept: its rules, the nearly true ones and what breaks them, too."
        ),
    ] = None,
    suspects: Annotated[
        bool,
        typer.Option("--suspects", help="Cells that are probably wrong, too; all rows are looked at to find them."),
    ] = False,
    at: AtVersion = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="What the page is called.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="How many violations or groups of each rule are listed (200)."),
    ] = None,
    format: AsOverview = "html",  # noqa: A002
    output: OutputFile = None,
    reading: TypedFileOptions = TypedFileOptions(),
) -> int:
    """Write one page of HTML: counts by rule, over time, worst rows, and the rows and groups behind them.

    Of a discovery: the rules that hold, those that nearly do and what breaks them, and how many batches ended and made.
    The file needs nothing else and loads nothing. Exit code 0, whether or not there are violations.

    """
    with Output(output, format) as out:
        with Working(f"reading {', '.join(map(shown, source))}"):
            from holdstrue.monitor.accepting import accepting
            from holdstrue.report.forms import parts
            from holdstrue.report.overview import LISTED

            listed = LISTED if limit is None else limit
            if given.given:
                if at is not None:
                    raise HoldstrueError("--at is for states", hint="leave out --rules to report on a state")
                answer = _of_data(source, given, named_paths(table), column_names(key), title, listed, reading)
                answer = replace(answer, suspects=_in_data(source, given, key, reading)) if suspects else answer
            else:
                if len(source) > 1 or table or key is not None or _is_data(source[0]):
                    raise HoldstrueError(
                        "a report on data needs rules", hint="give --rules FILE or --rule TEXT; a state has its own"
                    )
                answer = _of_state(source[0], title, listed, at, suspects=suspects)
            if accepted is not None and answer.report is not None:
                answer = replace(answer, report=accepting(answer.report, accepted))
            if found is not None:
                answer = replace(answer, discovered=_discovered(found, None))
        tell_notes(() if answer.report is None else answer.report.notes)
        out.write(parts(answer, format, limit=limit, color=out.color))
    return CLEAN


def _is_data(source: str) -> bool:
    """Whether a source can only be data: states are in directories and object stores."""
    from holdstrue.sources.ways import way_of

    return Path(source).is_file() or (way_of(source) is not None and not is_object_url(source))


def _of_data(
    data: list[str],
    given: RuleOptions,
    tables: dict[str, list[str]],
    key: tuple[str, ...],
    title: str | None,
    limit: int,
    reading: TypedFileOptions,
) -> Overview:
    from holdstrue.monitor.check import check
    from holdstrue.report.overview import Overview, worst_of

    ruleset = given.ruleset(data, reading)
    found = check(data, ruleset, key=key, tables=tables, limit=limit, **reading.options())
    title = title or ", ".join(map(shown, data))
    return Overview(title, found, (), worst_of(found), found.explain().splitlines(), limit=limit)


def _in_data(data: list[str], given: RuleOptions, key: str | None, reading: TypedFileOptions) -> dict[str, Suspects]:
    """The suspects of the main table."""
    from holdstrue.discovery.suspects.api import suspects
    from holdstrue.plan.compile import main_table

    ruleset = given.ruleset(data, reading)
    chosen = {"key": column_names(key) or None, "types": reading.types(), **reading.options()}
    return {main_table(ruleset, ()): suspects(data if len(data) > 1 else data[0], ruleset, **chosen)}


def _of_state(state: str, title: str | None, limit: int, at: str | None, *, suspects: bool) -> Overview:
    from holdstrue.monitor.monitor import Monitor
    from holdstrue.report.overview import Overview
    from holdstrue.state.files import StateFiles

    with StateFiles(state) as files:
        kind = files.manifest()["kind"]
    if kind == "discovery":
        if suspects:
            raise HoldstrueError(
                "--suspects is for monitors and data", hint=f"holdstrue suspects {shown(state)} lists them"
            )
        return Overview(title or state, None, limit=limit, discovered=_discovered(state, at))
    monitor = Monitor.open(state, read_only=True, at=at_option(at))
    history = tuple(monitor.history())
    tables = [name for name, count in monitor.rows.items() if count] if suspects else []
    found = {name: monitor.suspects(table=name) for name in tables} if suspects else None
    # closing waits until every file was compared with its checksum; what was read stays in memory
    monitor.close()
    return replace(Overview.of_state(monitor, history, title or state, limit), suspects=found)


def _discovered(state: str, at: str | None) -> dict[str, Any]:
    """What a discovery that is kept says."""
    from holdstrue.discovery.discovery import Discovery
    from holdstrue.report.discovered import discovered_dict

    with Discovery.open(state, read_only=True, at=at_option(at)) as found:
        return discovered_dict(found)
