"""Where an answer goes: standard output, or a file that appears whole or not at all; and a sign of life until then."""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from collections.abc import Iterable
from contextvars import Token
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from holdstrue.cli.failures import tell
from holdstrue.cli.talk import TALK
from holdstrue.errors import HoldstrueError
from holdstrue.location import local_path
from holdstrue.progress import LISTENER, LOG, Doing, Listener

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from holdstrue.state.moment import Moment


class Output:
    """The target of an answer, opened before the work starts so that a bad place is known early.

    Parameters
    ----------
    path
        A file, or None (or `-`) for standard output.
    format
        Text follows the terminal's encoding; every other format is UTF-8.
    """

    def __init__(self, path: str | None, format: str) -> None:  # noqa: A002
        self._path = None if path in (None, "-") else Path(local_path(path or "", "output")).resolve()
        self._text = format == "text"
        self._file: TextIO | None = None
        self._temporary: Path | None = None

    @property
    def color(self) -> bool:
        """Whether the reader is a terminal that shows colours (NO_COLOR and FORCE_COLOR are heeded)."""
        if self._path is not None or not self._text or os.environ.get("NO_COLOR"):
            return False
        if os.environ.get("FORCE_COLOR"):
            return True
        return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> Self:
        if self._path is None:
            return self
        try:
            if self._path.exists() and not self._path.is_file() and not self._path.is_dir():
                # a device or a pipe cannot be replaced, only written to
                self._file = self._path.open("w", encoding="utf-8", newline="")
                return self
            if self._path.is_dir():
                raise IsADirectoryError(21, "it is a directory")
            temporary = self._path.with_name(f".{self._path.name[:100]}.{uuid.uuid4().hex[:8]}.tmp")
            self._file = temporary.open("x", encoding="utf-8", newline="")
            self._temporary = temporary
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def write(self, parts: Iterable[str]) -> None:
        """Write an answer piece by piece."""
        if self._file is not None:
            for part in parts:
                try:
                    self._file.write(part)
                except OSError as error:
                    raise self._unwritable(error) from error
            return
        out = sys.stdout
        if out is None:  # started with standard output closed
            return
        if hasattr(out, "reconfigure"):
            out.reconfigure(encoding=None if self._text else "utf-8", errors="backslashreplace")
        try:
            for part in parts:
                out.write(part)
            out.flush()
        except OSError as error:
            # The rest is dropped, also what Python would flush at exit: the reader may have seen enough (`| head`).
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, out.fileno())
            os.close(nowhere)
            if not isinstance(error, BrokenPipeError):
                raise HoldstrueError(f"cannot write to standard output: {error.strerror or error}") from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is None:
            return
        try:
            self._file.close()
            if kind is None and self._temporary is not None and self._path is not None:
                if self._path.exists():
                    self._temporary.chmod(self._path.stat().st_mode & 0o7777)
                self._temporary.replace(self._path)
                self._temporary = None
        except OSError as problem:
            if kind is None:
                raise self._unwritable(problem) from problem
        finally:
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)

    def _unwritable(self, error: OSError) -> HoldstrueError:
        return HoldstrueError(
            f"cannot write {str(self._path)!r}: {error.strerror or error}",
            hint="give --output a file in a directory that exists and may be written",
        )


def left_out(shown: int, total: int) -> None:
    """Say on standard error that a list of lines stops before its end."""
    if total > shown and not TALK.get().quiet:
        tell(f"… {total - shown:,} more (--limit to see more)")


def tell_notes(notes: Iterable[str]) -> None:
    """Say on standard error what there is to know about an answer."""
    for note in notes:
        LOG.debug("note: %s", note)
        if not TALK.get().quiet:
            tell(f"note: {note}")


def tell_moment(moment: Moment | None, format: str) -> None:  # noqa: A002
    """Say on standard error which earlier version an answer is of, where its form has no room for that."""
    if moment is not None and format not in ("text", "json") and not TALK.get().quiet:
        tell(f"note: {moment}")


PATIENCE = 1.0
"""Seconds before anything is shown: shorter work ends before a bar could be read."""


class Working:
    """Shows what is being done, how far it is and for how long, on standard error while the block runs.

    Nothing is shown, and rich is not imported, unless standard error is a terminal.
    """

    def __init__(self, what: str, patience: float = PATIENCE) -> None:
        self._what = what
        self._timer = threading.Timer(patience, self._show)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._over = False
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._share: float | None = None
        self._listening: Token[Listener | None] | None = None
        self._begun = time.perf_counter()
        """When what is being done now was."""

    def hear(self, work: Doing) -> None:
        """Show a piece of work: which of its parts is being done, over how many rows, and how fast."""
        share = work.done / work.parts if work.parts else None
        if not work.done:
            self._begun = time.perf_counter()
        rows = f" · {work.rows:,} rows" if work.rows else ""
        elapsed = time.perf_counter() - self._begun
        speed = f" · {work.rows * share / elapsed:,.0f} rows/s" if rows and share and elapsed else ""
        part = f" ({work.done + 1:,} of {work.parts:,})" if work.parts > 1 else ""
        self._advance(share, f"{work.what if work.what.isprintable() else repr(work.what)}{part}{rows}{speed}")

    def advance(self, share: float, what: str) -> None:
        """Say how much of the work is done, from 0 to 1, and what is being done now."""
        self._advance(share, what)

    def _advance(self, share: float | None, what: str) -> None:
        with self._lock:
            again = share is None or share < (self._share or 0.0)
            self._share, self._what = share, what
            if self._bar is not None and self._task is not None:
                if again:  # the time that is left is that of this piece of work
                    self._bar.reset(self._task)
                self._bar.update(
                    self._task, description=what, total=None if share is None else 1.0, completed=share or 0.0
                )

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty() and not TALK.get().quiet:
            self._timer.start()
            self._listening = LISTENER.set(self.hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listening is not None:
            LISTENER.reset(self._listening)
        with self._lock:
            self._over = True
            self._timer.cancel()
            if self._bar is not None:
                self._bar.stop()

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        with self._lock:
            if self._over:
                return
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(24),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=None if self._share is None else 1.0)
            if self._share is not None:
                self._bar.update(self._task, completed=self._share)
            self._bar.start()
