"""Suspects: precision, recall and F1 on tables with known errors, with default options and no rule given by anybody.

`hospital`, `flights` and `tax` come from beside the repository; `orders`, `forms` and `prices` are made from seeds by
`tests/dirty_tables.py`, `the eight` by `workloads/dirty`. These eight were written by somebody who did not know the
detector; thresholds have since been chosen with their seed 1 in sight. A cell counts as wrong where it
differs from the true one, numbers by what they are (`7.0` and `7` do not differ).
"""

from __future__ import annotations

import csv
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from scenarios.setting import PUBLIC_DATA, Outcome, Setting, Table
from workloads.dirty import dirty_tables

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

BEFORE = {"hospital": "0.85", "flights": "0.50"}
"""F1 of votes of FDs alone, found with `--error 0.05 --measure rows`, two votes: where this stood."""
RAHA = {"hospital": "0.64", "flights": "0.85"}
"""F1 of Raha with 20 perfectly labelled rows, as measured for issue 17."""

EIGHT = "the eight"
SEEDS = (1, 2)

Wrong = dict[tuple[int, str], str | None]


def run(setting: Setting) -> Outcome:
    """Every table: what is found, and what clean tables give."""
    import holdstrue

    outcome = Outcome()
    heads = (
        "table",
        "rows",
        "wrong cells",
        "found",
        "precision",
        "recall",
        "F1",
        "value right",
        "CPU s",
        "FD votes",
        "Raha",
    )
    table = Table("suspects with default options; F1 of two others", heads)
    sums: dict[str, Counter[str]] = {}
    bins: dict[str, Counter[tuple[int, bool]]] = {"all tables": Counter(), EIGHT: Counter()}
    holdstrue.suspects(pa.table({"a": ["x", "x", "y"] * 20, "b": ["p", "p", "q"] * 20}))
    for name, rows, wrong in _dirty():
        started = time.process_time()
        found = {(suspect.key, suspect.column): suspect for suspect in holdstrue.suspects(rows)}
        spent = time.process_time() - started
        hits = [cell for cell in found if cell in wrong]
        right = sum(_same(found[cell].proposed, wrong[cell]) for cell in hits)
        counts = Counter(rows=len(rows), wrong=len(wrong), found=len(found), hits=len(hits), values_right=right)
        _add(table, outcome, name, counts, spent)
        sure = Counter((min(9, int(suspect.confidence * 10)), cell in wrong) for cell, suspect in found.items())
        bins["all tables"] += sure
        if name.startswith(EIGHT):
            bins[EIGHT] += sure
            sums.setdefault(f"{EIGHT}, {name.rpartition(', ')[2]}", Counter()).update(counts)
    sums[f"{EIGHT}, both seeds"] = sum(sums.values(), Counter())
    for group, counts in sums.items():
        _add(table, outcome, group, counts, None)
    outcome.tables.append(table)
    outcome.tables += [_sure(name, counted) for name, counted in bins.items()]
    clean = Table("suspects in tables without known errors", ("table", "rows", "cells", "suspects"))
    for name, rows in _clean():
        count = len(holdstrue.suspects(rows))
        clean.rows.append((name, f"{len(rows):,}", f"{rows.num_rows * rows.num_columns:,}", f"{count:,}"))
        outcome.records.append({"clean": name, "cells": rows.num_rows * rows.num_columns, "found": count})
    outcome.tables.append(clean)
    return outcome


def _add(table: Table, outcome: Outcome, name: str, counts: Counter[str], spent: float | None) -> None:
    """A line and a record of how much of what was found is wrong, and how much of what is wrong was found."""
    precision, recall = counts["hits"] / max(1, counts["found"]), counts["hits"] / max(1, counts["wrong"])
    both = 2 * precision * recall / max(1e-9, precision + recall)
    values = counts["values_right"] / max(1, counts["hits"])
    sizes = (f"{counts[key]:,}" for key in ("rows", "wrong", "found"))
    measures = (f"{precision:.3f}", f"{recall:.3f}", f"{both:.3f}", f"{values:.2f}")
    cpu = "" if spent is None else f"{spent:.1f}"
    table.rows.append((name, *sizes, *measures, cpu, BEFORE.get(name, ""), RAHA.get(name, "")))
    outcome.records.append(
        {"table": name, "precision": precision, "recall": recall, "f1": both, "cpu": spent, **dict(counts)}
    )


def _sure(name: str, counted: Counter[tuple[int, bool]]) -> Table:
    sure = Table(f"how sure is how often right, {name}", ("confidence", "suspects", "wrong indeed"))
    for tenth in sorted({tenth for tenth, _ in counted}):
        hits, count = counted[tenth, True], counted[tenth, True] + counted[tenth, False]
        sure.rows.append((f"{tenth / 10:.1f} to {tenth / 10 + 0.1:.1f}", f"{count:,}", f"{hits / count:.2f}"))
    return sure


@cache
def _eight() -> list[tuple[str, pa.Table, pa.Table, Wrong]]:
    return [
        (f"{EIGHT}: {name}, seed {seed}", true, dirty, _told(true, wrong))
        for seed in SEEDS
        for name, true, dirty, wrong in dirty_tables(seed)
    ]


def _told(true: pa.Table, wrong: frozenset[tuple[int, str]]) -> Wrong:
    """The cells, each with what should be there."""
    return {(row, column): true.column(column)[row].as_py() for row, column in wrong}


def _dirty() -> Iterator[tuple[str, pa.Table, Wrong]]:
    from dirty_tables import forms, orders, prices

    if PUBLIC_DATA.is_dir():
        yield _hospital()
        yield _pair("flights", "flights/flights_dirty.csv", "flights/flights_clean.csv")
        yield _pair("tax", "tax/tax50k_dirty.csv", "tax/tax50k_clean.csv")
    for seed in (11, 21):
        for name, make in (("orders", orders), ("forms", forms), ("prices", prices)):
            made = make(seed=seed)
            yield f"{name}, seed {seed}", made.dirty, _told(made.true, made.wrong)
    for name, _, dirty, wrong in _eight():
        yield name, dirty, wrong


def _clean() -> Iterator[tuple[str, pa.Table]]:
    from dirty_tables import forms, orders, people, prices
    from holdstrue.sources.read import read_table

    for name, table in (
        ("orders", orders().true),
        ("forms", forms().true),
        ("prices", prices().true),
        ("people", people()),
    ):
        yield f"{name}, true", table
    for name, true, _, _ in _eight():
        yield f"{name}, true", true
    if PUBLIC_DATA.is_dir():
        yield "flights, true", read_table(PUBLIC_DATA / "flights" / "flights_clean.csv")
        yield "tax, true", read_table(PUBLIC_DATA / "tax" / "tax50k_clean.csv")
        yield "adult", read_table(PUBLIC_DATA / "adult" / "adult.csv")
        yield "airport", read_table(PUBLIC_DATA / "airport" / "airport_original.csv", encoding="latin1")
        for name in ("planes", "airports", "weather"):
            yield f"nycflights13 {name}", read_table(PUBLIC_DATA / "nycflights13" / f"{name}.csv")


def _lines(path: str) -> tuple[list[str], list[list[str]]]:
    with (PUBLIC_DATA / path).open(newline="") as file:
        head, *lines = csv.reader(file)
    return head, lines


def _hospital() -> tuple[str, pa.Table, Wrong]:
    from holdstrue.sources.read import read_table

    head, rows = _lines("hospital/hospital.csv")
    _, truth = _lines("hospital/hospital_clean.csv")
    wrong: Wrong = {
        (int(row), column): value for row, column, value in truth if rows[int(row)][head.index(column)] != value
    }
    return "hospital", read_table(PUBLIC_DATA / "hospital" / "hospital.csv"), wrong


def _pair(name: str, dirty: str, clean: str) -> tuple[str, pa.Table, Wrong]:
    from holdstrue.sources.read import read_table

    head, rows = _lines(dirty)
    _, truth = _lines(clean)
    wrong: Wrong = {
        (at, column): right
        for at, (said, true) in enumerate(zip(rows, truth, strict=True))
        for column, value, right in zip(head, said, true, strict=True)
        if not _same(value, right)
    }
    return name, read_table(PUBLIC_DATA / dirty), wrong


def _same(value: Any, other: Any) -> bool:
    if str(value) == str(other):
        return True
    try:
        return float(value) == float(other)
    except (TypeError, ValueError):
        return False
