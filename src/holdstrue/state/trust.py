"""For how long a writer may believe that the version it knows is the newest, where no lock keeps others away."""

from __future__ import annotations

import time

TRUST = 600.0
"""Seconds after which a writer no longer trusts that its version is the newest, and looks before it commits. The rest
of `ENTRY_GRACE` is for clocks that differ, and for requests on their way: stores refuse what was signed 900 s ago."""


class Trust:
    """Which version was the newest when somebody last looked.

    >>> trust = Trust()
    >>> trust.put(trust.begin(), 7)
    >>> trust.holds(7), trust.holds(6)
    (True, False)
    """

    def __init__(self) -> None:
        self._looked = _clocks(), -2

    def begin(self) -> tuple[float, float]:
        """The moment before somebody looks."""
        return _clocks()

    def put(self, began: tuple[float, float], version: int) -> None:
        """A version was the newest at a moment or after it; -1 where there was none."""
        self._looked = began, version

    def holds(self, version: int) -> bool:
        """Whether a version may still be taken for the newest."""
        then, newest = self._looked
        return newest == version and all(abs(now - at) < TRUST for now, at in zip(_clocks(), then, strict=True))


def _clocks() -> tuple[float, float]:
    """Seconds by two clocks: one stops while the machine sleeps, the other may be set."""
    return time.monotonic(), time.time()
