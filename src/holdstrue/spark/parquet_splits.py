"""Parquet files that workers read themselves: a table that is loaded need not pass through Java row by row.

Spark hands rows to Python one value at a time: of 4M rows and three columns that took 1.2 CPU s beside 0.8 for the
scan, as much as writing them to Parquet again. It is done where nobody could tell the difference: a data frame that
is some columns of a Parquet table in files of this machine or of a mounted folder, of types that Spark and Arrow read
alike, in a session that says nothing else about reading them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from holdstrue.shards.runner import Stage

MOST_FILES = 256
"""Files whose footers the driver reads; more are left to Spark, which reads them in its tasks. Chosen, not tuned."""
BATCH_ROWS = 100_000
"""Rows that a stage gets at a time, as many as Spark would hand it."""

_ALIKE = (pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary)
"""What both read alike whoever wrote it; days and times depend on calendars and settings."""
_NARROW = (pa.float16(),)
_SAID = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.fieldId.read.enabled",
)
"""Settings under which Spark reads less than there is, or other columns than their names say."""


@dataclass(frozen=True)
class Split:
    """Some row groups of a file."""

    path: str
    groups: tuple[int, ...]
    rows: int


@dataclass(frozen=True)
class OwnReading:
    """A stage before which its task reads the rows itself."""

    splits: tuple[tuple[Split, ...], ...]
    """By the number of a task what it reads."""
    columns: tuple[str, ...]
    stage: Stage

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers of tasks in, what the stage makes of their rows out."""
        tasks = [task for batch in batches for task in batch.column(0).to_pylist()]
        return iter(self.stage(self._rows(tasks)))

    def _rows(self, tasks: Sequence[int]) -> Iterator[pa.RecordBatch]:
        for split in (split for task in tasks for split in self.splits[task]):
            with pq.ParquetFile(split.path, pre_buffer=False) as file:
                yield from file.iter_batches(
                    BATCH_ROWS, row_groups=list(split.groups), columns=list(self.columns), use_threads=False
                )


def splits_of(frame: DataFrame, schema: pa.Schema) -> list[Split] | None:
    """The row groups of a data frame that workers can read themselves, as columns of these types; None for any other.

    Complexity: O(row groups) on the driver.
    """
    inner: Any = getattr(frame, "_jdf", None)
    if inner is None or not all(any(alike(type_) for alike in _ALIKE) for type_ in schema.types):
        return None
    if len(set(schema.names)) < len(schema) or set(schema.types) & {*_NARROW}:
        return None
    if any(frame.sparkSession.conf.get(name, "false") == "true" for name in _SAID):
        return None
    try:
        files = _plain_files(inner.queryExecution().optimizedPlan())
    except PySparkException:  # what is wrong with the frame is said when it is read
        return None
    if not files or len(files) > MOST_FILES:
        return None
    try:
        return [split for path in files for split in _splits_of_file(path, schema)]
    except (OSError, pa.ArrowException, _OtherError):
        return None  # encrypted, damaged, of other types or not here: Spark reads it, or says what is wrong


def shared_out(splits: Sequence[Split], tasks: int) -> tuple[tuple[Split, ...], ...]:
    """Splits by task in their order, so that tasks get about as many rows each.

    >>> halves = shared_out([Split("a", (0,), 5), Split("a", (1,), 5), Split("b", (0,), 9)], 2)
    >>> [[(split.path, split.groups) for split in part] for part in halves]
    [[('a', (0,)), ('a', (1,))], [('b', (0,))]]
    """
    total, done = sum(split.rows for split in splits), 0
    parts: list[list[Split]] = [[] for _ in range(tasks)]
    for split in splits:
        # by the middle of the split, so that none lies beyond the last task
        parts[min(tasks - 1, (2 * done + split.rows) * tasks // max(1, 2 * total))].append(split)
        done += split.rows
    return tuple(tuple(part) for part in parts)


class _OtherError(Exception):
    """A file holds other columns than Spark says."""


def _splits_of_file(path: str, schema: pa.Schema) -> Iterator[Split]:
    with pq.ParquetFile(path) as file:
        own = file.schema_arrow
        for field in schema:
            if own.names.count(field.name) != 1 or own.field(field.name).type != field.type:
                raise _OtherError(field.name)
        for group in range(file.num_row_groups):
            yield Split(path, (group,), file.metadata.row_group(group).num_rows)


def _plain_files(node: Any) -> list[str] | None:
    """The local files of a plan that selects columns of a Parquet table and does nothing else."""
    while node.nodeName() == "Project":
        chosen = node.projectList()
        if any(chosen.apply(at).nodeName() != "AttributeReference" for at in range(chosen.size())):
            return None
        node = node.children().apply(0)
    if node.nodeName() != "LogicalRelation" or not str(node.toString()).rstrip().endswith(" parquet"):
        return None
    relation = node.relation()
    options = relation.options()
    if relation.partitionSchema().length() or relation.bucketSpec().isDefined():
        return None
    if options.size() > int(options.contains("path")):  # any other says how to read them
        return None
    location = relation.location()
    if location.getClass().getSimpleName() != "InMemoryFileIndex":
        return None
    places = [urlsplit(str(file)) for file in location.inputFiles()]
    if any(place.scheme != "file" or place.netloc for place in places):
        return None
    return [unquote(place.path) for place in places]
