"""Denial constraints discovered in a table and kept current: the core behind discovery of the kind `dc`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.discovery.budget import Budget
from holdstrue.discovery.choice import choose_space, space_from
from holdstrue.discovery.coded_rows import CodedRows
from holdstrue.discovery.counted import CountedEvidence, Shift
from holdstrue.discovery.cover import Cover, CoverSearch, Limits, violated
from holdstrue.discovery.evidence import Evidence, evidence_between, evidence_within
from holdstrue.discovery.predicates import Space, SpaceOptions
from holdstrue.discovery.showing import shown
from holdstrue.discovery.turnover import Died, Turnover

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Snapshot = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class DenialOptions:
    """What is looked for.

    Parameters
    ----------
    space
        Which columns are compared, and how.
    max_predicates
        The most predicates of a rule.
    max_rules
        The search ends when it has found this many.
    """

    space: SpaceOptions = field(default_factory=SpaceOptions)
    max_predicates: int | None = None
    max_rules: int | None = None


class DenialCore:
    """All minimal denial constraints of a table, under rows that come and go.

    Memory: `CodedRows` and `CountedEvidence`; 8 bytes a word and rule.
    """

    def __init__(self, space: Space, options: DenialOptions, budget: Budget) -> None:
        self.space = space
        self.options = options
        self.budget = budget
        self.complete = True
        self._rows = CodedRows(space)
        self._evidence = CountedEvidence(space.width)
        self._search = CoverSearch(space, Limits(options.max_predicates, options.max_rules))
        self._cover = Cover(np.zeros((1, space.width), dtype=np.uint64))

    @classmethod
    def load(
        cls,
        table: pa.Table,
        options: DenialOptions | None = None,
        budget: Budget | None = None,
        space: Space | None = None,
    ) -> DenialCore:
        """Discover from scratch; `space` instead of one chosen from the table."""
        options = options or DenialOptions()
        core = cls(space or choose_space(table, options.space), options, budget or Budget())
        slots = core._rows.insert(table)
        found = core._within(slots)
        core._evidence.apply([], [found])
        core._look(found.complete)
        return core

    def apply(self, removed: I64, added: pa.Table) -> Turnover:
        """Take rows out and put rows in; returns the rules that this ended and made.

        Runtime complexity: O(rows of the batch x rows) comparisons, and the update of the cover.
        """
        before = shown(self.space, self._cover.sets)
        removed = np.unique(np.asarray(removed, dtype=np.int64)) if len(removed) else np.zeros(0, dtype=np.int64)
        self._rows.remove(removed)
        rest = self._rows.live()
        new = self._rows.insert(added)
        lost = [self._within(removed), self._between(removed, rest)] if removed.size else []
        won = [self._within(new), self._between(new, rest)] if new.size else []
        shift = self._evidence.apply(lost, won)
        self._follow(shift, all(part.complete for part in (*lost, *won)))
        return self._turnover(before, shift)

    def rules(self) -> tuple[Any, ...]:
        """The rules that hold now."""
        return tuple(self.space.body(mask) for mask in shown(self.space, self._cover.sets))

    def _within(self, slots: I64) -> Evidence:
        return evidence_within(self.space, self._rows.codes, self._rows.known, slots, self.budget)

    def _between(self, one: I64, other: I64) -> Evidence:
        return evidence_between(self.space, self._rows.codes, self._rows.known, one, other, self.budget)

    def _look(self, all_pairs: bool) -> None:
        """Search from scratch."""
        if not all_pairs:
            # what was not compared may break any rule
            self._cover, self.complete = Cover(np.zeros((0, self.space.width), dtype=np.uint64), False), False
            return
        self._cover = self._search.search(self._evidence.words(), self.budget)
        self.complete = self._cover.complete

    def _follow(self, shift: Shift, all_pairs: bool) -> None:
        """Bring the cover up to date."""
        if not self._cover.complete or not all_pairs:
            self._look(all_pairs)
            return
        cover = self._cover
        if shift.gone.size:
            words = self._evidence.words()
            remaining = words if not shift.fresh.size else _without(words, shift.fresh)
            cover = self._search.reduced(cover, remaining, shift.gone, self.budget)
        if cover.complete and shift.fresh.size:
            cover = self._search.extended(cover, shift.fresh)
        if not cover.complete:
            self._look(all_pairs)
            return
        self._cover, self.complete = cover, cover.complete

    def _turnover(self, before: U64, shift: Shift) -> Turnover:
        after = shown(self.space, self._cover.sets)
        died, born = _without(before, after), _without(after, before)
        breaking = violated(died, shift.fresh) if shift.fresh.size else np.full(died.shape[0], -1)
        return Turnover(
            tuple(
                Died(self.space.body(mask), tuple(shift.pairs[e].tolist()) if e >= 0 else ())
                for mask, e in zip(died, breaking.tolist(), strict=True)
            ),
            tuple(self.space.body(mask) for mask in born),
        )

    def size_bytes(self) -> dict[str, int]:
        """Memory of each part."""
        return {
            "rows": self._rows.size_bytes(),
            "evidences": self._evidence.size_bytes(),
            "rules": int(self._cover.sets.nbytes),
        }

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state."""
        arrays = {f"rows.{name}": array for name, array in self._rows.snapshot().items()}
        arrays |= {f"evidence.{name}": array for name, array in self._evidence.snapshot().items()}
        arrays["cover"] = self._cover.sets
        arrays["complete"] = np.array([self._cover.complete, self.complete])
        arrays["columns"] = np.frombuffer("\0".join(self.space.columns).encode(), dtype=np.uint8).copy()
        arrays["comparisons"] = np.array([(c.left, c.right, c.ordered) for c in self.space.comparisons], dtype=np.int64)
        return arrays

    @classmethod
    def restore(
        cls, schema: pa.Schema, options: DenialOptions, arrays: Snapshot, budget: Budget | None = None
    ) -> DenialCore:
        """The core as it was left."""
        names = arrays["columns"].tobytes().decode().split("\0")
        space = space_from(schema, names, arrays["comparisons"], options.space)
        core = cls(space, options, budget or Budget())
        part = {name.removeprefix("rows."): array for name, array in arrays.items() if name.startswith("rows.")}
        core._rows.restore(part)
        core._evidence.restore(arrays["evidence.words"], arrays["evidence.counts"])
        searched, complete = arrays["complete"].tolist()
        core._cover = Cover(arrays["cover"].copy(), bool(searched))
        core.complete = bool(complete)
        return core

    def with_budget(self, **changes: Any) -> None:
        """Another deadline, number of threads or listener for what comes next."""
        self.budget = replace(self.budget, **changes)


def _without(rows: U64, others: U64) -> U64:
    """Rows that are not among the others."""
    if not rows.shape[0] or not others.shape[0]:
        return rows
    kind = np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))
    one = np.ascontiguousarray(rows).view(kind).ravel()
    other = np.ascontiguousarray(others).view(kind).ravel()
    return np.ascontiguousarray(rows[~np.isin(one, other)])
