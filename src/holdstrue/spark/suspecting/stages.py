"""The stages of a search for suspects: a task gets rows, asks the detector of one process, and gives what it says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from holdstrue.discovery.suspects.answer import Suspect
from holdstrue.discovery.suspects.declared import declared_rules
from holdstrue.discovery.suspects.held import suspects_of
from holdstrue.discovery.suspects.search import SuspectSearch
from holdstrue.discovery.suspects.voting_rules import VotingRule
from holdstrue.discovery.work import Work
from holdstrue.rules.model import RuleSet
from holdstrue.sources.fit import comparable_table

ROW = ":row"
"""The number of a row: the partition that it was read in times 2^33, plus its place there."""


@dataclass(frozen=True)
class SuspectQuestion:
    """What is looked for: in which columns, by which rules, for how long."""

    table: str
    columns: tuple[str, ...]
    ruleset: RuleSet | None
    discover: bool
    budget: float | None

    @property
    def work(self) -> Work:
        """One thread, as a task has one core."""
        return Work.lasting(self.budget, threads=1)


@dataclass(frozen=True)
class SuspectStage:
    """The stage that finds the suspects of its rows.

    `key` are the columns that name rows, at least one; `schema` is that of what comes out: suspects, and one row whose
    `said` is what there is to say of all of them.
    """

    asked: SuspectQuestion
    key: tuple[str, ...]
    rows: pa.Schema
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, suspects out. Complexity: as in one process."""
        table = in_order(batches, self.rows)
        if not len(table):
            return
        asked = self.asked
        found = suspects_of(
            table,
            asked.ruleset,
            self.key,
            main=asked.table,
            discover=asked.discover,
            columns=asked.columns,
            work=asked.work,
        )
        yield from self._listed(found.found)
        said = json.dumps({"rows": found.rows, "rules": found.rules, "notes": found.notes})
        yield pa.RecordBatch.from_pylist([{"said": said}], self.schema)

    def _listed(self, found: Sequence[Suspect]) -> Iterator[pa.RecordBatch]:
        lines = [
            {
                "row": self._named(suspect.key),
                "column": suspect.column,
                "value": None if suspect.value is None else str(suspect.value),
                "proposed": None if suspect.proposed is None else str(suspect.proposed),
                "confidence": suspect.confidence,
                "why": list(suspect.why),
                "rows": [self._named(row) for row in suspect.rows],
            }
            for suspect in found
        ]
        if lines:
            yield from pa.Table.from_pylist(lines, self.schema).to_batches()

    def _named(self, key: Any) -> Any:
        return dict(zip(self.key, key, strict=True)) if len(self.key) > 1 else key


@dataclass(frozen=True)
class CutStage:
    """The stage that learns from a sample which rules will vote: JSON of how often each column is left of one."""

    asked: SuspectQuestion
    rows: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in, one text out."""
        table = comparable_table(self.asked.table, in_order(batches, self.rows).select(self.asked.columns))
        ruleset, name = self.asked.ruleset, self.asked.table
        declared = None if ruleset is None else partial(declared_rules, ruleset, name)
        search = SuspectSearch(table, declared, learn=self.asked.discover, work=self.asked.work)
        names = search.cells.names
        lefts = {rule.left for rule in search.rules if isinstance(rule, VotingRule)}
        told = {
            "lefts": sorted([names[column] for column in left] for left in lefts),
            "thing": None if search.reports is None else names[search.reports.thing],
        }
        yield pa.RecordBatch.from_pylist([{"told": json.dumps(told)}], pa.schema([("told", pa.string())]))


def in_order(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """All rows of a task, in the order of their numbers, however they travelled."""
    table = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
    return table.sort_by(ROW) if len(table) else table
