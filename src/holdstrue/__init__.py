"""Declare what must hold in your data; see every row that breaks it, now and after every change."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdstrue.detect.delta import Delta, Violation
    from holdstrue.discovery.api import discover
    from holdstrue.discovery.discovery import Discovery
    from holdstrue.errors import HoldstrueError
    from holdstrue.monitor.accepting import accepting
    from holdstrue.monitor.check import check
    from holdstrue.monitor.following import follow
    from holdstrue.monitor.monitor import Monitor
    from holdstrue.monitor.report import Report
    from holdstrue.report.sql import to_sql
    from holdstrue.rules import CFD, DC, FD, Demand, Inclusion, Key, NotNull, Rule, RuleSet, load_rules, parse_rule

__version__ = "0.1.0"

_HOMES = {
    "accepting": "holdstrue.monitor.accepting",
    "check": "holdstrue.monitor.check",
    "follow": "holdstrue.monitor.following",
    "Monitor": "holdstrue.monitor.monitor",
    "Report": "holdstrue.monitor.report",
    "Delta": "holdstrue.detect.delta",
    "Violation": "holdstrue.detect.delta",
    "Discovery": "holdstrue.discovery.discovery",
    "discover": "holdstrue.discovery.api",
    "HoldstrueError": "holdstrue.errors",
    "to_sql": "holdstrue.report.sql",
    **dict.fromkeys(
        ("CFD", "DC", "FD", "Demand", "Inclusion", "Key", "Measured", "NotNull", "Rule", "RuleSet"), "holdstrue.rules"
    ),
    **dict.fromkeys(("load_rules", "parse_rule"), "holdstrue.rules"),
}

__all__ = [
    "CFD",
    "DC",
    "FD",
    "Delta",
    "Demand",
    "Discovery",
    "HoldstrueError",
    "Inclusion",
    "Key",
    "Measured",
    "Monitor",
    "NotNull",
    "Report",
    "Rule",
    "RuleSet",
    "Violation",
    "accepting",
    "check",
    "discover",
    "follow",
    "load_rules",
    "parse_rule",
    "to_sql",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: numba, numpy and pyarrow are not needed to read rules."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdstrue' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
