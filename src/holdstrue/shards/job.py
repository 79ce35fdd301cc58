"""What every task of a batch is told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdstrue.detect.resolve import OnConflict
from holdstrue.shards.layout import Layout
from holdstrue.typing import I32


@dataclass(frozen=True)
class Job:
    """One batch over a sharded state, or one check that keeps no state."""

    layout: Layout
    tasks: int
    limit: int
    """How many violations a check lists in a shard, added and removed each."""
    path: str = ""
    """The state directory; none for a check that keeps no state."""
    version: int = -1
    """The manifest that the batch starts from."""
    on_conflict: OnConflict = "error"
    probing: bool = False
    """Whether a shard that gets too many rows is to say so instead of going on alone."""

    def task_of(self, shards: I32) -> I32:
        """The task that owns each shard."""
        return (shards % np.int32(self.tasks)).astype(np.int32)
