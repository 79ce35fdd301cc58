"""The only way between sites: messages of ids, numbered and checked, counted by (source, target).

A message carries its batch, its number between its two sites, and a checksum. A repeated one is dropped by
who receives it; a damaged, reordered or foreign one is refused; a lost one is missed before the batch is
committed, when every site compares what it got with what the others say they sent.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.wire_columns import (
    ColumnReader,
    write_codes,
    write_masks,
    write_pairs,
    write_rows,
    write_words,
)

MessageColumns = dict[str, Any]
"""Columns by name: arrays, or a list of masks."""

HEADER_BYTES = 48
"""What a message's header takes on the wire: batch digest 16, checksum 16, number 4, sizes 8, kind, sites 4."""

_TOLD = ("hi", "codes", "words")
_SIGNS = ("hi", "masks")
FIELDS: Mapping[str, tuple[str, ...]] = {
    "ids": ("row", "hi", "masks"),
    "rows": ("row", "masks"),
    "announce": _TOLD,
    "ask": _SIGNS,
    "dirty": _SIGNS,
    "state": _TOLD,
    "broken": _SIGNS,
    "clean": _SIGNS,
    "pairs": ("hi", "words"),
    "violating": ("hi",),
}
"""By kind of message its columns. `hi` stands for ids of two words, `words` for single ones; `masks` holds for each CFD
which rows are for it, `codes` what is said of each."""

ROUND = "round"
"""The kind of a message that holds all that a site tells another in one round, of several kinds and things."""
_PARTS = tuple(FIELDS)
_PART = struct.Struct("<BHII")
"""Before each part of such a message: its kind, what it is about, how many entries it has, and how many bytes."""


class ChannelError(HoldstrueError):
    """A message that was lost, damaged or out of order; its batch was not applied and can be applied again."""


@dataclass(frozen=True)
class SiteMessage:
    """What one site tells another: columns of numbers, never rows.

    `about` is the number of a planned shipment, 0 for kinds that have none.
    """

    source: str
    target: str
    batch: str
    number: int
    kind: str
    about: int
    entries: int
    body: bytes
    checksum: bytes

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return HEADER_BYTES + len(self.body)

    def intact(self) -> bool:
        """Whether it is what was sent."""
        return self.checksum == _checksum(self)

    def parts(self) -> Iterator[SiteMessage]:
        """What a message of a whole round holds, as messages of their own; else the message itself."""
        if self.kind != ROUND:
            yield self
            return
        at = 0
        while at < len(self.body):
            kind, about, entries, size = _PART.unpack_from(self.body, at)
            at += _PART.size
            own = {"kind": _PARTS[kind], "about": about, "entries": entries, "body": self.body[at : at + size]}
            yield SiteMessage(**{**vars(self), **own})
            at += size

    def arrays(self) -> MessageColumns:
        """The columns, as they were sent. Complexity: O(bytes)."""
        found: MessageColumns = {}
        reader = ColumnReader(self.body, self.entries)
        for name in FIELDS[self.kind]:
            match name:
                case "row":
                    found[name] = reader.rows()
                case "hi":
                    found["hi"], found["lo"] = reader.pairs()
                case "words":
                    found[name] = reader.words()
                case "codes":
                    found[name] = reader.codes()
                case _:
                    found[name] = reader.masks()
        return found


def message_schema(body: pa.DataType) -> pa.Schema:
    """Messages as rows of a table; `body` is the type of their bytes."""
    texts, numbers = ("source", "target", "batch", "kind"), ("number", "about", "entries")
    types = dict.fromkeys(texts, pa.string()) | dict.fromkeys(numbers, pa.int64())
    types |= {"body": body, "checksum": pa.binary()}
    return pa.schema([(field.name, types[field.name]) for field in fields(SiteMessage)])


def message(
    source: str, target: str, batch: str, number: int, kind: str, arrays: Mapping[str, Any], about: int
) -> SiteMessage:
    """Pack columns; `masks` and `codes` are by CFD and row."""
    return _sealed(_bare(source, target, batch, number, kind, arrays, about))


def _bare(
    source: str, target: str, batch: str, number: int, kind: str, arrays: Mapping[str, Any], about: int
) -> SiteMessage:
    fields_ = FIELDS[kind]
    entries = len(arrays[fields_[0]])
    # ids of groups are different ones, those of rows often the same
    body = b"".join(_packed(arrays, name, repeats=kind in ("ids", "pairs")) for name in fields_)
    return SiteMessage(source, target, batch, number, kind, about, entries, body, b"")


def _sealed(bare: SiteMessage) -> SiteMessage:
    return SiteMessage(**{**vars(bare), "checksum": _checksum(bare)})


def _joined(parts: Sequence[SiteMessage], number: int, about: int) -> SiteMessage:
    """Messages from one site to another as one."""
    body = b"".join(
        _PART.pack(_PARTS.index(one.kind), one.about, one.entries, len(one.body)) + one.body for one in parts
    )
    own = {"number": number, "kind": ROUND, "about": about, "entries": sum(one.entries for one in parts), "body": body}
    return _sealed(SiteMessage(**{**vars(parts[0]), **own}))


def _packed(arrays: Mapping[str, Any], name: str, *, repeats: bool) -> bytes:
    match name:
        case "row":
            return write_rows(arrays[name])
        case "hi":
            return write_pairs(arrays["hi"], arrays["lo"], repeats=repeats)
        case "words":
            return write_words(arrays[name])
        case "codes":
            return write_codes(arrays[name])
        case _:
            return write_masks(arrays[name])


def _checksum(sent: SiteMessage) -> bytes:
    head = f"{sent.source}\0{sent.target}\0{sent.batch}\0{sent.number}\0{sent.kind}\0{sent.about}\0{sent.entries}\0"
    return hashlib.blake2b(sent.body, digest_size=16, key=hashlib.sha256(head.encode()).digest()).digest()


@dataclass(frozen=True)
class Traffic:
    """What went from one site to another."""

    messages: int = 0
    ids: int = 0
    bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages + other.messages, self.ids + other.ids, self.bytes + other.bytes)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages - other.messages, self.ids - other.ids, self.bytes - other.bytes)


TrafficByPair = dict[tuple[str, str], Traffic]


def total(tally: TrafficByPair) -> Traffic:
    """All of it together."""
    return sum(tally.values(), Traffic())


@dataclass
class Channel:
    """Carries messages and counts them.

    Examples
    --------
    >>> import numpy as np
    >>> channel = Channel()
    >>> sent = message("S3", "S2", "b1", 0, "rows", {"row": np.array([7]), "masks": np.ones((1, 1), bool)}, 4)
    >>> [m.target for m in channel.carry(sent)], channel.tally["S3", "S2"].ids
    (['S2'], 1)
    """

    tally: TrafficByPair = field(default_factory=dict)
    """Everything since the channel was made."""

    def carry(self, sent: SiteMessage) -> Iterable[SiteMessage]:
        """What arrives for a message that was sent: the message, once."""
        self.count(sent)
        return (sent,)

    def count(self, sent: SiteMessage) -> None:
        """Note that a message went out."""
        self.add(sent.source, sent.target, Traffic(1, sent.entries, sent.size))

    def add(self, source: str, target: str, traffic: Traffic) -> None:
        """Note what went from one site to another."""
        self.tally[source, target] = self.tally.get((source, target), Traffic()) + traffic

    def snapshot(self) -> TrafficByPair:
        """The counts as they are now."""
        return dict(self.tally)


def since(before: TrafficByPair, after: TrafficByPair) -> TrafficByPair:
    """What was counted between two snapshots."""
    return {pair: now - before.get(pair, Traffic()) for pair, now in after.items() if now != before.get(pair)}


class Mailbox:
    """One site's side of the channel for one batch: numbers what goes out, checks what comes in."""

    def __init__(self, site: str, batch: str) -> None:
        self._site, self._batch = site, batch
        self._sent: dict[str, int] = {}
        self._got: dict[str, list[bytes]] = {}
        self._joining: dict[str, list[SiteMessage]] | None = None
        self.outbox: list[SiteMessage] = []
        self.inbox: list[SiteMessage] = []

    def send(self, target: str, kind: str, arrays: Mapping[str, Any], about: int = 0) -> SiteMessage:
        """Number a message and keep a copy, from which a repeated batch is answered."""
        if self._joining is not None:
            part = _bare(self._site, target, self._batch, 0, kind, arrays, about)
            self._joining.setdefault(target, []).append(part)
            return part
        sent = message(self._site, target, self._batch, self._next(target), kind, arrays, about)
        self.outbox.append(sent)
        return sent

    def _next(self, target: str) -> int:
        number = self._sent.get(target, 0)
        self._sent[target] = number + 1
        return number

    @contextmanager
    def joining(self, about: int) -> Iterator[list[SiteMessage]]:
        """What is sent in the block goes as one message a target, which are listed when it ends."""
        self._joining, sent = {}, list[SiteMessage]()
        try:
            yield sent
        finally:
            waiting, self._joining = self._joining, None
        sent += [_joined(parts, self._next(target), about) for target, parts in waiting.items()]
        self.outbox += sent

    def receive(self, got: SiteMessage) -> None:
        """Take a message in; a repeated one is dropped, anything else that does not fit is refused."""
        if got.target != self._site or got.batch != self._batch:
            raise ChannelError(
                f"site {self._site!r} got a message for {got.target!r}, batch {got.batch!r}, in batch {self._batch!r}",
                hint="apply the batch again",
            )
        if not got.intact():
            raise ChannelError(
                f"a message from {got.source!r} to {got.target!r} was damaged on the way", hint="apply the batch again"
            )
        known = self._got.setdefault(got.source, [])
        if got.number < len(known) and known[got.number] == got.checksum:
            return
        if got.number != len(known):
            raise ChannelError(
                f"message {got.number} from {got.source!r} to {got.target!r} came where {len(known)} was expected",
                hint="a message was lost or came out of order: apply the batch again",
            )
        known.append(got.checksum)
        self.inbox += got.parts()

    def sent(self) -> dict[str, int]:
        """By target how many messages went out."""
        return dict(self._sent)

    def got(self) -> dict[str, int]:
        """By source how many messages came."""
        return {source: len(known) for source, known in self._got.items()}

    def compare(self, told: Mapping[str, int]) -> None:
        """Compare what came with what the others say they sent."""
        for source in {*told, *self._got}:
            got, sent = len(self._got.get(source, ())), told.get(source, 0)
            if got != sent:
                raise ChannelError(
                    f"{sent - got} of {sent} messages from {source!r} to {self._site!r} were lost",
                    hint="apply the batch again",
                )

    def take(self, kind: str, about: int | None = None) -> list[SiteMessage]:
        """What came of a kind (and about one thing) since the last time, which is then forgotten."""
        found = [got for got in self.of(kind) if about in (None, got.about)]
        self.inbox = [got for got in self.inbox if not (got.kind == kind and about in (None, got.about))]
        return found

    def of(self, *kinds: str) -> list[SiteMessage]:
        """What came of some kinds."""
        return [got for got in self.inbox if got.kind in kinds]
