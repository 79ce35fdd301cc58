"""What the manifest of a monitor says beside its files: rules, keys, types, counts, and its history."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.detect.delta import Batched, RuleCounts, Step
from holdstrue.errors import HoldstrueError
from holdstrue.plan.compile import IndexKind, Plan, main_table
from holdstrue.rules.file import dump_rules, load_rules
from holdstrue.rules.model import RuleSet
from holdstrue.shards.tables import keys_of, plan_for
from holdstrue.state.journal import schema_of, schema_text

HISTORY = pa.schema(
    {
        "batch": pa.string(),
        "time": pa.string(),
        "rule": pa.string(),
        "added": pa.int64(),
        "removed": pa.int64(),
        "open": pa.int64(),
    }
)


@dataclass(frozen=True)
class Facts:
    """A monitor as its manifest describes it."""

    rules: RuleSet
    main: str
    keys: Mapping[str, tuple[str, ...]]
    index: IndexKind
    seed: Seed
    batches: int = 0
    last_batch: str | None = None
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    """The tables as they were seen: all their columns, kept or not."""
    rows: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, RuleCounts] = field(default_factory=dict)

    @staticmethod
    def new(rules: RuleSet, key: Any, index: IndexKind) -> Facts:
        """Those of a monitor that has seen nothing yet; `key` is as `Monitor` takes it."""
        others = tuple(name for name in (key if isinstance(key, Mapping) else ()) if name != rules.table)
        main = main_table(rules, others)
        return Facts(rules, main, keys_of(rules, key, main), index, Seed.new())

    def plan(self) -> Plan:
        """The plan for the tables as they were seen."""
        return plan_for(self.rules, self.main, self.keys, self.index, self.schemas, self.seed)

    def known_table(self, name: str) -> str:
        """The name of a table; raises when the monitor does not watch it."""
        if name not in self.keys:
            raise HoldstrueError(f"no table {name!r} in this monitor", hint=f"it watches {', '.join(self.keys)}")
        return name

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "rules": dump_rules(self.rules),
            "main": self.main,
            "keys": {table: list(key) for table, key in self.keys.items()},
            "index": self.index,
            "digest": self.seed.to_dict(),
            "schemas": {table: schema_text(schema) for table, schema in self.schemas.items()},
            **self.changing(),
        }

    def changing(self) -> dict[str, Any]:
        """What every batch changes."""
        return {
            "batches": self.batches,
            "last_batch": self.last_batch,
            "rows": dict(self.rows),
            "counts": {
                rule: {"rows": c.rows, "pairs": c.pairs, "groups": c.groups, "open": c.open}
                for rule, c in self.counts.items()
            },
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Facts:
        """From plain JSON data."""
        return Facts(
            rules=load_rules(data["rules"]),
            main=data["main"],
            keys={table: tuple(key) for table, key in data["keys"].items()},
            index=data["index"],
            seed=Seed.of(data["digest"]),
            batches=data["batches"],
            last_batch=data.get("last_batch"),
            schemas={table: schema_of(text) for table, text in data["schemas"].items()},
            rows=data["rows"],
            counts={rule: RuleCounts(**counts) for rule, counts in data["counts"].items()},
        )


def history_lines(batch: str, steps: Mapping[str, Step]) -> list[Batched]:
    """What a batch did to each rule, just now."""
    time = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    return [Batched(batch, time, rule, step.added, step.removed, step.open) for rule, step in steps.items()]


def history_table(lines: Sequence[Batched]) -> pa.Table:
    """Lines of history as a table."""
    return pa.Table.from_pylist([vars(line) for line in lines], schema=HISTORY)


def history_of(table: pa.Table) -> list[Batched]:
    """Back from `history_table`."""
    return [Batched(**row) for row in table.to_pylist()]
