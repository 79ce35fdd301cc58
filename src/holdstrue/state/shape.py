"""The shape of plain JSON data that comes from a state, told as an example and looked at before anybody uses it.

A shape is a type (`str`, `int`: 0 or more and below 2^50, `float`, `bool`), a set of words, a list with the shape of
all its items, a dict with the shapes of its fields (one of `str` alone: of all its fields, whatever they are called;
a name that ends in a question mark may be missing), or a tuple of shapes of which one fits (None is one).

>>> shape = {"rules": str, "keys": {str: [str]}, "batches": int, "last?": (str, None), "index": {"blocks", "chains"}}
>>> told = {"rules": "zip -> city", "keys": {"data": ["id"]}, "batches": 3, "index": "blocks"}
>>> unlike(told, shape)
>>> unlike({**told, "keys": {"data": ["id", 7]}}, shape)
'keys.data[1] is 7, not text'
>>> unlike({**told, "batches": -1}, shape)
'batches is -1, not a number of 0 or more'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from holdstrue.errors import brief

Shape: TypeAlias = Any

MOST = 1 << 50
"""No number of rows, bytes or batches reaches this."""

_WORDS = {str: "text", int: "a number of 0 or more", float: "a number", bool: "true or false"}


def require(value: Any, shape: Shape) -> None:
    """Raise a ValueError that says where data first differs from a shape, if it does."""
    why = unlike(value, shape)
    if why is not None:
        raise ValueError(why)


def unlike(value: Any, shape: Shape, where: str = "") -> str | None:
    """Where data first differs from a shape, and how; None where it does not. Complexity: O(data)."""
    return next(_differences(value, shape, where), None)


def _differences(value: Any, shape: Shape, where: str) -> Iterator[str]:
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            yield f"{where or 'it'} is {brief(value)}, not an object"
        elif str in shape:
            for name, item in value.items():
                yield from _differences(item, shape[str], f"{where}.{name}" if where else str(name))
        else:
            yield from _fields(value, shape, where)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{where} is {brief(value)}, not a list"
        else:
            for at, item in enumerate(value):
                yield from _differences(item, shape[0], f"{where}[{at}]")
    elif isinstance(shape, tuple):
        if all(unlike(value, one, where) for one in shape):
            yield from _differences(value, next(one for one in shape if one is not None), where)
    elif not _fits(value, shape):
        wanted = _WORDS[shape] if isinstance(shape, type) else f"one of {', '.join(sorted(shape or ()))}"
        yield f"{where or 'it'} is {brief(value)}, not {wanted}"


def _fields(value: Mapping[str, Any], shape: Mapping[str, Shape], where: str) -> Iterator[str]:
    for name, own in shape.items():
        plain = name.removesuffix("?")
        place = f"{where}.{plain}" if where else plain
        if plain in value:
            yield from _differences(value[plain], own, place)
        elif plain == name:
            yield f"{place} is missing"


def _fits(value: Any, shape: Shape) -> bool:
    if shape is None:
        return value is None
    if isinstance(shape, set | frozenset):
        return isinstance(value, str) and value in shape
    if isinstance(value, bool):
        return shape is bool
    if shape is int:
        return isinstance(value, int) and 0 <= value < MOST
    if shape is float:
        return isinstance(value, int | float)
    return isinstance(value, shape)


FILE = {"name": str, "bytes": int, "checksum": str, "start?": int}
RUNS = {"base": {str: FILE}, "log": [FILE], "log_rows?": int}
DIGEST = {"name": str, "seed": str}
"""What several kinds of states say alike: a file, the files of a state or of a shard of it, the seed of its digests."""
