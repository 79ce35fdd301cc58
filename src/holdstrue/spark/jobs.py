"""What Spark shows of the work: descriptions of jobs that a person understands, and causes of failures in one line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import holdstrue
from holdstrue import errors
from holdstrue.errors import HoldstrueError

_DESCRIPTION = "spark.job.description"

_MISSING = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '([\w.]+)'")
_NO_MEMORY = re.compile(
    r"^(?:pyarrow\.lib\.ArrowMemoryError|numpy\S*MemoryError|MemoryError|OSError: \[Errno 12\])", re.MULTILINE
)
_OTHER = re.compile(r"Can't get attribute '\w+' on <module '(holdstrue[\w.]*)'")
_OURS = re.compile(
    r"^holdstrue\.errors\.(\w+): (.*?)(?=\n\n(?:The above|During handling) |\s+SQLSTATE: |\n=== |\n\n\tat |\Z)",
    re.DOTALL | re.MULTILINE,
)


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Jobs that start in the block are shown under this text; through Connect they have it as a tag."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        tag = text.replace(",", ";")
        known = tag in spark.getTags()
        spark.addTag(tag)
        try:
            yield
        finally:
            if not known:
                spark.removeTag(tag)
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None takes it away


@contextmanager
def causes() -> Iterator[None]:
    """A failure in the tasks of a job as one sentence, where it is one that people can mend; others stay."""
    try:
        yield
    except PySparkException as error:
        found = cause_of(str(error))
        if found is None:
            raise
        raise found from error


def cause_of(said: str) -> HoldstrueError | None:
    """What is wrong with the workers, or what they found wrong, from all that Spark says of it.

    >>> print(cause_of("... File x\\nModuleNotFoundError: No module named 'numba'\\n"))
    the Python of Spark's workers has no 'numba'
    hint: install holdstrue[spark] there, in the Python that PYSPARK_PYTHON names for them
    >>> print(cause_of("... File x\\nMemoryError\\n").message)
    a Python worker of Spark ran out of the memory that it may hold
    >>> cause_of("java.lang.OutOfMemoryError") is None
    True
    """
    missing = _MISSING.search(said)
    if _OTHER.search(said) or (missing is not None and missing[1].startswith("holdstrue.")):
        return HoldstrueError(
            f"the Python of Spark's workers has another version of holdstrue than {holdstrue.__version__}, "
            "which this process has",
            hint="install the same version there, in the Python that PYSPARK_PYTHON names for them",
        )
    if missing is not None:
        return HoldstrueError(
            f"the Python of Spark's workers has no {missing[1]!r}",
            hint="install holdstrue[spark] there, in the Python that PYSPARK_PYTHON names for them",
        )
    if _NO_MEMORY.search(said):
        return HoldstrueError(
            "a Python worker of Spark ran out of the memory that it may hold",
            hint="raise spark.executor.pyspark.memory, or cut the state into more shards: rebalance(shards=...); "
            "sites into more parts: parts=",
        )
    ours = _OURS.findall(said)
    if not ours:
        return None
    kind, text = ours[-1]
    message, _, hint = text.strip().partition("\nhint: ")
    made: HoldstrueError = getattr(errors, kind, HoldstrueError)(message, hint=hint or None)
    return made


def require_version(driver: str) -> None:
    """Refuse to work for a driver of another version: stages and states would not be what they seem."""
    if driver != holdstrue.__version__:
        raise HoldstrueError(
            f"this worker has holdstrue {holdstrue.__version__}, and the driver {driver}",
            hint=f"install the same version for {sys.executable}",
        )
