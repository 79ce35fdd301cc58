"""Inclusions between tables as a kind of a discovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from holdstrue.discovery.found import A_PART, NO_VALUES, STOPPED, Died, FoundRule, NearMiss, NearMisses
from holdstrue.discovery.held import Held, SlotChanges
from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.breaks import BreakFinder, Breaks
from holdstrue.discovery.inclusions.foreign_keys import NEARLY_A_KEY, ForeignKey, ValueRanges, foreign_keys, ranked
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from holdstrue.discovery.options import DiscoveryOptions, allowed
from holdstrue.discovery.work import Work
from holdstrue.index.checked import Checked
from holdstrue.rules.model import Inclusion
from holdstrue.state.files import Arrays

PARTLY = 0.5
"""The share of values that a near inclusion may lack."""
LIKELY = 0.3
"""The score from which on a partial inclusion looks like a foreign key with errors. Chosen, not tuned."""
SHOWN = 10
"""Values and rows that an inclusion which died lists."""
LISTED = 1000
"""Values and rows that a near inclusion lists at most."""


@dataclass(eq=False)
class InclusionKind:
    """All inclusions, ranked as foreign keys."""

    kinds: ClassVar[tuple[str, ...]] = ("ind",)

    held: Held
    options: DiscoveryOptions
    core: InclusionCore

    @classmethod
    def load(cls, held: Held, options: DiscoveryOptions, work: Work) -> InclusionKind:
        """Search the rows that are held."""
        tables = {name: _table(held, name, schema) for name, schema in held.searched(options.columns).items()}
        return cls(held, options, InclusionCore.load(tables, options, work))

    @classmethod
    def restore(cls, held: Held, options: DiscoveryOptions, arrays: Checked) -> InclusionKind:
        """As it was left."""
        return cls(held, options, InclusionCore.restore(held.searched(options.columns), options, arrays))

    @property
    def complete(self) -> bool:
        """Whether every column was looked at."""
        return self.core.complete

    def apply(self, batches: Mapping[str, SlotChanges]) -> Sequence[Died]:
        """Follow a batch of all tables together."""
        schemas = self.held.searched(self.options.columns)
        changes = {
            name: RowChanges(batch.old.select(schemas[name].names), batch.added.select(schemas[name].names))
            for name, batch in batches.items()
        }
        turnover = self.core.apply(changes, lambda name: _table(self.held, name, schemas[name]))
        finder = self._finder()
        return [self._died(died.body, finder) for died in turnover.died if isinstance(died.body, Inclusion)]

    def _died(self, body: Inclusion, finder: BreakFinder) -> Died:
        """Why an inclusion died: values that are missing, or what else it is."""
        broken = finder.breaks(body, SHOWN)
        lost, of = (broken.missing, broken.distinct) if self.options.measure == "pairs" else (broken.rows, broken.known)
        if lost > allowed(self.options.error, of):
            slots = self.held.living(str(body.table))[broken.slots].tolist()
            return Died(body, tuple(slots), None, _listed(body, broken), broken.missing)
        if not broken.distinct:
            return Died(body, why=NO_VALUES)
        # a tuple with NULLs may hold where one of its columns does not
        return Died(body, why=A_PART if self.core.complete else STOPPED)

    def found(self) -> list[FoundRule]:
        """The inclusions of columns with values, each with what speaks for a foreign key."""
        everything = ranked(self.core, self._tables())
        return [FoundRule(one.found.body, one.score, measures_of(one)) for one in everything if one.found.values]

    def up_to(self) -> dict[str, tuple[int, str]]:
        """None is known completely where time ran out."""
        return {} if self.core.complete else {"inclusions": (0, "columns")}

    def near(self, most: int, work: Work) -> NearMisses:
        """Partial inclusions that look like foreign keys and lack few values, with these and rows that have them."""
        finder, misses = self._finder(), []
        partly = replace(self.options, kinds=("ind",), error=PARTLY, measure="pairs")
        for one in foreign_keys(InclusionCore(self.core.unary, partly), self._tables()):
            if 0 < one.found.missing <= most and one.key >= NEARLY_A_KEY and one.score >= LIKELY:
                body = one.found.body
                broken = finder.breaks(body, min(most, LISTED))
                rows = tuple((slot,) for slot in self.held.living(str(body.table))[broken.slots].tolist())
                values = _listed(body, broken)
                misses.append(NearMiss(body, broken.rows, 1 - one.fit, rows, values, body.table, measures_of(one)))
        late = () if self.core.complete else ("inclusions: of columns that there was no time to count",)
        return NearMisses(misses, late)

    def _finder(self) -> BreakFinder:
        schemas = self.held.searched(self.options.columns)
        return BreakFinder(lambda name: _table(self.held, name, schemas[name]), self.core.unary.layout.compare)

    def explain(self) -> str:
        """How the inclusions are kept."""
        size = self.core.size_bytes()
        return f"counts by value and column, and of values shared by two columns ({size:,} bytes)"

    def snapshot(self) -> Arrays:
        """The state as plain arrays."""
        return dict(self.core.snapshot())

    def _tables(self) -> Mapping[str, pa.Table] | ValueRanges:
        return {n: _table(self.held, n, schema) for n, schema in self.held.searched(self.options.columns).items()}


def _table(held: Held, name: str, schema: pa.Schema) -> pa.Table:
    return held.table(name)[0].select(schema.names)


def _listed(body: Inclusion, broken: Breaks) -> tuple[Any, ...]:
    """The values that are missing, those of several columns as tuples."""
    # by place: a column may have the name of the counts behind them
    columns = [broken.values.column(place).to_pylist() for place in range(len(body.columns))]
    return tuple(columns[0]) if len(columns) == 1 else tuple(zip(*columns, strict=True))


def measures_of(one: ForeignKey) -> dict[str, float]:
    """What the score of an inclusion is made of."""
    return {
        "score": round(one.score, 4),
        "values": one.found.values,
        "missing": one.found.missing,
        "degree": round(one.found.degree, 6),
        "rows": one.rows,
        "missing_rows": one.missing_rows,
        "key": round(one.key, 4),
        "names": round(one.names, 4),
        "coverage": round(one.coverage, 4),
    }
