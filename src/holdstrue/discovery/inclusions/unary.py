"""Inclusions between single columns of any number of tables, found from scratch and kept current (paper 004).

The paper keeps attribute clusters (`papers/clusters.py`); the default here are counters of shared values
(`counters.py`). Microseconds of CPU an inserted row of twelve columns, counters / clusters, a million values:
12 attributes 5.7 / 5.1, 60 attributes 5.4 / 12.5, 120 7.1 / 34, 396 8.1 / 57: few attributes make few clusters, many
make many that must be intersected again. NULLs are no values: they are ignored on the left and give nothing on the
right. A column without values is included in every column it compares with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.discovery.found import Died, RuleTurnover
from holdstrue.discovery.inclusions.attributes import (
    Attribute,
    Changes,
    batch_contents,
    columns_of,
    comparisons,
    fitting,
    inclusion,
)
from holdstrue.discovery.inclusions.contents import Compare, contents_of
from holdstrue.discovery.inclusions.counted_values import LackingError
from holdstrue.discovery.inclusions.counters import SHARDS
from holdstrue.discovery.inclusions.net_changes import NetChanges, ValueCounts, distinct, tally
from holdstrue.discovery.inclusions.value_shards import ValueShards
from holdstrue.discovery.options import Measure, Proportion, exact, most_of
from holdstrue.discovery.work import Work
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.rules.model import Inclusion
from holdstrue.typing import Mask

StructureKind: TypeAlias = Literal["counters", "clusters"]

STRUCTURES: dict[StructureKind, tuple[str, str]] = {
    "counters": ("holdstrue.discovery.inclusions.counters", "Counters"),
    "clusters": ("holdstrue.papers.clusters", "Clusters"),
}
"""Module and class by name: the paper's own structure is loaded only where somebody asks for it."""


@dataclass(frozen=True)
class ValueLayout:
    """How values are compared, what counts them, and in how many shards: what a state of counted values goes by."""

    compare: Compare = "types"
    structure: StructureKind = "counters"
    shards: int = SHARDS
    seed: Seed = field(default_factory=Seed.new)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "compare": self.compare, "structure": self.structure, "shards": self.shards, "digest": self.seed.to_dict()
        }  # fmt: skip

    @staticmethod
    def of(data: Mapping[str, Any]) -> ValueLayout:
        """From plain JSON data."""
        return ValueLayout(data["compare"], data["structure"], data["shards"], Seed.of(data["digest"]))


@dataclass(frozen=True)
class FoundInclusion:
    """An inclusion, whole or partial: how many distinct values its left side has, and how many the right lacks."""

    body: Inclusion
    values: int
    missing: int

    @property
    def degree(self) -> float:
        """The share of the left side's distinct values that the right side holds."""
        return 1.0 if not self.values else 1 - self.missing / self.values


class UnaryInclusions:
    """All inclusions between columns of the given tables.

    Examples
    --------
    >>> orders = pa.table({"id": [1, 2, 3], "customer": [7, 7, 9]})
    >>> core = UnaryInclusions.load({"orders": orders, "customers": pa.table({"no": [7, 8, 9]})})
    >>> [(rule.body.columns, rule.body.ref_columns) for rule in core.rules()]
    [(('customer',), ('no',))]
    >>> from holdstrue.discovery.inclusions.attributes import RowChanges
    >>> turnover = core.apply({"customers": RowChanges(removed=pa.table({"no": [9]}))})
    >>> [died.body.columns for died in turnover.died], core.rules()
    ([('customer',)], ())
    """

    def __init__(self, schemas: Mapping[str, pa.Schema], layout: ValueLayout) -> None:
        self.schemas = dict(schemas)
        self.layout = layout
        self.attributes = columns_of(self.schemas)
        self.numbers = {attribute: number for number, attribute in enumerate(self.attributes)}
        module, name = STRUCTURES[layout.structure]
        structure: type[ValueShards] = getattr(import_module(module), name)
        self.structure = structure(len(self.attributes), layout.shards)
        self.loaded = np.ones(len(self.attributes), dtype=np.bool_)
        self._comparable = comparisons(self.schemas, self.attributes, layout.compare)

    @staticmethod
    def load(
        tables: Mapping[str, pa.Table], layout: ValueLayout | None = None, work: Work | None = None
    ) -> UnaryInclusions:
        """Count the values of every column. Complexity: O(values), columns and shards in parallel.

        Past the deadline the columns that are left are not looked at, and `complete` says so.
        """
        core = UnaryInclusions({name: table.schema for name, table in tables.items()}, layout or ValueLayout())
        core.structure.load(core._columns(tables, work or Work()))
        return core

    def _columns(self, tables: Mapping[str, pa.Table], work: Work) -> Iterator[ValueCounts]:
        cells = {name: table.num_rows for name, table in tables.items()}
        total, done = sum(cells[attribute.table] for attribute in self.attributes), 0

        def count(number: int) -> ValueCounts | None:
            if work.over:
                return None
            attribute = self.attributes[number]
            column = tables[attribute.table].column(attribute.columns[0])
            return distinct(number, contents_of(column, self.layout.compare, self.layout.seed))

        with ThreadPoolExecutor(work.threads) as pool:
            for number, column in enumerate(pool.map(count, range(len(self.attributes)))):
                attribute = self.attributes[number]
                done += cells[attribute.table]
                work.tell(done / max(1, total), f"{attribute.table}.{attribute.columns[0]}")
                if column is None:
                    self.loaded[number] = False
                else:
                    yield column
        self._comparable &= self.loaded[:, None] & self.loaded[None, :]

    @property
    def complete(self) -> bool:
        """Whether every column was looked at."""
        return bool(self.loaded.all())

    def tally(self, changes: Changes) -> NetChanges:
        """What a batch changes, as net counts: all that `apply` needs to know of it. Complexity: O(cells)."""
        for name, change in changes.items():
            for rows in (change.removed, change.added):
                if rows is not None:
                    fitting(name, self.schemas, rows)
        numbers = {attribute: number for attribute, number in self.numbers.items() if self.loaded[number]}
        return tally(batch_contents(changes, numbers, self.layout.compare, self.layout.seed), len(self.attributes))

    def apply(self, changes: Changes) -> RuleTurnover:
        """Take in the rows that go and come, of any tables, together; all or none.

        Complexity: O(cells of the batch + attributes that hold the changed values), whatever the size of
        the tables.
        """
        return self.apply_tally(self.tally(changes))

    def apply_tally(self, changes: NetChanges, error: Proportion = 0.0, measure: Measure = "pairs") -> RuleTurnover:
        """The same for changes that were counted before, as in the log of a state."""
        before = self.held(error, measure)
        try:
            self.structure.apply(changes)
        except LackingError as lacking:
            raise lacking.told(self.attributes) from lacking
        after = self.held(error, measure)
        died, born = self.pairs(before & ~after), self.pairs(after & ~before)
        return RuleTurnover(tuple(Died(inclusion(*pair)) for pair in died), tuple(inclusion(*pair) for pair in born))

    def held(self, error: Proportion = 0.0, measure: Measure = "pairs") -> Mask:
        """`[A, B]`: B lacks no more than this share of A's distinct values, or of its rows with a value.

        Complexity: O(attributes squared); for a share of rows O(values).
        """
        if not exact(error):
            return self._comparable & self.structure.included()
        shared = self.structure.shared_rows() if measure == "rows" else self.structure.shared()
        own = np.diagonal(shared)[:, None]
        return self._comparable & (own - shared <= most_of(error, own))

    def with_values(self) -> Mask:
        """Which columns have any value."""
        return np.diagonal(self.structure.shared()) > 0

    def pairs(self, chosen: Mask) -> list[tuple[Attribute, Attribute]]:
        """Pairs of columns that a matrix chooses, in the order of the tables."""
        return [(self.attributes[a], self.attributes[b]) for a, b in np.argwhere(chosen).tolist()]

    def rules(self, error: Proportion = 0.0, measure: Measure = "pairs") -> tuple[FoundInclusion, ...]:
        """The inclusions that miss no more than this share of the left side's distinct values, or of its rows.

        Complexity: O(attributes squared).
        """
        shared = self.structure.shared()
        values = np.diagonal(shared)
        return tuple(
            FoundInclusion(
                inclusion(self.attributes[a], self.attributes[b]), int(values[a]), int(values[a] - shared[a, b])
            )
            for a, b in np.argwhere(self.held(error, measure)).tolist()
        )

    def size_bytes(self) -> int:
        """Memory held."""
        return self.structure.size_bytes()

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        return {"loaded": self.loaded, **self.structure.snapshot()}

    @staticmethod
    def restore(
        schemas: Mapping[str, pa.Schema],
        layout: ValueLayout,
        arrays: Checked,
        shards: Sequence[Checked] | None = None,
    ) -> UnaryInclusions:
        """The core as it was left; the arrays will be written to, unless they are mapped copy-on-write."""
        core = UnaryInclusions(schemas, layout)
        core.loaded = arrays.flags("loaded", len(core.attributes))
        core._comparable &= core.loaded[:, None] & core.loaded[None, :]
        core.structure.restore(arrays, shards)
        return core
