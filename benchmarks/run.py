"""The benchmarks' command line: `python -m benchmarks.run delta --sizes 100000,1000000 --rules phi7,phi10`.

Prints tables with ratios and keeps them, with the machine they came from, in `benchmarks/results/`.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import tempfile
from pathlib import Path

from measure import machine
from scenarios import (
    batch_sizes,
    cli,
    delta,
    discover_changes,
    discover_dc,
    discover_fd,
    discover_ind,
    discover_nearly,
    files,
    fragments,
    many_rules,
    memory,
    order,
    pairs,
    paper_001,
    paper_001_fetch,
    paper_002,
    paper_003,
    profile_batches,
    scratch,
    shard_pages,
    single,
    spark,
    spark_discover,
    spark_little,
    spark_order,
    spark_sql,
    spark_state,
    spark_suspects,
    suspects,
)
from scenarios.setting import Outcome, Setting

SCENARIOS = {
    "delta": delta.run,
    "scratch": scratch.run,
    "single": single.run,
    "memory": memory.run,
    "pairs": pairs.run,
    "order": order.run,
    "many_rules": many_rules.run,
    "paper_001": paper_001.run,
    "paper_001_fetch": paper_001_fetch.run,
    "paper_002": paper_002.run,
    "paper_003": paper_003.run,
    "files": files.run,
    "batch_sizes": batch_sizes.run,
    "cli": cli.run,
    "profile": profile_batches.run,
    "spark": spark.run,
    "spark_sql": spark_sql.run,
    "spark_order": spark_order.run,
    "spark_little": spark_little.run,
    "spark_state": spark_state.run,
    "shard_pages": shard_pages.run,
    "spark_discover": spark_discover.run,
    "spark_suspects": spark_suspects.run,
    "discover_ind": discover_ind.run,
    "fragments": fragments.run,
    "discover_fd": discover_fd.run,
    "discover_changes": discover_changes.run,
    "discover_dc": discover_dc.run,
    "discover_nearly": discover_nearly.run,
    "suspects": suspects.run,
}
ALL_RULES = "phi7,phi8,phi9,phi10,phi11,phi12,phi7-10"
PEERS = "holdstrue,duckdb,duckdb_recompute,polars,lt_tree,chains"
SIZES = {
    "delta": "100000,300000,1000000,3000000",
    "scratch": "100000,1000000,3000000",
    "single": "100000,1000000",
    "memory": "1000000,3000000",
    "pairs": "100000,1000000,3000000",
    "order": "1000000",
    "many_rules": "100000",
    "paper_001": "100000,200000,300000",
    "paper_001_fetch": "200000,300000,400000",
    "paper_002": "5000000,10000000,15000000,20000000,25000000,30000000",
    "paper_003": "200000,1000000",
    "files": "1000000,10000000",
    "batch_sizes": "1000000",
    "cli": "1000000,3000000",
    "profile": "1000000",
    "spark": "1000000,5000000",
    "spark_sql": "1000000,10000000,30000000",
    "spark_order": "1000000",
    "spark_little": "10000000",
    "spark_state": "1000000,10000000,30000000",
    "shard_pages": "500,5000,20000",
    "spark_discover": "1000000,10000000",
    "spark_suspects": "300000,1000000",
    "discover_ind": "1000000,10000000",
    "fragments": "200000,500000,1000000,2000000",
    "discover_fd": "100000,1000000",
    "discover_changes": "30000,100000,300000,1000000",
    "discover_dc": "30000",
    "discover_nearly": "100000",
    "suspects": "0",
}
RESULTS = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Run the scenarios that were asked for; 1 if any answer was wrong."""
    args = _parser().parse_args(arguments)
    names = list(SCENARIOS) if "all" in args.scenario else args.scenario
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            setting = _setting(args, name, Path(folder))
            print(f"## {name}", flush=True)
            before = machine()
            outcome = SCENARIOS[name](setting)
            for table in outcome.tables:
                print(f"\n{table.markdown()}", flush=True)
            wrong |= any(record.get("agrees") is False for record in outcome.records)
            if not args.no_save:
                save(name, setting, before, outcome, args.tag)
    return int(wrong)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("scenario", nargs="+", choices=[*SCENARIOS, "all"])
    parser.add_argument("--sizes", help="rows of the base tables, e.g. 100000,1000000")
    parser.add_argument("--rules", default=ALL_RULES, help="e.g. phi7,phi10,phi7-10 (the four Tax rules together)")
    parser.add_argument("--competitors", default=PEERS)
    parser.add_argument("--batches", type=int, default=15, help="timed batches of each size")
    parser.add_argument("--batch", type=int, default=1000, help="rows of a batch")
    parser.add_argument("--limit", type=int, default=1000, help="violations a delta lists")
    parser.add_argument("--sweep", action="store_true", help="also batches of 1, 100, 10K and 100K rows, and deletes")
    parser.add_argument("--corrupt-salaries", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds a competitor may take in all")
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute a scenario")
    parser.add_argument("--tag", default="", help="a word for the names of the result files")
    parser.add_argument("--no-save", action="store_true", help="print only")
    return parser


def _setting(args: argparse.Namespace, name: str, folder: Path) -> Setting:
    sizes = args.sizes or ("20000" if args.quick else SIZES[name])
    return Setting(
        folder=folder,
        sizes=tuple(int(size) for size in sizes.split(",")),
        rules=args.rules,
        competitors=tuple(args.competitors.split(",")),
        batches=min(args.batches, 4) if args.quick else args.batches,
        batch=args.batch,
        warm=2 if args.quick else 4,
        limit=args.limit,
        sweep=args.sweep,
        corrupt_salaries=args.corrupt_salaries,
        timeout=min(args.timeout, 30.0) if args.quick else args.timeout,
        quick=args.quick,
    )


def save(name: str, setting: Setting, about: dict[str, str | int], outcome: Outcome, tag: str) -> None:
    """Keep the tables and records with the machine; no paths of the machine are written."""
    RESULTS.mkdir(exist_ok=True)
    day = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d")
    parts = [day, name, *([tag] if tag else []), *(["quick"] if setting.quick else [])]
    stem = RESULTS / "-".join(parts)
    asked = {key: value for key, value in dataclasses.asdict(setting).items() if key != "folder"}
    kept = {"scenario": name, "machine": about, "setting": asked, "records": outcome.records}
    stem.with_suffix(".json").write_text(_without_paths(json.dumps(kept, indent=1), setting) + "\n")
    lines = [f"# {name}, {about['date']}", "", ", ".join(f"{key} {value}" for key, value in about.items()), ""]
    lines += [f"{table.markdown()}\n" for table in outcome.tables]
    stem.with_suffix(".md").write_text(_without_paths("\n".join(lines), setting))


def _without_paths(text: str, setting: Setting) -> str:
    """The text without the places of this machine, which a competitor's error message may name."""
    for place in (setting.folder, RESULTS.parents[1], Path.home()):
        text = text.replace(str(place), "...")
    return text


if __name__ == "__main__":
    raise SystemExit(main())
