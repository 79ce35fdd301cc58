"""One shard of a state: an engine, its files, and what a batch makes of both.

The files are a checkpoint of all arrays of the engine, and the batches since as runs. A run holds the rows that came
and which slots they replace or remove. Opening maps the checkpoint copy-on-write, reads only what it touches, and
replays the runs.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.buffers import numbers, plain
from holdstrue.data.changes import Changes
from holdstrue.data.coding import key_digest
from holdstrue.data.distinct import encoded
from holdstrue.data.validity import same_columns
from holdstrue.detect.clock import Clock
from holdstrue.detect.detector import NewRows, Outcome
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.detect.resolve import OnConflict, resolve
from holdstrue.detect.sequence import Kept, gone_of, in_sequence, sequence_of
from holdstrue.detect.snapshot import differences
from holdstrue.index.checked import Checked
from holdstrue.plan.compile import Plan
from holdstrue.shards.facts import Keys
from holdstrue.shards.layout import Columns
from holdstrue.shards.logged import moves_of, replay, size_of, write_run
from holdstrue.shards.memory import allowed_bytes, give_back, is_scarce, pooled_bytes
from holdstrue.state.files import Joint, StateFiles
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import MOVED, Runs
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

    def __init__(self, plan: Plan, keys: Keys, *, keyed: bool = True, clock: Clock | None = None) -> None:
        self.plan = plan
        self.keys = dict(keys)
        self.engine = Engine(plan, plan.schemas, keyed=plan.schemas if keyed else (), clock=clock)
        self.runs = Runs()

    @staticmethod
    def open(files: StateFiles, plan: Plan, keys: Keys, runs: Runs, clock: Clock | None = None) -> Shard:
        """The shard that these files hold. Complexity: O(rows logged since its checkpoint)."""
        shard = Shard(plan, keys, clock=clock)
        shard.runs = runs
        restore(files, runs, shard.engine, shard.keys)
        shard.engine.clock.started = True
        return shard

    def catch_up(self, files: StateFiles, runs: Runs) -> bool:
        """Replay what the files hold beyond this shard; False when it holds something else."""
        mine, wanted = lineage(self.runs), lineage(runs)
        if mine != wanted[: len(mine)] or len(self.runs.base) != len(runs.base):
            return False
        replay(files, runs, self.engine, self.keys, since=len(self.runs.log))
        self.runs = runs
        return True

    def resolve(self, parts: Mapping[str, Changes], on_conflict: OnConflict = "error") -> dict[str, Incoming]:
        """Changes against the rows there are; nothing is changed yet."""
        incoming = {}
        for table, part in parts.items():
            digest = partial(self.engine.key_digest, table, key=self.keys[table])
            incoming[table] = resolve(part, self.engine.tables[table].rows, self.keys[table], digest, on_conflict)
        return incoming

    def sequenced(self, parts: Mapping[str, Changes]) -> tuple[dict[str, Changes], dict[str, int]]:
        """The changes that count where some come late, with what is remembered of deletes; by table how many do not."""
        kept: dict[str, Changes] = {}
        late = {}
        for table, part in parts.items():
            column = sequence_of(self.plan.schemas, table)
            kept[table] = part
            if column is not None:
                living, gone = (self._kept(name, self.keys[table]) for name in (table, gone_of(table)))
                found = in_sequence(part, living, gone, self.keys[table], column)
                kept |= {table: found.changes, gone_of(table): found.gone}
                late[table] = found.late
        return kept, late

    def _kept(self, table: str, key: Sequence[str]) -> Kept:
        return Kept(self.engine.tables[table].rows, partial(self.engine.key_digest, table, key=key))

    def differences(self, parts: Mapping[str, Changes], *, whole: bool) -> dict[str, Incoming]:
        """What snapshots of tables, or of some of their rows, change in the rows there are."""
        found = {}
        for table, part in parts.items():
            digest = partial(self.engine.key_digest, table, key=self.keys[table])
            found[table] = differences(part, self.engine.tables[table].rows, self.keys[table], digest, whole=whole)
        return found

    def apply(
        self, incoming: Mapping[str, Incoming], limit: int, prepared: dict[str, NewRows] | None = None
    ) -> list[Outcome]:
        """Take in a resolved batch."""
        outcomes = self.engine.apply(incoming, limit, prepared)
        self.engine.settle()
        return outcomes

    def write(self, files: StateFiles, version: int, incoming: Mapping[str, Incoming], joint: Joint) -> Runs:
        """Write what a batch changed: a run in the joint file, or everything when that is due."""
        size = size_of(incoming)
        wasteful = self.wasteful()
        if wasteful:
            self.compact()
        if wasteful or not self.runs.base or self.runs.due(size, sum(self.living().values())):
            self.runs = Runs(write_checkpoint(files, version, self.engine, packed=True))
        else:
            self.runs = write_run(files, joint, self.runs, incoming)
        return self.runs

    def wasteful(self, times: int = 1) -> bool:
        """Whether there are so many times as many removed row versions as living ones."""
        tables = self.engine.tables.values()
        return sum(t.rows.size - (1 + times) * t.rows.living for t in tables) > COMPACT_FROM

    def compact(self) -> dict[str, I32]:
        """Drop removed row versions; returns by table to which slots the rows moved. Complexity: O(rows)."""
        moved = {name: moves_of(t.rows.alive[: t.rows.size]) for name, t in self.engine.tables.items()}
        self.engine = self.replanned(self.plan).engine
        return moved

    def replanned(self, plan: Plan, clock: Clock | None = None, keys: Keys | None = None) -> Shard:
        """The living rows under another plan, or under the same one without removed versions. Complexity: O(rows)."""
        other = Shard(plan, keys or self.keys, clock=clock or self.engine.clock)
        for name, table in self.engine.tables.items():
            slots = table.rows.living_slots()
            if slots.size:
                values = completed(table.rows.take(slots), other.engine.tables[name].rows.schema)
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
        """Memory held, values included."""
        return sum(self.engine.size_bytes().values()) + sum(t.rows.value_bytes() for t in self.engine.tables.values())


def completed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in the columns and types of a later plan: a column that is kept since is NULL, types may be wider."""
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def lineage(runs: Runs) -> Lineage:
    """The names of the files in the order they are read: equal names, equal content."""
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


_FOLLOWS = re.compile(r"(.*\.)?numbers\.cells|t\d+\.rows\.(numbers\..*|current)")
"""Arrays that a packed checkpoint leaves out: hash tables follow from their keys, and the keys of rows from the rows.
Opening a shard of a million rows takes 0.04 to 0.05 s of CPU instead of 0.01, and it has a third of the bytes."""


def write_checkpoint(files: StateFiles, version: int, engine: Engine, *, packed: bool = False) -> dict[str, RunFile]:
    """Write a whole engine, to be mapped, or packed to take less room. Complexity: O(table)."""
    arrays = engine.snapshot()
    if packed:
        arrays = {name: array for name, array in arrays.items() if not _FOLLOWS.fullmatch(name)}
    base = {"arrays": files.write_arrays("arrays", version, arrays, packed=packed)}
    del arrays
    for i, table in enumerate(engine.tables.values()):
        if packed:
            # a column at a time: as they were before, all together may not fit
            names = table.rows.schema.names
            columns = [encoded(table.rows.values([name]).column(0)).combine_chunks() for name in names]
            values = pa.table(columns, names=names)
        else:
            values = table.rows.values().combine_chunks()
        base[f"values.{i}"] = files.write_tables("values", version, [values])
    labels = [
        pa.table({"value": known.written(), "label": known.labels}).replace_schema_metadata({"domain": str(number)})
        for number, known in engine.labels.items()
        if len(known)
    ]
    if labels:
        base["labels"] = files.write_tables("labels", version, labels)
    return base


def restore(files: StateFiles, runs: Runs, engine: Engine, keys: Keys) -> None:
    """Bring an engine of the same plan to what the files hold.

    Complexity: O(rows), at the speed of memory, and O(rows logged since the checkpoint).
    """
    own = (file for name, file in runs.base.items() if name.partition(".")[0] in ("arrays", "values", "labels", MOVED))
    files.bring([*own, *runs.log])
    if runs.base.keys() & {"arrays", "values.0", "labels"}:
        arrays = Checked(files.map_arrays(_base(files, runs, "arrays")), partial(files.damaged, runs.base["arrays"]))
        values = {
            name: files.map_table(_base(files, runs, f"values.{i}"), table.rows.schema)
            for i, (name, table) in enumerate(engine.tables.items())
        }
        if "labels" in runs.base:
            _restore_labels(files, runs.base["labels"], engine)
        for i, (name, held) in enumerate(values.items()):
            if any(held.column(column).null_count for column in keys[name]):
                raise files.damaged(runs.base[f"values.{i}"], f"a key of {name!r} is NULL")
        engine.restore(arrays, values, keys)
    replay(files, runs, engine, keys)


def _base(files: StateFiles, runs: Runs, name: str) -> RunFile:
    """A file of the checkpoint."""
    if name not in runs.base:
        raise files.damaged(next(iter(runs.base.values())), f"it comes without a file of {name}")
    return runs.base[name]


_LABELS = pa.schema({"value": pa.large_binary(), "label": pa.int64()})


def _restore_labels(files: StateFiles, file: RunFile, engine: Engine) -> None:
    by_domain = {str(number).encode(): labels for number, labels in engine.labels.items()}
    for table in files.read_tables(file):
        labels = by_domain.pop((table.schema.metadata or {}).get(b"domain", b""), None)
        if labels is None or not same_columns(table.schema, _LABELS) or any(c.null_count for c in table.columns):
            raise files.damaged(file, "it holds labels of other columns")
        try:
            labels.restore(plain(table.column("value")), numbers(plain(table.column("label")), np.int64))
        except ValueError as error:
            raise files.damaged(file, str(error)) from error


class Pool:
    """Shards that a Python worker keeps open between batches, so that a batch reads only what others wrote since.

    A shard in the pool is worth something only if its files are exactly those that the manifest names,
    or the first of them. Names are made afresh by every attempt, so a shard that took in a batch which
    was never committed fits no manifest and is dropped.

    Threads may share a pool: who takes a shard has it alone.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: OrderedDict[tuple[str, int], tuple[Shard, int]] = OrderedDict()
        self._held = 0

    def take(self, files: StateFiles, number: int, plan: Plan, keys: Keys, runs: Runs) -> Shard:
        """The shard as these files have it, out of the pool if it is there. The caller owns it until `put`."""
        with self._lock:
            shard, size = self._open.pop((files.url, number), (None, 0))
            self._held -= size
        if shard is not None and shard.catch_up(files, runs):
            return shard
        return Shard.open(files, plan, keys, runs)

    def put(self, files: StateFiles, number: int, shard: Shard) -> None:
        """Keep a shard for the next batch."""
        if not shard.runs.base:
            return
        size = shard.size_bytes()
        with self._lock:
            _, known = self._open.pop((files.url, number), (None, 0))
            self._open[files.url, number] = shard, size
            self._held += size - known
            allowed = allowed_bytes()
            most = pooled_bytes(allowed)
            scarce = allowed is None and is_scarce()
            if scarce:
                most = min(most, self._held // 2)
            # where memory is limited, even one shard that is too large is opened anew for the next batch
            before = len(self._open)
            while self._held > most and len(self._open) > (allowed is None):
                self._held -= self._open.pop(self._victim(files.url))[1]
            dropped = len(self._open) < before
        if dropped and (scarce or allowed is not None):
            give_back()  # an engine and its detectors know each other, and are freed when somebody looks for such

    def _victim(self, url: str) -> tuple[str, int]:
        """Whose shard goes: the oldest of another state, else the last of this one.

        A batch asks for the shards of a state in turn, so that who drops the oldest of too many never finds one.
        """
        return next((own for own in self._open if own[0] != url), next(reversed(self._open)))

    def empty(self) -> None:
        """Forget all shards."""
        with self._lock:
            self._open.clear()
            self._held = 0


POOL = Pool()
