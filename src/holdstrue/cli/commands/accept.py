"""`holdstrue accept`: mark violations as known, so that only new ones fail a check."""

from __future__ import annotations

import datetime as dt
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.failures import CLEAN, guarded, tell
from holdstrue.cli.options import last_day
from holdstrue.cli.output import Output, Working
from holdstrue.errors import HoldstrueError

if TYPE_CHECKING:
    from holdstrue.rules.accepted import Acceptance


@guarded
def accept(
    source: Annotated[
        str, typer.Argument(metavar="STATE|REPORT", help="The state of a monitor, or what `check --format json` wrote.")
    ],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why they are accepted, for those who review the file.")],
    rule: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Accept the violations of this rule; may be repeated.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Accept the violations of all rules.")] = False,
    until: Annotated[
        str | None,
        typer.Option(metavar="DAY|TIME", help="The last day on which they are: 2027-03-01, or 90d from now."),
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who accepts them.")] = None,
    file: Annotated[
        str, typer.Option("--file", metavar="FILE", help="Where accepted violations are listed; it is added to.")
    ] = "accepted.yaml",
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove entries that have expired, or of which no violation is left.")
    ] = False,
) -> int:
    """Mark violations as known, in a file that `check --accepted FILE` and `violations --accepted FILE` read.

    They are still counted and shown as accepted; only other violations fail a check. Exit code 0.
    """
    if bool(rule) == every:
        said = "both --rule and --all are given" if every else "which violations are accepted?"
        names = f"; holdstrue status {shlex.quote(source)} names the rules" if not Path(source).is_file() else ""
        raise HoldstrueError(said, hint=f"give --rule NAME (also several times), or --all{names}")
    if not reason.strip():
        raise HoldstrueError("--reason is empty", hint="say why these violations are accepted")
    today = dt.datetime.now(dt.UTC).astimezone().date()
    about = {"by": by, "since": today, "until": None if until is None else last_day(until, today)}
    with Working(f"reading {source}"):
        from holdstrue.report.typeset import plural
        from holdstrue.rules.accepted import dump_accepted, load_accepted

        before = load_accepted(file) if Path(file).exists() else ()
        found = _of_report if Path(source).is_file() else _of_state
        kept, added = found(source, rule or (), reason, about, before, today)
    if prune:
        typer.echo(f"{file}: {len(before) - len(kept)} of {len(before)} entries removed")
    else:
        kept = before
    if added or len(kept) < len(before):
        with Output(file, "yaml") as out:
            out.write([dump_accepted((*kept, *added))])
    for entry in added:
        ends = "" if entry.until is None else f" until {entry.until.isoformat()}"
        named = (("row", len(entry.rows)), ("conflict", len(entry.conflicts)))
        said = " and ".join(plural(count, noun) for noun, count in named if count)
        typer.echo(f"{file}: {said} of {entry.rule!r} accepted{ends}")
    if not added:
        typer.echo("nothing new to accept")
    return CLEAN


def _known_rules(wanted: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    for name in wanted:
        if name not in names:
            raise HoldstrueError(f"no rule called {name!r}", hint=f"the rules are {', '.join(names)}")
    return wanted or names


def _left_out(measured: Sequence[str]) -> None:
    """Say which violations are not accepted, since no rows are named by them."""
    for name in measured:
        typer.echo(f"{name!r} is about a whole table, and is left out: what is accepted are rows", err=True)


def _of_state(
    state: str, wanted: Sequence[str], reason: str, about: dict[str, Any], before: Sequence[Acceptance], today: dt.date
) -> tuple[tuple[Acceptance, ...], tuple[Acceptance, ...]]:
    """The entries that still stand for something, and those that are added."""
    from holdstrue.monitor.accepting import accepted_now, accepting, require_rows
    from holdstrue.monitor.monitor import Monitor

    monitor = Monitor.open(state, read_only=True)
    # closing waits until every file was compared with its checksum; what was read stays in memory
    monitor.close()
    if not any(monitor.rows.values()):
        return tuple(before), ()
    report = accepting(monitor.report(limit=0), before, today=today)
    kept = tuple(entry.acceptance for entry in report.accepted if entry.violations and not entry.lapsed)
    names = _known_rules(wanted, [result.rule.name for result in report.results])
    measured = {result.rule.name: result for result in report.results if result.rule.kind == "measure"}
    require_rows(wanted, measured)
    _left_out([] if wanted else [name for name, result in measured.items() if result.counts.open])
    return kept, tuple(accepted_now(report, names, reason, **about))


def _of_report(
    path: str, wanted: Sequence[str], reason: str, about: dict[str, Any], before: Sequence[Acceptance], today: dt.date
) -> tuple[tuple[Acceptance, ...], tuple[Acceptance, ...]]:
    """The same from what a check wrote."""
    from holdstrue.monitor.accepting import accepted_in, require_rows
    from holdstrue.monitor.known import WrittenReport

    try:
        written = WrittenReport.of(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HoldstrueError(
            f"{path} is neither a state nor a report",
            hint="write a report with: holdstrue check DATA --rules FILE --key COLS --format json -o REPORT",
        ) from error
    names = _known_rules(wanted, list(written.keys))
    if not wanted:
        # rows of further tables have numbers in a check, which another one gives to others
        unnamed = [name for name in names if not written.keys[name] and name not in written.measured]
        if unnamed and len(unnamed) < len(names):
            tell(f"note: left out, as their rows have no key: {', '.join(unnamed)} (accept them from a state)")
            names = [name for name in names if name not in unnamed]
    require_rows(wanted, written.measured)
    _left_out([] if wanted else [v.rule for v in written.violations if v.rule in written.measured])
    return accepted_in(written, names, reason, before, today, **about)
