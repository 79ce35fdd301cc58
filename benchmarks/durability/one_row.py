"""`one-row`: what one durable row costs, beside SQLite's full-sync commit and the bare disk, in turns."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from competitors.one_row import COMPETITORS
from durability.part import ByTree, Goal, Part, Place, Record, beside
from measure import median, quantile
from scenarios.setting import Table
from turns import MARK, Turns

ROWS, CHANGES, TURN, WARM = 100_000, 3_000, 20, 40
QUICK_ROWS, QUICK_CHANGES = 2_000, 120
TRACED = 200
"""Changes that are traced: fewer than any number after which a monitor writes a checkpoint."""
DURABLE = ("holdstrue, Arrow table", "holdstrue, list of dicts")
COMMITS = ("SQLite WAL, commit only", "SQLite WAL, checked", "SQLite DELETE, commit only", "SQLite DELETE, checked")
SYNCS = ("fsync", "fdatasync")
CALLS = "fsync,fdatasync,openat,link,linkat,rename,renameat,renameat2,unlink,unlinkat,write,pwrite64,writev,access"


def measure(place: Place) -> list[Record]:
    """All competitors in turns, then each alone under strace, where there is one."""
    rows, changes = (QUICK_ROWS, QUICK_CHANGES) if place.quick else (ROWS, CHANGES)
    with ExitStack() as stack:
        turns = [
            stack.enter_context(Turns(name, place.folder / f"turns-{at}", rows, changes + WARM))
            for at, name in enumerate(COMPETITORS)
        ]
        for turn in turns:
            turn.ready()
            turn.play(WARM)
        for done in range(0, changes, TURN):
            print(f"\r  one-row {done:,} of {changes:,}", end="", file=sys.stderr, flush=True)
            for turn in turns:
                turn.play(min(TURN, changes - done))
        records = [_record(turn) for turn in turns]
    print(" done", file=sys.stderr, flush=True)
    wanted = records[0]["answer"]
    for at, record in enumerate(records):
        if record["answer"] is not None:
            record["agrees"] = record["answer"] == wanted
        record.update(traced(record["competitor"], place.folder / f"trace-{at}", 40 if place.quick else TRACED))
    return records


def _record(turn: Turns) -> Record:
    figures = turn.figures()
    wall, cpu = figures["wall_ms"][WARM:], figures["cpu_ms"][WARM:]
    kinds = figures["kinds"][WARM:]
    return {
        "competitor": turn.competitor,
        "answer": figures["answer"],
        "changes": len(wall),
        "changes_of_violations": figures["broken"],
        "wall_ms": median(wall),
        "wall_p10_ms": quantile(wall, 0.1),
        "wall_p90_ms": quantile(wall, 0.9),
        "wall_p99_ms": quantile(wall, 0.99),
        "wall_max_ms": round(max(wall), 3),
        "cpu_ms": median(cpu),
        "by_kind_ms": {
            kind: median([ms for ms, its in zip(wall, kinds, strict=True) if its == kind]) for kind in sorted({*kinds})
        },
    }


def traced(competitor: str, folder: Path, changes: int) -> dict[str, Any]:
    """System calls a change: syncs, files opened to be written, links, renames, removals and writes."""
    strace = shutil.which("strace")
    if strace is None:
        return {}
    trace = folder.with_suffix(".strace")
    with Turns(competitor, folder, 2_000, changes + WARM, (strace, "-f", "-o", str(trace), "-e", CALLS)) as turn:
        turn.ready()
        turn.play(WARM)
        turn.mark("begin")
        turn.play(changes)
        turn.mark("end")
        turn.figures()
    counts = Counter(calls(trace.read_text(errors="replace")))
    return {name: round(counts[name] / changes, 2) for name in ("syncs", "created", "named", "removed", "writes")}


def calls(trace: str) -> list[str]:
    """What the calls between the two marks did; lines that go on with an interrupted call are not counted again."""
    found, inside = [], False
    for line in trace.splitlines():
        name = re.match(r"(?:\d+ +)?(\w+)\(", line)
        if MARK in line:
            inside = f"{MARK}begin" in line
        elif name is not None and inside:
            call = name[1]
            if call in SYNCS:
                found.append("syncs")
            elif call == "openat" and "O_CREAT" in line:
                found.append("created")
            elif call.startswith(("link", "rename")):
                found.append("named")
            elif call.startswith("unlink"):
                found.append("removed")
            elif call.startswith(("write", "pwrite")) and not re.search(r'\(1, "done', line):
                found.append("writes")
    return found


def tables(by_tree: ByTree) -> list[Table]:
    """Times with ratios to SQLite's commits, and system calls."""
    by_tree = {
        tree: [{**record, **_ratios(record, records)} for record in records] for tree, records in by_tree.items()
    }
    times = {"wall_p10_ms": "wall ms p10", "wall_ms": "median", "wall_p90_ms": "p90", "wall_p99_ms": "p99"}
    times |= {"wall_max_ms": "max"}
    ratios = {f"times {commit}": f"times {commit}" for commit in COMMITS[:2]}
    calls = {name: name for name in ("syncs", "created", "named", "removed", "writes")}
    keys = {"competitor": "competitor"}
    return [
        beside("one durable row, in turns", by_tree, keys, {**times, "cpu_ms": "CPU ms median", **ratios}),
        beside("system calls a row, away from checkpoints", by_tree, keys, calls),
    ]


def _ratios(record: Record, records: Sequence[Record]) -> dict[str, float]:
    return {f"times {commit}": record["wall_ms"] / _wall(records, commit) for commit in COMMITS[:2]}


def goals(records: Sequence[Record]) -> list[Goal]:
    """Our rows against SQLite's commits."""
    found = []
    for name in DURABLE:
        found.append(Goal(f"{name}: wall ms", _wall(records, name)))
        for commit in COMMITS:
            target = "at most 2" if commit in COMMITS[:2] else ""
            found.append(Goal(f"{name} / {commit}", _wall(records, name) / _wall(records, commit), target))
        # a busy disk makes every sync so slow that only their number counts: the fastest tenth shows the work, too
        if "wall_p10_ms" in records[0]:  # the first figures of the tree before did not have it
            quiet = _wall(records, name, "wall_p10_ms") / _wall(records, COMMITS[0], "wall_p10_ms")
            found.append(Goal(f"{name} / {COMMITS[0]}, p10 of each", quiet, "at most 2"))
        found.append(Goal(f"{name} / append + fdatasync", _wall(records, name) / _wall(records, "append + fdatasync")))
    return found


def _wall(records: Sequence[Record], competitor: str, figure: str = "wall_ms") -> float:
    return next(float(record[figure]) for record in records if record["competitor"] == competitor)


PART = Part("one-row", measure, tables, goals)
