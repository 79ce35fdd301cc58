"""`holdstrue rules`: read rules, bring them to normal form and print them, or write them as SQL."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import AsReview, OutputFile, TypedFileOptions, column_names, named_paths
from holdstrue.cli.output import Output, tell_notes
from holdstrue.errors import HoldstrueError

if TYPE_CHECKING:
    from holdstrue.report.sql import Export
    from holdstrue.rules import RuleSet

_sql = partial(typer.Option, rich_help_panel="SQL")


@dataclass(frozen=True)
class SqlOptions:
    """For which database rules are written, what its tables are called and how their rows are told apart."""

    dialect: Annotated[
        Literal["duckdb", "postgresql", "spark"] | None, _sql(help="Whose SQL --format sql is; duckdb unless given.")
    ] = None
    key: Annotated[
        str | None, _sql(metavar="COLS", help="Columns that tell rows apart; else those that the rule file names.")
    ] = None
    table: Annotated[
        list[str] | None,
        _sql(
            "--table",
            metavar="NAME",
            help="What the table is called in the database; RULES_NAME=NAME for a further one; may be repeated.",
        ),
    ] = None
    table_key: Annotated[
        list[str] | None, _sql("--table-key", metavar="NAME=COLS", help="The key of a further table; may be repeated.")
    ] = None
    data: Annotated[str | None, _sql(metavar="DATA", help="A file of the table, which says what its columns hold.")] = (
        None
    )

    @property
    def given(self) -> str | None:
        """The first option that was given."""
        return next((f"--{f.name.replace('_', '-')}" for f in fields(self) if getattr(self, f.name)), None)

    def export(self, reading: TypedFileOptions) -> Export:
        """As rules are exported."""
        from holdstrue.report.sql import Export
        from holdstrue.sources.read import schema_of

        main = [name for name in self.table or () if "=" not in name]
        if len(main) > 1:
            raise HoldstrueError(f"--table {main[0]} and --table {main[1]} both name the main table", hint="give one")
        further = {name: paths[-1] for name, paths in named_paths([n for n in self.table or () if "=" in n]).items()}
        keys = {name: column_names(paths[-1], "--table-key") for name, paths in named_paths(self.table_key).items()}
        return Export(
            self.dialect or "duckdb",
            keys if self.key is None else {**keys, "": column_names(self.key)},
            {**further, **({"": main[0]} if main else {})},
            {} if self.data is None else {"": schema_of(self.data, types=reading.types(), **reading.options())},
        )


@guarded
def rules(
    file: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="A rule file; - for standard input. Several as text only, one by one."),
    ],
    columns: Annotated[
        str | None,
        typer.Option(metavar="COLS", help="The table's columns in order, for JSON rules that speak of them by number."),
    ] = None,
    format: AsReview = "text",  # noqa: A002
    output: OutputFile = None,
    sql: SqlOptions = SqlOptions(),
    reading: TypedFileOptions = TypedFileOptions(),
) -> int:
    """Read a rule file and print each rule in normal form with its fingerprint, then what is said twice.

    Rules that repeat others or follow from them are pointed out; the exit code is 0 all the same. With --format sql
    each rule becomes a query that lists its violations and one that counts them.
    """
    if format != "sql" and sql.given is not None:
        raise HoldstrueError(f"{sql.given} is about SQL", hint="add --format sql")
    if sql.data is None and reading.options() != TypedFileOptions().options():
        raise HoldstrueError(
            "--encoding, --delimiter, --null-value and --input-format are about DATA",
            hint="add --format sql --data DATA, or leave them out",
        )
    if len(file) > 1 and format != "text":
        raise HoldstrueError(
            f"--format {format} is for one rule file, and there are {len(file)}", hint="give one, or leave out --format"
        )
    with Output(output, format) as out:
        for number, one in enumerate(file):
            if len(file) > 1:
                out.write([f"{'' if number == 0 else chr(10)}{one}\n"])
            _reviewed(one, columns, format, sql, reading, out)
    return CLEAN


def _reviewed(
    file: str,
    columns: str | None,
    format: str,  # noqa: A002
    sql: SqlOptions,
    reading: TypedFileOptions,
    out: Output,
) -> None:
    from holdstrue.cli.ruleset import rules_in
    from holdstrue.report.forms import parts
    from holdstrue.report.ruleset_text import RulesReview
    from holdstrue.rules.types import with_types

    ruleset = with_types(rules_in(file, lambda: column_names(columns, "--columns") or None), reading.types())
    review = RulesReview.of(ruleset)
    if format == "sql":
        review = replace(review, export=sql.export(reading))
        _tell_unwritten(ruleset, review.export)
    out.write(parts(review, format, color=out.color))


def _tell_unwritten(rules: RuleSet, export: Export) -> None:
    """The text says it as well, but a script may not look there."""
    tell_notes(f"{q.rule.name!r} is not written: {q.problem}" for q in export.queries(rules) if q.problem is not None)
