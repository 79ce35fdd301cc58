"""What durability costs: `python benchmarks/durable.py --tree before --part stall`, or all parts without `--part`.

| part | what is measured |
|---|---|
| `one-row` | one durable row against SQLite's full-sync commit and the bare disk, in turns; system calls a row |
| `stall` | 1,000 batches of four rules on 1M rows: the longest against the median, checkpoints, CPU with children |
| `open` | opening such a state in fresh processes, after a checkpoint and with a log |
| `long` | 50,000 batches with ids, 20 rules, a small table: time, memory, files and opening by batches so far |
| `threads` | one-row batches by 1, 2 and 8 threads on one monitor |

Only `holdstrue.Monitor` is used, so any tree can be measured: the one that `PYTHONPATH` finds. `--tree` says what its
figures are called, and those of several trees come to lie beside each other in the same files of `results/`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from durability import long_run, one_row, opening, stall, threads
from durability.part import Goal, Part, Place, Record
from measure import machine
from scenarios.setting import Table

PARTS: dict[str, Part] = {
    part.name: part for part in (one_row.PART, stall.PART, opening.PART, long_run.PART, threads.PART)
}
RESULTS = Path(__file__).parent / "results"

Kept: TypeAlias = dict[str, dict[str, Any]]
"""By tree the machine and the records of each part."""


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that were asked for; 1 if any answer was wrong."""
    args = _parser().parse_args(arguments)
    into = RESULTS / f"{args.into}{'-quick' if args.quick else ''}.json"
    kept: Kept = json.loads(into.read_text())["trees"] if into.exists() and not args.no_save else {}
    names = [name for name in args.part or PARTS if name not in (args.skip or ())]
    wrong = False
    for name in names:
        print(f"## {name}", flush=True)
        about = _machine(args.folder)
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            records = PARTS[name].measure(Place(Path(folder), args.quick, args.timeout))
        about["load after"] = machine()["load"]
        kept.setdefault(args.tree, {})[name] = {"machine": about, "records": _without(records, folder)}
        for table in _tables(name, {args.tree: records}):
            print(f"\n{table.markdown()}", flush=True)
        wrong |= any(record.get("agrees") is False for record in records) or not _same_answers(name, kept)
        if not args.no_save:
            save(into, kept)
    return int(wrong)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python benchmarks/durable.py", description=__doc__)
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this one; may be given again")
    parser.add_argument("--skip", action="append", choices=list(PARTS), help="all but this one; may be given again")
    parser.add_argument("--tree", default="after", help="what the figures are called, e.g. before or after")
    parser.add_argument("--folder", help="where states are kept meanwhile: the disk that is measured")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds a process may take in all")
    parser.add_argument("--quick", action="store_true", help="small sizes, some seconds a part")
    parser.add_argument(
        "--into", default=f"{dt.datetime.now(dt.UTC):%Y-%m-%d}-durable", help="name of the result files"
    )
    parser.add_argument("--no-save", action="store_true", help="print only")
    return parser


def _tables(name: str, by_tree: Mapping[str, Sequence[Record]]) -> list[Table]:
    """The tables of a part, and its figures that have targets, with the last tree in terms of the first."""
    trees = tuple(by_tree)
    goals: dict[str, dict[str, Goal]] = {}
    for tree, records in by_tree.items():
        for goal in PARTS[name].goals(records):
            goals.setdefault(goal.what, {})[tree] = goal
    head = ("figure", *trees, *([f"{trees[-1]} / {trees[0]}"] if len(trees) > 1 else []), "target")
    table = Table(f"{name}: figures", head)
    for what, found in goals.items():
        values: list[Any] = [found[tree].value if tree in found else "-" for tree in trees]
        if len(trees) > 1:
            both = trees[0] in found and trees[-1] in found
            values.append(found[trees[-1]].value / found[trees[0]].value if both else "-")
        table.rows.append((what, *values, next(iter(found.values())).target))
    return [*PARTS[name].tables(by_tree), table]


def _same_answers(name: str, kept: Kept) -> bool:
    """Whether every tree gave the same answers to a part."""
    given = [[record.get("answer") for record in parts[name]["records"]] for parts in kept.values() if name in parts]
    same = all(answers == given[0] for answers in given)
    if not same:
        print(f"the trees {', '.join(kept)} gave different answers", file=sys.stderr)
    return same


def save(into: Path, kept: Kept) -> None:
    """Keep everything as JSON, and its tables as Markdown; no paths of the machine are written."""
    into.parent.mkdir(exist_ok=True)
    into.write_text(json.dumps({"scenario": "durable", "trees": kept}, indent=1) + "\n")
    lines = ["# durable", ""]
    for name in PARTS:
        by_tree = {tree: parts[name] for tree, parts in kept.items() if name in parts}
        if by_tree:
            lines += [f"## {name}", ""]
            for tree, part in by_tree.items():
                lines += [f"{tree}: " + ", ".join(f"{key} {value}" for key, value in part["machine"].items()), ""]
            found = {tree: part["records"] for tree, part in by_tree.items()}
            lines += [f"{table.markdown()}\n" for table in _tables(name, found)]
    into.with_suffix(".md").write_text("\n".join(lines))


def _without(records: Iterable[Record], folder: str) -> list[Record]:
    """The records without the place where states were, which an error may name."""
    plain: list[Record] = json.loads(json.dumps(list(records)).replace(folder, "..."))
    return plain


def _machine(folder: str | None) -> dict[str, str | int]:
    """The machine, the disk's file system and the commit that is measured."""
    about = machine()
    where = Path(folder or tempfile.gettempdir()).resolve()
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    under = [(point, kind) for point, kind in mounts if where.is_relative_to(point)]
    about["disk"] = max(under, key=lambda mount: len(mount[0]))[1]
    found = find_spec("holdstrue")
    if found is None or found.origin is None:
        raise SystemExit("holdstrue is not installed: set PYTHONPATH to the src folder of a tree")
    git = ["git", "-C", str(Path(found.origin).parent)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain", "."], capture_output=True, text=True, check=False)
    about["commit"] = (commit.stdout.strip() or "none") + (" and changes" if changed.stdout.strip() else "")
    return about


if __name__ == "__main__":
    raise SystemExit(main())
