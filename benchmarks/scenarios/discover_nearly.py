"""Rules with exceptions kept current: FDs and keys by rows and by pairs, denial constraints counted by sweeps.

Each batch is compared with a search over the same rows from scratch, whose CPU time is what it is measured by. One
thread each. `--sizes` are rows of generated taxes; adult and flights are read where the public data is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.discovery.dependencies.approximate_core import ApproximateCore
from holdstrue.discovery.options import DiscoveryOptions, Measure
from holdstrue.discovery.work import Work
from scenarios.discover_changes import COLUMNS, timed
from scenarios.setting import PUBLIC_DATA, Outcome, Setting, Table, ratio
from workloads.tax import tax

FLIGHTS = 100_000
ONE = Work(threads=1)
LONGEST = 3
"""Predicates of the denial constraints."""


def run(setting: Setting) -> Outcome:
    """A table for FDs and keys, and one for denial constraints."""
    outcome = Outcome()
    table = Table("FDs and keys with exceptions, CPU s (one thread)", ("table", "measure", "batch", "rules", *HEAD))
    measures: tuple[tuple[Measure, str], ...] = (("rows", "0.01"), ("pairs", "0.001"))
    for name, rows in _tables(setting):
        for measure, error in measures:
            _batches(name, measure, _Dependencies(rows, measure, error), rows.num_rows, table, outcome)
    outcome.tables.append(table)
    table = Table(
        f"denial constraints of up to {LONGEST} predicates with exceptions, by sweeps, CPU s (one thread)",
        ("table", "error", "batch", "rules", *HEAD),
    )
    for size in setting.sizes:
        for error in ("0.01", "0.0001"):
            denials = _Denials(tax(size + size // 5).select(COLUMNS), error, size)
            _batches(f"taxes, {size:,} rows", error, denials, size, table, outcome)
    outcome.tables.append(table)
    return outcome


HEAD = ("kept", "from scratch", "of starting over")


def _tables(setting: Setting) -> list[tuple[str, pa.Table]]:
    found = [(f"taxes, {size:,} x 7", tax(size).select(COLUMNS)) for size in setting.sizes]
    if PUBLIC_DATA.is_dir() and not setting.quick:
        found.append(("adult, 32,561 x 15", pacsv.read_csv(PUBLIC_DATA / "adult" / "adult.csv")))
        flights = pq.read_table(PUBLIC_DATA / "nycflights13" / "flights.parquet")
        found.append((f"flights, {FLIGHTS:,} x 19", flights.slice(0, FLIGHTS)))
    return found


class _Kept:
    """A table that changes, with its rules kept, and every row that ever was in it by slot."""

    core: Any
    load: Callable[[pa.Table], Any]

    def __init__(self, more: pa.Table, size: int) -> None:
        self._more, self._parts, self._used = more, [more.slice(0, size)], size
        self._random = np.random.default_rng(0)
        self.load(self._parts[0].slice(0, 100))
        self.core = self.load(self._parts[0])

    def anew(self) -> tuple[Any, float]:
        """A search over the rows that are there, and its CPU seconds."""
        rows = pa.concat_tables(self._parts).take(self.core.living())
        return timed(lambda: self.load(rows))

    def change(self, gone: int, come: int) -> float:
        """Rows that go, and rows that come again or for the first time; CPU seconds."""
        removed = np.sort(self._random.choice(self.core.living(), gone, replace=False))
        new = self._more.slice(self._used % max(1, self._more.num_rows - come), come)
        self._used += come
        self._parts.append(new)
        return timed(lambda: self.core.apply(removed, new, ONE))[1]


class _Dependencies(_Kept):
    def __init__(self, rows: pa.Table, measure: Measure, error: str) -> None:
        options = DiscoveryOptions(kinds=("fd", "key"), error=error, measure=measure, budget=None, max_predicates=4)
        self.load = lambda some: ApproximateCore.load(some, options, ONE)
        super().__init__(rows, rows.num_rows - rows.num_rows // 6)


class _Denials(_Kept):
    def __init__(self, more: pa.Table, error: str, size: int) -> None:
        options = DiscoveryOptions(kinds=("dc",), error=error, budget=None, max_predicates=LONGEST, cross=False)
        self.load = lambda some: DenialCore.load(some, options, ONE, method="sweep")
        super().__init__(more, size)


def _batches(name: str, by: str, kept: _Kept, rows: int, table: Table, outcome: Outcome) -> None:
    tenth = rows // 10
    for batch, gone, come in (
        ("+100", 0, 100), ("-100", 100, 0), ("1,000 updated", 1000, 1000), ("+10%", 0, tenth), ("-10%", tenth, 0),
    ):  # fmt: skip
        spent = kept.change(gone, come)
        anew, scratch = kept.anew()
        told = [{(rule.body, rule.error) for rule in core.rules()} for core in (anew, kept.core)]
        same = told[0] == told[1]
        outcome.records.append(
            {"table": name, "by": by, "batch": batch, "cpu_s": spent, "scratch_cpu_s": scratch, "agrees": same}
        )
        share = ratio(spent, scratch) if same else "OTHER ANSWER"
        table.rows.append((name, by, batch, len(told[0]), spent, scratch, share))
