"""`holdstrue import-rules`: tests of dbt, Great Expectations, Soda or pandera as a rule file."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from holdstrue.cli.failures import CLEAN, VIOLATED, guarded, tell
from holdstrue.cli.options import OutputFile
from holdstrue.cli.output import Output, tell_notes
from holdstrue.errors import RuleError


@guarded
def import_rules(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="dbt's schema.yml, a suite of Great Expectations, checks of Soda, a schema of pandera; "
            "- for standard input.",
        ),
    ],
    tool: Annotated[
        Literal["dbt", "gx", "soda", "pandera"] | None,
        typer.Option("--from", help="Whose file it is, where its content does not tell."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 where something did not map.")] = False,
    output: OutputFile = None,
) -> int:
    """Print the tests of another tool as a rule file; what did not map is listed on standard error, with the reason.

    Exit code 0, also where something did not map, unless --strict is given; 2 where nothing did.
    """
    from holdstrue.cli.ruleset import text_in
    from holdstrue.report.typeset import plural, printable
    from holdstrue.rules import dump_rules
    from holdstrue.rules.imports import TOOLS
    from holdstrue.rules.imports import import_rules as imported

    with Output(output, "yaml") as out:
        text, name = text_in(file)
        found = imported(text, tool, name)
        tell_notes(printable(note) for note in found.notes)
        for miss in found.unmapped:
            tell(printable(f"not mapped: {miss}"))
        title = TOOLS[found.tool].title
        if not found.rules:
            raise RuleError(
                f"{name}: nothing of {plural(len(found.unmapped), 'test')} of {title} maps to a rule",
                hint="see docs/interop.md for what does",
            )
        head = f"# {plural(len(found.rules), 'rule')} from {title}"
        lost = f"; {plural(len(found.unmapped), 'test')} did not map\n" if found.unmapped else "\n"
        out.write([head + lost, dump_rules(found.ruleset())])
    return VIOLATED if strict and found.unmapped else CLEAN
