"""Rows without their removed versions, opened beside a monitor's work until they can take the place of its own.

A checkpoint that is written beside the work leaves out removed row versions when they outnumber the living, which moves
rows to other slots. From then on the state is smaller, and the monitor's memory is not: a thread opens the state as any
reader does, goes on with what comes in meanwhile, and hands over when next to nothing is left to do.
"""

from __future__ import annotations

import threading

from holdstrue.detect.engine import Engine
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.shards.shard import Shard
from holdstrue.state.files import StateFiles
from holdstrue.state.runs import Runs

FEW_RUNS = 4
"""Batches that are replayed at once when the rows are handed over: some 3 ms each, of a thousand rows."""
MOST_ROUNDS = 8
"""Times that a thread goes on with what came in; whoever writes faster than that waits for the rest once."""


class Renewal:
    """The rows of a monitor as its state has them, brought up in a thread."""

    def __init__(self, place: str, shard: Shard, runs: Runs) -> None:
        self._place = place
        self._plan, self._keys = shard.plan, shard.keys
        self._shard: Shard | None = None
        self._error: HoldstrueError | OSError | MemoryError | None = None
        self._rounds = 0
        self._thread = self._begun(runs)

    def _begun(self, runs: Runs) -> threading.Thread:
        thread = threading.Thread(target=self._work, args=(runs,), name="holdstrue-renewal", daemon=True)
        thread.start()
        return thread

    def _work(self, runs: Runs) -> None:
        try:
            with StateFiles(self._place) as files:
                if self._shard is not None:
                    self._shard.catch_up(files, runs)
                    return
                files.verify(*runs.base.values())
                shard = Shard.open(files, self._plan, self._keys, runs)
                files.verified()
                self._shard = shard
        except (HoldstrueError, OSError, MemoryError) as error:
            self._error = error

    def join(self) -> None:
        """Wait until the thread has nothing to do."""
        self._thread.join()

    def take(self, files: StateFiles, runs: Runs) -> Engine | None:
        """The rows as these runs have them, or None while they are not ready; raises what stopped the thread."""
        if self._thread.is_alive():
            return None
        if self._error is not None or self._shard is None:
            raise StateError(f"rows of {self._place} could not be renewed in memory: {self._error}") from self._error
        self._rounds += 1
        if len(runs.log) - len(self._shard.runs.log) > FEW_RUNS and self._rounds < MOST_ROUNDS:
            self._thread = self._begun(runs)
            return None
        if not self._shard.catch_up(files, runs):
            raise StateError(f"{self._place} has another checkpoint than the one its rows are renewed from")
        return self._shard.engine
