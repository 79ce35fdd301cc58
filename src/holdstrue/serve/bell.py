"""Tells everybody who listens that a state changed, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from holdstrue.report.typeset import json_text

HEARTBEAT = 15.0
"""Seconds after which something is sent although nothing happened, so that nobody takes the line for dead."""
WAITING = 64
"""Events that wait for a slow listener. Chosen, not tuned."""


class Bell:
    """Whoever listens hears how all states stand, and then each change. For one event loop."""

    def __init__(self, now: Callable[[], Iterable[dict[str, Any]]]) -> None:
        self._now = now
        self._listeners: set[asyncio.Queue[str | None]] = set()
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop that it is for, once that runs."""
        self._closed = False

    def ring(self, state: dict[str, Any]) -> None:
        """Tell all listeners; one that does not keep up is let go, and its browser comes again."""
        for queue in list(self._listeners):
            try:
                queue.put_nowait(event(state))
            except asyncio.QueueFull:
                self._listeners.discard(queue)

    def close(self) -> None:
        """Let all listeners go, and those who come from now on."""
        self._closed = True
        for queue in self._listeners:
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)
        self._listeners.clear()

    def close_soon(self) -> None:
        """The same, called by another thread."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.close)

    async def listen(self) -> AsyncIterator[str]:
        """The events, until the listener goes."""
        queue: asyncio.Queue[str | None] = asyncio.Queue(WAITING)
        self._listeners.add(queue)
        try:
            yield "retry: 2000\n\n"
            for state in self._now():
                yield event(state)
            while not self._closed and (queue in self._listeners or not queue.empty()):
                try:
                    heard = await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if heard is None:
                    return
                yield heard
        finally:
            self._listeners.discard(queue)


def event(state: dict[str, Any]) -> str:
    r"""One event.

    >>> event({"name": "orders"})
    'event: state\ndata: {"name": "orders"}\n\n'
    """
    return f"event: state\ndata: {json_text(state)}\n\n"
