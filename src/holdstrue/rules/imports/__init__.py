"""Rules of other tools read as rules of ours, with a list of what did not map."""

from __future__ import annotations

from holdstrue.rules.imports.collected import Collected, Unmapped
from holdstrue.rules.imports.read import TOOLS, import_rules

__all__ = ["TOOLS", "Collected", "Unmapped", "import_rules"]
