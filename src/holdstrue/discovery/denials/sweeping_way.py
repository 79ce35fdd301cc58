"""The third way, for rules with exceptions in large tables: every set of atoms that matters is counted by sweeps.

Some rows are compared with all (`lower_bounds.py`), which shows of most sets that too many pairs break them; the others
are counted exactly (`pair_sums.py`). The search goes by length (`counted_search.py`). Counts of sets are kept: a batch
adds what its own pairs break, where comparing these is cheaper than counting anew, and only sets that are new to
the search are swept.
"""

from __future__ import annotations

import time

import numpy as np

from holdstrue.discovery.denials.batch_costs import MIXED_PAIR_SECONDS, PAIR_SECONDS
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.counted_search import CountedSearch
from holdstrue.discovery.denials.counting_way import CoverUpdate
from holdstrue.discovery.denials.cover import Cover, CoverSearch
from holdstrue.discovery.denials.evidence import Evidence, no_evidence
from holdstrue.discovery.denials.lower_bounds import LowerBounds
from holdstrue.discovery.denials.measures import violations
from holdstrue.discovery.denials.probing_way import MEASURED_ROWS
from holdstrue.discovery.denials.set_counts import SetCounts
from holdstrue.discovery.denials.space import canonical_each
from holdstrue.discovery.denials.steps import LocalSteps
from holdstrue.discovery.options import Method, Proportion, allowed
from holdstrue.discovery.work import Work
from holdstrue.index.arrays import Snapshot
from holdstrue.index.checked import Checked
from holdstrue.typing import I64, U64


class SweepingWay:
    """Counted sets of atoms behind the verbs of a way.

    Memory: `LowerBounds`, some hundred bytes for each set that was counted, and while it works `PairSums`.
    """

    name = "sets of atoms counted by sweeps"
    method: Method = "sweep"

    def __init__(self, rows: CodedRows, search: CoverSearch, error: Proportion, most_rules: int | None) -> None:
        self._rows = rows
        self._search = search
        self._error = error
        self._counted = CountedSearch(rows.space, search, most_rules)
        self._bounds = LowerBounds(rows.space.width)
        self._known: dict[bytes, int] = {}
        self._weights: tuple[U64, I64] = (np.zeros((0, rows.space.width), dtype=np.uint64), np.zeros(0, dtype=np.int64))
        self._seconds = 0.0
        """What the last search over all rows took."""
        self._said: list[str] = []

    @property
    def allowed(self) -> int:
        """How many ordered pairs may break a rule."""
        rows = self._rows.live().size
        return allowed(self._error, rows * (rows - 1))

    def load(self, slots: I64, work: Work) -> Cover:
        """Compare some rows with all, then search by length."""
        start = time.monotonic()
        steps = LocalSteps(self._rows)
        self._known, self._bounds = {}, LowerBounds(self._rows.space.width)
        measured = steps.tile(steps.sample(MEASURED_ROWS), None, work)
        if measured.complete:
            self._weights = measured.words, measured.counts
        self._bounds.draw(steps, slots, work)
        cover = self._searched(work)
        self._seconds = time.monotonic() - start
        return cover

    def _searched(self, work: Work) -> Cover:
        rows = self._rows.live().size
        if rows * (rows - 1) <= self.allowed:
            return Cover(np.zeros((1, self._rows.space.width), dtype=np.uint64))
        counts = SetCounts(self._rows, self._bounds, self._known, self.allowed)
        cover = self._counted.search(counts.within, work)
        self._known = counts.asked
        self._said = [
            f"{len(self._known)} sets of atoms are counted, by {counts.swept} sweeps at last; of {counts.refuted} "
            "others a part of the pairs shows that too many break them"
        ]
        return cover

    def apply(self, cover: Cover, removed: I64, rest: I64, new: I64, work: Work) -> CoverUpdate:
        """Count the pairs of removed rows out of all sets and those of new rows in, or search anew if that is cheaper.

        Complexity: O(pairs of the batch x comparisons / lanes of a vector), and sweeps for sets that are new.
        """
        pairs = removed.size * (rest.size + removed.size // 2) + new.size * (rest.size + new.size // 2)
        words, counts = self._weights
        mixed = words.shape[0] / max(1, int(counts.sum()))
        # a search that was cut short took as long as it had
        cost = pairs * (PAIR_SECONDS + mixed * MIXED_PAIR_SECONDS) / work.workers
        if cost < self._seconds:
            lost, won = self._pairs_of(removed, rest, work), self._pairs_of(new, rest, work)
            if all(part.complete for part in (*lost, *won)):
                self._shift(lost, won)
                cover = self._searched(work)
                self._said.append(f"last batch: {pairs} pairs compared, about {cost:.2g} s")
                found = won or [no_evidence(self._rows.space)]
                words = np.concatenate([part.words for part in found])
                return CoverUpdate(cover, words, np.concatenate([part.pairs for part in found]))
        cover = self.load(self._rows.live(), work)
        self._said.append(f"last batch: searched anew, comparing its {pairs} pairs would take about {cost:.2g} s")
        none = np.zeros((0, self._rows.space.width), dtype=np.uint64)
        return CoverUpdate(cover, none, np.zeros((0, 2), dtype=np.int64), anew=True)

    def _pairs_of(self, rows: I64, rest: I64, work: Work) -> list[Evidence]:
        """The evidences of the pairs of some rows with each other and with the rest."""
        if not rows.size:
            return []
        steps = LocalSteps(self._rows)
        return [steps.tile(rows, None, work), steps.tile(rows, rest, work)]

    def _shift(self, lost: list[Evidence], won: list[Evidence]) -> None:
        """Bring the counts of sets up to date."""
        self._bounds.shift(lost, won)
        if not self._known:
            return
        sets = np.frombuffer(b"".join(self._known), dtype=np.uint64).reshape(-1, self._rows.space.width)
        counts = np.fromiter(self._known.values(), dtype=np.int64, count=len(self._known))
        for sign, parts in ((-1, lost), (1, won)):
            for part in parts:
                counts += sign * violations(sets, part.words, part.counts)
        self._known = dict(zip(self._known, counts.tolist(), strict=True))

    def violations(self, sets: U64, work: Work) -> I64:
        """Exactly how many ordered pairs break each set."""
        counts = SetCounts(self._rows, self._bounds, self._known, self.allowed)
        return counts.counts(np.ascontiguousarray(canonical_each(self._rows.space, sets)), work)

    def weighted(self) -> tuple[U64, I64]:
        """Evidences of a sample with their numbers of pairs."""
        return self._weights

    def explain(self) -> list[str]:
        """What is kept, and how the last batch was followed."""
        return self._said

    def size_bytes(self) -> int:
        """Memory held."""
        width = 8 * self._rows.space.width
        return self._bounds.size_bytes() + sum(a.nbytes for a in self._weights) + len(self._known) * (width + 140)

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state."""
        width = self._rows.space.width
        sets = np.frombuffer(b"".join(self._known), dtype=np.uint64).reshape(-1, width).copy()
        found: Snapshot = {
            "sets": sets,
            "broken": np.fromiter(self._known.values(), dtype=np.int64, count=len(self._known)),
            "sample_words": self._weights[0],
            "sample_counts": self._weights[1],
            "seconds": np.array([self._seconds]),
        }
        return found | self._bounds.snapshot()

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
        atoms, rows = self._rows.space.mask(range(len(self._rows.space.atoms))), self._rows.live().size
        sets = arrays.sets("sets", atoms)
        broken = arrays.array("broken", np.int64, (sets.shape[0],))
        arrays.within("broken", broken, 0, rows * rows)
        self._known = {mask.tobytes(): count for mask, count in zip(sets, broken.tolist(), strict=True)}
        sample = arrays.sets("sample_words", atoms)
        counts = arrays.array("sample_counts", np.int64, (sample.shape[0],))
        arrays.within("sample_counts", counts, 0, MEASURED_ROWS**2)
        self._weights = sample.copy(), counts.copy()
        [self._seconds] = arrays.array("seconds", np.float64, (1,)).tolist()
        arrays.require(self._seconds >= 0, f"a search cannot have taken {self._seconds} s")
        self._bounds.restore(arrays, atoms, self._rows.size**2)
