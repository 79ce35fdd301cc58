"""holdstrue on Spark: check data frames, discover their rules, keep violations current while changes stream in."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdstrue.spark.checking import SparkReport as Report
    from holdstrue.spark.checking import check
    from holdstrue.spark.fragments import relation
    from holdstrue.spark.frame_discovery import discover
    from holdstrue.spark.inclusions import Inclusions
    from holdstrue.spark.monitor import SparkMonitor as Monitor
    from holdstrue.spark.session import start
    from holdstrue.spark.state_source import register
    from holdstrue.spark.suspecting.searching import suspects

_HOMES = {
    "check": "holdstrue.spark.checking",
    "Report": "holdstrue.spark.checking",
    "Monitor": "holdstrue.spark.monitor",
    "Inclusions": "holdstrue.spark.inclusions",
    "discover": "holdstrue.spark.frame_discovery",
    "relation": "holdstrue.spark.fragments",
    "start": "holdstrue.spark.session",
    "suspects": "holdstrue.spark.suspecting.searching",
    "register": "holdstrue.spark.state_source",
}

_NAMES = {"Monitor": "SparkMonitor", "Report": "SparkReport"}
"""Where a public name is that of a class that has another one beside those of one process."""

__all__ = ["Inclusions", "Monitor", "Report", "check", "discover", "register", "relation", "start", "suspects"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the stages that run in workers need no pyspark."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdstrue.spark' has no attribute {name!r}")
    from holdstrue.spark.session import require_pyspark

    require_pyspark()
    value = getattr(import_module(_HOMES[name]), _NAMES.get(name, name))
    globals()[name] = value
    return value
