"""The pages of the documentation, and the fenced blocks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = ("console", "python", "yaml")
"""Languages of which every block is run (or, of rule files, parsed) unless a reason stands before it."""

_FENCE = re.compile(r'(?P<indent> *)```(?P<language>[\w-]*)(?: title="(?P<title>[^"]+)")?\s*')
_REASON = re.compile(r"\s*<!-- not run: (?P<reason>.+) -->\s*")


def pages() -> list[Path]:
    """Every page whose commands are run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page_name(page: Path) -> str:
    """A page as messages name it."""
    return page.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Block:
    """A fenced block: lines `first` (counted from 0) to before `end` of its page lie between the fences.

    `title` names the file that a block is: it is written before later blocks run. `reason` says why one is not run.
    """

    language: str
    title: str | None
    reason: str | None
    first: int
    lines: tuple[str, ...]
    indent: str = ""

    @property
    def end(self) -> int:
        return self.first + len(self.lines)

    @property
    def text(self) -> str:
        """What stands in it."""
        return "".join(f"{line}\n" for line in self.lines)


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order.

    >>> page = '<!-- not run: no network -->\\n```sh\\npip install x\\n```\\n\\n```csv title="t.csv"\\na\\n1\\n```\\n'
    >>> [(block.language, block.title, block.reason, block.text) for block in blocks_of(page)]
    [('sh', None, 'no network', 'pip install x\\n'), ('csv', 't.csv', None, 'a\\n1\\n')]
    """
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.fullmatch(lines[number])
        if fence is None:
            assert not lines[number].lstrip().startswith("```"), f"line {number + 1}: {lines[number]!r} is no fence"
            number += 1
            continue
        before = _REASON.fullmatch(lines[number - 1]) if number else None
        indent = fence["indent"]
        end = lines.index(f"{indent}```", number + 1)
        yield Block(
            fence["language"],
            fence["title"],
            before["reason"] if before else None,
            number + 1,
            tuple(line.removeprefix(indent) for line in lines[number + 1 : end]),
            indent,
        )
        number = end + 1
