"""Batches of a stream that do not fit: whether they end it, are passed over or set aside with the reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.errors import HoldstrueError
from holdstrue.location import spark_place
from holdstrue.spark.sinks import batch_folder

AS_IT_CAME = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How rows are written as JSON: nothing left out, and times to the microsecond, which Spark would cut."""

OnBadBatch: TypeAlias = Literal["stop", "skip", "quarantine"]


@dataclass(frozen=True)
class BadBatch:
    """A batch that does not fit, as it came."""

    batch: str
    table: str
    rows: DataFrame
    error: HoldstrueError
    files: tuple[str, ...] = ()
    """Where it was read from, if from files: `rows` holds these with their bytes then."""

    def frame(self) -> DataFrame:
        """Its rows beside the batch, its table, the reason and when it was.

        A row is JSON, its columns and their types are `schema`, so that batches of any columns make one table, of which
        `F.from_json("row", schema)` gives a batch back as it came.
        """
        row = F.struct(*(F.col("`" + name.replace("`", "``") + "`") for name in self.rows.columns))
        return self.rows.select(
            F.lit(self.batch).alias("batch"),
            F.lit(self.table).alias("table"),
            F.lit(self.error.message).alias("reason"),
            F.lit(self.error.hint).cast("string").alias("hint"),
            F.current_timestamp().alias("at"),
            F.lit(self.rows.schema.json()).alias("schema"),
            F.to_json(row, AS_IT_CAME).alias("row"),
        )


Letters: TypeAlias = Callable[[BadBatch], None]


@dataclass(frozen=True)
class DeadLetters:
    """Keeps the rows of bad batches and what is wrong with them in a parquet table, a folder a batch.

    The rows wait there as they came, to be mended and applied again.
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        spark_place(self.path, "dead letters")

    def __call__(self, bad: BadBatch) -> None:
        """Write one batch over whatever an earlier attempt wrote of it."""
        # the name of the folder says which batch it is
        bad.frame().drop("batch").write.mode("overwrite").parquet(batch_folder(self.path, bad.batch))


def letters_of(
    on_bad_batch: OnBadBatch, dead_letters: str | os.PathLike[str] | Letters | None, place: str
) -> Letters | None:
    """Who gets bad batches: nobody unless they are set aside, then a table beside the stream's checkpoint."""
    if on_bad_batch not in get_args(OnBadBatch):
        raise HoldstrueError(f"on_bad_batch is {on_bad_batch!r}", hint=f"one of {', '.join(get_args(OnBadBatch))}")
    if on_bad_batch != "quarantine":
        if dead_letters is not None:
            raise HoldstrueError(
                f"dead letters are kept where bad batches are set aside, and on_bad_batch is {on_bad_batch!r}",
                hint='give on_bad_batch="quarantine", or leave dead_letters out',
            )
        return None
    if callable(dead_letters):
        return dead_letters
    return DeadLetters(f"{place}/dead-letters" if dead_letters is None else dead_letters)
