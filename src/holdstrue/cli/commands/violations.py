"""`holdstrue violations`: what is violated now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import DEFAULT_LIMIT, AcceptedFile, AsList, AtVersion, Limit, OutputFile, State, at_option
from holdstrue.cli.output import Output, Working, left_out, tell_moment
from holdstrue.errors import HoldstrueError

if TYPE_CHECKING:
    from holdstrue.monitor.monitor import Monitor
    from holdstrue.report.answers import Groups, OpenViolations, Worst


@guarded
def violations(
    state: State,
    rule: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this rule.")] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Keys, FDs and CFDs by group, in place of pairs.")] = False,
    worst: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The N rows in most violations instead.")
    ] = None,
    accepted: AcceptedFile = None,
    at: AtVersion = None,
    limit: Limit = None,
    format: AsList = "text",  # noqa: A002
    output: OutputFile = None,
) -> int:
    """List the violations there are now, or those of an earlier version.

    Exit code 0, whether or not there are any.
    """
    if worst is not None and (groups or rule is not None):
        raise HoldstrueError("--worst is about all rules and their rows", hint="leave out --rule and --groups")
    if accepted is not None and (groups or worst is not None):
        raise HoldstrueError("--accepted is about single violations", hint="leave out --groups and --worst")
    with Output(output, format) as out:
        with Working(f"reading {state}"):
            from holdstrue.monitor.monitor import Monitor
            from holdstrue.report.answers import OpenViolations
            from holdstrue.report.forms import parts

            monitor = Monitor.open(state, read_only=True, at=at_option(at))
            # Closing waits until every file was compared with its checksum, so nothing is said of a damaged one;
            # what was read stays in memory.
            monitor.close()
            moment = None if at is None else monitor.moment
            answer = _answer(monitor, rule, groups, worst, DEFAULT_LIMIT if limit is None else limit, accepted)
            answer = replace(answer, moment=moment)
        tell_moment(moment, format)
        out.write(parts(answer, format, limit=limit, color=out.color))
    if format in ("jsonl", "csv", "raw-csv") and worst is None:
        known = monitor.counts().items()
        total = sum(c.groups if groups else c.open for name, c in known if rule in (None, name))
        if isinstance(answer, OpenViolations):
            total = answer.new
        left_out(min(total, DEFAULT_LIMIT if limit is None else limit), total)
    return CLEAN


def _answer(
    monitor: Monitor, rule: str | None, groups: bool, worst: int | None, limit: int, accepted: str | None
) -> OpenViolations | Groups | Worst:
    from holdstrue.monitor.accepting import accepting
    from holdstrue.report.answers import Groups, OpenViolations, Worst

    if worst is not None:
        return Worst(tuple(monitor.offenders(worst)))
    names = [known.name for known in monitor.rules]
    if rule is not None and rule not in names:
        raise HoldstrueError(f"no rule called {rule!r}", hint=f"the rules are {', '.join(names)}")
    counts = {name: c.open for name, c in monitor.counts().items() if rule in (None, name)}
    report = monitor.report(limit=limit) if any(monitor.rows.values()) else None
    if report is not None and accepted is not None:
        report = accepting(report, accepted)
    return Groups(report, rule, limit) if groups else OpenViolations(report, counts, rule, limit)
