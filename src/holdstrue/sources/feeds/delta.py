"""Delta Lake's change data feed."""

from __future__ import annotations

import pyarrow as pa

from holdstrue.data.changes import Changes, Places
from holdstrue.sources.feeds.changelog import CAME, CAME_AFTER, LEFT, LEFT_BEFORE, Layout, changelog_changes
from holdstrue.sources.feeds.target import Target

DELTA = Layout(
    name="Delta Lake",
    kind_column="_change_type",
    order_column="_commit_version",
    other_columns=("_commit_timestamp",),
    words={
        "insert": CAME, "update_preimage": LEFT_BEFORE, "update_postimage": CAME_AFTER, "delete": LEFT,
    },
)  # fmt: skip


def delta_changes(table: pa.Table, places: Places, target: Target) -> Changes:
    """The changes of rows with `_change_type` and `_commit_version`."""
    return changelog_changes(table, places, target, DELTA)
