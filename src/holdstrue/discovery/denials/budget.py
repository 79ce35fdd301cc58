"""When discovery stops, with how many threads it works, and whom it tells how far it is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Time, threads and a listener.

    `deadline` is a value of `time.monotonic()`; 0 threads stand for one a core; `progress` is called with a
    share of the work at hand and what it is.
    """

    deadline: float | None = None
    threads: int = 0
    progress: Callable[[float, str], None] | None = None

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.monotonic() > self.deadline

    @property
    def workers(self) -> int:
        """Threads to use."""
        return self.threads or len(os.sched_getaffinity(0))

    def tell(self, share: float, what: str) -> None:
        """Report that this share of the work at hand is done."""
        if self.progress is not None:
            self.progress(share, what)
