"""All minimal left sides of every target: evidence from pairs narrows them down, validation on the data settles them.

The going back and forth between sampled pairs and validation is that of HyFD (Papenbrock and Naumann
2016); a key is treated as a dependency of one more target, in which any two rows differ. Validation
shares partitions along a tree of prefixes with the most selective column first, and what fails there
gives pairs with large agree sets, which is why little is sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdstrue.discovery.dependencies.agree_sets import AgreeSets
from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.left_sides import LeftSides, set_sizes
from holdstrue.discovery.dependencies.validation import Partitions, Tested, Validator
from holdstrue.discovery.work import Work
from holdstrue.index.checked import Checked
from holdstrue.kernels import partitions
from holdstrue.kernels.antichains import HOLDS, OPEN, STALE
from holdstrue.kernels.partitions import GATHERED, SUPPORT
from holdstrue.typing import I32, I64, U64

MANY = 0.1
"""A batch of more than this share of the rows touches most groups: counting anew is as quick. Chosen, not tuned."""


@dataclass
class Extents:
    """How far left sides reach: rows that have a partner with the same values, and the groups they form.

    Counted when a left side is tested on the whole table, and kept exact by looking at the groups that a batch
    touches. After a batch of many rows all are forgotten, and counted again when asked for.

    Memory: some 200 bytes a left side.
    """

    _known: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def note(self, sets: U64, tested: Tested) -> None:
        """Remember the extents of left sides that were tested on the whole table and failed for no target."""
        for i in np.flatnonzero(tested.done & ~tested.broken.any(axis=1)):
            self._known[sets[i].tobytes()] = int(tested.extent[i, 0]), int(tested.extent[i, 1])

    def follow(self, codes: Codes, fresh: int, gone: I32, lasting: Iterable[U64], work: Work) -> None:
        """Rows came, from position `fresh` on, and others went, of which these are the codes.

        Extents of left sides that are not among the `lasting` are forgotten.
        Complexity: O(rows in the groups of these rows) for each left side.
        """
        found = {line.tobytes(): line for sets in lasting for line in sets}
        kept = {name: line for name, line in found.items() if name in self._known}
        before, self._known = self._known, {}
        changed = gone.shape[1] + codes.used - fresh
        if not kept or changed > MANY * codes.used:
            return
        if changed:
            members = np.concatenate((codes.members(), codes.lay_out(gone)))
            validator = Validator(Partitions(codes, fresh, members), work)
            change, done = validator.shifted(np.array(list(kept.values())), codes.used)
        else:
            change, done = np.zeros((len(kept), 2), dtype=np.int64), np.ones(len(kept), dtype=np.bool_)
        for name, (rows, groups), counted in zip(kept, change.tolist(), done, strict=True):
            if counted:
                self._known[name] = before[name][0] + rows, before[name][1] + groups

    def of(self, sets: U64, validated: Callable[[], Validator]) -> I64:
        """Rows and groups of each set, counted where they are not known."""
        lines = [line.tobytes() for line in sets]
        missing = np.array([i for i, line in enumerate(lines) if line not in self._known], dtype=np.int64)
        if missing.size:
            validator = validated()
            key = np.full(missing.size, validator.many, dtype=np.int64)
            limits = np.full(4, np.iinfo(np.int64).max, dtype=np.int64)
            counts, _ = validator.weigh(sets[missing], key, limits)
            for i, count in zip(missing, counts, strict=True):
                self._known[lines[i]] = int(count[SUPPORT]), int(count[GATHERED])
        return np.array([self._known[line] for line in lines], dtype=np.int64).reshape(-1, 2)

    def snapshot(self, words: int) -> dict[str, NDArray[np.generic]]:
        """The arrays that make up the state."""
        lines = np.frombuffer(b"".join(self._known), dtype=np.uint64).reshape(-1, words)
        extents = np.array(list(self._known.values()), dtype=np.int64).reshape(-1, 2)
        return {"lines": lines, "extents": extents}

    def restore(self, arrays: Checked, columns: U64, rows: int) -> None:
        """Take over the arrays of a snapshot of so many rows with these columns."""
        lines = arrays.sets("lines", columns)
        extents = arrays.array("extents", np.int64, (lines.shape[0], 2))
        arrays.within("extents", extents, 0, rows)
        self._known = {
            line.tobytes(): (int(own), int(groups)) for line, (own, groups) in zip(lines, extents.tolist(), strict=True)
        }
        # states of earlier versions may hold extents from some batches ago
        if "changed" in arrays and arrays.array("changed", np.bool_, (0,), grows=0).any():
            self._known = {}


MOST_WORDS = 1 << 24
"""Words that the left sides of all targets may take: 128 MB, twice that while they grow."""

FIRST_ROUND = 256
"""Left sides tested before it is looked at how many fail. Chosen, not tuned."""

DEEPER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Left sides are found up to these lengths, one after the other: where time runs out the short ones are known."""


@dataclass
class LeftSideSearch:
    """The covers of all targets and the evidence they follow from."""

    codes: Codes
    agree_sets: AgreeSets
    covers: list[LeftSides]
    extents: Extents
    max_lhs: int
    searched: int = 0
    """Left sides up to this length are all known."""
    length: int = 1
    """Covers hold left sides up to this length; longer ones were cut."""
    tester: Callable[[U64, U64, bool], Tested] | None = None
    """Tests left sides elsewhere, where the rows that are held are a sample; as `Validator.test`. It is told whether
    they held before a batch."""

    def deepen(self, whole: Partitions, touched: Partitions, work: Work) -> bool:
        """Find all left sides of a length, then of the next; False when time or room ran out. Starts where it ended.

        `touched` are the groups that new rows are in.
        """
        lengths = [length for length in DEEPER if length < self.max_lhs] + [self.max_lhs]
        for step, length in enumerate(lengths):
            if length < self.length:
                continue
            work.tell(step / len(lengths), f"left sides of up to {length} columns")
            longer = length > self.length
            self.length = length
            # some time is kept for testing what comes out
            self.renew([c for c in self.covers if not c.settled or (c.cut and longer)], work.first(0.6))
            if not self.settle(whole, touched, work):
                return False
            self.searched = length
            if not any(cover.cut for cover in self.covers):
                self.searched = self.max_lhs
                break
        return True

    def resume(self) -> None:
        """Go back to the last length that was finished, before the table changes."""
        if self.searched < self.max_lhs:
            self.length = max(1, self.searched)
        self.searched = 0
        for cover in self.covers:
            cover.forget()

    def renew(self, covers: list[LeftSides], work: Work) -> None:
        """Build covers anew from all evidence, with left sides of the length that is searched now."""
        if not covers:
            return
        known, left = self.agree_sets.by_size(self.agree_sets.known()), self._room()

        def one(number: int) -> None:
            cover = covers[number]
            stale = bool((cover.status == STALE).any())
            cover.renew(self.agree_sets, known, self.length, left + len(cover), work, stale=stale)

        work.each(one, range(len(covers)))

    def _room(self) -> int:
        """Left sides that there is room for beside those of all covers."""
        return MOST_WORDS // self.agree_sets.words - sum(len(cover) for cover in self.covers)

    def settle(self, whole: Partitions, touched: Partitions, work: Work) -> bool:
        """Test what is open or stale until nothing is; False when time ran out or some cover has no room."""
        validators: dict[bool, Validator] = {}
        size = FIRST_ROUND
        while True:
            stale_first = any((cover.status == STALE).any() for cover in self.covers)
            kind = STALE if stale_first else OPEN
            sets, wanted, owners = self._candidates(kind)
            if sets.shape[0] == 0:
                return all(cover.settled for cover in self.covers)
            chosen = np.arange(sets.shape[0])[:size]
            if self.tester is not None:
                tested = self.tester(sets[chosen], wanted[chosen], stale_first)
            else:
                if stale_first not in validators:
                    validators[stale_first] = Validator(touched if stale_first else whole, work)
                tested = validators[stale_first].test(sets[chosen], wanted[chosen])
            if not stale_first:
                self.extents.note(sets[chosen], tested)
            for cover, places, lines in owners:
                mine = lines < chosen.size
                at = lines[mine]
                bit = np.uint64(1 << (cover.target & 63))
                passed = tested.done[at] & ((tested.broken[at, cover.target >> 6] & bit) == 0)
                cover.status[places[mine][passed]] = HOLDS
            failed = int(np.count_nonzero(tested.broken.any(axis=1)))
            fresh = self.agree_sets.add(self.codes.matrix, tested.pairs)
            self.take(fresh, work)
            if work.over:
                return False
            size = size * 4 if failed * 3 < chosen.size else max(FIRST_ROUND, size // 2)

    def take(self, numbers: I64, work: Work) -> None:
        """Bring new evidence into the covers it concerns."""
        numbers, left = self.agree_sets.by_size(numbers), self._room()

        def one(number: int) -> None:
            cover = self.covers[number]
            if cover.settled:
                cover.extend(self.agree_sets, numbers, self.length, left + len(cover), work)

        if numbers.size:
            work.each(one, range(len(self.covers)))

    def _candidates(self, kind: int) -> tuple[U64, U64, list[tuple[LeftSides, I64, I64]]]:
        """The shortest left sides of this kind, each once with its targets; and for each cover which are its own."""
        picked: list[tuple[LeftSides, I64]] = []
        shortest = 1 << 30
        for cover in self.covers:
            places = np.flatnonzero(cover.status == kind)
            if places.size:
                lengths = set_sizes(cover.sets[places])
                shortest = min(shortest, int(lengths.min())) if kind == OPEN else shortest
                picked.append((cover, places))
        words = self.agree_sets.words
        if not picked:
            return np.empty((0, words), dtype=np.uint64), np.empty((0, words), dtype=np.uint64), []
        if kind == OPEN:
            picked = [(c, p[set_sizes(c.sets[p]) == shortest]) for c, p in picked]
        together = np.concatenate([cover.sets[places] for cover, places in picked])
        distinct, inverse = np.unique(together, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        wanted = np.zeros_like(distinct)
        owners, at = [], 0
        for cover, places in picked:
            lines = inverse[at : at + places.size]
            at += places.size
            wanted[lines, cover.target >> 6] |= np.uint64(1 << (cover.target & 63))
            owners.append((cover, places, lines))
        return distinct, wanted, owners


MOST_PAIRS = 1 << 13
"""Pairs that one column gives at a time. Between 2^12 and 2^14 the search took the same time on nycflights13
(5.9 and 5.5 CPU s up to five columns) and on 200,000 order lines (1.2 and 1.4)."""

WORTH = 0.1
"""A column is sampled further while more than this share of its pairs shows something new. Below it failed tests
give better pairs: at 0.005 order lines took 2.1 instead of 1.2 CPU s."""

WINDOWS = 16
"""Neighbours are at most this far apart. Chosen, not tuned."""

MOST_EVIDENCE = 1 << 15
"""Sampling ends with this much evidence: random values would always show something new. Chosen, not tuned."""


def sample(codes: Codes, parts: Partitions, evidence: AgreeSets, work: Work) -> None:
    """Fill `evidence` from neighbours in the groups of each column, as long as they show something new.

    The progressive windows follow HyFD. Complexity: O(columns^2 * pairs * windows) at most.
    """
    active = list(range(len(codes.names)))
    pairs = np.empty((max(1024, MOST_PAIRS * 32 // max(32, len(active))), 2), dtype=np.int32)
    for window in range(1, WINDOWS + 1):
        kept = []
        for column in active:
            rows, starts = parts.of(column)
            stride = max(1, rows.size // pairs.shape[0])
            made = partitions.neighbours(rows, starts, starts.size - 1, window, stride, pairs)
            if made and evidence.add(codes.matrix, pairs[:made]).size > WORTH * made:
                kept.append(column)
            if len(evidence) > MOST_EVIDENCE or work.over:
                return
        active = kept
        if not active:
            return
