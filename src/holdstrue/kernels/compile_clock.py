"""How long this process has been compiling kernels, which a search's budget does not pay for."""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import Any


class CompileClock:
    """Seconds during which at least one thread compiled.

    Examples
    --------
    >>> clock = CompileClock()
    >>> clock.on_start(None), clock.on_end(None), 0 <= clock.seconds < 1
    (None, None, True)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._active = 0
        self._since = 0.0
        self._spent = 0.0
        self._watched = False

    def watch(self) -> None:
        """Be told by numba, which is imported by then, of what it compiles."""
        with self._lock:
            if self._watched:
                return
            self._watched = True
        from numba.core import event

        event.register("numba:compile", _listener(self))

    def on_start(self, _: Any) -> None:
        """A thread begins to compile; what that kernel calls is compiled inside."""
        with self._lock:
            if not self._active:
                self._since = monotonic()
            self._active += 1

    def on_end(self, _: Any) -> None:
        """It has ended."""
        with self._lock:
            self._active -= 1
            if not self._active:
                self._spent += monotonic() - self._since

    @property
    def seconds(self) -> float:
        """So far, with what is being compiled now."""
        with self._lock:
            return self._spent + (monotonic() - self._since if self._active else 0.0)


def _listener(clock: CompileClock) -> Any:
    """What numba tells: its base class is there only where numba is."""
    from numba.core import event

    return type("CompileListener", (event.Listener,), {
        "on_start": lambda _, told: clock.on_start(told), "on_end": lambda _, told: clock.on_end(told),
    })()  # fmt: skip


CLOCK = CompileClock()
