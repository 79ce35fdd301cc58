"""Commands and what they print, as a console block shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

PROMPT = "$ "
ANYTHING = "..."
"""A line of its own stands for any lines; inside a line, for any text: times, versions, paths of a machine."""


@dataclass(frozen=True)
class Step:
    """A command, over one or several lines, and the lines it prints."""

    command: tuple[str, ...]
    printed: tuple[str, ...]

    @property
    def line(self) -> str:
        """The command as a shell takes it."""
        return "\n".join(self.command).replace("\\\n", " ")


def steps_of(lines: Sequence[str]) -> list[Step]:
    """The commands of a block; a command goes on after a line that ends with a backslash.

    >>> steps_of(["$ echo a \\\\", "    b", "a b", "$ true"])
    [Step(command=('echo a \\\\', '    b'), printed=('a b',)), Step(command=('true',), printed=())]
    """
    steps: list[tuple[list[str], list[str]]] = []
    for line in lines:
        if line.startswith(PROMPT):
            steps.append(([line.removeprefix(PROMPT)], []))
        elif not steps:
            raise ValueError(f"{line!r} stands before the first command: commands begin with {PROMPT!r}")
        elif steps[-1][0][-1].endswith("\\"):
            steps[-1][0].append(line)
        else:
            steps[-1][1].append(line)
    return [Step(tuple(command), tuple(printed)) for command, printed in steps]


def lines_of(steps: Sequence[Step]) -> list[str]:
    """The block that shows these steps."""
    return [
        line
        for step in steps
        for line in (PROMPT + step.command[0], *step.command[1:], *step.printed)
    ]  # fmt: skip


def matches(written: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether what a command printed is what the page says; blank lines at the end do not count.

    >>> matches(["took ... s", "..."], ["took 0.3 s", "a", "b"]), matches(["took ... s"], ["took 0.3 ms"])
    (True, False)
    """
    parts = []
    for line in trimmed(written):
        if line.strip() == ANYTHING:
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append("[^\n]*?".join(map(re.escape, line.split(ANYTHING))) + "\n")
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in trimmed(printed))) is not None


def trimmed(lines: Sequence[str]) -> list[str]:
    """The lines without spaces at their ends and without blank ones at the end of all."""
    kept = [line.rstrip() for line in lines]
    while kept and not kept[-1]:
        kept.pop()
    return kept
