"""Rules about single columns as a kind of discovery: found in the rows that are held when they are asked for.

Nothing but the rows is kept: after a batch the columns of the tables that it changed are looked at again, in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from holdstrue.discovery.columns.forms import NEARLY, ColumnForm, column_forms
from holdstrue.discovery.found import BROKEN, NO_VALUES, TOO_LITTLE, Died, FoundRule, NearMisses
from holdstrue.discovery.held import Held, SlotChanges
from holdstrue.discovery.options import DiscoveryOptions, exact
from holdstrue.discovery.work import Work
from holdstrue.index.checked import Checked
from holdstrue.monitor.check import check
from holdstrue.rules.model import Rule
from holdstrue.state.files import Arrays


@dataclass(eq=False)
class ColumnKind:
    """Not null, allowed values, ranges, lengths and shapes."""

    kinds: ClassVar[tuple[str, ...]] = ("column",)

    held: Held
    options: DiscoveryOptions
    _found: dict[str, list[ColumnForm]] = field(default_factory=dict)

    @classmethod
    def load(cls, held: Held, options: DiscoveryOptions, work: Work) -> Self:
        """Search the rows that are held."""
        kind = cls(held, options)
        for name in held.searched(options.columns):
            kind._forms(name)
        return kind

    @classmethod
    def restore(cls, held: Held, options: DiscoveryOptions, arrays: Checked) -> Self:
        """As it was left: the rows are all there is."""
        arrays.flags("complete", 1)
        return cls(held, options)

    @property
    def complete(self) -> bool:
        """All columns are looked at, whatever the time."""
        return True

    def _forms(self, table: str) -> list[ColumnForm]:
        if table not in self._found:
            rows, _ = self.held.table(table)
            most = float(exact(self.options.error)) or NEARLY
            columns = self.held.searched(self.options.columns)[table].names
            self._found[table] = [form for name in columns for form in column_forms(rows.column(name), name, most)]
        return self._found[table]

    def apply(self, batches: Mapping[str, SlotChanges]) -> Sequence[Died]:
        """Look at the tables of a batch again. Complexity: O(rows)."""
        died: list[Died] = []
        changed = [name for name in batches if name in self.held.searched(self.options.columns)]
        for name in changed:
            before = self._found.pop(name, [])
            after = {form.body for form in self._forms(name)}
            died += [self._ended(name, form) for form in before if form.body not in after]
        return died

    def _ended(self, table: str, form: ColumnForm) -> Died:
        """Why a rule died: a row that breaks it, or what else it is."""
        rows, slots = self.held.table(table)
        shown = self.held.shown(table)
        if rows.num_rows == rows.column(form.column).null_count:
            return Died(form.body, (), shown, why=NO_VALUES)
        place = np.arange(rows.num_rows)
        while place.size > 1:
            # one that breaks it lies in a half that has some
            half = place[: place.size // 2]
            place = half if self._breaks(table, form, half) else place[place.size // 2 :]
        if place.size and self._breaks(table, form, place):
            return Died(form.body, (int(slots[place[0]]),), shown, why=BROKEN)
        return Died(form.body, (), shown, why=TOO_LITTLE)

    def _breaks(self, table: str, form: ColumnForm, places: np.ndarray) -> bool:
        rows, _ = self.held.table(table)
        part = rows.select([form.column]).take(places)
        return bool(check(part, [Rule(form.body, "it")], limit=0).results[0].counts.rows)

    def found(self) -> list[FoundRule]:
        """The rules now; what they are worth, less by the rows that break them."""
        found = []
        for name in self.held.searched(self.options.columns):
            rows = self.held.counts()[name]
            for form in self._forms(name):
                error = form.broken / rows
                measures = {"support": rows - form.broken, "error": error} if form.broken else {"support": rows}
                score = form.worth * (1 - error) ** 10
                found.append(FoundRule(form.body, score, measures, self.held.shown(name), form.implied))
        return found

    def up_to(self) -> Mapping[str, tuple[int, str]]:
        """Nothing is left out."""
        return {}

    def near(self, most: int, work: Work) -> NearMisses:
        """None beside the rules: those that some rows break are among them."""
        return NearMisses()

    def explain(self) -> str:
        """How the rules are kept."""
        return "columns are looked at again after a batch, in one pass"

    def snapshot(self) -> Arrays:
        """Nothing but the rows is kept."""
        return {"complete": np.array([True])}
