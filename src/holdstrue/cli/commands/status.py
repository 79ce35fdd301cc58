"""`holdstrue status`: how a state stands."""

from __future__ import annotations

from typing import Annotated

import typer

from holdstrue.cli.failures import CLEAN, guarded
from holdstrue.cli.options import AsStatus, AtVersion, OutputFile, State, at_option
from holdstrue.cli.output import Output, Working, tell_moment


@guarded
def status(
    state: State,
    history: Annotated[bool, typer.Option("--history", help="With a line for each batch and rule.")] = False,
    at: AtVersion = None,
    format: AsStatus = "text",  # noqa: A002
    output: OutputFile = None,
) -> int:
    """Say how each rule stands, how many rows there are and which batch was the last.

    The tables are not read, so this is quick however large they are. Exit code 0.
    """
    with Output(output, format) as out:
        with Working(f"reading {state}"):
            from holdstrue.cli.state_status import read_status
            from holdstrue.report.forms import parts

            answer = read_status(state, history=history, at=at_option(at))
        tell_moment(answer.moment, format)
        out.write(parts(answer, format, color=out.color))
    return CLEAN
