"""The rows that rules are discovered on: comparable codes by column and slot.

Memory: 9 bytes a row and column (a code and whether it is known), 1 byte a row (whether it is there).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdstrue.data.coding import Coded, encode
from holdstrue.data.labels import Labels
from holdstrue.discovery.denials.ranked_columns import RankedColumns
from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.work import Work
from holdstrue.errors import ChangeError, DataError
from holdstrue.index.arrays import MOST_SLOTS, Snapshot, room
from holdstrue.index.checked import Checked
from holdstrue.kernels import bounds
from holdstrue.typing import I32, I64, Mask


class CodedRows:
    """Codes of the space's columns; slots are given in order of arrival and never reused.

    Examples
    --------
    >>> from holdstrue.discovery.denials.choose_space import choose_space
    >>> from holdstrue.discovery.options import DiscoveryOptions
    >>> table = pa.table({"a": [3, 1, None]})
    >>> rows = CodedRows(choose_space(table, DiscoveryOptions()))
    >>> rows.insert(table).tolist(), rows.live().tolist(), rows.known[0, :3].tolist()
    ([0, 1, 2], [0, 1, 2], [True, True, False])
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        columns = len(space.columns)
        self.codes: I64 = np.zeros((columns, 0), dtype=np.int64)
        self.known: Mask = np.zeros((columns, 0), dtype=np.bool_)
        self.alive: Mask = np.zeros(0, dtype=np.bool_)
        self.size = 0
        self.epoch = 0
        """How often codes of rows that are there were changed."""
        self._ranked = RankedColumns()
        # columns that are compared share their dictionary
        self._labels: dict[int, Labels] = {}
        for component in space.components:
            if space.domains[component[0]].kind == "label":
                self._labels |= dict.fromkeys(component, Labels(space.domains[component[0]].family))

    def insert(self, table: pa.Table) -> I64:
        """Append rows; returns their slots. Runtime complexity: O(values)."""
        given = set(table.schema.names)
        for name in self.space.columns:
            if name not in given:
                raise DataError(f"the new rows have no column {name!r}", hint="give every column rules were found on")
        new, first = table.num_rows, self.size
        epochs = [labels.epoch for labels in self._labels.values()]
        coded = self._coded(table)
        if epochs != [labels.epoch for labels in self._labels.values()]:
            # a dictionary that was labelled anew by a later column moves the codes of an earlier one
            coded = self._coded(table)
            self._follow_labels()
        self.codes = room(self.codes, first + new, axis=1)
        self.known = room(self.known, first + new, axis=1)
        self.alive = room(self.alive, first + new, fill=0)
        for i, column in enumerate(coded):
            self.codes[i, first : first + new] = column.codes
            self.known[i, first : first + new] = column.mask()
        self.alive[first : first + new] = True
        self.size += new
        return np.arange(first, self.size, dtype=np.int64)

    def _coded(self, table: pa.Table) -> list[Coded]:
        return [
            encode(table[name], domain, name=name, labels=self._labels.get(i))
            for i, (name, domain) in enumerate(zip(self.space.columns, self.space.domains, strict=True))
        ]

    def remove(self, slots: I64) -> None:
        """Take rows out. Runtime complexity: O(slots)."""
        if slots.size and (slots.min() < 0 or slots.max() >= self.size or not self.alive[slots].all()):
            gone = [int(slot) for slot in slots if slot < 0 or slot >= self.size or not self.alive[slot]]
            raise ChangeError(f"no row in slot {gone[0]}", hint="remove each row once")
        if np.unique(slots).size != slots.size:
            raise ChangeError("a row is removed twice in one batch", hint="remove each row once")
        self.alive[slots] = False

    def live(self) -> I64:
        """The slots of the rows that are there, ascending."""
        return np.flatnonzero(self.alive[: self.size])

    def ranks(self, live: I64, work: Work) -> I32:
        """The ranks of some rows, see `RankedColumns`."""
        return self._ranked.of(self, live, work)

    def size_bytes(self) -> int:
        """Memory held."""
        return self.codes.nbytes + self.known.nbytes + self.alive.nbytes + self._ranked.size_bytes()

    def _follow_labels(self) -> None:
        for number, labels in {id(one): one for one in self._labels.values()}.items():
            translation = labels.take_translation()
            if translation is None or not self.size:
                continue
            before, after = translation
            self.epoch += 1
            for column, own in self._labels.items():
                if id(own) == number:
                    codes = self.codes[column, : self.size]
                    place = np.minimum(np.searchsorted(before, codes), before.size - 1)
                    codes[:] = np.where(before[place] == codes, after[place], codes)

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state."""
        arrays: Snapshot = {
            "codes": self.codes[:, : self.size].copy(),
            "known": self.known[:, : self.size].copy(),
            "alive": self.alive[: self.size].copy(),
        }
        for column, labels in self._labels.items():
            text = labels.written()
            arrays[f"labels{column}.labels"] = labels.labels
            _, offsets, data = text.buffers()
            arrays[f"labels{column}.offsets"] = np.frombuffer(offsets, dtype=np.int64)[: len(text) + 1].copy()
            arrays[f"labels{column}.text"] = np.frombuffer(data or b"", dtype=np.uint8).copy()
        return arrays

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
        alive = arrays.array("alive", np.bool_, (0,), grows=0)
        arrays.within("alive", alive.view(np.uint8), 0, 1)
        columns, self.size = len(self.space.columns), int(alive.size)
        arrays.require(self.size <= MOST_SLOTS, f"{self.size} rows are more than there can be")
        self.codes = arrays.array("codes", np.int64, (columns, self.size)).copy()
        self.known = arrays.array("known", np.bool_, (columns, self.size)).copy()
        self.alive = alive.copy()
        self._ranked = RankedColumns()
        for column, labels in self._labels.items():
            own = arrays.part(f"labels{column}")
            text = own.array("text", np.uint8, (0,), grows=0).tobytes()
            ends = own.index("offsets", 0, len(text), 1, dtype=np.int64)
            own.within("offsets", ends, 0, len(text))
            own.require(bounds.unsorted(ends, False) < 0, "its offsets do not ascend")
            written = [text[ends[i] : ends[i + 1]] for i in range(ends.size - 1)]
            try:
                labels.restore(written, own.array("labels", np.int64, (len(written),)).tolist())
            except ValueError as error:
                raise own.damaged(str(error)) from error
