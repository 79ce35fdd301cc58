"""The structure of paper 004 (Shaabani, Meinel): attribute clusters with their generator.

The cluster of a value is the set of attributes that hold it. A record `(cid, cluster, number of its
values)` stands for each cluster, the generator maps a value to its frequencies and its cid. Inserted
rows are *merged* (Definition 4.4), removed ones *extracted* (4.8): a value's cluster gains the
attributes that it came to and loses those whose frequency fell to zero. A is included in B when every
cluster with A has B (Lemma 4.2). The paper's caches save look-ups in a database and are not needed.
Memory: 4 bytes a value beside `discovery/inclusions/counted_values.py`; a cluster 44 bytes and its bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from holdstrue.data.seed import OPEN
from holdstrue.discovery.bitsets import members, set_of
from holdstrue.discovery.inclusions.counted_values import COMPACT_FROM, Values, words_for
from holdstrue.discovery.inclusions.net_changes import NetChanges, ValueCounts
from holdstrue.discovery.inclusions.value_shards import ValueShards
from holdstrue.index.arrays import MOST_SLOTS, Numbering, Snapshot, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.kernels import digest
from holdstrue.kernels import value_chains as kernels
from holdstrue.typing import I32, I64, U64, Mask

_CHUNK = 1 << 18
"""Values whose sets are looked at together while loading. Chosen, not tuned."""


class Clusters(ValueShards):
    """Counted values, the cluster of each, and one record a cluster."""

    def __init__(self, attributes: int, shards: int = 1) -> None:
        super().__init__(attributes, shards)
        self._cids = [np.full(64, -1, dtype=np.int32) for _ in range(shards)]
        self._ids = Numbering()
        self._words = np.zeros((16, words_for(attributes)), dtype=np.uint64)
        self._sizes = np.zeros(16, dtype=np.int64)
        self._included: Mask | None = None

    def load(self, columns: Iterable[ValueCounts]) -> None:
        """Take in the values of all attributes, into an empty structure. Complexity: O(values)."""
        with ThreadPoolExecutor() as pool:
            for column in columns:
                list(pool.map(Values.insert, self.shards, column.split(len(self.shards))))
        for i, values in enumerate(self.shards):
            values.pack()
            self._cids[i] = room(self._cids[i], len(values), fill=-1)
            for start in range(0, len(values), _CHUNK):
                end = min(start + _CHUNK, len(values))
                cids = self._intern(values.attribute_sets(start, end))
                self._cids[i][start:end] = cids
                np.add.at(self._sizes, cids, 1)
        self._included = None

    def apply(self, tally: NetChanges) -> None:
        """Merge and extract net changes, all or none. Complexity: O(attributes that hold the changed values)."""
        parts = tally.split(len(self.shards))
        numbered = [values.number(part) for values, part in zip(self.shards, parts, strict=True)]
        changed = False
        for i, (values, part) in enumerate(zip(self.shards, parts, strict=True)):
            moved, words = values.reassign(numbered[i], part)
            changed |= self._move(i, numbered[i][moved], words)
            staying = values.compact()
            if staying is not None:
                self._cids[i] = self._cids[i][staying]
        if changed:
            self._included = None
            self._forget()

    def _move(self, shard: int, numbers: I32, words: U64) -> bool:
        """Give values their new clusters (none to one that vanished); whether clusters appeared or vanished."""
        own = self._cids[shard] = room(self._cids[shard], len(self.shards[shard]), fill=-1)
        cids, old = self._intern(words), own[numbers]
        own[numbers] = cids
        gained, lost = cids[cids >= 0], old[old >= 0]
        touched = np.unique(np.concatenate((gained, lost)))
        before = self._sizes[touched] > 0
        np.add.at(self._sizes, gained, 1)
        np.subtract.at(self._sizes, lost, 1)
        return bool((before != (self._sizes[touched] > 0)).any())

    def _intern(self, words: U64) -> I32:
        """The cids of attribute sets, new ones for new sets; -1 for the empty set."""
        hi, lo = np.full(len(words), OPEN.start[0]), np.full(len(words), OPEN.start[1])
        for column in words.T:
            digest.extend_key_by_words(hi, lo, np.ascontiguousarray(column), OPEN.keys)
        cids, origin = self._ids.assign_new(hi, lo, np.asarray(words.any(axis=1)))
        known = len(self._ids)
        self._words = room(self._words, known)
        self._sizes = room(self._sizes, known, fill=0)
        self._words[known - origin.size : known] = words[origin]
        return cids

    def _forget(self) -> None:
        """Drop records without values once they are most of many. Complexity: O(values), O(1) a lost record."""
        known = len(self._ids)
        staying = np.flatnonzero(self._sizes[:known] > 0)
        if known < COMPACT_FROM or 2 * staying.size > known:
            return
        words, sizes = self._words[staying], self._sizes[staying]
        renamed = np.full(known, -1, dtype=np.int32)
        renamed[staying] = np.arange(staying.size)
        self._ids = Numbering()
        self._intern(words)
        self._sizes[: staying.size] = sizes
        self._sizes[staying.size :] = 0
        self._cids = [np.where(cids >= 0, renamed[cids], np.int32(-1)) for cids in self._cids]

    def _living(self) -> I64:
        return np.flatnonzero(self._sizes > 0)

    def records(self) -> dict[int, tuple[frozenset[int], int]]:
        """By cid: the attributes of a cluster and how many values it has. Complexity: O(clusters)."""
        return {int(cid): (frozenset(members(self._words[cid])), int(self._sizes[cid])) for cid in self._living()}

    def cids(self, shard: int, numbers: I32) -> I32:
        """The clusters of values, given by their numbers in a shard."""
        return self._cids[shard][numbers]

    def included(self) -> Mask:
        """`[A, B]`: every cluster with A has B. Complexity: O(clusters), once for each change of the clusters."""
        if self._included is None:
            known = len(self._ids)
            width = self._words.shape[1]
            out = np.empty((64 * width, width), dtype=np.uint64)
            kernels.intersections(self._words[:known], self._sizes[:known] > 0, out)
            bits = np.unpackbits(out.view(np.uint8), axis=1, bitorder="little")
            self._included = bits[: self.attributes, : self.attributes].astype(np.bool_)
        return self._included

    def shared(self) -> I64:
        """Values that attributes have in common; on the diagonal the distinct values of each."""
        total = self._zeros()
        known = len(self._ids)
        scratch = np.empty(self.attributes, dtype=np.int32)
        kernels.cluster_shares(self._words[:known], self._sizes[:known], total, scratch)
        return total

    def size_bytes(self) -> int:
        """Memory held."""
        own = self._words.nbytes + self._sizes.nbytes + self._ids.size_bytes()
        return own + sum(cids.nbytes for cids in self._cids) + super().size_bytes()

    def summary(self) -> Snapshot:
        """The arrays beside those of the shards' values."""
        known = len(self._ids)
        arrays: Snapshot = {
            "words": with_slack(self._words, known),
            "sizes": with_slack(self._sizes, known),
            **nested("ids", self._ids.snapshot()),
        }
        for i, values in enumerate(self.shards):
            arrays[f"cids{i}"] = with_slack(self._cids[i], min(len(values), self._cids[i].size), fill=-1)
        return arrays

    def restore(self, arrays: Checked, shards: Sequence[Checked] | None = None) -> None:
        """Take over the arrays of a snapshot (they will be written to). Complexity: O(values)."""
        super().restore(arrays, shards)
        self._ids.restore(arrays.part("ids"))
        known = len(self._ids)
        self._words = arrays.sets("words", set_of(range(self.attributes), self._words.shape[1]), known)
        self._sizes = arrays.index("sizes", 0, MOST_SLOTS, known, dtype=np.int64, fill=0)
        self._cids, counted = [], np.zeros(self._sizes.size, dtype=np.int64)
        for i, values in enumerate(self.shards):
            # values that came with a batch which was refused may have no place
            cids = arrays.array(f"cids{i}", np.int32, (0,), grows=0)
            arrays.within(f"cids{i}", cids, -1, known - 1)
            counted += np.bincount(cids[cids >= 0], minlength=counted.size)
            self._cids.append(room(cids, len(values), fill=-1))
        arrays.require(np.array_equal(counted, self._sizes), "its clusters do not have as many values as they say")
        self._included = None
