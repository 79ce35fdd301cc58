"""What options may be is what the rooms that they are about have."""

from __future__ import annotations

from typing import Any, get_args

from holdstrue.cli import options
from holdstrue.detect.resolve import OnConflict
from holdstrue.index.protocol import IndexKind
from holdstrue.sources.feeds.batches import FEEDS


def choices(option: Any) -> tuple[str, ...]:
    """The words that an option takes."""
    return get_args(get_args(option)[0])


def test_feeds_indexes_and_conflicts() -> None:
    assert choices(options.FeedKind) == FEEDS
    assert choices(options.Index) == get_args(IndexKind)
    assert choices(options.OnConflict) == get_args(OnConflict)
