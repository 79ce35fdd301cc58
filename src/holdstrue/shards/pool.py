"""Shards that a Python worker keeps open between batches, so that a batch reads only what others wrote since.

A shard in the pool is worth something only if its files are exactly those that the manifest names,
or the first of them. Names are made afresh by every attempt, so a shard that took in a batch which
was never committed fits no manifest and is dropped.
"""

from __future__ import annotations

from collections import OrderedDict

from holdstrue.plan.compile import Plan
from holdstrue.shards.shard import Shard
from holdstrue.shards.tables import Keys
from holdstrue.state.journal import Runs
from holdstrue.state.store import Store

MOST_BYTES = 2 << 30
"""What the open shards of one worker may hold beside mapped files. Chosen, not tuned."""

_open: OrderedDict[tuple[str, int], tuple[Shard, int]] = OrderedDict()
_held = 0


def take(store: Store, number: int, plan: Plan, keys: Keys, runs: Runs) -> Shard:
    """The shard as these files have it, out of the pool if it is there. The caller owns it until `put`."""
    shard = _removed((str(store.path), number))
    if shard is not None and shard.catch_up(store, runs):
        return shard
    return Shard.open(store, plan, keys, runs)


def put(store: Store, number: int, shard: Shard) -> None:
    """Keep a shard for the next batch."""
    global _held  # noqa: PLW0603
    if not shard.runs.base:
        return
    size = shard.size_bytes()
    _open[str(store.path), number] = shard, size
    _held += size
    while _held > MOST_BYTES and len(_open) > 1:
        _removed(next(iter(_open)))


def empty() -> None:
    """Forget all shards."""
    while _open:
        _removed(next(iter(_open)))


def _removed(place: tuple[str, int]) -> Shard | None:
    global _held  # noqa: PLW0603
    shard, size = _open.pop(place, (None, 0))
    _held -= size
    return shard
