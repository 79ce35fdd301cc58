"""`holdstrue suspects`: cells that are probably wrong, and what they should probably be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import (
    DATA_HELP,
    AsSuspects,
    OutputFile,
    RuleOptions,
    TypedFileOptions,
    column_names,
    duration,
)
from holdstrue.cli.output import Output, Working, tell_notes
from holdstrue.errors import HoldstrueError
from holdstrue.location import shown

if TYPE_CHECKING:
    from holdstrue.discovery.suspects.answer import Suspects


@guarded
def suspects(
    data: Annotated[
        list[str], typer.Argument(metavar="DATA|STATE", help=f"{DATA_HELP} Or the state of a monitor or discovery.")
    ],
    given: RuleOptions = RuleOptions(),
    key: Annotated[
        str | None, typer.Option(metavar="COLS", help="Columns that name a row, and by which a patch updates it.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="COLS", help="The columns that are looked at; all unless given.")
    ] = None,
    only_rules: Annotated[
        bool, typer.Option("--only-rules", help="Only by the rules that are given, none that the data speak for.")
    ] = False,
    least: Annotated[
        float | None,
        typer.Option(
            "--least", min=0, max=1, metavar="C", help="Only suspects that are at least so sure (a patch: 0.9)."
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop looking for rules after so long (2m): 30s, 1h.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="How many are shown in text (20); other forms list all.")
    ] = None,
    format: AsSuspects = "text",  # noqa: A002
    output: OutputFile = None,
    reading: TypedFileOptions = TypedFileOptions(),
) -> int:
    """Find cells that are probably wrong, with the value that each should probably have, how sure that is, and why.

    Nothing is changed: `--format patch` makes updates for `apply`. Exit code 0, whether or not there are any.
    """
    parquet = output is not None and output.endswith(".parquet")
    if parquet and format not in ("text", "patch"):
        raise HoldstrueError(
            f"--output {shown(output or '')} is Parquet, --format {format} is not",
            hint="leave out --format, or name the file differently",
        )
    with Output(None if parquet else output, format) as out:
        with Working(f"looking for suspects in {', '.join(map(shown, data))}") as working:
            from holdstrue.report.forms import parts

            found = _found(data, given, key, columns, only_rules, budget, reading, working)
            if least is not None:
                found = found.at_least(least)
        tell_notes(found.notes)
        if parquet:
            _write_parquet(found, format, Path(output or ""))
        else:
            out.write(parts(found, format, limit=limit, color=out.color))
    return CLEAN


def _found(
    data: list[str],
    given: RuleOptions,
    key: str | None,
    columns: str | None,
    only_rules: bool,
    budget: str | None,
    reading: TypedFileOptions,
    working: Working,
) -> Suspects:
    if len(data) == 1 and _is_state(data[0]):
        if given.given or key is not None or columns is not None or budget is not None or reading.types():
            raise HoldstrueError(
                f"{shown(data[0])} is a state, which has its own rules, key and types",
                hint="leave out --rules, --rule, --key, --columns, --budget and --type",
            )
        return _of_state(data[0], only_rules=only_rules)
    from holdstrue.discovery.suspects.api import suspects as suspects_in
    from holdstrue.discovery.suspects.held import BUDGET

    rules = given.ruleset(data, reading) if given.given else None
    if rules is None and only_rules:
        raise HoldstrueError("--only-rules, but no rules are given", hint="name a file with --rules FILE")
    return suspects_in(
        data if len(data) > 1 else data[0],
        rules,
        key=column_names(key) or None,
        discover=not only_rules,
        columns=column_names(columns, "--columns"),
        types=reading.types(),
        budget=BUDGET if budget is None else duration(budget, "--budget"),
        progress=working.advance,
        **reading.options(),
    )


def _is_state(entry: str) -> bool:
    """Whether an argument names a state: a directory, or a folder of an object store, that holds one."""
    from holdstrue.state.journal import has_state

    if entry.startswith(("s3://", "gs://", "az://")):
        return not Path(entry).suffix and has_state(entry)
    return Path(entry).is_dir() and has_state(entry)


def _of_state(state: str, *, only_rules: bool) -> Suspects:
    from holdstrue.discovery.discovery import Discovery
    from holdstrue.monitor.monitor import Monitor
    from holdstrue.state.files import StateFiles

    with StateFiles(state) as files:
        kind = files.manifest()["kind"]
    if kind == "discovery":
        if only_rules:
            raise HoldstrueError("--only-rules, but a discovery has no declared rules", hint="leave out --only-rules")
        with Discovery.open(state, read_only=True) as found:
            return found.suspects()
    with Monitor.open(state, read_only=True) as monitor:
        answer: Suspects = monitor.suspects(discover=not only_rules)
        return answer


def _write_parquet(found: Suspects, format: str, path: Path) -> None:  # noqa: A002
    """The list, or the patch, as a file that appears whole or not at all."""
    import uuid

    import pyarrow.parquet as pq

    table = found.patch() if format == "patch" else found.to_arrow()
    temporary = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        pq.write_table(table, temporary)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise HoldstrueError(f"{path} cannot be written: {error}", hint="name another file") from error
