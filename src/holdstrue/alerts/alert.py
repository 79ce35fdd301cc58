"""When somebody is told about a batch, and what: a line for people beside plain data for programs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

from holdstrue.alerts.delivery import Receiver, without_secrets
from holdstrue.detect.delta import Delta
from holdstrue.rules.model import Rule

AlertOn: TypeAlias = Literal["error", "any", "batch"]
"""New violations of rules of severity error; of any rule; every batch."""

EXAMPLES = 5
"""Violations that a message shows of each rule. Chosen, not tuned: a message is read on a telephone."""
_MOST_NAMED = 10
"""Rules that the line for people names. Chosen, not tuned."""


@dataclass(frozen=True)
class Alert:
    """Tells a target about batches that broke something.

    Examples
    --------
    >>> from holdstrue.detect.delta import Step
    >>> from holdstrue.rules import parse_rule
    >>> alert = Alert(None, "orders", [parse_rule("zip -> city", name="zips")])
    >>> delta = Delta("monday", (), (), {"zips": Step(2, 1, 5)})
    >>> alert.wanted(delta), alert.message(delta)["text"]
    (True, 'orders, batch monday: 2 new violations (1 resolved, 5 open)\\n• zips (error): 2 new, 5 open')
    """

    target: Receiver | None
    state: str
    rules: Iterable[Rule]
    on: AlertOn = "error"

    def about(self, delta: Delta) -> None:
        """Send a message if the batch gives reason to; raises `UndeliveredError` where it does not arrive."""
        if self.target is not None and self.wanted(delta):
            self.target.deliver(self.message(delta))

    def wanted(self, delta: Delta) -> bool:
        """Whether the batch is one that people want to know of; one that was applied before is not."""
        if delta.duplicate:
            return False
        if self.on == "batch":
            return True
        severe = {rule.name for rule in self.rules if self.on == "any" or rule.severity == "error"}
        return any(step.added and name in severe for name, step in delta.counts.items())

    def message(self, delta: Delta) -> dict[str, Any]:
        """`text` is for people (Slack and its like show it), the rest for programs."""
        severities = {rule.name: rule.severity for rule in self.rules}
        changed = [
            {"name": name, "severity": severities.get(name, "error"),
             "added": step.added, "removed": step.removed, "open": step.open,
             **({"measured": delta.measured[name]} if name in delta.measured else {})}
            for name, step in delta.counts.items() if step.added or step.removed
        ]  # fmt: skip
        added, removed, opened = (
            sum(getattr(step, part) for step in delta.counts.values()) for part in ("added", "removed", "open")
        )
        met = {rule["severity"] for rule in changed if rule["added"]}
        return {
            "text": self._text(delta, changed, added, removed, opened),
            "tool": "holdstrue",
            "time": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            "state": without_secrets(self.state),
            "batch": delta.batch,
            "severity": "error" if "error" in met else "warn" if met else None,
            "added": added,
            "removed": removed,
            "open": opened,
            "rules": changed,
            "stopped_holding": list(delta.stopped_holding),
            "examples": [
                violation.to_dict()
                for rule in changed
                for violation in islice((v for v in delta.added if v.rule == rule["name"]), EXAMPLES)
            ],
        }

    def _text(self, delta: Delta, changed: list[dict[str, Any]], added: int, removed: int, opened: int) -> str:
        noun = "violation" if added == 1 else "violations"
        lines = [
            f"{without_secrets(self.state)}, batch {delta.batch}: "
            f"{added:,} new {noun} ({removed:,} resolved, {opened:,} open)"
        ]
        broken = [rule for rule in changed if rule["added"]]
        for rule in broken[:_MOST_NAMED]:
            said = rule.get("measured", f"{rule['added']:,} new, {rule['open']:,} open")
            lines.append(f"• {rule['name']} ({rule['severity']}): {said}")
        if len(broken) > _MOST_NAMED:
            lines.append(f"• {len(broken) - _MOST_NAMED:,} more rules")
        return "\n".join(_plain(line) for line in lines)


def _plain(line: str) -> str:
    """A line without characters that steer, and with those escaped that Slack takes for markup."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
