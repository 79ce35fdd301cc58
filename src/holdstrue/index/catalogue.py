"""The indexes of row pairs by name; those of the papers are loaded when somebody asks for one."""

from __future__ import annotations

from importlib import import_module
from typing import Literal, TypeAlias

from holdstrue.errors import HoldstrueError
from holdstrue.index.protocol import PairIndex

IndexKind: TypeAlias = Literal["blocks", "lt_tree", "chains"]

INDEXES: dict[str, tuple[str, str]] = {
    "blocks": ("holdstrue.index.blocks", "BlockIndex"),
    "lt_tree": ("holdstrue.papers.bitmaps", "LTTreeIndex"),
    "chains": ("holdstrue.papers.chains", "ChainIndex"),
}
"""By name the module and the class of an index."""


def index_type(name: str) -> type[PairIndex]:
    """The class of an index, which says what it wants before there is one.

    Examples
    --------
    >>> index_type("blocks").takes_keys, index_type("chains").takes_keys
    (False, True)
    """
    if name not in INDEXES:
        *most, last = INDEXES
        raise HoldstrueError(f"no index {name!r}", hint=f"choose {', '.join(most)} or {last}")
    module, kind = INDEXES[name]
    found: type[PairIndex] = getattr(import_module(module), kind)
    return found
