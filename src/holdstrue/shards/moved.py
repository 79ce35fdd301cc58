"""Pairs of rows that move together from one place of a route to another and violate a rule before and after."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import Changes
from holdstrue.shards.dispatch import BEFORE, S_BUCKET, T_BUCKET
from holdstrue.shards.layout import S_FLAG, T_FLAG, Layout
from holdstrue.shards.lists import KEPT, listing
from holdstrue.shards.shard import Shard
from holdstrue.typing import I64


def kept_pairs(layout: Layout, route: int, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """By check the violations that rows which moved have before and after. Complexity: O(their violations)."""
    plan, schema = layout.route_plan(route), layout.travelling(route)
    table = layout.routes[route].t.table
    names = [name for name in schema[table].names if name not in (T_FLAG, S_FLAG)]
    t_bucket, s_bucket = (rows.column(name).to_numpy() for name in (T_BUCKET, S_BUCKET))
    shards = []
    for prefix in (BEFORE, ""):
        values = pa.table({name: rows.column(prefix + name) for name in names})
        if layout.routes[route].flagged:
            # which rows meet in which role is told by their buckets
            yes = pa.array(np.ones(rows.num_rows, dtype=np.bool_))
            values = values.append_column(T_FLAG, yes).append_column(S_FLAG, yes)
        shard = Shard(plan, layout.keys)
        shard.apply(shard.resolve({table: Changes.append(values)}), 0)
        shards.append(shard)
    before, after = shards
    for at, check in enumerate(layout.routes[route].checks):
        both = np.intersect1d(_listed(before, at), _listed(after, at))
        t, s = both >> 32, both & 0xFFFFFFFF
        met = t_bucket[t] == s_bucket[s]
        slots = np.stack((t, s), axis=1)[met & (t_bucket[t] != -1)].astype(np.int32)
        if slots.shape[0]:
            yield check, listing(layout, check, KEPT, *after.named(at, slots))


def _listed(shard: Shard, check: int) -> I64:
    """The violations of a check, each as one number."""
    found = [np.empty((0, 2), dtype=np.int32), *shard.listed(check)]
    slots = np.concatenate(found).astype(np.int64)
    if shard.engine.detectors[check].check.symmetric:
        slots.sort(axis=1)
    return slots[:, 0] << 32 | slots[:, 1]
