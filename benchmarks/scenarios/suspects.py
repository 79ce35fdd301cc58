"""Suspects: precision, recall and F1 on tables with known errors, with default options and no rule given by anybody.

`hospital`, `flights` and `tax` come from beside the repository; the others are made from seeds by
`tests/dirty_tables.py`. A cell counts as wrong where it differs from the true one, numbers by what they are (`7.0` and
`7` do not differ).
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from scenarios.setting import PUBLIC_DATA, Outcome, Setting, Table

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

BEFORE = {"hospital": "0.85", "flights": "0.50"}
"""F1 of votes of FDs alone, found with `--error 0.05 --measure rows`, two votes: where this stood."""
RAHA = {"hospital": "0.64", "flights": "0.85"}
"""F1 of Raha with 20 perfectly labelled rows, as measured for issue 17."""

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
    bins: dict[int, list[int]] = {}
    holdstrue.suspects(pa.table({"a": ["x", "x", "y"] * 20, "b": ["p", "p", "q"] * 20}))
    for name, rows, wrong in _dirty():
        started = time.process_time()
        found = {(suspect.key, suspect.column): suspect for suspect in holdstrue.suspects(rows)}
        spent = time.process_time() - started
        hits = [cell for cell in found if cell in wrong]
        precision, recall = len(hits) / max(1, len(found)), len(hits) / max(1, len(wrong))
        both = 2 * precision * recall / max(1e-9, precision + recall)
        right = sum(_same(found[cell].proposed, wrong[cell]) for cell in hits)
        for cell, suspect in found.items():
            line = bins.setdefault(min(9, int(suspect.confidence * 10)), [0, 0])
            line[0] += 1
            line[1] += cell in wrong
        cells = (f"{precision:.3f}", f"{recall:.3f}", f"{both:.3f}", f"{right / max(1, len(hits)):.2f}", f"{spent:.1f}")
        others = (BEFORE.get(name, ""), RAHA.get(name, ""))
        table.rows.append((name, f"{len(rows):,}", f"{len(wrong):,}", f"{len(found):,}", *cells, *others))
        record = {"table": name, "precision": precision, "recall": recall, "f1": both, "cpu": spent}
        outcome.records.append(record | {"wrong": len(wrong), "found": len(found), "values_right": right})
    outcome.tables.append(table)
    sure = Table("how sure is how often right, all tables", ("confidence", "suspects", "wrong indeed"))
    for tenth, (count, hits_in) in sorted(bins.items()):
        sure.rows.append((f"{tenth / 10:.1f} to {tenth / 10 + 0.1:.1f}", f"{count:,}", f"{hits_in / count:.2f}"))
    outcome.tables.append(sure)
    clean = Table("suspects in tables without known errors", ("table", "rows", "cells", "suspects"))
    for name, rows in _clean():
        clean.rows.append(
            (name, f"{len(rows):,}", f"{rows.num_rows * rows.num_columns:,}", f"{len(holdstrue.suspects(rows)):,}")
        )
    outcome.tables.append(clean)
    return outcome


def _dirty() -> Iterator[tuple[str, pa.Table, Wrong]]:
    from dirty_tables import forms, orders, prices

    if PUBLIC_DATA.is_dir():
        yield _hospital()
        yield _pair("flights", "flights/flights_dirty.csv", "flights/flights_clean.csv")
        yield _pair("tax", "tax/tax50k_dirty.csv", "tax/tax50k_clean.csv")
    for seed in (11, 21):
        for name, make in (("orders", orders), ("forms", forms), ("prices", prices)):
            made = make(seed=seed)
            wrong = {(row, column): made.true.column(column)[row].as_py() for row, column in made.wrong}
            yield f"{name}, seed {seed}", made.dirty, wrong


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
