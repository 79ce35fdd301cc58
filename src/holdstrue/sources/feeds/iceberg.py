"""Apache Iceberg's changelog view."""

from __future__ import annotations

import pyarrow as pa

from holdstrue.data.changes import Changes, Places
from holdstrue.sources.feeds.changelog import CAME, CAME_AFTER, LEFT, LEFT_BEFORE, Layout, changelog_changes
from holdstrue.sources.feeds.target import Target

ICEBERG = Layout(
    name="Iceberg",
    kind_column="_change_type",
    order_column="_change_ordinal",
    other_columns=("_commit_snapshot_id",),
    words={"insert": CAME, "delete": LEFT, "update_before": LEFT_BEFORE, "update_after": CAME_AFTER},
)


def iceberg_changes(table: pa.Table, places: Places, target: Target) -> Changes:
    """The changes of rows with `_change_type` and `_change_ordinal`."""
    return changelog_changes(table, places, target, ICEBERG)
