"""`holdstrue fragments`: a relation split over sites, declared in a YAML file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdstrue.cli.cluster import SparkOptions
from holdstrue.cli.failures import CLEAN, VIOLATED, guarded
from holdstrue.cli.options import FeedKind, FileOptions, FormatOf, OpColumn, OutputFile
from holdstrue.cli.output import Output, Working
from holdstrue.errors import HoldstrueError
from holdstrue.report.forms import parts

if TYPE_CHECKING:
    from holdstrue.cli.cluster import Cluster
    from holdstrue.fragments.declaration import Declaration
    from holdstrue.fragments.relation import Relation
    from holdstrue.fragments.relation_delta import RelationDelta


File = Annotated[str, typer.Argument(metavar="FILE", help="YAML that declares sites, rules and key.")]
AsPlan = Annotated[str, FormatOf("ShippingPlan", "How to print it.")]
AsDelta = Annotated[str, FormatOf("RelationDelta", "How to print the answer.")]

fragments = typer.Typer(
    name="fragments",
    no_args_is_help=True,
    help="CFDs over a relation whose columns or rows live at different sites (FILE: key, rules, sites).",
)


@fragments.command()
@guarded
def plan(
    file: File,
    format: AsPlan = "text",  # noqa: A002
    output: OutputFile = None,
) -> int:
    """Say where indexes live and which ids are shipped; nothing is loaded."""
    with Output(output, format) as out:
        with Working(f"planning {file}"):
            declared = _declared(file)
            sites = tuple(replace(site, state=None) for site in declared.sites)
            answer = replace(declared, sites=sites).relation().plan()
        out.write(parts(answer, format))
    return CLEAN


@fragments.command()
@guarded
def init(
    file: File,
    format: AsDelta = "text",  # noqa: A002
    output: OutputFile = None,
    place: SparkOptions = SparkOptions(),
) -> int:
    """Load every site from its source into its state; say what violates the rules.

    Exit code 1: some rule of severity error is violated; 0: none is.
    """
    with Output(output, format) as out:
        with Working(f"loading {file}"):
            cluster = place.cluster()
            declared = _declared(file, states=True)
            with _opened(declared, cluster) as relation:
                delta = replace(relation.load(), violations=(counts := relation.counts()))
        out.write(parts(delta, format))
    return _code(declared, (name for name, count in counts.items() if count))


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
    format: AsDelta = "text",  # noqa: A002
    output: OutputFile = None,
    reading: FileOptions = FileOptions(),
    place: SparkOptions = SparkOptions(),
) -> int:
    """Apply one batch of changes at all sites, whole or not at all; say what it broke and mended, and what was shipped.

    Exit code 1: the batch added violations of a rule of severity error; 0: it added none.
    """
    with Output(output, format) as out:
        with Working(f"applying {', '.join(changes)}"):
            from holdstrue.fragments.relation import UnloadedError

            cluster = place.cluster()
            declared = _declared(file, states=True)
            with _opened(declared, cluster) as relation:
                options: dict[str, Any] = {"feed": feed, "op_column": op_column, **reading.options()}
                try:
                    delta = _applied(relation, changes, batch_id, options)
                except UnloadedError as error:
                    raise HoldstrueError(
                        error.message, hint=f"load it first: holdstrue fragments init {file}"
                    ) from error
                delta = replace(delta, violations=relation.counts())
        out.write(parts(delta, format))
    return _code(declared, delta.added)


@fragments.command()
@guarded
def check(
    file: File,
    format: AsDelta = "text",  # noqa: A002
    output: OutputFile = None,
    place: SparkOptions = SparkOptions(),
) -> int:
    """Check everything from scratch, by copying what rules read to coordinators (batVer, batHor).

    Looks at what the sites hold, or at their sources when nothing is loaded. Exit codes as for init.
    """
    with Output(output, format) as out:
        with Working(f"checking {file}"):
            from holdstrue.fragments.relation_delta import counted

            cluster = place.cluster()
            declared = _declared(file, states=cluster is not None)
            with _opened(declared, cluster) as relation:
                delta = relation.check()
            delta = replace(delta, violations=counted(declared.rules, delta.added))
        out.write(parts(delta, format))
    return _code(declared, delta.added)


def _opened(declared: Declaration, cluster: Cluster | None) -> Relation:
    """The relation in this process, or on Spark with the files of its sites as data frames."""
    return declared.relation() if cluster is None else cluster.relation(declared)


def _applied(relation: Relation, changes: list[str], batch_id: str | None, options: dict[str, Any]) -> RelationDelta:
    """Change files as one batch; on Spark tasks read them."""
    from holdstrue.fragments.parted_relation import PartedRelation

    if not isinstance(relation, PartedRelation):
        return relation.apply(changes, batch_id=batch_id, **options)
    from holdstrue.cli.cluster import refuse_lake
    from holdstrue.sources.read import paths_of

    refuse_lake(changes)
    return relation.apply_files(paths_of(changes), batch_id, **options)


def _declared(file: str, *, states: bool = False) -> Declaration:
    from holdstrue.fragments.declaration import load_declaration

    declared = load_declaration(file)
    if states:
        for site in declared.sites:
            if site.state is None:
                raise HoldstrueError(
                    f"{file}: site {site.name!r} has no state directory",
                    hint="give the file a field state: DIRECTORY, or each site its own",
                )
    return declared


def _code(declared: Declaration, violated: Iterable[str]) -> int:
    severe = {rule.name for rule in declared.rules if rule.severity == "error"}
    return CLEAN if severe.isdisjoint(violated) else VIOLATED
