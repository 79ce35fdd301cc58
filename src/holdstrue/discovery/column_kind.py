"""Rules about single columns as a kind of a discovery."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from holdstrue.discovery.columns.column_rules import ColumnRule, rules_of
from holdstrue.discovery.columns.profile import ColumnProfile
from holdstrue.discovery.found import BROKEN, TOO_LITTLE, Died, FoundRule, NearMisses
from holdstrue.discovery.held import Held, SlotChanges
from holdstrue.discovery.options import DiscoveryOptions, allowed
from holdstrue.discovery.work import Work
from holdstrue.index.checked import Checked
from holdstrue.monitor.check import check
from holdstrue.rules.model import Body, Rule
from holdstrue.state.files import Arrays


@dataclass(eq=False)
class ColumnKind:
    """What holds of single columns, kept as counts.

    A state does not keep them: they are counted anew when rules are first asked for after it was opened.
    """

    kinds: ClassVar[tuple[str, ...]] = ("column",)

    held: Held
    options: DiscoveryOptions
    profiles: dict[str, dict[str, ColumnProfile]] | None = field(default=None)
    """By table and column."""
    complete: bool = True
    """Whether every column was looked at."""

    @classmethod
    def load(cls, held: Held, options: DiscoveryOptions, work: Work) -> ColumnKind:
        """Count the rows that are held."""
        kind = cls(held, options)
        kind._current()
        work.tell(1, "columns counted")
        return kind

    @classmethod
    def restore(cls, held: Held, options: DiscoveryOptions, arrays: Checked) -> ColumnKind:
        """As it was left: nothing is kept."""
        return cls(held, options)

    def apply(self, batches: Mapping[str, SlotChanges]) -> Sequence[Died]:
        """Follow a batch. Complexity: O(batch); O(rows) of a column that may have few values again."""
        if self.profiles is None:
            return []
        before = {(name, rule.body): rule for name, rule in self._judged() if self._holds(rule)}
        for name, batch in batches.items():
            for column, profile in self.profiles.get(name, {}).items():
                profile.change(batch.added.column(column), batch.old.column(column))
        after = {(name, rule.body) for name, rule in self._judged() if self._holds(rule)}
        return [self._died(name, body, batches) for name, body in before if (name, body) not in after]

    def _died(self, name: str, body: Body, batches: Mapping[str, SlotChanges]) -> Died:
        """Why a rule died: a row of the batch breaks it, or it is not worth telling any more."""
        shown = self.held.shown(name)
        if name not in batches or not batches[name].added.num_rows:
            return Died(body, (), shown, why=TOO_LITTLE)
        added = batches[name].added
        result = check(added.select(list(Rule(body, "").columns)), [Rule(body, "rule")], limit=1)
        first = self.held.engine.tables[name].rows.size - added.num_rows
        rows = tuple(first + int(violation.t) for violation in result.violations())
        return Died(body, rows, shown, why=BROKEN if rows else TOO_LITTLE)

    def found(self) -> list[FoundRule]:
        """The rules that hold, or are broken by no more than the error that is allowed."""
        return [self._said(name, rule) for name, rule in self._judged() if self._holds(rule)]

    def nearly(self) -> list[FoundRule]:
        """Those that some rows break."""
        return [self._said(name, rule) for name, rule in self._judged() if not self._holds(rule)]

    def up_to(self) -> dict[str, tuple[int, str]]:
        """Nothing is known completely where time ran out."""
        return {} if self.complete else {"column rules": (0, "columns")}

    def near(self, most: int, work: Work) -> NearMisses:
        """None: rules with exceptions stand among the others."""
        return NearMisses()

    def explain(self) -> str:
        """How the rules are kept."""
        return "counts of NULLs, values, shapes and lengths by column"

    def snapshot(self) -> Arrays:
        """Nothing is kept."""
        return {}

    def _said(self, name: str, rule: ColumnRule) -> FoundRule:
        measures: dict[str, float] = {"support": rule.support}
        if rule.broken:
            measures["error"] = rule.broken / rule.rows
        return FoundRule(rule.body, rule.score, measures, self.held.shown(name))

    def _holds(self, rule: ColumnRule) -> bool:
        return rule.broken <= allowed(self.options.error, rule.rows)

    def _judged(self) -> Iterator[tuple[str, ColumnRule]]:
        for name, profiles in self._current().items():
            for column, profile in profiles.items():
                for rule in rules_of(column, profile):
                    yield name, rule

    def _current(self) -> dict[str, dict[str, ColumnProfile]]:
        """The counts of all columns, made where there are none or where they do not tell any more."""
        if self.profiles is None:
            self.profiles = {}
            for name, schema in self.held.searched(self.options.columns).items():
                table = self.held.table(name)[0]
                self.profiles[name] = {column: ColumnProfile.of(table.column(column)) for column in schema.names}
        for name, profiles in self.profiles.items():
            stale = [column for column, profile in profiles.items() if profile.stale]
            if stale:
                rows = self.held.table(name)[0]
                profiles |= {column: ColumnProfile.of(rows.column(column)) for column in stale}
        return self.profiles
