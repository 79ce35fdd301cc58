"""A sign of life on a terminal for work that takes over a second."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 1.0
"""Seconds before anything is shown: shorter work ends before a bar could be read."""


class Working:
    """Shows what is being done, and for how long, on standard error while the block runs.

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

    def advance(self, share: float, what: str) -> None:
        """Say how much of the work is done, from 0 to 1, and what is being done now."""
        with self._lock:
            self._share, self._what = share, what
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, description=what, total=1.0, completed=share)

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
                *(() if self._share is None else (TimeRemainingColumn(),)),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=None if self._share is None else 1.0)
            if self._share is not None:
                self._bar.update(self._task, completed=self._share)
            self._bar.start()
