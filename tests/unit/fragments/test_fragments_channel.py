"""The channel: counted, and safe against messages that are lost, repeated, reordered or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.fragments import Channel, Relation, Site
from holdstrue.fragments.channel import ChannelError, Mailbox, SiteMessage

ROWS = pa.table({"id": [1, 2, 3], "a": [1, 1, 2], "b": [1, 2, 2], "c": [1, 1, 1]})
RULES = [{"name": "ab", "rule": "a -> b"}, {"name": "bc", "rule": "a, b -> c"}]


class Faulty(Channel):
    """Does something to what it carries from the first change on."""

    def __init__(self, fault: Callable[[int, SiteMessage], Iterable[SiteMessage]]) -> None:
        super().__init__()
        self.fault = fault
        self.carried = 0
        self.broken = False

    def carry(self, sent: SiteMessage) -> Iterable[SiteMessage]:
        self.count(sent)
        if not self.broken:
            return (sent,)
        self.carried += 1
        return self.fault(self.carried, sent)


def vertical(channel: Channel) -> Relation:
    sites = [Site(f"s{name}", (name,), source=ROWS.select(["id", name])) for name in "abc"]
    relation = Relation(sites, RULES, key="id", channel=channel)
    relation.load()
    return relation


def horizontal(channel: Channel) -> Relation:
    sites = [
        Site(f"s{value}", where=f"b = {value}", source=ROWS.filter(pa.compute.field("b") == value)) for value in (1, 2)
    ]
    relation = Relation(sites, RULES, key="id", channel=channel)
    relation.load()
    return relation


CHANGE = pa.table({"op": ["i", "u"], "id": [4, 3], "a": [2, 1], "b": [1, 1], "c": [5, 5]})


def keys(relation: Relation) -> dict[str, set[int]]:
    return {rule: set(table.column("id").to_pylist()) for rule, table in relation.violations().items()}


@pytest.mark.parametrize(("split", "which"), [(vertical, 1), (vertical, 2), (horizontal, 1)])
def test_a_lost_message_is_detected(split: Any, which: int) -> None:
    channel = Faulty(lambda n, sent: () if n == which else (sent,))
    relation = split(channel)
    before = keys(relation)
    channel.broken = True
    with pytest.raises(ChannelError, match="lost"):
        relation.apply(CHANGE, batch_id="b")
    assert keys(relation) == before
    channel.broken = False
    relation.apply(CHANGE, batch_id="b")
    assert keys(relation) == keys(healthy(split))


@pytest.mark.parametrize("split", [vertical, horizontal])
def test_a_message_lost_while_everything_is_checked(split: Any) -> None:
    channel = Faulty(lambda n, sent: () if n == 1 else (sent,))
    relation = split(channel)
    channel.broken = True
    with pytest.raises(ChannelError, match="lost"):
        relation.check()
    channel.broken = False
    assert {r: t.num_rows for r, t in relation.check().added.items()} == {r: len(k) for r, k in keys(relation).items()}


def healthy(split: Any) -> Relation:
    relation: Relation = split(Channel())
    relation.apply(CHANGE)
    return relation


@pytest.mark.parametrize("split", [vertical, horizontal])
def test_a_repeated_message_is_harmless(split: Any) -> None:
    channel = Faulty(lambda n, sent: (sent, sent))
    relation = split(channel)
    channel.broken = True
    relation.apply(CHANGE)
    assert channel.carried and keys(relation) == keys(healthy(split))


def test_reordered_messages_are_detected() -> None:
    box = Mailbox("t", "b")
    out = Mailbox("s", "b")
    sent = [out.send("t", "rows", {"row": np.array([i]), "masks": np.ones((1, 1), bool)}, 1) for i in range(2)]
    with pytest.raises(ChannelError, match="came where 0 was expected"):
        box.receive(sent[1])
    box.receive(sent[0])
    box.receive(sent[1])
    box.receive(sent[0])
    assert [int(m.arrays()["row"][0]) for m in box.inbox] == [0, 1]
    box.compare({"s": 2})
    with pytest.raises(ChannelError, match="1 of 3 messages"):
        box.compare({"s": 3})


@pytest.mark.parametrize("part", ["body", "kind", "about", "entries", "checksum"])
def test_a_damaged_message_is_refused(part: str) -> None:
    sent = Mailbox("s", "b").send("t", "rows", {"row": np.array([7, 8]), "masks": np.zeros((1, 2), bool)}, 1)
    changed: Any = {"body": sent.body[:-1] + b"x", "kind": "ids", "about": 2, "entries": 3, "checksum": b"0" * 16}
    with pytest.raises(ChannelError, match="damaged"):
        Mailbox("t", "b").receive(replace(sent, **{part: changed[part]}))


def test_a_message_of_another_batch_is_refused() -> None:
    sent = Mailbox("s", "b1").send("t", "rows", {"row": np.array([7]), "masks": np.ones((1, 1), bool)}, 1)
    with pytest.raises(ChannelError, match="batch 'b1', in batch 'b2'"):
        Mailbox("t", "b2").receive(sent)


def test_messages_ids_and_bytes_are_counted_by_pair() -> None:
    channel = Channel()
    relation = vertical(channel)
    before = channel.snapshot()
    delta = relation.apply(pa.table({"op": ["i", "i"], "id": [7, 8], "a": [9, 9], "b": [9, 8], "c": [1, 1]}))
    assert sum(t.ids for t in delta.shipped.values()) == 2 * relation.plan().ids
    for pair, traffic in delta.shipped.items():
        then = before[pair]
        assert channel.tally[pair].messages == then.messages + traffic.messages
        # a header, which rows (5), 16 bytes an id that is new in the message (1 to 5), for which CFDs (5 and one each)
        assert (48 + 12) * traffic.messages <= traffic.bytes <= (48 + 18) * traffic.messages + 16 * traffic.ids
