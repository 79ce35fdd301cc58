"""`holdstrue suspects`: cells that are probably wrong, and what they should probably be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.cluster import Cluster, SparkOptions
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
from holdstrue.cli.output import Output, Working, left_out, tell_notes
from holdstrue.errors import HoldstrueError
from holdstrue.location import shown

if TYPE_CHECKING:
    from holdstrue.discovery.suspects.answer import Suspects
    from holdstrue.rules.model import RuleSet
    from holdstrue.spark.suspecting.frame_suspects import FrameSuspects

SHOWN, LISTED = 20, 1000
"""Suspects that are fetched from Spark for text, and for other forms, unless told otherwise."""


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
        float,
        typer.Option(
            "--least", min=0, max=1, metavar="C", help="Only suspects that are at least so sure; of a patch 0.9."
        ),
    ] = 0.0,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop looking for rules after so long (2m): 30s, 1h.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="How many are shown in text (20); other forms list all, on Spark the first 1000."
        ),
    ] = None,
    format: AsSuspects = "text",  # noqa: A002
    output: OutputFile = None,
    place: SparkOptions = SparkOptions(),
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
    cluster = place.cluster()
    if cluster is not None and (parquet or format == "patch"):
        raise HoldstrueError(
            "suspects on Spark are a data frame there, which --output FILE.parquet and --format patch would fetch",
            hint="holdstrue.spark.suspects(frame, key=...) has `.frame.write.parquet(...)` and `.patch()`",
        )
    with Output(None if parquet else output, format) as out:
        with Working(f"looking for suspects in {', '.join(map(shown, data))}") as working:
            from holdstrue.report.forms import parts

            looked = _Looked(data, given, key, columns, only_rules, budget, reading)
            if cluster is not None:
                most = limit if limit is not None else SHOWN if format == "text" else LISTED
                found = looked.on(cluster).at_least(least).first(most)
            else:
                found = looked.here(working).at_least(least)
        tell_notes(found.notes)
        if parquet:
            _write_parquet(found, format, Path(output or ""))
        else:
            out.write(parts(found, format, limit=limit, color=out.color))
            if format != "text":
                left_out(len(found), sum(found.by_column.values()))
    return CLEAN


@dataclass(frozen=True)
class _Looked:
    """What is looked at, and how."""

    data: list[str]
    given: RuleOptions
    key: str | None
    columns: str | None
    only_rules: bool
    budget: str | None
    reading: TypedFileOptions

    def here(self, working: Working) -> Suspects:
        """In this process."""
        if len(self.data) == 1 and _is_state(self.data[0]):
            own = self.key, self.columns, self.budget
            if self.given.given or own != (None, None, None) or self.reading.types():
                raise HoldstrueError(
                    f"{shown(self.data[0])} is a state, which has its own rules, key and types",
                    hint="leave out --rules, --rule, --key, --columns, --budget and --type",
                )
            return _of_state(self.data[0], only_rules=self.only_rules)
        from holdstrue.discovery.suspects.api import suspects as suspects_in

        data = self.data if len(self.data) > 1 else self.data[0]
        return suspects_in(data, self._rules(), progress=working.advance, **self._choices(), **self.reading.options())

    def on(self, cluster: Cluster) -> FrameSuspects:
        """On Spark."""
        if len(self.data) == 1 and _is_state(self.data[0]):
            raise HoldstrueError(
                f"{shown(self.data[0])} is a state, whose rows are read in one process",
                hint="leave out --engine spark, or name the files; monitor.suspects(frame) believes a monitor's rules",
            )
        return cluster.suspects(self.data, self._rules(), read=self.reading.options(), **self._choices())

    def _rules(self) -> RuleSet | None:
        rules = self.given.ruleset(self.data, self.reading) if self.given.given else None
        if rules is None and self.only_rules:
            raise HoldstrueError("--only-rules, but no rules are given", hint="name a file with --rules FILE")
        return rules

    def _choices(self) -> dict[str, Any]:
        from holdstrue.discovery.suspects.held import BUDGET

        return {
            "key": column_names(self.key) or None,
            "discover": not self.only_rules,
            "columns": column_names(self.columns, "--columns"),
            "types": self.reading.types(),
            "budget": BUDGET if self.budget is None else duration(self.budget, "--budget"),
        }


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
