"""Inclusions between tables as a kind of a discovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from holdstrue.discovery.found import Found
from holdstrue.discovery.held import Batch, Held
from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.breaks import breaks
from holdstrue.discovery.inclusions.nary import Inclusions, Search
from holdstrue.discovery.inclusions.ranking import NEARLY_A_KEY, ForeignKey, foreign_keys, ranked
from holdstrue.discovery.inclusions.unary import Options as CoreOptions
from holdstrue.discovery.kind import Arrays, Gone, Miss, Work, searched_columns
from holdstrue.discovery.options import Options

PARTLY = 0.5
"""The share of values that a near inclusion may lack."""
LIKELY = 0.3
"""The score from which on a partial inclusion looks like a foreign key with errors. Chosen, not tuned."""
SHOWN = 10
"""Values and rows that a near inclusion lists."""


class InclusionKind:
    """All inclusions, ranked as foreign keys."""

    def __init__(self, held: Held, options: Options, core: Inclusions) -> None:
        self.held = held
        self.options = options
        self.core = core

    @classmethod
    def load(cls, held: Held, options: Options, work: Work) -> InclusionKind:
        """Search the rows that are held."""
        tables = {name: _table(held, name, schema) for name, schema in searched_columns(held, options).items()}
        core = Inclusions.load(
            tables, _search(options), _core_options(options), deadline=work.deadline, progress=work.progress
        )
        return cls(held, options, core)

    @classmethod
    def restore(cls, held: Held, options: Options, arrays: Arrays) -> InclusionKind:
        """As it was left."""
        schemas = searched_columns(held, options)
        return cls(held, options, Inclusions.restore(schemas, _core_options(options), _search(options), arrays))

    @property
    def complete(self) -> bool:
        """Whether every column was looked at."""
        return self.core.complete

    def apply(self, batches: Mapping[str, Batch]) -> Sequence[Gone]:
        """Follow a batch of all tables together."""
        schemas = searched_columns(self.held, self.options)
        changes = {
            name: RowChanges(batch.old.select(schemas[name].names), batch.added.select(schemas[name].names))
            for name, batch in batches.items()
        }
        turnover = self.core.apply(changes, lambda name: _table(self.held, name, schemas[name]))
        return [Gone(died.body) for died in turnover.died]

    def found(self) -> list[Found]:
        """The inclusions of columns with values, each with what speaks for a foreign key."""
        everything = ranked(self.core, self._tables())
        return [Found(one.found.body, one.score, _measures(one)) for one in everything if one.found.values]

    def near(self, most: int) -> list[Miss]:
        """Partial inclusions that look like foreign keys, with values and rows that break them."""
        tables = self._tables()
        misses = []
        for one in foreign_keys(Inclusions(self.core.unary, Search(error=PARTLY)), tables):
            if one.found.missing and one.key >= NEARLY_A_KEY and one.score >= LIKELY:
                body = one.found.body
                broken = breaks(body, tables, compare=self.core.unary.options.compare, limit=max(most, SHOWN))
                values = tuple(broken.values.column(0).to_pylist())
                _, slots = self.held.table(str(body.table))
                rows = tuple((int(slots[place]),) for place in broken.slots.tolist())
                misses.append(Miss(body, broken.rows, 1 - one.fit, rows, values, body.table, _measures(one)))
        return misses

    def explain(self) -> str:
        """How the inclusions are kept."""
        size = self.core.size_bytes()
        return f"counts by value and column, and of values shared by two columns ({size:,} bytes)"

    def snapshot(self) -> Arrays:
        """The state as plain arrays."""
        return dict(self.core.snapshot())

    def _tables(self) -> dict[str, pa.Table]:
        return {n: _table(self.held, n, schema) for n, schema in searched_columns(self.held, self.options).items()}


def _table(held: Held, name: str, schema: pa.Schema) -> pa.Table:
    return held.table(name)[0].select(schema.names)


def _search(options: Options) -> Search:
    return Search(options.arity, options.error)


def _core_options(options: Options) -> CoreOptions:
    return CoreOptions("text" if options.as_text else "types", seed=options.seed)


def _measures(one: ForeignKey) -> dict[str, float]:
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
