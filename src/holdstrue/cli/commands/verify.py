"""`holdstrue verify`: whether every file of a state is as it was written."""

from __future__ import annotations

from holdstrue.cli.failures import CLEAN, VIOLATED, guarded
from holdstrue.cli.options import AsVerified, OutputFile, State
from holdstrue.cli.output import Output, Working


@guarded
def verify(
    state: State,
    format: AsVerified = "text",  # noqa: A002
    output: OutputFile = None,
) -> int:
    """Read every file of every version that is kept and compare it with its checksum, then open the state.

    What a monitor counts is counted anew from its rows. At a URL the objects themselves are read, not this machine's
    copies. Exit code 0: all is right; 1: something is damaged; 2: there is no state, or it cannot be reached.
    """
    with Output(output, format) as out:
        with Working(f"verifying {state}"):
            from holdstrue.cli.verifying import verified
            from holdstrue.report.forms import parts

            answer = verified(state)
        out.write(parts(answer, format, color=out.color))
    return CLEAN if answer.ok else VIOLATED
