"""`scripts/docs`: run the commands of every page and write what they print where a page says otherwise."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from docs.pages import ROOT, blocks_of, page_name, pages
from docs.session import PageError, Session
from docs.transcript import ANYTHING, Step, lines_of, matches, steps_of, trimmed


def rewritten(text: str, folder: Path, where: str) -> str:
    """A page with the output of its commands as it is now; what still matches stays as it is written."""
    lines = text.splitlines()
    session = Session(folder)
    # lines are replaced from the last block to the first, so that the numbers of those before stay right
    changed: list[tuple[int, int, list[str]]] = []
    for block in blocks_of(text):
        if block.language != "console" or block.reason is not None:
            session.run(block, f"{where}:{block.first}")
            continue
        steps = []
        for step in steps_of(block.lines):
            printed = session.printed(step, f"{where}:{block.first}")
            steps.append(step if matches(step.printed, printed) else Step(step.command, _merged(step.printed, printed)))
        new = [f"{block.indent}{line}".rstrip() for line in lines_of(steps)]
        changed.append((block.first, block.end, new))
    for first, end, new in reversed(changed):
        lines[first:end] = new
    return "".join(f"{line}\n" for line in lines)


def _merged(written: Sequence[str], printed: Sequence[str]) -> tuple[str, ...]:
    """What was printed; a line that the page has with three dots in it stays so.

    >>> _merged(["took ... s", "1 row"], ["took 3 s", "2 rows"])
    ('took ... s', '2 rows')
    """
    dotted = [line for line in written if ANYTHING in line and line.strip() != ANYTHING]
    return tuple(next((old for old in dotted if matches([old], [line])), line) for line in trimmed(printed))


def main(names: list[str]) -> int:
    """Rewrite the pages named, or all; returns how many could not be run."""
    wanted = [ROOT / name for name in names] or pages()
    broken = 0
    for page in wanted:
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "page"
            folder.mkdir()
            try:
                new = rewritten(text, folder, page_name(page))
            except PageError as problem:
                print(problem, file=sys.stderr)
                broken += 1
                continue
        if new != text:
            page.write_text(new, encoding="utf-8")
        print(f"{page_name(page)}: {'rewritten' if new != text else 'true'}")
    return broken


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
