"""Batches of one row: read and coded, taken in by a compiled call, and told; for as long as engine and facts stay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from holdstrue.data.cells import Values
from holdstrue.data.changes import DELETE, INSERT, UPSERT
from holdstrue.detect.delta import Delta, RuleCounts
from holdstrue.detect.engine import Engine
from holdstrue.detect.one_row import RowChange, RowProgram
from holdstrue.detect.ordering import ordered_text, text_note
from holdstrue.detect.resolve import OnConflict
from holdstrue.monitor.one_row import UNREADABLE, RowReader, RuleSteps
from holdstrue.monitor.views import Views
from holdstrue.shards.facts import Facts
from holdstrue.shards.logged import row_of
from holdstrue.state.files import LogTable


@dataclass(frozen=True)
class CodedRow:
    """One row that plainly fits its table, which is the one that its program takes in next."""

    table: str
    reader: RowReader
    values: Values
    op: int

    @property
    def program(self) -> RowProgram:
        """What takes it in."""
        return self.reader.program

    @property
    def previewable(self) -> bool:
        """Whether it is a new row that can be taken back without a trace."""
        return self.op in (INSERT, UPSERT) and self.program.retracts and not self.program.holds(self.values)

    def logged(self, change: RowChange) -> list[LogTable]:
        """The row as the log holds it."""
        return row_of(self.reader.form, self.table, self.values, change.old, change.new)


class SingleRows:
    """Takes batches of one row into an engine."""

    def __init__(self, engine: Engine, facts: Facts, views: Views) -> None:
        self._engine, self._facts = engine, facts
        self._readers: dict[str, RowReader | None] = {}
        self._steps = RuleSteps(engine, views)
        ordered = ordered_text(facts.rules, facts.main, facts.schemas)
        self._notes = {
            table: tuple(text_note(place, rule) for place, rule in ordered.items() if place[0] == table)
            for table in facts.schemas
        }

    def serves(self, engine: Engine, facts: Facts) -> bool:
        """Whether it was made for these."""
        return self._engine is engine and self._facts is facts

    @property
    def counts(self) -> dict[str, RuleCounts]:
        """How each rule stands after the last row."""
        return self._steps.counts

    def code(self, changes: Any, on_conflict: OnConflict) -> CodedRow | None:
        """The one row that changes are, held against its columns and coded; None where tables must be read."""
        table, changes = self._one_table(changes)
        reader = self._reader(table)
        if reader is None or on_conflict not in ("error", "upsert", "ignore"):
            return None
        try:
            given = reader.read(changes)
            if given is None:
                return None
            values = reader.program.write(given.values, read=given.read)
        except UNREADABLE:
            return None
        op = UPSERT if on_conflict == "upsert" and given.op != DELETE else given.op
        return CodedRow(table, reader, values, op)

    def told(self, row: CodedRow, change: RowChange, batch: str, limit: int) -> Delta:
        """What a row did, for people."""
        steps = self._steps
        counts = steps.after(change.outcomes)
        added, removed = steps.named(change.outcomes, limit) if change.outcomes else ((), ())
        return Delta(batch, added, removed, counts, notes=self._notes[row.table], measured=steps.measured(counts))

    def retract(self, row: CodedRow, change: RowChange) -> None:
        """Take back a row that came in last, as if it had never been."""
        self._steps.after(row.program.retract(row.values, change).outcomes)

    def _one_table(self, changes: Any) -> tuple[str, Any]:
        """Of changes by table those of the one there is; of others the main table."""
        if type(changes) is dict and len(changes) == 1:
            [name] = changes
            if name in self._facts.keys:
                return name, changes[name]
        return self._facts.main, changes

    def _reader(self, table: str) -> RowReader | None:
        """What reads single rows of a table; None where they must be read as tables are."""
        if table not in self._readers:
            facts, make = self._facts, partial(RowProgram, self._engine, table)
            plain = not facts.rules.types and not facts.sequence and table in facts.schemas
            key = facts.keys[table]
            self._readers[table] = RowReader(make(key), facts.schemas[table], key) if plain else None
        return self._readers[table]
