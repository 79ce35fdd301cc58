"""Checkpoints of a monitor in one piece, written beside its work by a process of its own.

The process opens the state at a version like any reader, replays the log and writes everything anew, without removed
row versions where these outnumber the living; it knows nothing of the monitor's memory and holds nobody up. When it is
done, the monitor commits its files in place of the log up to that version, and has its own rows renewed where the
checkpoint moved them (see `renewal`). A checkpoint that is given up leaves files that nobody names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from holdstrue.errors import StateError
from holdstrue.monitor.renewal import Renewal
from holdstrue.progress import LOG
from holdstrue.shards.facts import HISTORY, Facts
from holdstrue.shards.shard import Shard, write_checkpoint
from holdstrue.state.files import OvertakenError, UncommittedError
from holdstrue.state.journal import Journal
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import MOVED, Mark
from holdstrue.state.store import UnsureError

BESIDE_FROM = 50_000
"""Rows from which on a process of its own is worth its start of half a second; fewer are written in some 20 ms."""
PATIENCE = 16
"""A log that is so many times as long as one that causes a checkpoint makes batches slower, so that the one under way
catches up. One of a million rows takes some three seconds, in which two thousand batches of one row come, or four
hundred of a thousand: 9 times as long a log."""
BRAKE, LONGEST_BRAKE = 2.0, 0.1
"""A batch then waits so many times as long as it took, and never more seconds than that. Chosen, not tuned."""
LAST_PATIENCE = 64
"""A log that is so many times as long waits until the checkpoint is done."""
_ANSWER = b"holdstrue-checkpoint "
"""Starts the line in which the process says what it wrote."""
RETRY_AFTER = 256
"""Batches after which a checkpoint that failed is tried again. Chosen, not tuned."""


class Checkpointer:
    """Has checkpoints of a journal written beside the work, one at a time."""

    def __init__(self, journal: Journal, facts: Callable[[], Mapping[str, Any]]) -> None:
        self._journal = journal
        self._facts = facts
        self._renewal: Renewal | None = None
        self._mark: Mark | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._said: tuple[bytes, bytes] = b"", b""
        self._not_before = 0
        self._since = time.monotonic()
        """When the batch before this one was done."""

    def tend(self, shard: Shard, *, begin: bool) -> None:
        """Commit a checkpoint that is done, and with `begin` begin one that is due; called after every commit."""
        runs, rows = self._journal.runs, sum(shard.living().values())
        took, self._since = time.monotonic() - self._since, time.monotonic()
        try:
            if self._renewal is not None:
                self._renew(self._renewal, shard)
            elif self._mark is None:
                if self._journal.version < self._not_before:
                    pass
                elif runs.renumbering:
                    self._renewal = Renewal(os.fspath(self._journal.files.place), shard, runs)
                elif begin and (runs.due(0, rows) or shard.wasteful()):
                    self._start()
            elif self._listener is not None:
                if runs.due(0, rows, patience=LAST_PATIENCE):
                    self._listener.join()
                elif runs.due(0, rows, patience=PATIENCE):
                    self._listener.join(min(BRAKE * took, LONGEST_BRAKE))
                if not self.running:
                    self.finish()
        except (OSError, RuntimeError, StateError) as error:
            # the batch is committed: this is no error of its, even if no process or thread can be started
            self._not_before = self._journal.version + RETRY_AFTER
            self._journal.trouble.append(str(error))
        self._since = time.monotonic()

    @property
    def running(self) -> bool:
        """Whether one is being written."""
        return self._listener is not None and self._listener.is_alive()

    def _start(self) -> None:
        mark = self._journal.mark()
        place = os.fspath(self._journal.files.place)
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109
        child = subprocess.Popen(  # noqa: S603  # our own program
            # -P: not what lies in the directory where somebody happens to be
            [sys.executable, "-P", "-m", "holdstrue.monitor.checkpoint", place, str(mark.version)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths},
        )
        listener = threading.Thread(target=self._listen, args=(child,), name="holdstrue-checkpoint", daemon=True)
        try:
            listener.start()
        except RuntimeError:
            child.kill()
            child.communicate()
            raise
        self._mark, self._child, self._listener = mark, child, listener
        LOG.info("a checkpoint of version %d is being written", mark.version)

    def _listen(self, child: subprocess.Popen[bytes]) -> None:
        self._said = child.communicate()

    def finish(self) -> None:
        """Wait for the one that is being written, if any, and commit it."""
        if self._mark is None or self._child is None or self._listener is None:
            return
        self._listener.join()
        mark, child, (answer, trouble) = self._mark, self._child, self._said
        self._mark = self._child = self._listener = None
        if child.returncode:
            last = trouble.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
            raise self._failed(last[0])
        # a Python that is set up to say something when it starts may have said it there, too
        said = next((line for line in answer.splitlines() if line.startswith(_ANSWER)), None)
        if said is None:
            raise self._failed("its process did not say what it wrote")
        base = {name: RunFile.of(data) for name, data in json.loads(said.removeprefix(_ANSWER)).items()}
        try:
            self._journal.commit(self._journal.rebase(base, mark, self._facts()))
            LOG.info("the checkpoint of version %d is version %d", mark.version, self._journal.version)
        except OvertakenError:
            # the state went on without this monitor, whose batches are all in: what it is replaced by has no use
            return
        except UncommittedError as error:
            raise self._failed(error.why) from error
        except UnsureError as error:
            raise self._failed(error.message) from error

    def _failed(self, why: str) -> StateError:
        return StateError(
            f"a checkpoint of {self._journal.files.url} could not be written: {why}",
            hint="every batch up to now is kept; see that there is room, and that the state can be read",
        )

    def _renew(self, renewal: Renewal, shard: Shard) -> None:
        """Take over rows that were renewed, if they are ready."""
        try:
            engine = renewal.take(self._journal.files, self._journal.runs)
        except BaseException:
            self._renewal = None
            raise
        if engine is not None:
            shard.engine = engine
            self._journal.renumber()
            self._renewal = None

    def discard(self) -> None:
        """Give up the one that is being written, if any."""
        if self._renewal is not None:
            self._renewal.join()
            self._renewal = None
        if self._child is not None and self._listener is not None:
            self._child.kill()
            self._listener.join()
        self._mark = self._child = self._listener = None


def write(place: str, version: int) -> dict[str, RunFile]:
    """Write the checkpoint of a version; returns its files. Complexity: O(table)."""
    with Journal.open(place, "monitor", HISTORY, at=version) as journal:
        facts = journal.read(Facts.of)
        files = journal.files
        shard = Shard.open(files, facts.plan(), facts.all_keys, journal.runs)
        moved = {MOVED: files.write_arrays(MOVED, version + 1, shard.compact())} if shard.wasteful() else {}
        return {**write_checkpoint(files, version + 1, shard.engine), **moved, **journal.memory()}


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(10)
    try:
        files = write(sys.argv[1], int(sys.argv[2]))
    except StateError as failure:
        sys.exit(failure.why if isinstance(failure, UncommittedError) else failure.message)
    sys.stdout.write(f"\n{_ANSWER.decode()}{json.dumps({name: file.to_dict() for name, file in files.items()})}\n")
