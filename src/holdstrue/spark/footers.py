"""How many rows a Parquet table has, from the footers of its files: no job, and no column is read.

Where the rows of a table are known, a scan need not count them, so that only rows that matter leave it and Spark
pushes conditions into it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

MOST_FILES = 16
"""Files whose footers the driver reads, 10 to 15 ms each from a local disk; a job that counts them takes 150 ms."""
LEAST_BYTES = 64 << 20
"""Of Parquet, below which counting in the scan is as cheap. A CFD on 10M rows (179 MB) took 1.22 s with rows counted
in the scan and 0.82 s with them counted in a job apart; with footers read here 0.64 s, in another run."""

_CLASSES = (
    "org.apache.hadoop.fs.Path",
    "java.net.URI",
    "org.apache.parquet.hadoop.util.HadoopInputFile",
    "org.apache.parquet.hadoop.ParquetFileReader",
)


def footer_rows(frame: DataFrame) -> int | None:
    """The rows of a data frame that is a Parquet table of few files; None where it is another, or they cannot be read.

    Of a Spark Connect session it is not known: its plans are on the server.
    """
    inner: Any = getattr(frame, "_jdf", None)
    if inner is None:
        return None
    node = inner.queryExecution().optimizedPlan()
    while node.nodeName() == "Project":
        node = node.children().apply(0)
    if node.nodeName() != "LogicalRelation" or not str(node.toString()).rstrip().endswith(" parquet"):
        return None
    if float(str(node.stats().sizeInBytes())) < LEAST_BYTES:
        return None
    # comes with sessions that have a Java of their own
    from py4j.java_gateway import JavaClass

    try:
        relation = node.relation()
        files = list(relation.location().inputFiles())
        if len(files) > MOST_FILES:
            return None
        hadoop = inner.sparkSession().sessionState().newHadoopConfWithOptions(relation.options())
        # by their names at once: each part of a dotted name would be a call to Java
        gateway: Any = getattr(frame.sparkSession, "_jvm")._gateway_client  # noqa: B009
        path, uri, opened, reader = (JavaClass(name, gateway) for name in _CLASSES)
        rows = 0
        for file in files:
            footer = reader.open(opened.fromPath(path(uri(file)), hadoop))
            try:
                rows += int(footer.getRecordCount())
            finally:
                footer.close()
    except Exception:  # noqa: BLE001  py4j's own, of a file that went, is encrypted or damaged: the scan says more
        return None
    return rows
