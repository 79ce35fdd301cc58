"""`holdstrue rules`: read rules, bring them to normal form and print them."""

from __future__ import annotations

from typing import Annotated

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import AsReview, OutputFile, column_names
from holdstrue.cli.output import Output


@guarded
def rules(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A rule file; - for standard input.")],
    columns: Annotated[
        str | None,
        typer.Option(metavar="COLS", help="The table's columns in order, for JSON rules that speak of them by number."),
    ] = None,
    format: AsReview = "text",  # noqa: A002
    output: OutputFile = None,
) -> int:
    """Read a rule file and print each rule in normal form with its fingerprint, then what is said twice.

    Rules that repeat others or follow from them are pointed out; the exit code is 0 all the same.
    """
    from holdstrue.cli.ruleset import rules_in
    from holdstrue.report.forms import parts
    from holdstrue.report.ruleset_text import RulesReview

    with Output(output, format) as out:
        ruleset = rules_in(file, lambda: column_names(columns, "--columns") or None)
        out.write(parts(RulesReview.of(ruleset), format, color=out.color))
    return CLEAN
