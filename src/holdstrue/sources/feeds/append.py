"""Plain rows: every one is an insert."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import INSERT, Changes, Places
from holdstrue.sources.feeds.target import Target


def append_changes(table: pa.Table, places: Places, target: Target) -> Changes:
    """All rows as inserts."""
    return target.changes(table, np.full(table.num_rows, INSERT, np.uint8), places)
