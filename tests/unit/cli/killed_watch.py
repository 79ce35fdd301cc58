"""Runs `watch --once` on copies of a state, each killed at another of its calls to the file system.

    python -m unit.cli.killed_watch STATE FOLDER WORDS...

Copies are FOLDER/0, FOLDER/1, ...: the first one dies at its first call that changes a file of its state, the next at
its second, and so on, until one ends by itself. Children are forked from a process that has imported what they need and
used nothing of it: libraries that start threads when they are used do not outlive a fork.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from itertools import count
from pathlib import Path

import deltalake
import duckdb
import numba
import pyiceberg.catalog.sql
import pyiceberg.io.pyarrow
import pyiceberg.table

import holdstrue.monitor.following
import holdstrue.monitor.single_rows
import holdstrue.sources.databases.duckdb_file
import holdstrue.sources.read
from fault_calls import Die, FaultCalls
from holdstrue.cli.main import app

LOADED = (deltalake, duckdb, numba, pyiceberg.io.pyarrow, holdstrue.monitor.following)


def main(state: str, folder: str, *words: str) -> None:
    """Kill until one is not killed; prints how many were."""
    for number in count():
        copy = Path(folder) / str(number)
        shutil.copytree(state, copy)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                with FaultCalls(str(copy)) as calls:
                    calls.plan({number + 1: Die()})
                    code = app(["watch", str(copy), *words, "--once"], standalone_mode=False) or 0
            finally:
                os._exit(code)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if ended != -signal.SIGKILL:
            print(f"{number} killed, then {ended}")
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
