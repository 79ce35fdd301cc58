"""Messages to others about what a batch did: what they say, and how they are delivered."""

from __future__ import annotations

from holdstrue.alerts.alert import Alert, AlertOn
from holdstrue.alerts.delivery import UndeliveredError, target_of

__all__ = ["Alert", "AlertOn", "UndeliveredError", "target_of"]
