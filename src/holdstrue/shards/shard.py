"""One shard of a state: an engine, the files it came from, and what a batch makes of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.changes import Changes
from holdstrue.data.coding import key_digest
from holdstrue.detect.batch import NewRows, Outcome
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.detect.resolve import OnConflict, resolve
from holdstrue.plan.compile import Plan
from holdstrue.shards.checkpoint import replay, restore, size_of, write_checkpoint, write_run
from holdstrue.shards.layout import Columns
from holdstrue.shards.tables import Keys
from holdstrue.state.journal import Runs
from holdstrue.state.store import Joint, Store
from holdstrue.typing import I32, U64, Mask

COMPACT_FROM = 10_000
"""Fewer removed row versions than this are not worth a rebuild."""

Lineage = tuple[str, ...]
"""Names of files and where a part starts in them."""


@dataclass(frozen=True)
class CheckCounts:
    """How a check stands in one shard."""

    rows: int
    pairs: int
    groups: int


class Shard:
    """An engine over the rows of one shard, kept current by batches and written as runs."""

    def __init__(self, plan: Plan, keys: Keys, *, keyed: bool = True) -> None:
        self.plan = plan
        self.keys = dict(keys)
        self.engine = Engine(plan, plan.schemas, keyed=keyed)
        self.runs = Runs()

    @staticmethod
    def open(store: Store, plan: Plan, keys: Keys, runs: Runs) -> Shard:
        """The shard that these files hold. Complexity: O(rows logged since its checkpoint)."""
        shard = Shard(plan, keys)
        shard.runs = runs
        restore(store, runs, shard.engine, shard.keys)
        return shard

    @property
    def lineage(self) -> Lineage:
        """The names of the files whose content this shard holds: equal names, equal content."""
        return lineage(self.runs)

    def catch_up(self, store: Store, runs: Runs) -> bool:
        """Replay what the files hold beyond this shard; False when it holds something else."""
        mine, wanted = self.lineage, lineage(runs)
        if mine != wanted[: len(mine)] or len(self.runs.base) != len(runs.base):
            return False
        replay(store, runs, self.engine, self.keys, since=len(self.runs.log))
        self.runs = runs
        return True

    def resolve(self, parts: Mapping[str, Changes], on_conflict: OnConflict = "error") -> dict[str, Incoming]:
        """Changes against the rows there are; nothing is changed yet."""
        incoming = {}
        for table, part in parts.items():
            digest = partial(self.engine.key_digest, table, key=self.keys[table])
            incoming[table] = resolve(part, self.engine.tables[table].rows, self.keys[table], digest, on_conflict)
        return incoming

    def apply(
        self, incoming: Mapping[str, Incoming], limit: int, prepared: dict[str, NewRows] | None = None
    ) -> list[Outcome]:
        """Take in a resolved batch."""
        outcomes = self.engine.apply(incoming, limit, prepared)
        self.engine.settle()
        return outcomes

    def write(self, store: Store, version: int, incoming: Mapping[str, Incoming], joint: Joint) -> Runs:
        """Write what a batch changed: a run in the joint file, or everything when that is due."""
        if self.compact() or not self.runs.base or self.due(incoming):
            self.runs = Runs(write_checkpoint(store, version, self.engine))
        else:
            self.runs = write_run(store, joint, self.runs, incoming)
        return self.runs

    def due(self, incoming: Mapping[str, Incoming]) -> bool:
        """Whether a batch should be written as a checkpoint."""
        return self.runs.due(size_of(incoming), sum(self.living().values()))

    def compact(self) -> bool:
        """Drop removed row versions where they outnumber the living."""
        removed = 0
        for table in self.engine.tables.values():
            removed += table.rows.size - 2 * table.rows.living
        if removed <= COMPACT_FROM:
            return False
        self.engine = self.replanned(self.plan).engine
        return True

    def replanned(self, plan: Plan) -> Shard:
        """The living rows under another plan, or under the same one without removed versions. Complexity: O(rows)."""
        other = Shard(plan, self.keys)
        for name, table in self.engine.tables.items():
            slots = table.rows.living_slots()
            if slots.size:
                values = table.rows.take(slots).cast(other.engine.tables[name].rows.schema)
                other.engine.load(name, values, other.engine.key_digest(name, values, self.keys[name]))
        return other

    def counts(self) -> list[CheckCounts]:
        """How each check stands."""
        return [CheckCounts(d.rows, d.pairs, d.groups) for d in self.engine.detectors]

    def living(self) -> dict[str, int]:
        """How many rows of each table live here."""
        return {name: table.rows.living for name, table in self.engine.tables.items()}

    def named(self, check: int, slots: I32) -> tuple[pa.Array, pa.Array | None]:
        """Violations by slot as columns of keys: t, and s for pairs (the smaller key first in symmetric rules)."""
        detector = self.engine.detectors[check]
        table = detector.check.table
        rows = self.engine.tables[table].rows
        t = rows.take(slots[:, 0], self.keys[table])
        if detector.check.width == 1:
            return as_key(t), None
        s = rows.take(slots[:, 1], self.keys[table])
        if detector.check.symmetric:
            swap = ~_in_order(t, s)
            if swap.any():
                order = np.arange(slots.shape[0])
                both = pa.concat_tables([t, s])
                t, s = (both.take(pa.array(order + slots.shape[0] * turn)) for turn in (swap, ~swap))
        return as_key(t), as_key(s)

    def listed(self, check: int) -> Iterator[I32]:
        """All violations of a check by slot, chunk by chunk."""
        return self.engine.detectors[check].violations()

    def groups(self, check: int) -> tuple[U64, U64]:
        """Digests of the violating groups of a check, which depend on the values alone."""
        detector = self.engine.detectors[check]
        own = detector.check
        values = self.engine.tables[own.table].rows.take(detector.representatives(), own.lhs)
        columns = Columns(values)
        coded = [columns.coded(name, self.plan.domain(own.table, name)) for name in own.lhs]
        hi, lo, _ = key_digest(coded, values.num_rows, self.plan.seed, nulls_equal=own.nulls_equal)
        return hi, lo

    def blocks(self, table: str, slots: I32, count: int) -> I32:
        """The block of each row, by its key."""
        values = self.engine.tables[table].rows.take(slots, self.keys[table])
        _, lo = self.engine.key_digest(table, values, self.keys[table])
        return (lo % np.uint64(count)).astype(np.int32)

    def size_bytes(self) -> int:
        """Memory held."""
        return sum(self.engine.size_bytes().values())


def lineage(runs: Runs) -> Lineage:
    """The names of the files in the order they are read."""
    return tuple(f"{file.name}:{file.start}" for file in (*runs.base.values(), *runs.log))


def as_key(table: pa.Table) -> pa.Array:
    """Key columns as one column: the column itself, or a struct of several."""
    arrays = [column.combine_chunks() for column in table.columns]
    arrays = [pa.concat_arrays(a.chunks) if isinstance(a, pa.ChunkedArray) else a for a in arrays]
    return arrays[0] if len(arrays) == 1 else pa.StructArray.from_arrays(arrays, names=table.column_names)


def _in_order(t: pa.Table, s: pa.Table) -> Mask:
    """Where t is the smaller key or equal, column by column."""
    result = np.ones(t.num_rows, dtype=np.bool_)
    undecided = np.ones(t.num_rows, dtype=np.bool_)
    for left, right in zip(t.columns, s.columns, strict=True):
        less, equal = (pc.fill_null(test(left, right), False).to_numpy() for test in (pc.less, pc.equal))
        result[undecided & ~less & ~equal] = False
        undecided &= np.asarray(equal)
    return result
