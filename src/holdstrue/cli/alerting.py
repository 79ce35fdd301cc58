"""Options that tell others what a command found: alerts about batches, events of OpenLineage."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdstrue.cli.failures import tell
from holdstrue.errors import HoldstrueError

if TYPE_CHECKING:
    from holdstrue.alerts import Alert
    from holdstrue.alerts.delivery import Receiver
    from holdstrue.detect.delta import Delta
    from holdstrue.rules.model import Rule

_others = partial(typer.Option, rich_help_panel="Telling others")

OpenLineage = Annotated[
    str | None,
    _others(
        "--openlineage",
        metavar="URL|FILE",
        help="Send the result as an event of OpenLineage (its API is HOST/api/v1/lineage), or add it to a file; "
        "OPENLINEAGE_API_KEY and OPENLINEAGE_NAMESPACE are heeded.",
    ),
]


@dataclass(frozen=True)
class AlertOptions:
    """Who is told about new violations, and of which."""

    alert: Annotated[
        list[str] | None,
        _others(
            "--alert",
            metavar="URL|COMMAND",
            help="Post a summary of new violations as JSON to a web address (Slack shows it), or start a command that "
            "reads it; may be repeated. What does not arrive is said and changes nothing, the exit code neither. "
            "[env var: HOLDSTRUE_ALERT, one a line]",
        ),
    ] = None
    alert_on: Annotated[
        Literal["error", "any", "batch"] | None,
        _others(
            "--alert-on",
            help="New violations of rules of severity error (unless given), of any rule, or every batch.",
        ),
    ] = None

    def target(self) -> Receiver | None:
        """Who is told; a wrong name is refused before anything is done."""
        from holdstrue.alerts import Receivers, target_of

        # not left to typer, which would take the words of a command there for several
        named = self.alert or [line for line in os.environ.get("HOLDSTRUE_ALERT", "").splitlines() if line.strip()]
        if not named:
            if self.alert_on is not None:
                raise HoldstrueError("--alert-on says when, and nobody is told", hint="add --alert URL|COMMAND")
            return None
        found = tuple(target_of(one) for one in dict.fromkeys(named))
        return found[0] if len(found) == 1 else Receivers(found)

    def made(self, target: Receiver | None, state: str, rules: Iterable[Rule]) -> Alert:
        """The alert about batches of a state."""
        from holdstrue.alerts import Alert

        return Alert(target, state, tuple(rules), self.alert_on or "error")


def send_alert(alert: Alert, delta: Delta) -> None:
    """Tell about a batch that is applied; a message that does not arrive is only said."""
    from holdstrue.alerts import UndeliveredError

    try:
        alert.about(delta)
    except UndeliveredError as error:
        tell(f"warning: batch {delta.batch} is applied, but the alert did not arrive: {error.message}")


def lineage_target(text: str | None) -> Receiver | None:
    """Where events go; a wrong name is refused before anything is done."""
    if text is None:
        return None
    from holdstrue.alerts.delivery import file_or_web

    key = os.environ.get("OPENLINEAGE_API_KEY")
    return file_or_web(text, "--openlineage", {"Authorization": f"Bearer {key}"} if key else {})


def send_event(target: Receiver | None, event: dict[str, Any]) -> None:
    """Send an event; one that does not arrive is only said."""
    if target is None:
        return
    from holdstrue.alerts import UndeliveredError

    try:
        target.deliver(event)
    except UndeliveredError as error:
        tell(f"warning: the OpenLineage event did not arrive: {error.message}")
