"""Messages to others about what a batch did: what they say, and how they are delivered."""

from __future__ import annotations

from holdstrue.alerts.alert import Alert, AlertOn
from holdstrue.alerts.delivery import Receivers, UndeliveredError, target_of

__all__ = ["Alert", "AlertOn", "Receivers", "UndeliveredError", "target_of"]
