"""Entries of a state's log: what a version says of itself, and the rows of its batch where they are few.

An entry is whole (everything there is to know of the version) or a step (what a batch changed since the version
before it). Its first bytes are a mark, a digest of the header, and the header's length; then come the header, as
JSON, and Arrow IPC streams one after the other.

>>> data = encode({"version": 3}, b"rows")
>>> decode(data).header, bytes(decode(data).payload)
({'version': 3}, b'rows')
>>> decode(data[:-5] + b"x" + data[-4:])
Traceback (most recent call last):
holdstrue.state.entry.BrokenError: its digest does not match
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MARK = b"holdstr4"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_PREFIX = struct.Struct("<8s16sQ")
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


class BrokenError(Exception):
    """What was read cannot be what was written; says why."""


@dataclass(frozen=True)
class Entry:
    """An entry as it was read."""

    header: dict[str, Any]
    payload: memoryview


def encode(header: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """An entry as bytes."""
    text = _ENCODE(header).encode()
    text += b" " * (-(_PREFIX.size + len(text)) % 8)
    return b"".join((_PREFIX.pack(MARK, _digest(text), len(text)), text, payload))


def decode(data: bytes) -> Entry:
    """Back from `encode`; raises `BrokenError`."""
    if len(data) < _PREFIX.size:
        raise BrokenError("it is cut off")
    mark, digest, size = _PREFIX.unpack_from(data)
    if mark != MARK:
        raise BrokenError("it does not start like an entry of a log")
    view = memoryview(data)[_PREFIX.size :]
    if size > len(view):
        raise BrokenError("it is cut off")
    if _digest(view[:size]) != digest:
        raise BrokenError("its digest does not match")
    header = plain_data(bytes(view[:size]))
    if not isinstance(header, dict):
        raise BrokenError("its header is no object")
    return Entry(header, view[size:])


def plain_data(text: bytes) -> Any:
    r"""JSON as data; a ValueError where it is none, or holds text that cannot be written anywhere again.

    >>> plain_data(b'{"batch": "\\ud83d\\ude00"}')
    {'batch': '😀'}
    >>> plain_data(b'{"batch": "\\ud83d"}')
    Traceback (most recent call last):
    ValueError: it holds half a letter
    """
    try:
        data = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if _SURROGATE.search(text):
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("it holds half a letter") from error
    return data


def _digest(text: bytes | memoryview) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
