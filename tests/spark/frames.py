"""Tables as data frames, data frames of violations as the oracle names them, and what must agree after a batch."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from holdstrue.detect.delta import Delta, Violation
from holdstrue.shards.lists import violation_of
from holdstrue.spark import Monitor
from holdstrue.state.files import StateFiles
from laws.test_detection import found, nonempty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Truth = dict[str, set[tuple[Any, ...]]]


def frame(spark: SparkSession, table: pa.Table, *cuts: int) -> DataFrame:
    """A table as a data frame, with partitions that end before the rows of these numbers."""
    ends = [0, *sorted(cuts), table.num_rows]
    parts = [spark.createDataFrame(table.slice(a, b - a)) for a, b in pairwise(ends) if b > a]
    # Connect does not ask an empty table for its types
    whole = parts[0] if parts else spark.createDataFrame([], from_arrow_schema(table.schema))
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def listed(violations: DataFrame) -> list[Violation]:
    """A data frame of violations, collected."""
    return [violation_of(row) for row in violations.toArrow().to_pylist()]


def added(before: Truth, after: Truth) -> Truth:
    """What is in the second and not in the first."""
    return nonempty({rule: after[rule] - before[rule] for rule in after})


def assert_step(delta: Delta, before: Truth, after: Truth) -> None:
    """A batch says that it took the violations from what they were to what they are."""
    for rule, step in delta.counts.items():
        wanted = len(after[rule] - before[rule]), len(before[rule] - after[rule]), len(after[rule])
        assert (step.added, step.removed, step.open) == wanted, rule
    assert found(delta.added) == added(before, after)
    assert found(delta.removed) == added(after, before)


def assert_same(delta: Delta, other: Delta) -> None:
    """Two engines say the same of a batch."""
    assert dict(delta.counts) == dict(other.counts)
    assert found(delta.added) == found(other.added)
    assert found(delta.removed) == found(other.removed)
    assert delta.duplicate == other.duplicate


def shard_rows(monitor: Monitor) -> dict[str, dict[int, int]]:
    """By route (as `explain` names it) and shard the number of rows, from the newest manifest."""
    now = monitor.current()
    assert now is not None
    ledger = now.ledger
    held: dict[str, dict[int, int]] = {}
    for number, shard in StateFiles(monitor.path).manifest()["shards"].items():
        route = ledger.layout.spots[int(number)].route
        name = "home" if route < 0 else str(ledger.layout.routes[route])
        held.setdefault(name, {})[int(number)] = sum(shard["rows"].values())
    return held
