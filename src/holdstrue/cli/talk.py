"""What a command says beside its answer: nothing but errors, or each step with its time, and a log of it in a file."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated

import typer

from holdstrue.errors import HoldstrueError
from holdstrue.location import local_path
from holdstrue.progress import LOG

_PANEL = "What is said"


@dataclass(frozen=True)
class Talk:
    """How much is said on standard error, and where it is written down; options of every command."""

    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Say nothing on standard error but errors.", rich_help_panel=_PANEL),
    ] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Say on standard error what is done and how long it takes.", rich_help_panel=_PANEL
        ),
    ] = False
    log: Annotated[
        str | None,
        typer.Option(
            "--log",
            metavar="FILE",
            help="Add to a file what is done, each check by itself, and how it ended.",
            rich_help_panel=_PANEL,
        ),
    ] = None

    @contextmanager
    def heard(self) -> Generator[None]:
        """Say and write it down while a command runs."""
        if self.quiet and self.verbose:
            raise HoldstrueError("--quiet and --verbose say the opposite", hint="give one of them")
        handlers = []
        if self.verbose:
            handlers.append((_on_standard_error(), logging.INFO, "%(message)s"))
        if self.log is not None:
            handlers.append((_file(self.log), logging.DEBUG, "%(asctime)s %(levelname)s %(message)s"))
        before = LOG.level
        said = TALK.set(self)
        for handler, level, form in handlers:
            handler.setLevel(level)
            handler.setFormatter(_Lines(form))
            LOG.addHandler(handler)
            LOG.setLevel(min(level, LOG.getEffectiveLevel()))
        try:
            yield
        finally:
            TALK.reset(said)
            LOG.setLevel(before)
            for handler, _, _ in handlers:
                LOG.removeHandler(handler)
                handler.close()


TALK: ContextVar[Talk] = ContextVar("talk", default=Talk())  # noqa: B039  # it is frozen
"""How much the command that runs is to say."""


class _Lines(logging.Formatter):
    """A record as lines of which only the first is not indented, without characters that steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        from holdstrue.report.typeset import printable

        return "\n    ".join(map(printable, super().format(record).split("\n")))


def _on_standard_error() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr) if sys.stderr is not None else logging.NullHandler()
    # errors are said anyway
    handler.addFilter(lambda record: record.levelno < logging.ERROR)
    return handler


def _file(path: str) -> logging.Handler:
    try:
        return logging.FileHandler(local_path(path, "output"), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise HoldstrueError(
            f"cannot write {path!r}: {error.strerror or error}",
            hint="give --log a file in a directory that exists and may be written",
        ) from error
