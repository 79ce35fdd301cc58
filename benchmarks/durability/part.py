"""A part of the durable benchmark: what it measures, its tables over several trees, and the figures with a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from jobs import Answer, Job
from scenarios.setting import Table, attempt

Record: TypeAlias = dict[str, Any]
ByTree: TypeAlias = Mapping[str, Sequence[Record]]
"""Records by the name of the tree they were measured on, `before` and `after`."""


@dataclass(frozen=True)
class Place:
    """Where states are kept while a part runs, and how much of it is run."""

    folder: Path
    quick: bool
    timeout: float

    def run(self, task: str, name: str, **options: Any) -> Answer:
        """Run a task in a process of its own."""
        return attempt(Job(task, name, (), "", options=options), self.timeout)


@dataclass(frozen=True)
class Goal:
    """One figure that the issue sets a target for, or that is compared from tree to tree."""

    what: str
    value: float
    target: str = ""


@dataclass(frozen=True)
class Part:
    """What `--part NAME` runs."""

    name: str
    measure: Callable[[Place], list[Record]]
    tables: Callable[[ByTree], list[Table]]
    goals: Callable[[Sequence[Record]], list[Goal]]


def beside(title: str, by_tree: ByTree, keys: Mapping[str, str], figures: Mapping[str, str]) -> Table:
    """A table with the records of all trees beside each other; `keys` and `figures` name fields and their heads."""
    table = Table(title, (*keys.values(), "tree", *figures.values()))
    for key in dict.fromkeys(_key(record, keys) for records in by_tree.values() for record in records):
        for tree, records in by_tree.items():
            for record in (record for record in records if _key(record, keys) == key):
                table.rows.append((*key, tree, *_cells(record, figures)))
    return table


def _key(record: Record, keys: Mapping[str, str]) -> tuple[Any, ...]:
    return tuple(record[name] for name in keys)


def _cells(record: Record, figures: Mapping[str, str]) -> Iterator[Any]:
    if "failure" in record:
        yield record["failure"]
        yield from ["-"] * (len(figures) - 1)
        return
    for name in figures:
        value = record.get(name, "-")
        yield shown_ms(value) if name.endswith("_ms") and isinstance(value, float) else value


def shown_ms(value: float) -> str:
    """Milliseconds to three digits that mean something."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"
