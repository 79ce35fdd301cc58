"""Rows that changed to the shards of the routes: only where they go, only what is read there, only if it changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import DELETE, INSERT, UPDATE
from holdstrue.data.coding import domain_of, key_digest
from holdstrue.detect.engine import Incoming
from holdstrue.shards.layout import NOWHERE, S_FLAG, T_FLAG, Columns, Job, Layout
from holdstrue.shards.routing import Side
from holdstrue.shards.wire import LEFT, MOVED, OP, ROWS, SHARD, Lay, Message, pack, to_tasks
from holdstrue.typing import I32, I64, Mask

T_BUCKET, S_BUCKET = ":t bucket", ":s bucket"
BEFORE = ":before "
"""Starts the names of a moved row's columns as they were."""


@dataclass(frozen=True)
class Entries:
    """Rows in shards: `rows[k]` is in `shards[k]`, as t or s; and the places that this follows from."""

    rows: I32
    shards: I32
    as_t: Mask
    as_s: Mask
    t_place: I32
    s_place: I32


@dataclass(frozen=True)
class RowVersions:
    """Row versions of one table that come and go: new row `updating[k]` replaces old row `replaced[k]`."""

    new: pa.Table
    old: pa.Table
    updating: I64
    replaced: I64

    @staticmethod
    def of(incoming: Incoming, old: pa.Table) -> RowVersions:
        """What a resolved batch does; `old` are the versions that go, in their order."""
        updating = np.flatnonzero(incoming.updates >= 0)
        return RowVersions(
            incoming.values, old, updating, np.searchsorted(incoming.old, incoming.updates[updating]).astype(np.int64)
        )

    @staticmethod
    def join(parts: Sequence[RowVersions]) -> RowVersions:
        """Several as one."""
        new_at = np.cumsum([0, *(part.new.num_rows for part in parts)])
        old_at = np.cumsum([0, *(part.old.num_rows for part in parts)])
        return RowVersions(
            pa.concat_tables([part.new for part in parts]),
            pa.concat_tables([part.old for part in parts]),
            np.concatenate([part.updating + start for part, start in zip(parts, new_at, strict=False)]),
            np.concatenate([part.replaced + start for part, start in zip(parts, old_at, strict=False)]),
        )


def dispatch(job: Job, table: str, versions: RowVersions) -> Iterator[Message]:
    """The messages that changed rows of one table give rise to."""
    layout, old = job.layout, versions.old
    new_columns, old_columns = Columns(versions.new), Columns(old)
    new_count = versions.new.num_rows
    updating, replaced = versions.updating, versions.replaced
    old_ids = np.arange(new_count, new_count + old.num_rows, dtype=np.int64)
    # a row that is updated has one number, old and new
    old_ids[replaced] = updating
    new_blocks, old_blocks = (layout.home(table, columns)[1] for columns in (new_columns, old_columns))
    for number, route in enumerate(layout.routes):
        if table not in route.tables:
            continue
        new = entries(layout, number, table, new_columns, new_blocks)
        before = entries(layout, number, table, old_columns, old_blocks)
        same = _same(layout, number, table, new_columns, old_columns, updating, replaced)
        unchanged = np.zeros(new_count, dtype=np.bool_)
        unchanged[updating] = same
        t_left, s_left = (
            _left(new_count + old.num_rows, updating, a[updating], b[replaced])
            for a, b in ((new.t_place, before.t_place), (new.s_place, before.s_place))
        )
        shards = np.int64(len(layout.spots))
        new_at, old_at = new.rows * shards + new.shards, old_ids[before.rows] * shards + before.shards
        stays = np.isin(new_at, old_at)
        sent, gone = ~(stays & unchanged[new.rows]), ~np.isin(old_at, new_at)
        roles = [(t_left, new.as_t, before.as_t)]
        if route.kind != "reference":
            # one who provides has no violations of its own that could move
            roles.append((s_left, new.as_s, before.as_s))
        # in the shards that a row leaves and in those that it enters, also where it stays in its other role
        moving = np.concatenate(
            [at[own & left[at // shards]] for left, is_, was in roles for at, own in ((new_at, is_), (old_at, was))]
        )
        ops = np.where(stays, UPDATE, INSERT)
        comes = _sent(job, number, table, new_columns, new, sent, ops, np.isin(new_at, moving))
        ops = np.full(gone.size, DELETE)
        goes = _sent(job, number, table, old_columns, before, gone, ops, np.isin(old_at, moving))
        together = pa.concat_tables([goes, comes])
        yield from to_tasks(together, job.task_of(together.column(SHARD).to_numpy()), ROWS, number, table)
        if route.kind != "reference" and (t_left.any() or s_left.any()):
            yield from _moved(job, number, table, new_columns, old_columns, updating, replaced, new, before)


def first_rows(
    job: Job, table: str, columns: Columns, blocks: I32, kind: int = ROWS, lay: Lay = pack
) -> Iterator[Message]:
    """The messages for rows of a table that has none yet."""
    for number, route in enumerate(job.layout.routes):
        if table in route.tables:
            found = entries(job.layout, number, table, columns, blocks)
            every = np.ones(found.rows.size, dtype=np.bool_)
            ops = np.full(found.rows.size, INSERT)
            sent = _sent(job, number, table, columns, found, every, ops)
            yield from to_tasks(sent, job.task_of(found.shards), kind, number, table, lay)


def entries(layout: Layout, number: int, table: str, columns: Columns, blocks: I32) -> Entries:
    """Where the rows of a table go on a route, and in which roles."""
    route = layout.routes[number]

    def places(side: Side) -> I32:
        if side.table != table:
            return np.full(columns.values.num_rows, NOWHERE, dtype=np.int32)
        return layout.place(number, side, columns)

    t_place = places(route.t)
    rows, shards = layout.spread(number, t_place, blocks, provides=False)
    if route.kind == "group":
        all_ = np.ones(rows.size, dtype=np.bool_)
        return Entries(rows, shards, all_, all_, t_place, t_place)
    s_place = places(route.s)
    s_rows, s_shards = layout.spread(number, s_place, blocks, provides=route.kind == "reference")
    total = np.int64(len(layout.spots))
    at = np.concatenate((rows * total + shards, s_rows * total + s_shards))
    distinct, which = np.unique(at, return_inverse=True)
    as_t, as_s = np.zeros((2, distinct.size), dtype=np.bool_)
    as_t[which[: rows.size]] = True
    as_s[which[rows.size :]] = True
    return Entries(
        (distinct // total).astype(np.int32), (distinct % total).astype(np.int32), as_t, as_s, t_place, s_place
    )


def _left(count: int, updating: I64, new: I32, old: I32) -> Mask:
    """Updated rows that leave one place of a route for another."""
    left = np.zeros(count, dtype=np.bool_)
    left[updating] = (new != old) & (new != NOWHERE) & (old != NOWHERE)
    return left


def _same(layout: Layout, number: int, table: str, new: Columns, old: Columns, updating: I64, replaced: I64) -> Mask:
    """Updated rows that look the same on a route as before."""
    if not updating.size:
        return np.zeros(0, dtype=np.bool_)
    digests = []
    for columns, rows in ((new, updating), (old, replaced)):
        coded = []
        for field in layout.travelling(number)[table]:
            if field.name in (*layout.keys[table], T_FLAG, S_FLAG):
                continue
            domain = domain_of([columns.values.schema.field(field.name).type], ordered=False, seed=layout.plan.seed)
            if domain is None:
                raise TypeError(f"column {field.name!r} does not compare")
            coded.append(columns.coded(field.name, domain))
        hi, lo, _ = key_digest(coded, columns.values.num_rows, layout.plan.seed, nulls_equal=True)
        digests.append((hi[rows], lo[rows]))
    (new_hi, new_lo), (old_hi, old_lo) = digests
    return np.asarray((new_hi == old_hi) & (new_lo == old_lo))


def _sent(
    job: Job,
    number: int,
    table: str,
    columns: Columns,
    found: Entries,
    chosen: Mask,
    ops: I64,
    left: Mask | None = None,
) -> pa.Table:
    """The chosen entries as rows that travel; `left` are those of rows that go from place to place."""
    rows = found.rows[chosen]
    travelling = job.layout.travel(number, table, columns)
    if rows.size != travelling.num_rows or not np.array_equal(rows, np.arange(rows.size)):
        travelling = travelling.take(pa.array(rows))
    if job.layout.routes[number].flagged:
        travelling = travelling.append_column(T_FLAG, pa.array(found.as_t[chosen]))
        travelling = travelling.append_column(S_FLAG, pa.array(found.as_s[chosen]))
    if left is not None:
        travelling = travelling.append_column(LEFT, pa.array(left[chosen]))
    travelling = travelling.append_column(OP, pa.array(ops[chosen].astype(np.uint8)))
    return travelling.append_column(SHARD, pa.array(found.shards[chosen]))


def _moved(
    job: Job,
    number: int,
    table: str,
    new: Columns,
    old: Columns,
    updating: I64,
    replaced: I64,
    after: Entries,
    before: Entries,
) -> Iterator[Message]:
    """Updated rows that left one place for another, old and new images side by side.

    Two of them that move together and violate a rule before and after are neither new nor resolved,
    which no shard can see: the one they left counts a loss, the one they entered a gain.
    """
    t, s = (
        np.where(_left(n.size, np.arange(n.size), n, o), o.astype(np.int64) << 32 | n.astype(np.int64) & 0xFFFFFFFF, -1)
        for n, o in (
            (after.t_place[updating], before.t_place[replaced]),
            (after.s_place[updating], before.s_place[replaced]),
        )
    )
    chosen = np.flatnonzero((t != -1) | (s != -1))
    now = job.layout.travel(number, table, new).take(pa.array(updating[chosen]))
    was = job.layout.travel(number, table, old).take(pa.array(replaced[chosen]))
    side_by_side = now
    for name in was.column_names:
        side_by_side = side_by_side.append_column(BEFORE + name, was.column(name))
    t, s = t[chosen], s[chosen]
    t_task, s_task = (np.abs(bucket % job.tasks).astype(np.int32) for bucket in (t, s))
    for task, wanted in ((t_task, t != -1), (s_task, (s != -1) & ((t == -1) | (s_task != t_task)))):
        at = np.flatnonzero(wanted)
        sent = side_by_side.take(pa.array(at))
        # two rows may meet in the tasks of both their buckets: a task knows only the buckets that are its own
        for name, own, own_task in ((T_BUCKET, t, t_task), (S_BUCKET, s, s_task)):
            sent = sent.append_column(name, pa.array(np.where(own_task == task, own, -1)[at]))
        yield from to_tasks(sent, task[at], MOVED, number, table)
