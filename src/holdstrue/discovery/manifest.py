"""What the manifest of a discovery says of its tables, options and rules that ended, and its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdstrue.discovery.found import Died
from holdstrue.discovery.held import Held
from holdstrue.discovery.options import OPTIONS, DiscoveryOptions
from holdstrue.state.schema_text import schema_of
from holdstrue.state.shape import DIGEST, require

SHAPE = {
    "discovery": {
        "options": {**OPTIONS, "digest": DIGEST},
        "schemas": {str: str},
        "keys": {str: [str]},
        "types?": {str: str},
    },
    "ended?": [{"batch": str, "table": (str, None), "rule": str, "why": str, "by": [str]}],
}
"""The shape of a discovery's manifest."""


def ending(batch: str, died: Died) -> dict[str, Any]:
    """A rule that died, as it is remembered."""
    by = [str(one) for one in (died.rows or died.values)[:2]]
    return {"batch": batch, "table": died.table, "rule": died.text, "why": died.why, "by": by}


def told(facts: Mapping[str, Any]) -> tuple[Held, DiscoveryOptions]:
    """What a state says of its tables, as yet without rows, and of what is looked for."""
    require(facts, SHAPE)
    about = facts["discovery"]
    schemas = {name: schema_of(text) for name, text in about["schemas"].items()}
    options = DiscoveryOptions.of(about["options"])
    keys = {name: tuple(key) for name, key in about["keys"].items()}
    for name, key in keys.items():
        if not {*key} <= {*schemas[name].names}:
            raise ValueError(f"table {name!r} has no columns {', '.join(key)}")
    return Held(schemas, keys, options.seed), options
