"""Where a site keeps its batches, as its work sees it."""

from __future__ import annotations

from typing import Any, Protocol

from holdstrue.fragments.batch_record import BatchRecord
from holdstrue.fragments.indexed_rows import IndexedRows


class BatchKeeper(Protocol):
    """Where a site keeps its batches: a state directory of its own, or what a task sees of one."""

    @property
    def count(self) -> int:
        """How many batches were committed."""

    def restore(self, indexed: IndexedRows) -> BatchRecord | None:
        """Bring what is held to what is kept; returns the last batch."""

    def seen(self, batch: str) -> bool:
        """Whether a batch was committed."""

    def prepare(self, record: BatchRecord) -> Any:
        """Write a batch, which does not count yet."""

    def prepare_load(self, record: BatchRecord, indexed: IndexedRows) -> Any:
        """Write a first load, with what it made."""

    def commit(self, prepared: Any) -> None:
        """Make it count."""

    def tidy(self, indexed: IndexedRows) -> None:
        """Write a checkpoint where that is due."""

    def close(self) -> None:
        """Let go of the place."""
