"""`holdstrue discover`: find the rules that hold in data, and keep them current."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.cluster import SparkOptions
from holdstrue.cli.failures import CLEAN, guarded, with_option
from holdstrue.cli.options import (
    AsFound,
    AtVersion,
    FeedKind,
    OnConflict,
    OpColumn,
    OutputFile,
    TypedFileOptions,
    at_option,
    column_names,
    duration,
    named_paths,
)
from holdstrue.cli.output import Output, Working, tell_moment, tell_notes
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.location import shown
from holdstrue.report.forms import formats_of, parts

if TYPE_CHECKING:
    from holdstrue.discovery.found import RuleChanges


USUAL_KINDS = "dc,fd,key,column"

_search = partial(typer.Option, rich_help_panel="Search")


@dataclass(frozen=True)
class SearchOptions:
    """How far rules are searched, and which count as found."""

    max_predicates: Annotated[int | None, _search(min=1, metavar="N", help="The most predicates of a rule.")] = None
    error: Annotated[str, _search(metavar="E", help="Share of pairs (or rows) that may break a rule: 0.01.")] = "0"
    measure: Annotated[str, _search(metavar="pairs|rows", help="What the error is a share of.")] = "pairs"
    nulls: Annotated[str, _search(metavar="unknown|equal", help="How NULLs compare.")] = "unknown"
    sample: Annotated[int | None, _search(min=2, metavar="N", help="Search in N rows, then verify in all.")] = None
    budget: Annotated[
        str | None, _search(metavar="TIME", help="Stop after so long (2m) with what was found: 30s, 1h.")
    ] = None
    arity: Annotated[int, _search(min=1, metavar="N", help="The most columns on a side of an inclusion.")] = 1
    support: Annotated[int, _search(min=2, metavar="N", help="Rows that a conditional FD must speak of.")] = 20
    confidence: Annotated[str, _search(metavar="C", help="Share of them that must follow it: 0.95.")] = "1"
    threads: Annotated[int | None, _search(min=1, metavar="N", help="Threads that search.")] = None

    @property
    def first_given(self) -> str | None:
        """An option that is not as it is when left out."""
        usual = vars(SearchOptions())
        return next((f"--{name.replace('_', '-')}" for name, value in vars(self).items() if value != usual[name]), None)

    def choices(self) -> dict[str, Any]:
        """As options of `discover`."""
        given = dict(vars(self))
        budget = given.pop("budget")
        return given if budget is None else {**given, "budget": duration(budget, "--budget")}


@guarded
def discover(
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="A table as a file or URL, or NAME=PATH for each of several tables."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--kind", metavar="KINDS", help="Which rules: dc, fd, key, cfd, ind, column, separated by commas."
        ),
    ] = USUAL_KINDS,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLS", help="Columns that tell rows apart; NAME=COLS for a table of several."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="COLS", help="The columns that rules may speak of; all unless given.")
    ] = None,
    top: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only the N best rules (text: 20).")] = None,
    search: SearchOptions = SearchOptions(),
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Keep the discovery in this directory or at this URL, or go on with it."),
    ] = None,
    at: AtVersion = None,
    apply: Annotated[
        list[str] | None,
        typer.Option("--apply", metavar="CHANGES", help="Changes, or TABLE=CHANGES, to follow; needs --state."),
    ] = None,
    batch_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Names the batch: applied a second time, it does nothing.")
    ] = None,
    feed: FeedKind = "auto",
    op_column: OpColumn = None,
    on_conflict: OnConflict = "error",
    format: AsFound = "text",  # noqa: A002
    output: OutputFile = None,
    place: SparkOptions = SparkOptions(),
    reading: TypedFileOptions = TypedFileOptions(),
) -> int:
    """Find the rules that hold in a table, or between tables; with --apply, say which a batch ended and made.

    Exit code 0; with --apply 1 when rules died.
    """
    read, types = reading.options(), reading.types()
    cluster = place.cluster()
    if cluster is not None and not data:
        raise HoldstrueError(
            "a discovery that is kept is read and followed in one process, and --engine spark asks for another",
            hint="leave out --engine spark; where the state is too large for that, discover anew from DATA on Spark",
        )
    batch = {"--batch-id": batch_id, "--op-column": op_column, "--feed": feed, "--on-conflict": on_conflict}
    idle = next((name for name, value in batch.items() if value not in (None, "auto", "error")), None)
    if idle is not None and not apply:
        raise HoldstrueError(f"{idle} is about changes", hint="add --apply CHANGES, or leave it out")
    kinds = [name.strip() for name in kind.split(",") if name.strip()]
    if data:
        _require_heard(kinds, search, format)
    elif state is not None:
        chosen = {"--kind": kind != USUAL_KINDS, "--key": key is not None, "--columns": columns is not None}
        odd = next((name for name, there in chosen.items() if there), None) or search.first_given
        if odd is not None:
            raise HoldstrueError(
                f"{shown(state)} is a discovery that is kept, with its own kinds, keys and options",
                hint=f"leave out {odd}, or discover anew from DATA",
            )
    if at is not None and (state is None or data or apply):
        raise HoldstrueError(
            "--at shows an earlier version of a discovery that is kept", hint="holdstrue discover --state STATE --at 12"
        )
    if apply:
        if state is None or data:
            raise HoldstrueError(
                "--apply follows a discovery that is kept", hint="holdstrue discover --state STATE --apply CHANGES"
            )
        if format not in formats_of("RuleChanges"):
            raise HoldstrueError(f"--format {format} is not for --apply", hint=" or ".join(formats_of("RuleChanges")))
        how: dict[str, Any] = {"feed": feed, "op_column": op_column, "on_conflict": on_conflict}
        how["types"] = types
        with Output(output, format) as out:
            with Working(f"applying {', '.join(map(shown, apply))}"):
                try:
                    changes = _applied(state, apply, batch_id, how | read)
                except ChangeError as wrong:
                    raise with_option(wrong) from wrong
            tell_notes(changes.notes)
            out.write(parts(changes, format, color=out.color))
        return 1 if changes.died else CLEAN
    choices = {**search.choices(), "columns": column_names(columns, "--columns"), "types": types}
    with Output(output, format) as out:
        with Working(f"discovering rules in {', '.join(map(shown, data or [state or '']))}") as working:
            if data:
                sources, keys = _sources(data, key)
                if cluster is not None:
                    found = cluster.discover(sources, kinds, key=keys, state=state, read=read, **choices)
                else:
                    from holdstrue.discovery.api import discover as discover_in

                    found = discover_in(
                        sources, kinds, key=keys, state=state, progress=working.advance, **read, **choices
                    )
            elif state is not None:
                from holdstrue.discovery.discovery import Discovery

                found = Discovery.open(state, read_only=True, at=at_option(at))
            else:
                raise HoldstrueError("no data is given", hint="holdstrue discover DATA")
            told = list(parts(found, format, limit=top, color=out.color))
        tell_notes(found.notes)
        tell_moment(found.moment, format)
        out.write(told)
        found.close()
    return CLEAN


def _require_heard(kinds: list[str], search: SearchOptions, format: str) -> None:  # noqa: A002
    """Refuse options of kinds of rules that are not looked for."""
    for option, kind, given in (
        ("--arity", "ind", search.arity != 1),
        ("--support", "cfd", search.support != SearchOptions.support),
        ("--confidence", "cfd", search.confidence != SearchOptions.confidence),
        ("--format svg", "ind", format == "svg"),
    ):
        if given and kind not in kinds:
            raise HoldstrueError(f"{option} is about rules of kind {kind}", hint=f"add --kind {kind}, or leave it out")


def _sources(data: list[str], key: list[str] | None) -> tuple[Any, Any]:
    """The tables by name, and their keys."""
    from holdstrue.sources.ways import require_local, way_of

    named = [("=" in entry and way_of(entry) is None and not Path(require_local(entry)).exists()) for entry in data]
    if not any(named):
        if key is not None and len(key) > 1:
            raise HoldstrueError("--key is given twice for one table", hint="separate columns by commas")
        return (data if len(data) > 1 else data[0]), column_names(key[0]) if key else None
    if not all(named):
        odd = data[named.index(False)]
        raise HoldstrueError(
            f"{shown(odd)!r} has no name", hint=f"give every table as NAME=PATH: {Path(odd).stem}={shown(odd)}"
        )
    keys = {name: column_names(values[0]) for name, values in named_paths(key, "--key").items()}
    return {name: paths if len(paths) > 1 else paths[0] for name, paths in named_paths(data, "DATA").items()}, keys


def _applied(state: str, apply: list[str], batch_id: str | None, how: dict[str, Any]) -> RuleChanges:
    from holdstrue.discovery.discovery import Discovery

    with Discovery.open(state) as found:
        tables = list(found.counts())
        named = [entry.partition("=")[0] in tables and "=" in entry for entry in apply]
        if not all(named) and (any(named) or len(tables) > 1):
            raise HoldstrueError(
                f"--apply {shown(apply[named.index(False)])!r} does not say which table changes",
                hint=f"NAME=CHANGES, where NAME is one of {', '.join(tables)}",
            )
        changes: Any = named_paths(apply, "--apply") if any(named) else apply
        return found.apply(changes, batch_id=batch_id, **how)
