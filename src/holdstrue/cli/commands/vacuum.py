"""`holdstrue vacuum`: remove what a state no longer needs, and say how long versions are kept."""

from __future__ import annotations

from typing import Annotated

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import AsVacuumed, OutputFile, State, keep_seconds
from holdstrue.cli.output import Output, Working


@guarded
def vacuum(
    state: State,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Keep versions so long, now and from now on: 90s, 15m, 12h, 7d, 2w; 0 for no longer than needed.",
        ),
    ] = None,
    format: AsVacuumed = "text",  # noqa: A002
    output: OutputFile = None,
) -> int:
    """Remove files and versions that are no longer needed; what was removed and what can be read is said.

    States of every kind, in a directory or at a URL. Versions that are kept can be read with --at. Exit code 0.
    """
    seconds = None if keep is None else keep_seconds(keep)
    with Output(output, format) as out:
        with Working(f"cleaning {state}"):
            from holdstrue.cli.any_state import vacuum as vacuumed
            from holdstrue.report.forms import parts

            answer = vacuumed(state, seconds)
        out.write(parts(answer, format, color=out.color))
    return CLEAN
