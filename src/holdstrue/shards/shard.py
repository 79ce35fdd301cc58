"""One shard of a state: an engine, its files, and what a batch makes of both.

The files are a checkpoint of all arrays of the engine, and the batches since as runs. A run holds the rows that came
and which slots they replace or remove. Opening maps the checkpoint copy-on-write, reads only what it touches, and
replays the runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.buffers import numbers
from holdstrue.data.changes import Changes
from holdstrue.data.coding import key_digest
from holdstrue.data.validity import same_columns
from holdstrue.detect.detector import NewRows, Outcome
from holdstrue.detect.engine import Engine, Incoming
from holdstrue.detect.resolve import OnConflict, resolve, unfit
from holdstrue.errors import DataError
from holdstrue.index.checked import Checked, Refuse
from holdstrue.kernels import bounds
from holdstrue.plan.compile import Plan
from holdstrue.shards.facts import Keys
from holdstrue.shards.layout import Columns
from holdstrue.state.files import Joint, StateFiles
from holdstrue.state.journal import Runs
from holdstrue.state.manifest import RunFile
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
        self.engine = Engine(plan, plan.schemas, keyed=plan.schemas if keyed else ())
        self.runs = Runs()

    @staticmethod
    def open(files: StateFiles, plan: Plan, keys: Keys, runs: Runs) -> Shard:
        """The shard that these files hold. Complexity: O(rows logged since its checkpoint)."""
        shard = Shard(plan, keys)
        shard.runs = runs
        restore(files, runs, shard.engine, shard.keys)
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
        if self.compact() or not self.runs.base or self.runs.due(size, sum(self.living().values())):
            self.runs = Runs(write_checkpoint(files, version, self.engine))
        else:
            self.runs = write_run(files, joint, self.runs, incoming)
        return self.runs

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


MERGE_FROM = 8
"""Runs of a shard from which on small ones are merged: manifests stay short, and a batch seldom writes old rows."""
MERGED_ANYWAY = 16_384
"""Bytes up to which a run is always worth merging: a run of few rows is mostly its schema."""

_NO_ROWS = np.empty(0, dtype=np.int32)


def write_checkpoint(files: StateFiles, version: int, engine: Engine) -> dict[str, RunFile]:
    """Write a whole engine. Complexity: O(table)."""
    base = {"arrays": files.write_arrays("arrays", version, engine.snapshot())}
    for i, table in enumerate(engine.tables.values()):
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


def write_run(files: StateFiles, joint: Joint, runs: Runs, incoming: Mapping[str, Incoming]) -> Runs:
    """Write a batch as one run of a joint file, older small runs merged into it. Complexity: O(batch) amortised.

    A run is merged when the younger ones hold half as much, so that there are few, and each
    row is written again a few times at most.
    """
    kept, merged = len(runs.log), tables_of(incoming)
    size = sum(table.nbytes for table in merged)
    while len(runs.log) >= MERGE_FROM and kept and runs.log[kept - 1].size <= 2 * size + MERGED_ANYWAY:
        kept -= 1
        size += runs.log[kept].size
    older = [table for file in runs.log[kept:] for table in files.read_tables(file)]
    file = joint.add([*older, *merged])
    return Runs(runs.base, (*runs.log[:kept], file), runs.log_rows + size_of(incoming))


def restore(files: StateFiles, runs: Runs, engine: Engine, keys: Keys) -> None:
    """Bring an engine of the same plan to what the files hold.

    Complexity: O(rows), at the speed of memory, and O(rows logged since the checkpoint).
    """
    own = (file for name, file in runs.base.items() if name.partition(".")[0] in ("arrays", "values", "labels"))
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
        engine.restore(arrays, values)
    replay(files, runs, engine, keys)


def _base(files: StateFiles, runs: Runs, name: str) -> RunFile:
    """A file of the checkpoint."""
    if name not in runs.base:
        raise files.damaged(next(iter(runs.base.values())), f"it comes without a file of {name}")
    return runs.base[name]


_LABELS = pa.schema({"value": pa.large_binary(), "label": pa.int64()})


def _restore_labels(files: StateFiles, file: RunFile, engine: Engine) -> None:
    numbers = {str(number).encode(): labels for number, labels in engine.labels.items()}
    for table in files.read_tables(file):
        labels = numbers.pop((table.schema.metadata or {}).get(b"domain", b""), None)
        if labels is None or not same_columns(table.schema, _LABELS) or any(c.null_count for c in table.columns):
            raise files.damaged(file, "it holds labels of other columns")
        try:
            labels.restore(table.column("value").to_pylist(), table.column("label").to_pylist())
        except ValueError as error:
            raise files.damaged(file, str(error)) from error


def replay(files: StateFiles, runs: Runs, engine: Engine, keys: Keys, since: int = 0) -> None:
    """Apply the logged batches from number `since` on."""
    pending: dict[str, list[Incoming]] = {}
    for file in runs.log[since:]:
        apply = partial(_apply, engine, pending, keys, partial(files.damaged, file))
        for table, part in parts_of(files, file, engine):
            rows = engine.tables[table].rows
            if table in pending and (part.old >= rows.size).any():
                apply()
            why = unfit(part, rows, keys[table])
            if why is not None:
                raise files.damaged(file, why)
            pending.setdefault(table, []).append(part)
        if len(engine.tables) > 1 or file is runs.log[-1]:
            # changes of several tables belong together, in the order they came
            apply()


def size_of(incoming: Mapping[str, Incoming]) -> int:
    """How many row versions a batch brings and removes."""
    return sum(part.values.num_rows + part.old.size for part in incoming.values())


def tables_of(incoming: Mapping[str, Incoming]) -> list[pa.Table]:
    """A batch as the tables of a run."""
    tables = []
    for name, part in incoming.items():
        tables += [
            part.values.replace_schema_metadata({"table": name}),
            pa.table({"old": part.old}),
            pa.table({"updates": part.updates}),
        ]
    return tables


_SLOTS = tuple(pa.schema({name: pa.int32()}) for name in ("old", "updates"))


def parts_of(files: StateFiles, file: RunFile, engine: Engine) -> Iterator[tuple[str, Incoming]]:
    """The parts of a batch, table by table, for an engine of these tables (see `parts_in`)."""
    for name, part in parts_in(files, file):
        if name not in engine.tables or not same_columns(part.values.schema, engine.tables[name].rows.schema):
            raise files.damaged(file, "it holds rows of another table")
        yield name, part


def parts_in(files: StateFiles, file: RunFile) -> Iterator[tuple[str, Incoming]]:
    """The parts of a batch, table by table; of several batches one after the other, where runs were merged."""
    tables = files.read_tables(file)
    # the lines of history come first, where the run is a batch of its own
    tables = tables[len(tables) % 3 :]
    for values, old, updates in zip(tables[::3], tables[1::3], tables[2::3], strict=True):
        name = (values.schema.metadata or {}).get(b"table", b"").decode(errors="replace")
        slots = [
            _int32(table.column(0)) if same_columns(table.schema, wanted) and not table.column(0).null_count else None
            for table, wanted in zip((old, updates), _SLOTS, strict=True)
        ]
        if slots[0] is None or slots[1] is None:
            raise files.damaged(file, "it does not say which rows it replaces")
        yield name, Incoming(values.replace_schema_metadata(None), slots[0], slots[1])


def _int32(column: pa.ChunkedArray) -> I32:
    return np.concatenate([_NO_ROWS, *(numbers(chunk, np.int32) for chunk in column.chunks)])


def _joined(parts: Sequence[Incoming]) -> Incoming:
    """Batches that touch different rows as one."""
    if len(parts) == 1:
        return parts[0]
    values = pa.concat_tables([part.values for part in parts]).combine_chunks()
    old = np.sort(np.concatenate([part.old for part in parts]))
    return Incoming(values, old, np.concatenate([part.updates for part in parts]))


def _apply(engine: Engine, pending: dict[str, list[Incoming]], keys: Keys, refuse: Refuse) -> None:
    """Apply logged batches again, without asking what they change."""
    if not pending:
        return
    joined = {name: _joined(parts) for name, parts in pending.items()}
    if any(bounds.unsorted(part.old, True) >= 0 for part in joined.values()):
        raise refuse("it removes a row that a batch before it removes")
    try:
        engine.apply({name: engine.with_keys(name, part, keys[name]) for name, part in joined.items()}, 0)
    except DataError as error:
        raise refuse(error.message) from error
    pending.clear()


MOST_BYTES = 2 << 30
"""What the open shards of one worker may hold beside mapped files. Chosen, not tuned."""


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
            _, before = self._open.pop((files.url, number), (None, 0))
            self._open[files.url, number] = shard, size
            self._held += size - before
            while self._held > MOST_BYTES and len(self._open) > 1:
                self._held -= self._open.popitem(last=False)[1][1]

    def empty(self) -> None:
        """Forget all shards."""
        with self._lock:
            self._open.clear()
            self._held = 0


POOL = Pool()
