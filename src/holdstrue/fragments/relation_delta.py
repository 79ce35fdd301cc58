"""What a batch did: rows that began or ceased to violate CFDs, and what was shipped for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from holdstrue.fragments.channel import Traffic, TrafficByPair, total
from holdstrue.rules.model import Rule

KeysByRule = Mapping[str, pa.Table]


@dataclass(frozen=True)
class RelationDelta:
    """By rule the keys of rows that began (`added`) and ceased (`removed`) to violate it.

    A row is marked with every rule that it violates; a row that violates a rule before and after the batch is
    in neither list.
    """

    batch: str
    added: KeysByRule = field(default_factory=dict)
    removed: KeysByRule = field(default_factory=dict)
    shipped: TrafficByPair = field(default_factory=dict)
    repeated: bool = False
    """Whether the batch had been applied before, so that nothing was done."""
    elapsed: float = 0.0
    """Seconds of processor time when all sites work at once."""
    violations: Mapping[str, int] | None = None
    """By rule how many rows violate it after the batch, where that was asked for."""

    @property
    def traffic(self) -> Traffic:
        """All shipments together."""
        return total(self.shipped)

    def added_keys(self, rule: str) -> set[Any]:
        """Keys of rows that began to violate a rule; tuples where the key has several columns."""
        return set(key_values(self.added[rule])) if rule in self.added else set()

    def removed_keys(self, rule: str) -> set[Any]:
        """Keys of rows that ceased to violate a rule."""
        return set(key_values(self.removed[rule])) if rule in self.removed else set()

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "batch": self.batch,
            "repeated": self.repeated,
            "added": {rule: key_values(table) for rule, table in self.added.items()},
            "removed": {rule: key_values(table) for rule, table in self.removed.items()},
            "shipments": shipment_rows(self.shipped),
            **({} if self.violations is None else {"violations": dict(self.violations)}),
        }


def key_values(table: pa.Table) -> list[Any]:
    """Keys as Python values, ascending."""
    table = table.sort_by([(name, "ascending") for name in table.column_names])
    columns = [table.column(name).to_pylist() for name in table.column_names]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def counted(rules: Iterable[Rule], violating: KeysByRule) -> dict[str, int]:
    """By rule how many rows violate it, rules without violations included."""
    return {rule.name: violating[rule.name].num_rows if rule.name in violating else 0 for rule in rules}


def shipment_rows(tally: TrafficByPair) -> list[dict[str, Any]]:
    """The shipment table: one row for each (source, target)."""
    return [
        {"source": source, "target": target, "messages": t.messages, "ids": t.ids, "bytes": t.bytes}
        for (source, target), t in sorted(tally.items())
    ]
