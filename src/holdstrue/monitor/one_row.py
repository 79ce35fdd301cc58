"""One row given to a monitor, as a dict, a tuple or Arrow: read without being made a table, and told as a delta."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from holdstrue.data.cells import UnfitError, Values
from holdstrue.data.changes import DELETE, INSERT
from holdstrue.detect.delta import RuleCounts, Step, Violation, shares
from holdstrue.detect.detector import Outcome
from holdstrue.detect.engine import Engine
from holdstrue.detect.measure import MeasureDetector
from holdstrue.detect.one_row import RowProgram
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.monitor.views import Views
from holdstrue.sources.feeds.batches import OP_COLUMNS, WORDS
from holdstrue.state.few_rows import RowForm

_NOT_VALUES = (Mapping, list, tuple, os.PathLike, pa.Table, pa.RecordBatch)


@dataclass(frozen=True)
class GivenRow:
    """One row and what is to be done with it."""

    values: Values
    op: int
    read: bool
    """Whether the values come out of columns of the table's types."""


def records_of(changes: Any, tables: Sequence[str], seen: pa.Schema | None) -> Any:
    """Changes as those who read tables know them: one row given as a dict or a tuple is a list of one record.

    A mapping is a row unless all of its names are tables or some value is rows itself; a tuple is one where some value
    is neither text nor a record, but a number, say, or NULL.

    >>> schema = pa.schema({"id": pa.int64(), "zip": pa.string()})
    >>> records_of((7, "10001"), ["data"], schema), records_of({"id": 7}, ["data"], schema)
    ([{'id': 7, 'zip': '10001'}], [{'id': 7}])
    """
    if is_row(changes, tables):
        return [changes]
    if isinstance(changes, tuple) and is_values(changes):
        if seen is None or len(changes) != len(seen):
            known = "nothing is known of the table yet" if seen is None else f"the table has {len(seen)} columns"
            raise HoldstrueError(
                f"a row of {len(changes)} values was given, and {known}", hint="give the row as a dict of its columns"
            )
        return [dict(zip(seen.names, changes, strict=True))]
    return changes


def is_row(changes: Any, tables: Sequence[str]) -> bool:
    """Whether a mapping is one row rather than changes by table."""
    if not isinstance(changes, Mapping) or hasattr(changes, "__arrow_c_stream__") or not changes:
        return False
    if all(name in tables for name in changes):
        return False
    return not any(map(is_no_value, changes.values()))


def is_no_value(value: Any) -> bool:
    """Whether something that is given cannot be the value of a column: rows, files, tables."""
    return isinstance(value, _NOT_VALUES) or hasattr(value, "__arrow_c_stream__")


def is_values(changes: tuple[Any, ...]) -> bool:
    """Whether a tuple holds the values of a row rather than files or records."""
    if any(map(is_no_value, changes)):
        return False
    return not all(isinstance(value, str) for value in changes)


class RowReader:
    """Reads single rows of one table, as far as they are plainly what its columns hold."""

    def __init__(self, program: RowProgram, seen: pa.Schema, key: Sequence[str]) -> None:
        self.program = program
        kept = program.schema.names
        self._seen, self._key = seen, tuple(key)
        self._names = frozenset(seen.names)
        self._kept = tuple(kept)
        self._places = tuple(seen.get_field_index(name) for name in kept)
        self._op_columns = tuple(name for name in OP_COLUMNS if name not in self._names)
        self._whole = len(kept) == len(seen)
        self._usable = program.usable and not any(pa.types.is_null(type_) for type_ in seen.types)
        self._arrow_form: ArrowForm | None = None

    @cached_property
    def form(self) -> RowForm:
        """How rows are written as text; of a table that is usable, all of whose columns have one."""
        return RowForm(self.program.schema)

    def read(self, changes: Any) -> GivenRow | None:
        """The row, where it is one and plainly fits; it may turn out not to when it is written."""
        if not self._usable:
            return None
        kind = type(changes)
        if kind is list or (kind is tuple and len(changes) == 1 and isinstance(changes[0], dict)):
            if len(changes) != 1:
                return None
            changes = changes[0]
            kind = type(changes)
        if kind is dict:
            return self._record(changes)
        if kind is tuple:
            if len(changes) != len(self._seen) or not is_values(changes):
                return None
            return GivenRow([changes[place] for place in self._places], INSERT, read=False)
        if kind is pa.Table or kind is pa.RecordBatch:
            return self._arrow(changes) if changes.num_rows == 1 else None
        return None

    def _record(self, record: dict[str, Any]) -> GivenRow | None:
        names, op = record.keys(), INSERT
        if names != self._names:
            found = next((name for name in self._op_columns if name in names), None)
            word = None if found is None else record[found]
            if not isinstance(word, str) or word not in WORDS:
                return None
            op = WORDS[word]
            own = names - {found}
            if op == DELETE and own <= self._names:
                return self._deleted(record)
            if own != self._names:
                return None
        return GivenRow([record[name] for name in self._kept], op, read=False)

    def _deleted(self, record: Mapping[str, Any]) -> GivenRow | None:
        if any(name not in record for name in self._key):
            return None
        return GivenRow([record[name] if name in self._key else None for name in self._kept], DELETE, read=False)

    def _arrow(self, rows: pa.Table | pa.RecordBatch) -> GivenRow | None:
        form = self._arrow_form
        if form is None or not rows.schema.equals(form.schema):
            form = self._arrow_form = self._form_of(rows.schema)
        columns, op = rows.columns, INSERT
        if form.op is not None:
            columns[form.op].validate(full=True)
            op = WORDS.get(columns[form.op][0].as_py(), -1)
        places = form.key if op == DELETE else form.kept
        if places is None or op < 0:
            return None
        if form.whole and places is form.kept:
            rows.validate(full=True)
        else:
            for place in places:
                if place >= 0:
                    columns[place].validate(full=True)
        return GivenRow([columns[place][0].as_py() if place >= 0 else None for place in places], op, read=True)

    def _form_of(self, schema: pa.Schema) -> ArrowForm:
        """How rows of some columns are read: those of the table, or with an operation beside them."""
        if schema.equals(self._seen):
            return ArrowForm(schema, None, self._places, None, self._whole)
        names = schema.names
        found = next((name for name in self._op_columns if name in names), None)
        nothing = ArrowForm(schema, None, None, None, whole=False)
        if found is None or len(set(names)) < len(names) or not set(names) - {found} <= self._names:
            return nothing
        type_ = schema.field(found).type
        if not (pa.types.is_string(type_) or pa.types.is_large_string(type_)):
            return nothing

        def places(wanted: Sequence[str]) -> tuple[int, ...] | None:
            if any(name not in names or schema.field(name).type != self._seen.field(name).type for name in wanted):
                return None
            return tuple(names.index(name) if name in wanted else -1 for name in self._kept)

        complete = len(names) > len(self._names)
        kept = places(self._kept) if complete else None
        return ArrowForm(schema, names.index(found), kept, places(self._key), complete and self._whole)


@dataclass(frozen=True)
class ArrowForm:
    """Where the columns of a table stand in rows that are given as Arrow."""

    schema: pa.Schema
    op: int | None
    """The place of the operation; None where rows are inserts."""
    kept: tuple[int, ...] | None
    """The places of the columns that are kept; None where such rows are not read here."""
    key: tuple[int, ...] | None
    """The same of a delete, which only gives its key: -1 for all other columns."""
    whole: bool
    """Whether every column is read."""


class RuleSteps:
    """How every rule stands, brought along row by row, so that a row costs what it changed."""

    def __init__(self, engine: Engine, views: Views) -> None:
        self._engine, self._views = engine, views
        self._names = [rule.name for rule in engine.plan.rules]
        self._timed = {d.check.rule for d in engine.detectors if isinstance(d, MeasureDetector)}
        self._still: dict[str, Step] = {}
        self.counts: dict[str, RuleCounts] = {}
        """How each rule stands after the last row."""
        self._generation = -1

    def after(self, outcomes: Mapping[int, Outcome]) -> dict[str, Step]:
        """What a row did to each rule. Complexity: O(rules that it touched), beside a copy."""
        engine = self._engine
        if self._generation != engine.generation:
            self._generation = engine.generation
            self.counts = {name: self._views.counts(number) for number, name in enumerate(self._names)}
            self._still = {name: Step(0, 0, counts.open) for name, counts in self.counts.items()}
        steps = self._still.copy()
        for number in {engine.detectors[at].check.rule for at in outcomes} | self._timed:
            own = [outcomes[at] for at in engine.by_rule[number] if at in outcomes]
            name, counts = self._names[number], self._views.counts(number)
            steps[name] = Step(sum(o.added for o in own), sum(o.removed for o in own), counts.open)
            self.counts[name], self._still[name] = counts, Step(0, 0, counts.open)
        return steps

    def named(self, outcomes: Mapping[int, Outcome], limit: int) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
        """Added and removed violations, each up to the limit, as `Views.changed` has them."""
        if len(outcomes) == 1:
            # most rows concern one check, whose list needs no sharing out
            [(only, outcome)] = outcomes.items()
            detector = self._engine.detectors[only]
            added, removed = outcome.added_list, outcome.removed_list
            return (
                tuple(self._views.named_few(detector, added[:limit])) if len(added) else (),
                tuple(self._views.named_few(detector, removed[:limit])) if len(removed) else (),
            )
        both: list[tuple[Violation, ...]] = []
        checks = sorted(outcomes)
        for lists in ([outcomes[at].added_list for at in checks], [outcomes[at].removed_list for at in checks]):
            found: list[Violation] = []
            if not any(map(len, lists)):
                both.append(())
                continue
            most = shares([slots.shape[0] for slots in lists], limit)
            for at, slots, own in zip(checks, lists, most, strict=True):
                if own:
                    found.extend(self._views.named_few(self._engine.detectors[at], slots[:own]))
            both.append(tuple(found))
        return both[0], both[1]

    def measured(self, steps: Mapping[str, Step]) -> dict[str, str]:
        """What is measured of whole tables, where a row changed it."""
        return self._views.measured(steps) if self._timed else {}


UNREADABLE = (UnfitError, DataError, pa.ArrowException, OverflowError, ValueError, KeyError)
"""What is raised of a row that is left to those who read tables, and say what is wrong with it."""
