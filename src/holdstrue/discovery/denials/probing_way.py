"""The second way: candidate pairs through selected indexes, and rules verified, so that no n^2 pairs are compared.

IncDC of Qian, Li, Tan, Ran, Ma: Incremental discovery of denial constraints (Algorithms 4 to 6) for rows that
come. It keeps no evidence of the table but those that its rules were found with, each with a pair of rows. The
first rules come from a sample and are verified on the whole table; each pair that breaks one extends it. Rows
that go, which the paper leaves open, take along the evidences whose pair they were in; rules that become possible
are verified likewise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from holdstrue.discovery.bitsets import keys, without
from holdstrue.discovery.denials.breaking_pairs import breaking_pairs
from holdstrue.discovery.denials.candidate_index import CandidateIndex
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.counting_way import CoverUpdate
from holdstrue.discovery.denials.cover import Cover, CoverSearch, minimal_among
from holdstrue.discovery.denials.evidence import evidence_within
from holdstrue.discovery.denials.pair_words import PairWords
from holdstrue.discovery.denials.select_index import IndexSelection, choice_text
from holdstrue.discovery.denials.space import canonical, canonical_each
from holdstrue.discovery.options import Method
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.errors import StateError
from holdstrue.index.arrays import MOST_SLOTS, Snapshot
from holdstrue.index.checked import Checked
from holdstrue.kernels import hitting_sets as kernels
from holdstrue.rules.model import DC
from holdstrue.typing import I64, U64

Verifier = Callable[[DC, pa.Table], tuple[int, int] | None]
"""Finds the positions (t, s) of two rows of a table that break a rule, or None."""

SAMPLE_ROWS = 2000
"""Rows of the first sample: 4 million pairs. Chosen, not tuned."""

NEIGHBOURS = 1 << 17
"""Rows of which each is compared with the next one by each column: they agree there, as few random pairs do."""

ROUND = 64
"""Rules verified before what broke them extends the others. Chosen, not tuned."""


class ProbingWay:
    """Witnessed evidences and indexes behind the verbs of a way.

    Memory: 8 bytes a word and 16 bytes an evidence; 16 bytes a row for each index on an equality and 20 bytes a
    row for each on inequalities.
    """

    name = "candidate pairs through indexes"
    method: Method = "index"
    allowed = 0

    def __init__(
        self,
        rows: CodedRows,
        search: CoverSearch,
        sample: int | None,
        verifier: Verifier | None,
        table: pa.Table | None,
    ) -> None:
        self._rows = rows
        self._search = search
        self._sample = sample or SAMPLE_ROWS
        self._random = np.random.default_rng(0)
        width = rows.space.width
        self._words: U64 = np.zeros((0, width), dtype=np.uint64)
        self._pairs: I64 = np.zeros((0, 2), dtype=np.int64)
        self._weights: tuple[U64, I64] = (self._words, np.zeros(0, dtype=np.int64))
        self._probes: list[tuple[CandidateIndex, U64]] = []
        self._verifier = verifier
        self._table = None if verifier is None else table
        self._inside = 0
        self.verified = 0
        self.candidates = 0

    def load(self, slots: I64, work: Work) -> Cover:
        """Search on a sample, verify on all rows, extend by what breaks, until nothing does."""
        space = self._rows.space
        chosen = slots if slots.size <= self._sample else np.sort(self._random.choice(slots, self._sample, False))
        found = evidence_within(space, self._rows.codes, self._rows.known, chosen, work)
        self._weights = found.words, found.counts
        self._witness(found.words, found.pairs)
        self._witness(*self._neighbours(slots))
        if not found.complete:
            return Cover(np.zeros((0, space.width), dtype=np.uint64), complete=False)
        cover = self._search.search(self._words, work)
        cover = self._settled(cover, np.zeros((0, space.width), dtype=np.uint64), work)
        self._index(cover, slots)
        return cover

    def adopt(self, words: U64, counts: I64, cover: Cover) -> None:
        """Start from evidences counted elsewhere, of which no pair is known: they hold until a row goes."""
        self._weights = words, counts
        self._witness(words, np.full((words.shape[0], 2), -1, dtype=np.int64))
        self._index(cover, self._rows.live())

    def apply(self, cover: Cover, removed: I64, rest: I64, new: I64, work: Work) -> CoverUpdate:
        """Verify what removed rows make possible; extend by the pairs that new rows bring."""
        none, no_pairs = np.zeros((0, self._rows.space.width), dtype=np.uint64), np.zeros((0, 2), dtype=np.int64)
        if removed.size and cover.complete:
            self._rows.alive[new] = False
            cover = self._after_removal(cover, work)
            self._rows.alive[new] = True
        if not cover.complete or (new.size and not cover.sets.any(axis=1).all()):
            # nothing to go on from: a search that was cut short, or a table without pairs
            self._words, self._pairs, self._probes = none, no_pairs, []
            cover = self.load(self._rows.live(), work)
            return CoverUpdate(cover, np.ascontiguousarray(self._words), self._pairs)
        if not new.size:
            return CoverUpdate(cover, none, no_pairs)
        self._index(cover, rest)
        for probe, _ in self._probes:
            probe.insert(new)
        self._inside += new.size
        words, pairs = self._incremental(cover, new)
        self._witness(words, pairs)
        cover = self._search.extended(cover, words)
        return CoverUpdate(cover, words, pairs)

    def extend(self, added: pa.Table) -> None:
        """Rows came: the verifier will look at them."""
        if self._table is not None:
            schema = self._table.schema
            self._table = pa.concat_tables([self._table, added.select(schema.names).cast(schema)])

    def weighted(self) -> tuple[U64, I64]:
        """Evidences of the sample with their numbers of pairs."""
        return self._weights

    def _after_removal(self, cover: Cover, work: Work) -> Cover:
        ends = self._pairs
        stays = (ends >= 0).all(axis=1) & self._rows.alive[ends].all(axis=1)
        gone = without(self._words[~stays], self._words[stays])
        self._words, self._pairs = self._words[stays], ends[stays]
        if not gone.shape[0]:
            return cover
        held = canonical(self._rows.space, cover.sets)
        cover = self._search.reduced(cover, np.ascontiguousarray(self._words), gone, work)
        return self._settled(cover, held, work)

    def _settled(self, cover: Cover, held: U64, work: Work) -> Cover:
        """Verify until every rule holds; `held` are known to. Rules left unverified in time are dropped."""
        live = self._rows.live()
        if live.size > 1 and not cover.sets.any(axis=1).all():
            # no evidence is left: any pair breaks the rule without predicates
            cover = self._broken(cover, live[:2].reshape(1, 2))
        while True:
            sets = canonical(self._rows.space, cover.sets)
            pending = without(sets[(sets != 0).any(axis=1)], held)
            if not pending.shape[0]:
                return cover if cover.complete else minimal_among(cover, self._words)
            sizes = np.bitwise_count(pending).sum(axis=1)
            part = np.ascontiguousarray(pending[np.argsort(sizes, kind="stable")[:ROUND]])
            work.tell(held.shape[0] / (held.shape[0] + pending.shape[0]), "verifying rules")
            try:
                broken = self._verify(part, work)
            except OutOfTimeError:
                kept = np.isin(keys(canonical_each(self._rows.space, cover.sets)), keys(held))
                return minimal_among(Cover(cover.sets[kept], complete=False), self._words)
            found = np.array([pair for pair in broken if pair is not None], dtype=np.int64).reshape(-1, 2)
            held = np.concatenate([held, part[[pair is None for pair in broken]]])
            if found.shape[0]:
                cover = self._broken(cover, found)
                fell = keys(part[[pair is not None for pair in broken]])
                if np.isin(fell, keys(canonical(self._rows.space, cover.sets))).any():
                    # such a pair cannot be: it would be found again, for ever
                    raise StateError(
                        "the evidences that are kept are not those of the rows",
                        hint="discover the rules anew",
                    )

    def _broken(self, cover: Cover, pairs: I64) -> Cover:
        """The cover after these pairs, in both orders, are known."""
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
        words = PairWords(self._rows).words(pairs[:, 0], pairs[:, 1])
        self._witness(words, pairs)
        return self._search.extended(cover, np.unique(words, axis=0))

    def _verify(self, sets: U64, work: Work) -> list[tuple[int, int] | None]:
        self.verified += sets.shape[0]
        if self._verifier is None or self._table is None:
            found = breaking_pairs(self._rows, list(sets), work, most=1)
            return [pairs[0] if pairs else None for pairs in found]
        live = self._rows.live()
        table = self._table if live.size == self._table.num_rows else self._table.take(pa.array(live))
        out: list[tuple[int, int] | None] = []
        for mask in sets:
            work.require_time()
            pair = self._verifier(self._rows.space.body(mask), table)
            out.append(None if pair is None else (int(live[pair[0]]), int(live[pair[1]])))
        return out

    def _witness(self, words: U64, pairs: I64) -> None:
        """Keep evidences that are new, with their pairs."""
        _, first = np.unique(keys(words), return_index=True) if words.shape[0] else (None, np.zeros(0, dtype=np.int64))
        words, pairs = words[first], pairs[first]
        new = ~np.isin(keys(words), keys(self._words)) if words.shape[0] and self._words.shape[0] else slice(None)
        self._words = np.concatenate([self._words, words[new]])
        self._pairs = np.concatenate([self._pairs, pairs[new]])

    def _neighbours(self, slots: I64) -> tuple[U64, I64]:
        """Evidences of rows and their next ones by each column."""
        t, s = [], []
        some = slots[: 2 * NEIGHBOURS]
        for column in range(len(self._rows.space.columns)):
            order = some[np.argsort(self._rows.codes[column, some], kind="stable")][:NEIGHBOURS]
            t.append(order[:-1])
            s.append(order[1:])
        return PairWords(self._rows).distinct(np.concatenate(t), np.concatenate(s))

    def _index(self, cover: Cover, slots: I64) -> None:
        """Indexes for the rules that none serves yet, on these rows; all anew when most rows inside are gone."""
        space = self._rows.space
        if self._inside > 2 * slots.size:
            self._probes = []
        sets = canonical(space, cover.sets)
        sets = sets[(sets != 0).any(axis=1)]
        served = np.zeros(sets.shape[0], dtype=np.bool_)
        for _, needed in self._probes:
            served |= ((sets & needed) == needed).all(axis=1)
        rest = sets[~served]
        if not rest.shape[0]:
            return
        self._inside = max(slots.size, self._inside if self._probes else 0)
        for choice, _ in IndexSelection(self._rows, slots).choose(list(rest)):
            probe = CandidateIndex(self._rows, choice)
            probe.insert(slots)
            self._probes.append((probe, space.terms_mask(choice.terms)))

    def _incremental(self, cover: Cover, new: I64) -> tuple[U64, I64]:
        """Algorithms 5 (line 1) and 6: evidences of candidate pairs, as far as a rule lies in them."""
        words, pairs = [np.zeros((0, self._rows.space.width), dtype=np.uint64)], [np.zeros((0, 2), dtype=np.int64)]
        pair_words = PairWords(self._rows)
        self.candidates = 0
        for probe, _ in self._probes:
            for t, s in probe.probe(new):
                self.candidates += t.size
                found, first = pair_words.distinct(t, s)
                hit = np.empty(found.shape[0], dtype=np.bool_)
                kernels.containing(found, cover.sets, hit)
                words.append(found[hit])
                pairs.append(first[hit])
        all_words, all_pairs = np.concatenate(words), np.concatenate(pairs)
        if not all_words.shape[0]:
            return all_words, all_pairs
        _, first = np.unique(keys(all_words), return_index=True)
        return np.ascontiguousarray(all_words[first]), all_pairs[first]

    def explain(self) -> list[str]:
        """What is kept and which indexes serve the rules."""
        space = self._rows.space
        lines = [f"{self._words.shape[0]} evidences with a pair each are kept, {self.verified} rules were verified"]
        return lines + [choice_text(space, probe.choice) for probe, _ in self._probes]

    def size_bytes(self) -> int:
        """Memory held."""
        own = self._words.nbytes + self._pairs.nbytes + sum(array.nbytes for array in self._weights)
        return own + sum(probe.size_bytes() for probe, _ in self._probes)

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state; indexes are built anew when they are needed."""
        return {
            "words": self._words,
            "pairs": self._pairs,
            "sample_words": self._weights[0],
            "sample_counts": self._weights[1],
        }

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
        atoms = self._rows.space.mask(range(len(self._rows.space.atoms)))
        self._words, sample = arrays.sets("words", atoms).copy(), arrays.sets("sample_words", atoms)
        self._pairs = arrays.array("pairs", np.int64, (self._words.shape[0], 2)).copy()
        arrays.within("pairs", self._pairs, -1, self._rows.size - 1)
        counts = arrays.array("sample_counts", np.int64, (sample.shape[0],))
        arrays.within("sample_counts", counts, 0, MOST_SLOTS**2)
        self._weights = sample, counts
        self._probes = []
