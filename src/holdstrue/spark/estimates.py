"""What Spark thinks of a data frame before anything is run: its plan, and how large it is."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

_ESTIMATE = re.compile(r"Statistics\(sizeInBytes=([\d.,E+]+) (B|[KMGTPE]iB)")
_UNITS = {"B": 1, **{f"{letter}iB": 1 << 10 * power for power, letter in enumerate("KMGTPE", 1)}}


def estimated_bytes(frame: DataFrame) -> float | None:
    """What Spark thinks that a data frame holds, before anything is run; None where it does not say."""
    inner = getattr(frame, "_jdf", None)
    try:
        if inner is not None:
            return float(str(inner.queryExecution().optimizedPlan().stats().sizeInBytes()))
        told: Any = getattr(frame, "_explain_string", None)
        return None if told is None else bytes_in(told(mode="cost"))
    except PySparkException:  # some servers do not tell; what is wrong with the frame itself is said when it is read
        return None


def bytes_in(plan: str) -> float | None:
    """The estimate at the root of a plan as Spark prints it with its costs.

    >>> bytes_in("== Optimized Logical Plan ==\\nProject [a], Statistics(sizeInBytes=1.5 KiB, rowCount=3)\\n+- ...")
    1536.0
    >>> bytes_in("== Physical Plan ==") is None
    True
    """
    found = _ESTIMATE.search(plan)
    return None if found is None else float(found[1].replace(",", "")) * _UNITS[found[2]]


def plan_text(frame: DataFrame) -> str:
    """The plan of a data frame, as `explain` prints it."""
    inner = getattr(frame, "_jdf", None)
    if inner is not None:
        return str(inner.queryExecution().executedPlan().toString())
    told: Any = frame
    return str(told._explain_string(mode="simple"))
