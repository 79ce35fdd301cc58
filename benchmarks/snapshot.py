"""A full new snapshot brought into a state, against making the state anew: `python benchmarks/snapshot.py`.

A million rows of which 1%, none, or all change (updated, deleted and inserted in equal shares), as Parquet; each side
runs in a process of its own, reads the file itself and closes its state, and processes it starts for that are counted.
Both must end with the same counts before a time is told. Making the state anew tells nothing of what changed, so of
everything changed a third side does: the state anew, and a comparison of the rows of both files (`diff_tables`).
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdstrue import Monitor
from holdstrue.sources.feeds.diff import diff_tables
from measure import machine, timed

RESULTS = Path(__file__).parent / "results"
RULES = {
    "fd": ["zip -> city"],
    "order": ["not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)"],
    "three rules": [
        "zip -> city",
        "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)",
        "not(t.rate < 0)",
    ],
}


def tables(rows: int, share: float, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Yesterday's table and today's."""
    draw = np.random.default_rng(seed)
    ids = np.arange(rows + int(rows * share))
    zips = draw.integers(0, rows // 10, ids.size)
    salary = draw.integers(1, 100_000, ids.size)
    table = pa.table(
        {
            "id": ids,
            "zip": pa.array(np.char.add("Z", zips.astype(str))),
            "city": pa.array(np.char.add("City ", (zips % 5000 + (draw.random(ids.size) < 0.001)).astype(str))),
            "state": pa.array(np.char.add("S", (zips % 50).astype(str))),
            "salary": salary,
            # who earns more pays more, but for a few
            "rate": np.where(draw.random(ids.size) < 1e-6, 0.0, salary / 1e6),
            "note": pa.array(np.char.add("row ", draw.integers(0, 10**6, ids.size).astype(str))),
        }
    )
    third = int(rows * share / 3)
    changed = draw.choice(rows, 2 * third, replace=False)
    old = table.slice(0, rows)
    city = table.column("city").to_numpy(zero_copy_only=False).copy()
    city[changed[:third]] = "City X"
    stays = np.ones(ids.size, bool)
    stays[changed[third:]] = False
    stays[rows + third :] = False
    new = table.set_column(2, "city", pa.array(city)).filter(pa.array(stays))
    return old, new


def told(work: Callable[[], Monitor]) -> dict[str, Any]:
    """What some work on a state took, until it is closed, with the processes it started."""

    def cpu() -> float:
        spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in spent) * 1e3

    start = cpu()
    monitor, span = timed(lambda: closed(work()))
    return {
        "wall": span.wall_ms,
        "cpu": cpu() - start,
        "counts": {rule: found.open for rule, found in monitor.counts().items()},
    }


def closed(monitor: Monitor) -> Monitor:
    """A monitor whose state is let go of."""
    monitor.close()
    return monitor


def init(path: Path, data: Path, rules: list[str]) -> dict[str, Any]:
    """Make a state."""
    return told(lambda: Monitor.create(path, rules, "id", data=data))


def compared(path: Path, data: Path, rules: list[str]) -> dict[str, Any]:
    """Make a state, and say which rows came, changed and went."""
    changed: dict[str, int] = {}

    def work() -> Monitor:
        changed.update(diff_tables(data.with_name("old.parquet"), data, ["id"]).counts())
        return Monitor.create(path, rules, "id", data=data)

    return {**told(work), "changed": changed}


def snapshot(path: Path, data: Path, _: list[str]) -> dict[str, Any]:
    """Bring a state to a snapshot; opening it counts."""
    changed: dict[str, int] = {}

    def work() -> Monitor:
        monitor = Monitor.open(path)
        changed.update(monitor.apply(data, snapshot=True, limit=0).changed or {})
        return monitor

    return {**told(work), "changed": changed}


PARTS = {"init": init, "snapshot": snapshot, "compared": compared}


def apart(part: str, path: Path, data: Path, rules: list[str]) -> dict[str, Any]:
    """One part in a process of its own."""
    command = [sys.executable, __file__, "--part", part, str(path), str(data), json.dumps(rules)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Measure, print and keep a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--part", nargs=4, metavar=("PART", "STATE", "DATA", "RULES"))
    args = parser.parse_args()
    if args.part:
        part, path, data, rules = args.part
        print(json.dumps(PARTS[part](Path(path), Path(data), json.loads(rules))))
        return 0
    lines, wrong, beside = [], False, ""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for share in (0.01, 0.0, 1.0):
            old, new = tables(args.rows, share)
            pq.write_table(old, folder / "old.parquet")
            pq.write_table(new, folder / "new.parquet")
            for name, rules in RULES.items() if share == 0.01 else [("three rules", RULES["three rules"])]:
                anew, came, compared_ = [], [], []
                for turn in range(args.repeats):
                    state = folder / f"state-{share}-{name}-{turn}"
                    apart("init", state, folder / "old.parquet", rules)
                    came.append(apart("snapshot", state, folder / "new.parquet", rules))
                    anew.append(apart("init", folder / f"anew-{share}-{name}-{turn}", folder / "new.parquet", rules))
                    wrong |= came[-1]["counts"] != anew[-1]["counts"]
                    if share == 1.0:
                        state = folder / f"compared-{turn}"
                        compared_.append(apart("compared", state, folder / "new.parquet", rules))
                        wrong |= compared_[-1]["changed"]["insert"] != came[-1]["changed"]["insert"]
                changed = "{insert:,} / {update:,} / {delete:,}".format(**came[0]["changed"])
                figures = []
                for clock in ("cpu", "wall"):
                    one, other = (sorted(run[clock] for run in runs)[len(runs) // 2] for runs in (came, anew))
                    figures.append(f"{one:,.0f} | {other:,.0f} | {one / other:.2f}")
                lines.append(f"| {share:.0%} | {name} | {changed} | {' | '.join(figures)} |")
                print(lines[-1], flush=True)
                if compared_:
                    both = [sorted(run[clock] for run in compared_)[len(compared_) // 2] for clock in ("cpu", "wall")]
                    beside = "The state anew and a comparison of both files: {:,.0f} ms CPU, {:,.0f} wall.".format(
                        *both
                    )
                    print(beside, flush=True)
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    text = (
        f"# A snapshot against making the state anew, {dt.date.today()}\n\n{args.rows:,} rows of seven columns in "
        f"Parquet; median of {args.repeats} runs, ms from opening the state (or nothing) to a durable new "
        "one that is closed, with the processes started for it, kernels compiled before. Each end state had the same "
        "counts"
        f"{' - NOT: see above' if wrong else ''}.\n\n"
        "| share that changes | rules | inserted / updated / deleted | snapshot, CPU | anew, CPU | ratio "
        "| snapshot, wall | anew, wall | ratio |\n"
        "|---|---|---|---|---|---|---|---|---|\n" + "\n".join(lines) + f"\n\n{beside}\n\nMachine: {about}\n"
    )
    if not args.no_save:
        (RESULTS / f"{dt.date.today()}-snapshot.md").write_text(text, encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
