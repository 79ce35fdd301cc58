"""Relations split over sites: CFD violations kept current while as little as possible moves (paper 000).

`Relation` is the way in; `Site` and `Fragment` declare who holds what.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdstrue.fragments.channel import Channel, Traffic
    from holdstrue.fragments.delta import Delta
    from holdstrue.fragments.model import Fragment, Site
    from holdstrue.fragments.relation import Relation

_HOMES = {
    "Channel": "holdstrue.fragments.channel",
    "Traffic": "holdstrue.fragments.channel",
    "Fragment": "holdstrue.fragments.model",
    "Site": "holdstrue.fragments.model",
    "Delta": "holdstrue.fragments.delta",
    "Relation": "holdstrue.fragments.relation",
}

__all__ = ["Channel", "Delta", "Fragment", "Relation", "Site", "Traffic"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdstrue.fragments' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
