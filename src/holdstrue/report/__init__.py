"""Answers for people and for other tools: text, JSON, JSON lines, CSV, JUnit and HTML."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdstrue.report.answers import Groups, OpenViolations, Status, Worst
    from holdstrue.report.forms import FORMATS, render
    from holdstrue.report.notebook import html_of

_HOMES = {
    **dict.fromkeys(("Groups", "OpenViolations", "Status", "Worst"), "holdstrue.report.answers"),
    **dict.fromkeys(("FORMATS", "render"), "holdstrue.report.forms"),
    **dict.fromkeys(("html_of",), "holdstrue.report.notebook"),
}

__all__ = ["FORMATS", "Groups", "OpenViolations", "Status", "Worst", "html_of", "render"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the notebook's page does not need the text layout."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdstrue.report' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
