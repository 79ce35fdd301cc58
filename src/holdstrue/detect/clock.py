"""What time it is for rules that depend on it: read once a batch and once a question, so that answers fit together."""

from __future__ import annotations

import time
from collections.abc import Callable

Now = Callable[[], int]


def wall() -> int:
    """Nanoseconds since 1970, now."""
    return time.time_ns()


class Clock:
    """The moment at which rules are judged, in nanoseconds since 1970.

    Examples
    --------
    A state of yesterday is judged as it was then, whenever somebody looks.

    >>> clock = Clock(lambda: 1_700_000_000 * 10**9)
    >>> clock.read(), clock.moment
    (1700000000000000000, 1700000000000000000)
    """

    def __init__(self, now: Now | None = None) -> None:
        self._now = now
        self.started = False
        """Whether any batch was taken in: before the first one no rule is violated."""
        self.moment = self.read()

    def twin(self) -> Clock:
        """Another one that goes as this one does."""
        other = Clock(self._now)
        other.started = self.started
        return other

    def read(self) -> int:
        """Judge by the present from here on."""
        self.moment = wall() if self._now is None else self._now()
        return self.moment
