"""Relations split over sites: CFD violations kept current while as little as possible moves (paper 000).

`Relation` is the way in; `Site` and `Fragment` declare who holds what.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdstrue.fragments.channel import Channel, Traffic
    from holdstrue.fragments.fragment_layout import Fragment, Site
    from holdstrue.fragments.relation import Relation
    from holdstrue.fragments.relation_delta import RelationDelta as Delta

_HOMES = {
    "Channel": ("channel", "Channel"),
    "Delta": ("relation_delta", "RelationDelta"),
    "Fragment": ("fragment_layout", "Fragment"),
    "Relation": ("relation", "Relation"),
    "Site": ("fragment_layout", "Site"),
    "Traffic": ("channel", "Traffic"),
}

__all__ = ["Channel", "Delta", "Fragment", "Relation", "Site", "Traffic"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdstrue.fragments' has no attribute {name!r}")
    module, inner = _HOMES[name]
    return getattr(import_module(f"holdstrue.fragments.{module}"), inner)
