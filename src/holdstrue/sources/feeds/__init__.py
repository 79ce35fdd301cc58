"""Changes as people have them, one file a kind of feed, all brought to `holdstrue.data.changes.Changes`."""

from holdstrue.sources.feeds.batches import FEEDS, read_changes
from holdstrue.sources.feeds.diff import diff_tables

__all__ = ["FEEDS", "diff_tables", "read_changes"]
