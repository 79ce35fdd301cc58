"""What a batch did: rows that began or ceased to violate CFDs, and what was shipped for it.

What sites found of CFDs is put together by rule: a row violates a rule when it violates one of its CFDs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.fragments.channel import Traffic, TrafficByPair, total
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.indexed_rows import ChangedKeys
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.rules.model import Rule
from holdstrue.typing import Mask

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


FoundByCFD = Mapping[int, Sequence[ChangedKeys]]
"""By CFD what each site that keeps an index of it found."""


def listed_by_cfd(answers: Iterable[Mapping[int, ChangedKeys]]) -> FoundByCFD:
    """What all sites found, CFD by CFD."""
    found: dict[int, list[ChangedKeys]] = {}
    for answer in answers:
        for cfd, keys in answer.items():
            found.setdefault(cfd, []).append(keys)
    return found


def changed_keys(
    cfds: Sequence[int],
    found: FoundByCFD,
    key_ids: Callable[[pa.Table], Ids],
    violates: Callable[[int, pa.Table], Mask],
) -> ChangedKeys:
    """Keys of rows that began and ceased to violate the rule of these CFDs.

    A row that moved between fragments may be in several lists. `violates` tells which rows violate a CFD after the
    batch; it is asked only where a rule has several. Complexity: O(findings x CFDs).
    """
    everything = pa.concat_tables([table for cfd in cfds for keys in found.get(cfd, ()) for table in keys])
    if len(cfds) == 1 and not any(keys.removed.num_rows for keys in found[cfds[0]]):
        return ChangedKeys(everything, everything.slice(0, 0))
    ids = key_ids(everything)
    at, origin = Numbering().assign_new(ids.hi, ids.lo, all_true(ids.size))
    rows = everything.take(pa.array(origin))
    before, after = np.zeros((2, rows.num_rows), dtype=np.bool_)
    start = 0
    for cfd in cfds:
        changed = np.zeros((2, rows.num_rows), dtype=np.bool_)
        for keys in found.get(cfd, ()):
            for mask, table in zip(changed, keys, strict=True):
                mask[at[start : start + table.num_rows]] = True
                start += table.num_rows
        added, removed = changed
        now = added if len(cfds) == 1 else violates(cfd, rows)
        before |= (now & ~added) | removed
        after |= now
    return ChangedKeys(rows.filter(pa.array(after & ~before)), rows.filter(pa.array(before & ~after)))
