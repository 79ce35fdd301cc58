"""Tables of Delta Lake and Iceberg as data frames: by Spark's own source, or the files that count read as Parquet.

Where the jars of the format are not there, its library in Python says which files of the version that is read are
live, and Spark reads these. What files alone do not tell (rows deleted by vectors or delete files, columns that are
mapped to other names) is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlparse

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow.parquet import read_schema
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from holdstrue.errors import DataError
from holdstrue.sources.lakehouse import NAMES, LakeTable, guarded
from holdstrue.spark.runner import column

_FEATURES = frozenset({"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint", "appendOnly", "invariants"})
"""What a Delta table may ask of its readers that its files alone fulfil."""
_FOREIGN = re.compile("%[89A-Fa-f][0-9A-Fa-f]")
"""A byte of UTF-8 in a path: Spark reads each as a letter of its own."""


def lake_frame(spark: SparkSession, table: LakeTable) -> DataFrame:
    """The rows that a table has now."""
    place = table.path if table.metadata is None else table.metadata
    try:
        return _looked_up(spark.read.format(table.format).load(f"file:{Path(place).absolute()}"))
    except (PySparkException, Py4JError):  # a source that is not there is an error of Java
        return _live_files(spark, table)


def _looked_up(frame: DataFrame) -> DataFrame:
    """A frame that can be read: through Connect a source is looked for only when something is asked of it."""
    frame.schema  # noqa: B018
    return frame


def _live_files(spark: SparkSession, table: LakeTable) -> DataFrame:
    files, partitions = (_delta if table.format == "delta" else _iceberg)(table)
    schema = _spark_schema(table)
    if not files:
        return spark.createDataFrame([], schema)
    for file in files:
        for name in partitions:
            if f"{name}=" not in unquote(file):
                raise _refused(table, f"the file {file} of it does not say its {name} in its path")
        if partitions and _FOREIGN.search(file.removeprefix(str(Path(table.path).absolute()))):
            raise _refused(table, f"letters beyond ASCII are escaped in the path of {file}")
    # moments in paths are in UTC and mostly do not say so: Spark would take them for those of the session's zone
    moments = {field.name for field in schema if field.name in partitions and isinstance(field.dataType, TimestampType)}
    as_text = StructType([StructField(f.name, StringType()) if f.name in moments else f for f in schema])
    reader = spark.read.schema(as_text)
    if partitions:
        reader = reader.option("basePath", f"file:{Path(table.path).absolute()}")
    else:
        # folders of Iceberg are called as those of Hive and otherwise written: Spark would read "null" for NULL there
        reader = reader.option("recursiveFileLookup", "true")
    try:
        found = _looked_up(reader.parquet(*(f"file:{_literal(file)}" for file in files)))
    except PySparkException as error:
        raise _refused(table, str(error).splitlines()[0]) from error
    for name in moments:
        text = column(name)
        utc = F.when(text.endswith("Z"), text).otherwise(F.concat(text, F.lit("Z")))
        found = found.withColumn(name, utc.cast(TimestampType()))
    return found


def _delta(table: LakeTable) -> tuple[list[str], Sequence[str]]:
    """The live files of a version of a Delta table, and the columns that stand in their paths."""
    own = table.delta()
    protocol, metadata = guarded(table, own.protocol), guarded(table, own.metadata)
    asked = set(protocol.reader_features or ()) - _FEATURES
    mode = (metadata.configuration or {}).get("delta.columnMapping.mode", "none")
    if mode != "none":
        asked.add("columnMapping")
    if asked:
        raise _refused(table, f"it uses {', '.join(sorted(asked))}")
    files = guarded(table, own.file_uris)
    return [_local(table, file) for file in files], list(metadata.partition_columns)


def _iceberg(table: LakeTable) -> tuple[list[str], Sequence[str]]:
    """The live files of the current snapshot of an Iceberg table."""
    own = table.iceberg()
    names: dict[int, set[str]] = {}
    for schema in own.metadata.schemas:
        for field in schema.fields:
            names.setdefault(field.field_id, set()).add(field.name)
    renamed = [" and ".join(sorted(some)) for some in names.values() if len(some) > 1]
    now = {field.field_id: field.name for field in own.schema().fields}
    # a name that another column had before is in files that are older than this one
    again = [name for number, name in now.items() if any(name in some for n, some in names.items() if n != number)]
    if renamed or again:
        raise _refused(table, f"its columns changed their names: {', '.join(renamed or again)}")
    tasks = guarded(table, lambda: list(own.scan().plan_files()))
    for task in tasks:
        if task.delete_files:
            raise _refused(table, "rows of it are deleted by delete files")
        if str(getattr(task.file.file_format, "value", task.file.file_format)).upper() != "PARQUET":
            raise _refused(table, f"{task.file.file_path} is no Parquet file")
        spec = own.specs()[task.file.spec_id]
        stored = {now.get(field.source_id) for field in spec.fields if str(field.transform) == "identity"}
        if stored and (left := stored - set(read_schema(_local(table, task.file.file_path)).names)):
            raise _refused(table, f"{task.file.file_path} has no column {left.pop()!r} in it")
    return [_local(table, task.file.file_path) for task in tasks], ()


def _local(table: LakeTable, file: str) -> str:
    place = urlparse(file)
    if place.scheme not in ("", "file"):
        raise _refused(table, f"its file {file} is not on this machine")
    if place.scheme:  # as metadata of Iceberg may have it: names on disk may hold escapes themselves
        return place.path if Path(place.path).is_file() else unquote(place.path)
    # deltalake escapes the directory of the table, and gives what is below as it is
    folder = str(Path(table.path).absolute())
    found = file if Path(file).is_file() else f"{folder}/{file.removeprefix(quote(folder) + '/')}"
    if not Path(found).is_file():
        raise _refused(table, f"there is no file {found}")
    return found


def _spark_schema(table: LakeTable) -> StructType:
    schema: pa.Schema = table.schema()
    fields = []
    for field in schema:
        try:
            kind: Any = from_arrow_type(field.type, prefer_timestamp_ntz=True)
        except (PySparkException, ValueError) as error:
            raise _refused(table, f"its column {field.name!r} is {field.type}") from error
        fields.append(StructField(field.name, kind))
    return StructType(fields)


def _literal(path: str) -> str:
    """A path in which Spark takes no character for a pattern."""
    return "".join(f"\\{c}" if c in "\\{}[]*?" else c for c in path)


def _refused(table: LakeTable, why: str) -> DataError:
    name = NAMES[table.format]
    return DataError(
        f"{table} is a table of {name}, which this Spark does not read, and its files do not tell its rows: {why}",
        hint=f"add {name} to Spark (--conf spark.jars.packages=...), or leave out --engine spark",
    )
