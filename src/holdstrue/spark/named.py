"""Data as people name it in Spark: a data frame, a table of the catalog, a query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdstrue.errors import DataError

_QUERY = re.compile(r"\s*(select|with|from|values|table)\b", re.IGNORECASE)


def named_frames(data: Any, spark: SparkSession | None = None) -> Any:
    """Data frames in place of names and queries, alone or by table; data frames stay as they are."""
    if isinstance(data, Mapping):
        return {table: named_frames(own, spark) for table, own in data.items()}
    if isinstance(data, DataFrame):
        if _streams(data):
            raise DataError(
                "a streaming data frame has no last row",
                hint="follow it with monitor.stream, or read the same with spark.read",
            )
        return data
    if not isinstance(data, str):
        raise DataError(
            f"Spark does not read {type(data).__name__}",
            hint="give a data frame (spark.createDataFrame(...), spark.read.parquet(...)), a table of its catalog or a "
            "query; holdstrue.check takes other tables, in this process",
        )
    spark = spark or SparkSession.getActiveSession()
    if spark is None:
        raise DataError(f"no Spark session reads {data!r}", hint="start one first: holdstrue.spark.start()")
    try:
        frame = spark.sql(data) if _QUERY.match(data) else spark.table(data)
        frame.schema  # noqa: B018  # through Connect a name is looked up only when something is asked of it
    except PySparkException as error:
        said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise DataError(
            f"Spark cannot read {data!r}: {said}", hint="give a table of its catalog, a query or a data frame"
        ) from error
    return frame


def _streams(frame: DataFrame) -> bool:
    """Whether a frame is a stream; through Connect one that cannot be read does not tell, and is told of when it is."""
    try:
        return frame.isStreaming
    except PySparkException:
        return False
