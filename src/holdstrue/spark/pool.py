"""Shards that a Python worker keeps open between batches, so that a batch reads only what others wrote since.

A shard in the pool is worth something only if its files are exactly those that the manifest names,
or the first of them. Names are made afresh by every attempt, so a shard that took in a batch which
was never committed fits no manifest and is dropped.
"""

from __future__ import annotations

from collections import OrderedDict

from holdstrue.detect.runs import Keys, Runs
from holdstrue.detect.shard import Shard
from holdstrue.io.store import Store
from holdstrue.plan.compile import Plan

MOST_BYTES = 2 << 30
"""What the open shards of one worker may hold beside mapped files. Chosen, not tuned."""

_open: OrderedDict[tuple[str, int], Shard] = OrderedDict()


def take(store: Store, number: int, plan: Plan, keys: Keys, runs: Runs) -> Shard:
    """The shard as these files have it, out of the pool if it is there. The caller owns it until `put`."""
    shard = _open.pop((str(store.path), number), None)
    if shard is not None and shard.catch_up(store, runs):
        return shard
    return Shard.open(store, plan, keys, runs)


def put(store: Store, number: int, shard: Shard) -> None:
    """Keep a shard for the next batch."""
    if not shard.runs.base:
        return
    _open[str(store.path), number] = shard
    held = sum(other.size_bytes() for other in _open.values())
    while held > MOST_BYTES and len(_open) > 1:
        held -= _open.popitem(last=False)[1].size_bytes()


def empty() -> None:
    """Forget all shards."""
    _open.clear()
