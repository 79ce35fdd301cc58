"""Jobs with an end: how much the driver takes of one, and how one is stopped when the time is up."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.spark.runner import SparkRunner

WHOLE = 32 << 20
"""Bytes of a table up to which it is searched on the driver: jobs over so little cost more than they save."""

ANSWER = 8 << 20
"""Bytes of samples and of rows that break rules that a job brings to the driver, at most. Chosen, not tuned."""

AGAIN = 0.5
"""Seconds after which jobs are cancelled once more. Chosen."""

_SIZES = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def most_bytes(runner: SparkRunner, wanted: int) -> int:
    """So many bytes, or a quarter of what Spark lets through to the driver where that is less."""
    allowed = bytes_of(_said(runner, "spark.driver.maxResultSize"))
    return min(wanted, allowed // 4) if allowed else wanted


def bytes_of(setting: str) -> int:
    """How many bytes a setting of Spark says; 0 where it says nothing, or that there is no limit.

    >>> bytes_of("4m"), bytes_of("1GB"), bytes_of("4096"), bytes_of("")
    (4194304, 1073741824, 4096, 0)
    """
    said = re.fullmatch(r"(\d+)([bkmgt]?)b?", setting.strip().lower())
    return int(said[1]) << _SIZES[said[2]] if said else 0


def _said(runner: SparkRunner, name: str) -> str:
    try:
        return runner.spark.conf.get(name, None) or ""
    except PySparkException:
        # some servers do not tell clients about their deployment
        return ""


def collected(runner: SparkRunner, frame: DataFrame, what: str, work: Work) -> pa.Table:
    """The rows of a data frame, which are few.

    Raises
    ------
    OutOfTimeError
        When the time is up; what Spark still does of the job is stopped.
    """
    with in_time(runner, work), runner.about(what):
        return frame.toArrow()


@contextmanager
def in_time(runner: SparkRunner, work: Work) -> Iterator[None]:
    """Jobs of the block are stopped when the time is up, with an `OutOfTimeError`."""
    work.require_time()
    if work.deadline is None:
        yield
        return
    tag = f"holdstrue-{uuid.uuid4().hex}"
    begin, end, cancel = _tagging(runner)
    begin(tag)
    ended = Event()

    def watch() -> None:
        wait = max(0.0, work.left)
        # a job that Spark is still planning when the time is up is not there to be cancelled
        while not ended.wait(wait):
            cancel(tag)
            wait = AGAIN

    Thread(target=watch, daemon=True).start()
    try:
        yield
    except Exception as error:
        if work.over and "cancel" in str(error).lower():
            raise OutOfTimeError from error
        raise
    finally:
        ended.set()
        end(tag)


def _tagging(runner: SparkRunner) -> tuple[Callable[[str], object], Callable[[str], object], Callable[[str], object]]:
    """How jobs are tagged, untagged and stopped by their tag."""
    spark = runner.spark
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return spark.addTag, spark.removeTag, spark.interruptTag
    # Arrow tables are collected by another thread of Java, which takes over tags of the context, not of the session
    context = spark.sparkContext
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
