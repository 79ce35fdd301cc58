"""Evidences of the pairs that new rows bring, fetched through indexes: IncDC, Algorithms 5 and 6 of paper 001.

Qian, Li, Tan, Ran, Ma: Incremental discovery of denial constraints. Only pairs that may break a rule are fetched.
"""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.bitsets import keys
from holdstrue.discovery.denials.candidate_index import CandidateIndex
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.pair_words import PairWords
from holdstrue.discovery.denials.select_index import IndexSelection, choice_text
from holdstrue.discovery.denials.space import canonical
from holdstrue.discovery.work import Work
from holdstrue.kernels import hitting_sets as kernels
from holdstrue.typing import I64, U64


class CandidatePairs:
    """Indexes that serve a set of rules (SelectIndex), kept for the next batch; rows that went stay inside.

    Memory: 16 bytes a row for each index on an equality and 20 bytes a row for each on inequalities.
    """

    def __init__(self, rows: CodedRows) -> None:
        self._rows = rows
        self._probes: list[tuple[CandidateIndex, U64]] = []
        self._inside = 0
        self.candidates = 0
        """Pairs that the last batch looked at."""

    def serve(self, sets: U64, slots: I64) -> None:
        """Indexes for the rules that none serves yet, on these rows; all anew when most rows inside are gone."""
        space = self._rows.space
        if self._inside > 2 * slots.size:
            self._probes = []
        sets = canonical(space, sets)
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

    def insert(self, slots: I64) -> None:
        """Rows came. Runtime complexity: as the indexes' own."""
        for probe, _ in self._probes:
            probe.insert(slots)
        self._inside += slots.size if self._probes else 0

    def fetch(self, sets: U64, new: I64, work: Work) -> tuple[U64, I64]:
        """Evidences of candidate pairs, as far as a rule lies in them, with a pair each.

        Raises
        ------
        OutOfTimeError
            When the deadline passes.
        """
        words, pairs = [np.zeros((0, self._rows.space.width), dtype=np.uint64)], [np.zeros((0, 2), dtype=np.int64)]
        pair_words = PairWords(self._rows)
        self.candidates = 0
        for probe, _ in self._probes:
            for t, s in probe.probe(new):
                work.require_time()
                self.candidates += t.size
                found, first = pair_words.distinct(t, s)
                hit = np.empty(found.shape[0], dtype=np.bool_)
                kernels.containing(found, sets, hit)
                words.append(found[hit])
                pairs.append(first[hit])
        all_words, all_pairs = np.concatenate(words), np.concatenate(pairs)
        if not all_words.shape[0]:
            return all_words, all_pairs
        _, first = np.unique(keys(all_words), return_index=True)
        return np.ascontiguousarray(all_words[first]), all_pairs[first]

    def ranks(self) -> list[int]:
        """By index the number of its chains; 0 for those without."""
        return [probe.rank for probe, _ in self._probes]

    def explain(self) -> list[str]:
        """The indexes as the paper writes them."""
        return [choice_text(self._rows.space, probe.choice) for probe, _ in self._probes]

    def size_bytes(self) -> int:
        """Memory held."""
        return sum(probe.size_bytes() for probe, _ in self._probes)
