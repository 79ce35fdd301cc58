"""`holdstrue fragments`: a relation split over sites, declared in a YAML file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.failures import CLEAN, VIOLATED, guarded
from holdstrue.cli.options import FeedKind, FileOptions, OpColumn, OutputFile
from holdstrue.cli.output import Output
from holdstrue.cli.progress import Working
from holdstrue.errors import HoldstrueError

if TYPE_CHECKING:
    from holdstrue.fragments.delta import Delta
    from holdstrue.fragments.file import Declaration
    from holdstrue.fragments.relation import Relation


class PlanFormat(StrEnum):
    """Forms of a plan."""

    text = "text"
    json = "json"
    svg = "svg"


class DeltaFormat(StrEnum):
    """Forms of what a batch did."""

    text = "text"
    json = "json"


File = Annotated[str, typer.Argument(metavar="FILE", help="YAML that declares sites, rules and key.")]
AsDelta = Annotated[DeltaFormat, typer.Option("--format", "-f", help="How to print the answer.")]

fragments = typer.Typer(
    name="fragments",
    no_args_is_help=True,
    help="CFDs over a relation whose columns or rows live at different sites (FILE: key, rules, sites).",
)


@fragments.command()
@guarded
def plan(
    file: File,
    format: Annotated[PlanFormat, typer.Option("--format", "-f", help="How to print it.")] = PlanFormat.text,  # noqa: A002
    output: OutputFile = None,
) -> int:
    """Say where indexes live and which ids are shipped; nothing is loaded."""
    with Output(output, format) as out:
        with Working(f"planning {file}"):
            from dataclasses import replace

            declared = _declared(file)
            sites = tuple(replace(site, state=None) for site in declared.sites)
            relation = replace(declared, sites=sites).relation()
        out.write(_plan_parts(relation, format))
    return CLEAN


def _plan_parts(relation: Relation, format_: PlanFormat) -> Iterator[str]:
    from holdstrue.report.fragments_text import plan_data
    from holdstrue.report.plan_svg import plan_svg

    found = relation.plan()
    if format_ is PlanFormat.svg:
        yield plan_svg(found, relation.layout)
    elif format_ is PlanFormat.json:
        yield json.dumps(plan_data(found), indent=2) + "\n"
    else:
        yield from (f"{line}\n" for line in found.lines())


@fragments.command()
@guarded
def init(file: File, format: AsDelta = DeltaFormat.text, output: OutputFile = None) -> int:  # noqa: A002
    """Load every site from its source into its state directory; say what violates the rules.

    Exit code 1: some rule of severity error is violated; 0: none is.
    """
    with Output(output, format) as out:
        with Working(f"loading {file}"):
            declared = _declared(file, states=True)
            with declared.relation() as relation:
                delta = relation.load()
                counts = relation.counts()
        out.write(_delta_parts(delta, counts, format))
    severe = {rule.name for rule in declared.rules if rule.severity == "error"}
    return VIOLATED if any(count for name, count in counts.items() if name in severe) else CLEAN


@fragments.command()
@guarded
def apply(
    file: File,
    changes: Annotated[
        list[str], typer.Argument(metavar="CHANGES", help="Rows or a change feed: CSV, Parquet, Arrow or JSON lines.")
    ],
    batch_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Names the batch: applied a second time it does nothing, or is finished."),
    ] = None,
    feed: FeedKind = "auto",
    op_column: OpColumn = None,
    format: AsDelta = DeltaFormat.text,  # noqa: A002
    output: OutputFile = None,
    reading: FileOptions = FileOptions(),
) -> int:
    """Apply one batch of changes at all sites, whole or not at all; say what it broke and mended, and what was shipped.

    Exit code 1: the batch added violations of a rule of severity error; 0: it added none.
    """
    read = reading.options()
    with Output(output, format) as out:
        with Working(f"applying {', '.join(changes)}"):
            declared = _declared(file, states=True)
            with declared.relation() as relation:
                options: dict[str, Any] = {"feed": feed, "op_column": op_column, **read}
                delta = relation.apply(changes, batch_id=batch_id, **options)
                counts = relation.counts()
        out.write(_delta_parts(delta, counts, format))
    severe = {rule.name for rule in declared.rules if rule.severity == "error"}
    return VIOLATED if any(name in severe for name in delta.added) else CLEAN


@fragments.command()
@guarded
def check(file: File, format: AsDelta = DeltaFormat.text, output: OutputFile = None) -> int:  # noqa: A002
    """Check everything from scratch, by copying what rules read to coordinators (batVer, batHor).

    Looks at what the sites hold, or at their sources when nothing is loaded. Exit codes as for init.
    """
    with Output(output, format) as out:
        with Working(f"checking {file}"):
            declared = _declared(file)
            with declared.relation() as relation:
                delta = relation.check()
        counts = {
            rule.name: delta.added[rule.name].num_rows if rule.name in delta.added else 0 for rule in declared.rules
        }
        out.write(_delta_parts(delta, counts, format))
    severe = {rule.name for rule in declared.rules if rule.severity == "error"}
    return VIOLATED if any(name in severe for name in delta.added) else CLEAN


def _declared(file: str, *, states: bool = False) -> Declaration:
    from holdstrue.fragments.file import load_declaration

    declared = load_declaration(file)
    if states:
        for site in declared.sites:
            if site.state is None:
                raise HoldstrueError(
                    f"{file}: site {site.name!r} has no state directory",
                    hint="give the file a field state: DIRECTORY, or each site its own",
                )
    return declared


def _delta_parts(delta: Delta, counts: dict[str, int], format_: DeltaFormat) -> Iterator[str]:
    from holdstrue.report.fragments_text import delta_data, delta_text

    if format_ is DeltaFormat.json:
        yield json.dumps(delta_data(delta, counts), indent=2, default=str) + "\n"
    else:
        yield from delta_text(delta, counts)
