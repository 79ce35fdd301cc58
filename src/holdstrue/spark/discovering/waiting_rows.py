"""Rows as words on their way to the task of their group: equal ones become one that counts, where there are many.

A task holds rows back, by whom they are of, until there is no room; then equal rows are joined, unless that was tried
in vain, and what is left is dealt to parts and sent packed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.kernels import side_rows
from holdstrue.shards.wire import ROWS, Message, receive
from holdstrue.typing import I32, U64

WAITING = 48 << 20
"""Bytes of rows that a task holds back in the hope of equal ones, of all its left sides together. Chosen."""

LEAST_WAITING, MOST_WAITING = 1 << 10, 1 << 16
"""Rows that it holds back of one left side. Chosen."""

REDUCED = 0.5
"""Equal rows are looked for as long as no more than this share is left. Chosen, not tuned."""

SENT = 16 << 20
"""Bytes that a task sends at a time."""


Join: TypeAlias = Callable[[U64, int, I32], int]
"""Makes rows fewer, as `side_rows.joined` does."""


@dataclass
class _Held:
    """Rows of one owner that have not been sent."""

    rows: U64
    join: Join | None
    """What makes them fewer."""
    used: int = 0


class WaitingRows:
    """What a task holds back, by the number of its owner."""

    def __init__(self, owners: Sequence[tuple[int, Join | None]], parts: int) -> None:
        """`owners` have so many words a row, and may have rows joined."""
        room = min(MOST_WAITING, max(LEAST_WAITING, WAITING // (8 * sum(words for words, _ in owners))))
        self.of = [_Held(np.empty((words, room), dtype=np.uint64), join) for words, join in owners]
        self._cells = cells_for(room)
        self._parts = parts
        self._packed: dict[int, list[U64]] = {}
        self._bytes = 0

    def make_room(self, number: int) -> Iterator[Message]:
        """An owner has more rows than there is room for."""
        own = self.of[number]
        if own.join is not None:
            self._join(own, own.join)
            if own.used <= REDUCED * own.rows.shape[1]:
                return
            own.join = None
        self._deal(number)
        yield from self._messages(SENT)

    def rest(self) -> Iterator[Message]:
        """All that still waits."""
        for number, own in enumerate(self.of):
            if own.used and own.join is not None:
                self._join(own, own.join)
            self._deal(number)
            yield from self._messages(SENT)
        yield from self._messages(0)

    def _join(self, own: _Held, join: Join) -> None:
        self._cells[:] = 0
        own.used = int(join(own.rows, own.used, self._cells))

    def _deal(self, number: int) -> None:
        own = self.of[number]
        if not own.used:
            return
        starts, out = np.zeros(self._parts + 1, dtype=np.int64), np.empty((len(own.rows), own.used), dtype=np.uint64)
        side_rows.dealt(own.rows, own.used, starts, out)
        for part in np.flatnonzero(np.diff(starts)).tolist():
            rows = out[:, starts[part] : starts[part + 1]]
            head = np.array([number, *rows.shape], dtype=np.uint64)
            self._packed.setdefault(part, []).extend((head, rows.reshape(-1)))
            self._bytes += rows.nbytes
        own.used = 0

    def _messages(self, least: int) -> Iterator[Message]:
        if self._bytes < least:
            return
        for part, words in self._packed.items():
            yield Message(part, ROWS, 0, "", pa.py_buffer(np.concatenate(words)))
        self._packed, self._bytes = {}, 0


def cells_for(rows: int) -> I32:
    """A hash table for so many rows."""
    return np.zeros(1 << int(np.ceil(np.log2(2 * rows + 2))), dtype=np.int32)


def segments(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, U64]]:
    """Owners by number with rows of them, out of messages."""
    for message in receive(batches):
        words = np.frombuffer(message.payload, dtype=np.uint64)
        at = 0
        while at < words.size:
            owner, height, width = (int(word) for word in words[at : at + 3])
            at += 3
            # the message is given up, and with it the batch that it came in
            yield owner, words[at : at + height * width].reshape(height, width).copy()
            at += height * width
