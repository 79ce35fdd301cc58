"""What passes between processes: a head of JSON and a body of bytes, errors as errors.

>>> unframed(framed({"verb": "last", "args": []}, b"rows"))
({'verb': 'last', 'args': []}, b'rows')
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdstrue import errors
from holdstrue.errors import HoldstrueError
from holdstrue.fragments.channel import ChannelError, SiteMessage

_SIZE = 4
MOST_HEAD = 1 << 26
"""Bytes of a head: what says more is not one of ours."""


class SiteBusyError(HoldstrueError):
    """A site works on a batch that another site brings to all."""


class UnreachableError(HoldstrueError):
    """A site that did not answer in time."""


class SlowError(UnreachableError):
    """A site that may be at work still: a call took longer than it is given."""


_ERRORS: Mapping[str, type[HoldstrueError]] = {
    kind.__name__: kind for kind in (ChannelError, SiteBusyError, UnreachableError, SlowError)
}


def framed(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A head and a body as bytes."""
    # words are many and short: a batch of 1,000 changes at ten sites is some 600 of them
    told = json.dumps(head, separators=(",", ":")).encode()
    return len(told).to_bytes(_SIZE, "little") + told + body


def unframed(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Back from `framed`; what is no frame is refused."""
    size = int.from_bytes(data[:_SIZE], "little")
    try:
        head = json.loads(data[_SIZE : _SIZE + size]) if len(data) >= _SIZE + size and size <= MOST_HEAD else None
    except ValueError:
        head = None
    if not isinstance(head, dict):
        raise HoldstrueError("what came is not a word of a site", hint="is another program there, or another version?")
    return head, data[_SIZE + size :]


def error_head(error: HoldstrueError) -> dict[str, Any]:
    """An error as a head."""
    return {"error": type(error).__name__, "message": error.message, "hint": error.hint}


def raised(head: Mapping[str, Any]) -> None:
    """Raise the error that a head tells of, if it does."""
    if "error" in head:
        name = str(head["error"])
        kind: Any = _ERRORS.get(name, getattr(errors, name, None))
        known = isinstance(kind, type) and issubclass(kind, HoldstrueError)
        raise (kind if known else HoldstrueError)(str(head["message"]), hint=head.get("hint"))


def message_frame(sent: SiteMessage, session: str) -> bytes:
    """A message of one site to another, as a call of `receive`."""
    told = {name: value for name, value in vars(sent).items() if name not in ("body", "checksum")}
    return framed({"verb": "receive", "session": session, "message": told, "checksum": sent.checksum.hex()}, sent.body)


def message_of(head: Mapping[str, Any], body: bytes) -> SiteMessage:
    """Back from `message_frame`."""
    try:
        told = dict(head["message"])
        return SiteMessage(**told, body=body, checksum=bytes.fromhex(head["checksum"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ChannelError(f"a message has not the fields of one: {error}", hint="apply the batch again") from error
