"""Denial constraints kept current on generated taxes: batches that come, go and change, against starting over.

`--sizes` are rows before the first batch. Batches follow each other; after each the rules are compared with those of a
search over the same rows from scratch, whose CPU time is what the batch is measured by. One thread each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa

from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.typing import I64
from scenarios.setting import Outcome, Setting, Table, ratio
from workloads.tax import tax

COLUMNS = ["zip", "city", "state", "salary", "rate", "single_exemp", "child_exemp"]
T = TypeVar("T")
OPTIONS = DiscoveryOptions(kinds=("dc",), budget=None)


def run(setting: Setting) -> Outcome:
    """A table for each number of rows."""
    outcome = Outcome()
    for rows in setting.sizes:
        outcome.tables.append(_sized(rows, outcome))
    return outcome


class _Kept:
    """A table that changes, with its rules kept, and every row that ever was in it by slot."""

    def __init__(self, rows: int) -> None:
        self._more = tax(rows + rows // 5 + 3000).select(COLUMNS)
        self._parts, self._used = [self._more.slice(0, rows)], rows
        self._space = choose_space(self._parts[0], OPTIONS)
        self._random = np.random.default_rng(0)
        self.core, _ = self.anew()
        self.core, self.scratch = self.anew()

    def anew(self) -> tuple[DenialCore, float]:
        """A search over the rows that are there, and its CPU seconds."""
        table = pa.concat_tables(self._parts)
        if hasattr(self, "core"):
            table = table.take(self.core.living())
        return timed(lambda: DenialCore.load(table, OPTIONS, Work(threads=1), space=self._space))

    def insert(self, rows: int) -> float:
        """Rows that come."""
        new = self._more.slice(self._used, rows)
        self._used += rows
        return self._applied(np.empty(0, dtype=np.int64), new)

    def remove(self, rows: int) -> float:
        """Rows that go."""
        return self._applied(self._chosen(rows), self._more.slice(0, 0))

    def update(self, rows: int) -> float:
        """Rows that exchange their salaries, which breaks rules of order."""
        gone = self._chosen(rows)
        new = pa.concat_tables(self._parts).take(gone)
        pay = self._random.permutation(new.column("salary").to_numpy())
        return self._applied(gone, new.set_column(COLUMNS.index("salary"), "salary", pa.array(pay)))

    def _chosen(self, rows: int) -> I64:
        return np.sort(self._random.choice(self.core.living(), rows, replace=False))

    def _applied(self, gone: I64, new: pa.Table) -> float:
        self._parts.append(new)
        return timed(lambda: self.core.apply(gone, new, Work(threads=1)))[1]


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What work gives, and its CPU seconds."""
    start = time.process_time()
    done = work()
    return done, time.process_time() - start


def _sized(rows: int, outcome: Outcome) -> Table:
    kept = _Kept(rows)
    table = Table(
        f"taxes, {rows:,} rows x {len(COLUMNS)} columns, {len(kept.core.bodies())} rules, CPU s (one thread)",
        ("batch", "rules", "kept", "from scratch", "of starting over", "way"),
    )
    tenth = rows // 10
    for name, act, size in (
        ("+100", kept.insert, 100), ("+1,000", kept.insert, 1000), ("+10%", kept.insert, tenth),
        ("-10%", kept.remove, tenth), ("-1,000", kept.remove, 1000),
        ("1,000 updated", kept.update, 1000), ("1% updated", kept.update, rows // 100),
        ("10% updated", kept.update, tenth),
    ):  # fmt: skip
        spent = act(size)
        anew, scratch = kept.anew()
        same = set(anew.bodies()) == set(kept.core.bodies())
        record = {"rows": rows, "batch": name, "cpu_s": spent, "scratch_cpu_s": scratch, "agrees": same}
        outcome.records.append(record)
        share = ratio(spent, scratch) if same else "OTHER ANSWER"
        table.rows.append((name, len(anew.bodies()), spent, scratch, share, kept.core.method))
    return table
