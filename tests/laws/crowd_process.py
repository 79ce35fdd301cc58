"""One process of a crowd: a writer that waits for its turn or tries again, or a reader that tells what it sees.

python -m laws.crowd_process write STATE WRITER STEPS CHECKPOINT_FROM
python -m laws.crowd_process read STATE WRITERS STEPS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdstrue import Monitor
from holdstrue.errors import StateError
from holdstrue.state import files as state_files
from holdstrue.state import runs as state_runs
from holdstrue.state import trust
from holdstrue.state.files import GoneError, OvertakenError
from laws import crowd


@contextmanager
def opened(path: str) -> Iterator[Monitor]:
    """The state for writing, as soon as nobody else writes it."""
    while True:
        try:
            monitor = Monitor.open(path)
            break
        except StateError as error:
            if "is being written by another process" not in error.message:
                raise
            time.sleep(0.002)
    with monitor:
        yield monitor


def write(path: str, writer: int, steps: int) -> None:
    """Apply all batches of a writer, two each time it has the state; tells how often another one was faster."""
    left = crowd.names(writer, steps)
    overtaken = 0
    while left:
        with opened(path) as monitor:
            for name in left[:2]:
                try:
                    assert not monitor.apply(crowd.table(crowd.changes(name)), name, limit=0).duplicate
                except OvertakenError:
                    overtaken += 1
                    break
                left.remove(name)
                assert monitor.apply(crowd.table(crowd.changes(name)), name, limit=0).duplicate
    print(json.dumps({"overtaken": overtaken}))


def reading(path: str) -> Monitor:
    """The state, however fast its versions come and go."""
    while True:
        try:
            return Monitor.open(path, read_only=True)
        except GoneError:
            continue


def read(path: str, wanted: int) -> None:
    """Open the state again and again, and tell each time what is in it, until it has all batches."""
    batches = 0
    while batches < wanted:
        with reading(path) as monitor:
            counts = {rule: vars(found) for rule, found in monitor.counts().items()}
            seen = {"batches": monitor.batches, "counts": counts, "violations": crowd.named(monitor.violations())}
            try:
                # asked last: by now others have gone on, and history is read from the state
                seen["history"] = [line.batch for line in monitor.history()]
            except GoneError:
                continue
        print(json.dumps(seen), flush=True)
        batches = monitor.batches
        time.sleep(0.005)


if __name__ == "__main__":
    role, state, number, many = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if role == "write":
        state_runs.CHECKPOINT_FROM = int(sys.argv[5])
        # what is not needed goes soon; no checkpoint is written beside the work here
        state_files.GRACE, state_files.ENTRY_GRACE, trust.TRUST = 0.0, 4.0, 1.0
        write(state, number, many)
    else:
        read(state, 1 + number * many)
