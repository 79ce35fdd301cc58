"""A folder in which the blocks of one page run, one after the other, as a reader would run them."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from docs.pages import ROOT, Block
from docs.transcript import Step, matches, steps_of
from holdstrue.cli.main import app
from holdstrue.rules import load_rules

SHELL = re.compile(r"[|&;<>()]+")
"""Words of a command line that only a shell understands; `> FILE` at the end is done here."""
EXPANDED = re.compile(r"[*?$`~{]")
"""What a shell would replace, outside quotes."""
LONGEST = 120
"""Seconds for a command in a shell: a guard against one that waits for ever, not a measurement."""


class PageError(AssertionError):
    """A block of a page that does not do what the page says."""


class Session:
    """Runs blocks in a folder; `holdstrue` runs in this process unless a line needs a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._place = folder
        self._names: dict[str, object] = {"__name__": "__main__"}
        self._code = 0
        self._programs = folder.parent / f"{folder.name}-programs"

    def run(self, block: Block, where: str) -> None:
        """Run a block and compare; raises where the page is not true."""
        if block.title is not None:
            self.write(block)
        if block.reason is not None:
            return
        match block.language:
            case "console":
                for step in steps_of(block.lines):
                    printed = self.printed(step, where)
                    if not matches(step.printed, printed):
                        told = "\n".join(printed)
                        raise PageError(
                            f"{where}: $ {step.line}\nprints\n{told}\n(scripts/docs rewrites what pages show)"
                        )
            case "python":
                with _told(where):
                    self._python(block, where)
            case "yaml" if _holds_rules(block):
                with _told(where):
                    load_rules(block.text)

    def write(self, block: Block) -> None:
        """Write a block with a title as the file that it is."""
        path = self._place / str(block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def printed(self, step: Step, where: str) -> list[str]:
        """The lines that a command prints, on both streams; a failure that the page does not show is an error."""
        words = shlex.split(step.line, comments=True)
        if words[:1] == ["cd"]:
            self._place = (self._place / words[1]).resolve(strict=True)
            return []
        if step.line == "echo $?":
            return [str(self._code)]
        plain = _plain(step.line)
        self._code, text = self._shell(step.line) if plain is None else self._here(*plain)
        lines = text.splitlines()
        shown = any(line.startswith("error: ") for line in step.printed)
        if self._code not in (0, 1) and not (self._code == 2 and shown):
            raise PageError(f"{where}: $ {step.line}\nends with {self._code} and prints\n{text}")
        return lines

    def _here(self, words: list[str], target: str | None) -> tuple[int, str]:
        """A command in this process; what it prints goes to a file where it is sent to one."""
        with contextlib.chdir(self._place), environment(COLUMNS="120"):
            result = CliRunner().invoke(app, words, prog_name="holdstrue")
        if target is None:
            return result.exit_code, result.output
        (self._place / target).write_text(result.stdout, encoding="utf-8")
        return result.exit_code, result.stderr

    def _shell(self, line: str) -> tuple[int, str]:
        """A line in a shell that finds `holdstrue`."""
        program = self._programs / "holdstrue"
        if not program.exists():
            self._programs.mkdir(exist_ok=True)
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m holdstrue "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        paths = os.pathsep.join((str(self._programs), str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        source = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
        with environment(PATH=paths, PYTHONPATH=source, COLUMNS="120"):
            done = subprocess.run(
                ["bash", "-c", line], cwd=self._place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, text=True, encoding="utf-8", check=False, timeout=LONGEST,
            )  # fmt: skip
        return done.returncode, done.stdout

    def _python(self, block: Block, where: str) -> None:
        with contextlib.chdir(self._place):
            if any(line.startswith(">>> ") for line in block.lines):
                test = doctest.DocTestParser().get_doctest(block.text, self._names, where, None, 0)
                told = io.StringIO()
                runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
                failed = runner.run(test, out=told.write, clear_globs=False).failed
                self._names |= test.globs
                if failed:
                    raise PageError(f"{where}:\n{told.getvalue()}")
            else:
                # what such a block prints is not shown on the page
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(block.text, where, "exec"), self._names)


def _holds_rules(block: Block) -> bool:
    """Whether a block of YAML is a rule file; others (sites, another tool's) are read by the commands after them."""
    tops = {line.partition(":")[0] for line in block.lines}
    return block.title is None or ("rules" in tops and "sites" not in tops)


def _plain(line: str) -> tuple[list[str], str | None] | None:
    """The words of a `holdstrue` command and where its output goes; None for a line that needs a shell.

    >>> _plain("holdstrue check t.csv --rule 'a -> b'  # all"), _plain("holdstrue rules r.yaml > out")
    ((['check', 't.csv', '--rule', 'a -> b'], None), (['rules', 'r.yaml'], 'out'))
    >>> _plain("holdstrue check *.csv"), _plain("cat t.csv | holdstrue check -"), _plain("ls")
    (None, None, None)
    """
    if EXPANDED.search(re.sub(r"'[^']*'|\"[^\"$`]*\"", "", line)):
        return None
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    if words[:1] != ["holdstrue"]:
        return None
    target = None
    if len(words) > 2 and words[-2] == ">":
        *words, _, target = words
    return None if any(SHELL.fullmatch(word) for word in words) else (words[1:], target)


@contextlib.contextmanager
def _told(where: str) -> Iterator[None]:
    """Whatever goes wrong in a block is told with its place."""
    try:
        yield
    except PageError:
        raise
    except Exception as error:
        raise PageError(f"{where}: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def environment(**set_to: str) -> Iterator[None]:
    """Variables as a page's reader has them: no colours, times in UTC."""
    wanted = {"NO_COLOR": "1", "TZ": "UTC", **set_to}
    before = {name: os.environ.get(name) for name in (*wanted, "FORCE_COLOR", "HOLDSTRUE_DEBUG")}
    for name in before:
        os.environ.pop(name, None)
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
