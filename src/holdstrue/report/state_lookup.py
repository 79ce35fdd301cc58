"""Rows of a state in shards by their key, without opening more of it than these are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdstrue.detect.delta import Key
from holdstrue.report.lookup import key_table, living_rows
from holdstrue.rules.model import Rule
from holdstrue.shards.facts import Facts
from holdstrue.shards.layout import Columns, Layout
from holdstrue.shards.shard import Shard
from holdstrue.state.files import StateFiles
from holdstrue.state.journal import read_facts
from holdstrue.state.manifest import Manifest
from holdstrue.state.runs import Runs


@dataclass(frozen=True)
class StateLookup:
    """The rows of a state that was written in shards; only the homes of the rows asked for are opened."""

    files: StateFiles
    manifest: Manifest

    @staticmethod
    def of(path: str) -> StateLookup:
        """The rows as they are now in the state of a monitor."""
        files = StateFiles(path)
        return StateLookup(files, files.manifest())

    @cached_property
    def _state(self) -> Facts:
        return read_facts(self.files, self.manifest, Facts.of)

    @cached_property
    def _layout(self) -> Layout:
        state = self._state
        plan = state.plan()
        # homes follow from keys alone, so that blocks and hot places do not matter here
        return Layout.of(plan, state.all_keys, self.manifest["sharding"]["shards"], 1)

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules."""
        return list(self._state.rules)

    def key_columns(self, rule: Rule) -> tuple[str, ...]:
        """The columns that name the rows a rule speaks of."""
        return self._state.keys[rule.own_table or self._state.main]

    def rows_of(self, rule: Rule, keys: Sequence[Key]) -> list[dict[str, Any] | None]:
        """The rows with these keys: key and the columns the rule reads; None where a row is gone.

        Complexity: O(rows logged in the homes of the keys since their checkpoints).
        """
        table, names = rule.own_table or self._state.main, self.key_columns(rule)
        if not keys:
            return []
        homes, _, _ = self._layout.home(table, Columns(key_table(self._layout.plan.schemas[table], names, keys)))
        found: list[dict[str, Any] | None] = [None] * len(keys)
        for number in {int(home) for home in homes} & {int(shard) for shard in self.manifest["shards"]}:
            runs = Runs.of(self.manifest["shards"][str(number)])
            shard = Shard.open(self.files, self._layout.home_plan, self._layout.keys, runs)
            own = [at for at, home in enumerate(homes) if home == number]
            for at, row in zip(
                own, living_rows(shard.engine, table, names, [keys[at] for at in own], rule), strict=True
            ):
                found[at] = row
        return found
