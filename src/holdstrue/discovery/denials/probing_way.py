"""The second way: rules from the evidences of a sample, verified on all rows, so that no n^2 pairs are compared.

As Hydra (Bleifuss, Kruse, Naumann: Efficient denial constraint discovery with Hydra) and IncDC of paper 001: a cover of
what is known, verified; each pair that breaks a rule extends the cover, until nothing is broken. It deepens: all
rules of one predicate, of two, and so on, each level verified before the next is entered, so that a search whose time
ends knows up to which length it is complete. Rows that come are compared with all others, or looked up through
indexes, or the rules are verified again, whatever costs least; rows that go take along the evidences whose
pair they were in, and rules that become possible are verified likewise.
"""

from __future__ import annotations

import numpy as np

from holdstrue.discovery.bitsets import keys, without
from holdstrue.discovery.denials.agreeing_pairs import PairPlan
from holdstrue.discovery.denials.batch_costs import BatchCosts, batch_costs
from holdstrue.discovery.denials.candidate_pairs import CandidatePairs
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.counting_way import CoverUpdate
from holdstrue.discovery.denials.cover import Cover, CoverSearch, minimal_among, violated
from holdstrue.discovery.denials.space import canonical, canonical_each
from holdstrue.discovery.denials.steps import LocalSteps, Steps
from holdstrue.discovery.denials.verdicts import PairVerdicts
from holdstrue.discovery.denials.witnessed import Witnessed
from holdstrue.discovery.options import Method
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.errors import StateError
from holdstrue.index.arrays import MOST_SLOTS, Snapshot
from holdstrue.index.checked import Checked
from holdstrue.rules.model import Op
from holdstrue.typing import I64, U64, Mask

SAMPLE_ROWS = 64
"""Rows of the first sample: four thousand ordered pairs. Covers are searched for over all evidences that are known, and
those of 2,000 rows make that a hundred times slower than a search that is told what it needs."""

MEASURED_ROWS = 512
"""Rows of the sample that rules are measured on, and of which pairs may refute them."""

ROUND = 256
"""Rules verified before what broke them extends the others, at least; at most a quarter of those that wait."""

SEARCHING = 0.4
"""The share of the time left that the search of a level may take: the rest is for verifying it."""

SEEN_ROWS = 2048
"""Rows among which another pair is looked for where an evidence lost its own: four million ordered pairs."""

WIDOWS = 128
"""Rows whose pair went that are compared with all others: each costs a tenth of what verifying one rule does, and an
evidence that is not seen again makes several possible. 10,000 of 100,000 generated taxes removed took 0.20 to 0.25 s
with 128, 0.22 to 0.25 with 512, 0.22 to 0.26 with 32; 1,000 updated 0.20 to 0.27, 0.31 and 0.25."""

POOLED = 1 << 14
"""Evidences found so that are kept to refute rules with, at most. Chosen, not tuned."""

SWEPT_ORDERS = 4
"""Orders, and inequalities but one, of a rule beyond which it is searched by boxes (`refuter.py`)."""

MANY_GONE = 0.3
"""The share of evidences that went beyond which the cover is searched anew from those that stayed."""


class ProbingWay:
    """Witnessed evidences and verified rules behind the verbs of a way.

    Memory: `Witnessed`, `CandidatePairs`.
    """

    name = "a sample, and rules verified on all rows"
    method: Method = "index"
    allowed = 0

    def __init__(self, rows: CodedRows, search: CoverSearch, sample: int | None) -> None:
        self._rows = rows
        self._search = search
        self._sample = sample or SAMPLE_ROWS
        self._known = Witnessed(rows.space.width)
        self._weights: tuple[U64, I64] = (self._known.words, np.zeros(0, dtype=np.int64))
        self._probes = CandidatePairs(rows)
        self._pool = Witnessed(rows.space.width)
        self.verified = 0
        self.costs: BatchCosts | None = None

    def load(self, slots: I64, work: Work) -> Cover:
        """Search on a sample, verify on all rows, extend by what breaks, until nothing does."""
        steps = LocalSteps(self._rows)
        self._known = Witnessed(self._rows.space.width)
        self._probes = CandidatePairs(self._rows)
        found = steps.tile(steps.sample(self._sample), None, work)
        self._known.add(found.words, found.pairs)
        measured = found
        if slots.size > self._sample:
            measured = steps.tile(steps.sample(max(self._sample, MEASURED_ROWS)), None, work)
        if not (found.complete and measured.complete):
            return Cover(found.words[:0], complete=False)
        self._weights = measured.words, measured.counts
        self._pool = Witnessed(self._rows.space.width)
        self._pool.add(measured.words, measured.pairs)
        self._draw(steps)
        return self._deepened(steps, work)

    def _draw(self, steps: Steps) -> None:
        """Pairs that agree in one column, or in two: most candidates that do not hold are broken by one of them."""
        for columns in (1, 2):
            self._pool.add(*steps.words(steps.neighbours(columns)))

    def adopt(self, words: U64, counts: I64, cover: Cover) -> None:
        """Start from evidences counted elsewhere, of which no pair is known: they hold until a row goes."""
        self._weights = words, counts
        self._known.add(words, np.full((words.shape[0], 2), -1, dtype=np.int64))

    def _deepened(self, steps: Steps, work: Work) -> Cover:
        """All rules; or those of up to k predicates, and some of the longer ones, when the time ends."""
        held: U64 = self._known.words[:0]
        if not len(self._known):
            return self._search.search(self._known.words, work)
        for length in range(1, self._search.most + 1):
            search = self._search.up_to(length)
            before = len(self._known)
            found = search.search(self._known.words, work.first(SEARCHING))
            cover, held = self._settled(found, held, search, steps, work)
            if not cover.complete:
                return Cover(cover.sets, complete=False, length=length - 1)
            # no evidence is new, and none was looked away from: longer rules would have been found
            if not found.bounded and len(self._known) == before:
                break
        return Cover(cover.sets)

    def apply(self, cover: Cover, removed: I64, rest: I64, new: I64, work: Work) -> CoverUpdate:
        """Follow a batch by what costs least; the rules are then those of a search anew, up to the same length."""
        empty = bool(new.size) and not cover.sets.any(axis=1).all()
        if empty or not (cover.complete or cover.length):
            # nothing to go on from: a search that was cut short, or a table without pairs
            cover = self.load(self._rows.live(), work)
            return CoverUpdate(cover, self._known.words, self._known.pairs, anew=True)
        try:
            update = self._followed(cover, removed, rest, new, work)
        except OutOfTimeError:
            update = None
        if update is not None and update.cover.complete:
            found = Cover(update.cover.sets, cover.complete, cover.length)
            return CoverUpdate(found, update.words, update.pairs)
        cover = self.load(self._rows.live(), work)
        return CoverUpdate(cover, self._known.words, self._known.pairs, anew=True)

    def _followed(self, cover: Cover, removed: I64, rest: I64, new: I64, work: Work) -> CoverUpdate:
        search = self._search if cover.complete else self._search.up_to(cover.length)
        held = canonical(self._rows.space, cover.sets)
        steps, now = LocalSteps(self._rows, new, cover.sets) if new.size else LocalSteps(self._rows), Cover(cover.sets)
        if removed.size:
            before = len(self._known)
            gone, left = self._known.leave(self._rows.alive)
            self._pool.leave(self._rows.alive)
            gone = self._seen_again(gone, left, steps, work)
            if before - len(self._known) > MANY_GONE * before or not len(self._known):
                now = search.search(self._known.words, work)
            elif gone.shape[0]:
                now = search.reduced(now, self._known.words, gone, work)
        mark = len(self._known)
        if new.size:
            now, held = self._extended(search, now, held, rest, new, steps, work)
        now, held = self._listed(search, now, held, steps, work)
        now, _ = self._settled(now, held, search, steps, work)
        return CoverUpdate(now, np.ascontiguousarray(self._known.words[mark:]), self._known.pairs[mark:])

    def _seen_again(self, gone: U64, left: I64, steps: Steps, work: Work) -> U64:
        """Evidences that lost their pair, without those of which other pairs are at hand.

        The row that is left of a pair often has the same with a row that is like the one that went.
        """
        if not gone.shape[0]:
            return gone
        self._regain(gone, self._pool.words, self._pool.pairs)
        found = steps.tile(steps.sample(SEEN_ROWS), None, work)
        self._regain(gone, found.words, found.pairs)
        rest = without(gone, self._known.words)
        if rest.shape[0] and left.size:
            left = left[:WIDOWS]
            found = steps.tile(left, np.setdiff1d(self._rows.live(), left, assume_unique=True), work)
            self._regain(gone, found.words, found.pairs)
            if found.words.shape[0] <= POOLED:
                self._pool.add(found.words, found.pairs)
            rest = without(rest, self._known.words)
        return rest

    def _regain(self, gone: U64, words: U64, pairs: I64) -> None:
        """Keep evidences that went with other pairs that have them."""
        if words.shape[0]:
            again = np.isin(keys(words), keys(gone))
            self._known.add(np.ascontiguousarray(words[again]), pairs[again])

    def _extended(
        self, search: CoverSearch, cover: Cover, held: U64, rest: I64, new: I64, steps: LocalSteps, work: Work
    ) -> tuple[Cover, U64]:
        """The cover after pairs of new rows, and which of its rules hold for sure; `held` did before they came."""
        mark, space, plans = len(self._known), self._rows.space, list[PairPlan]()

        def planned() -> float:
            plans.append(steps.plan(canonical(space, cover.sets), work, whole=False))
            return plans[0].seconds

        self.costs = batch_costs(self._rows, cover.sets, rest.size, new.size, self._weights, planned)
        if self._compared(search, cover, rest, new, steps, work):
            known = not without(canonical(space, cover.sets), held).shape[0]
            cover = search.extended(cover, np.ascontiguousarray(self._known.words[mark:]), work)
            # what extends a rule that held before holds for the rows of before too
            return cover, canonical(space, cover.sets) if known else held
        plan = plans[0] if plans else steps.plan(canonical(space, cover.sets), work, whole=False)
        cover = self._met(search, cover, steps.agreeing(plan, work, whole=False), work)
        sets = canonical(space, cover.sets)
        return cover, np.ascontiguousarray(sets[self._asking(plan, sets) & steps.held_before(sets)])

    def _listed(self, search: CoverSearch, cover: Cover, held: U64, steps: LocalSteps, work: Work) -> tuple[Cover, U64]:
        """The cover after all pairs that agree on what some rules ask for, where that is less than verifying them."""
        pending = without(canonical(self._rows.space, cover.sets), held)
        pending = np.ascontiguousarray(pending[pending.any(axis=1)])
        pending = np.ascontiguousarray(pending[~steps.held_before(pending)])
        if not pending.shape[0]:
            return cover, held
        plan = steps.plan(pending, work, whole=True)
        if not plan.listed:
            return cover, held
        cover = self._met(search, cover, steps.agreeing(plan, work, whole=True), work)
        sets = canonical(self._rows.space, cover.sets)
        known = np.concatenate([held, sets[self._asking(plan, sets)]])
        return cover, np.unique(known, axis=0)

    def _met(self, search: CoverSearch, cover: Cover, found: tuple[U64, I64], work: Work) -> Cover:
        """The cover after evidences, which are kept as far as a rule lies in them."""
        mark = len(self._known)
        self._known.add(*search.touching(cover, *found))
        return search.extended(cover, np.ascontiguousarray(self._known.words[mark:]), work)

    def _asking(self, plan: PairPlan, sets: U64) -> Mask:
        """Which sets ask for one of the equalities of a plan."""
        space = self._rows.space
        asking = np.zeros(sets.shape[0], dtype=np.bool_)
        for equal in plan.listed:
            asked = space.terms_mask((space.comparison(left, right), Op.EQ) for left, right in equal)
            asking |= ((sets & asked) == asked).all(axis=1)
        return asking

    def _compared(self, search: CoverSearch, cover: Cover, rest: I64, new: I64, steps: Steps, work: Work) -> bool:
        """Whether the evidences of all pairs of new rows are known, as far as a rule lies in them."""
        assert self.costs is not None
        # the rule without predicates, where no evidence is known, is served by no index
        if self.costs.cheapest == "indexes" and cover.sets.any(axis=1).all():
            self._probes.serve(cover.sets, rest)
            self._probes.insert(new)
            self._known.add(*self._probes.fetch(cover.sets, new, work))
            return True
        self._probes = CandidatePairs(self._rows)
        if self.costs.cheapest != "counting":
            return False
        for other in (None, rest):
            found = steps.tile(new, other, work)
            if not found.complete:
                return False
            self._known.add(*search.touching(cover, found.words, found.pairs))
        return True

    def weighted(self) -> tuple[U64, I64]:
        """Evidences of the sample with their numbers of pairs."""
        return self._weights

    def violations(self, sets: U64, work: Work) -> I64:
        """None: its rules hold."""
        return np.zeros(sets.shape[0], dtype=np.int64)

    def _settled(self, cover: Cover, held: U64, search: CoverSearch, steps: Steps, work: Work) -> tuple[Cover, U64]:
        """Verify until every rule holds; `held` are known to, and are returned with those found to.

        Where time ends the rules that are known to hold stay, and the cover is not complete.
        """
        space = self._rows.space
        live = self._rows.live()
        if live.size > 1 and not cover.sets.any(axis=1).all():
            # no evidence is known: any pair breaks the rule without predicates
            cover = self._broken(cover, live[:2].reshape(1, 2), search, steps, work)
        while True:
            sets = canonical(space, cover.sets)
            pending = without(sets[(sets != 0).any(axis=1)], held)
            if not pending.shape[0]:
                return (cover if cover.complete else minimal_among(cover, self._known.words)), held
            work.tell(held.shape[0] / (held.shape[0] + pending.shape[0]), "verifying rules")
            simple = ~self._many_orders(pending)
            if simple.any():
                # what breaks these extends the others, most of which need not be looked at then
                pending = np.ascontiguousarray(pending[simple])
            size = max(ROUND, pending.shape[0] // 4)
            part = np.ascontiguousarray(pending[self._likely(pending)[:size]])
            verdicts = self._verified(part, steps, work)
            held = np.concatenate([held, part[verdicts.holds]])
            broken = np.flatnonzero(verdicts.broken)
            try:
                if broken.size:
                    cover = self._broken(cover, verdicts.pairs[broken], search, steps, work)
            except OutOfTimeError:
                return self._held(cover, held), held
            if not verdicts.looked.all():
                return self._held(cover, held), held
            if np.isin(keys(part[broken]), keys(canonical(space, cover.sets))).any():
                # such a pair cannot be: it would be found again, for ever
                raise StateError(
                    "the evidences that are kept are not those of the rows",
                    hint="discover the rules anew",
                )

    def _verified(self, sets: U64, steps: Steps, work: Work) -> PairVerdicts:
        """By pairs at hand first, then on all rows."""
        if not len(self._pool):
            if sets.shape[0] < ROUND:
                return self._on_all_rows(sets, steps, work)
            self._draw(steps)
        place = np.concatenate(
            work.each(lambda part: violated(np.ascontiguousarray(part), self._pool.words), np.array_split(sets, 16))
        )
        easy = place >= 0
        pairs = np.where(easy[:, None], self._pool.pairs[place], -1)
        hard = self._on_all_rows(np.ascontiguousarray(sets[~easy]), steps, work)
        pairs[~easy] = hard.pairs
        looked = easy.copy()
        looked[~easy] = hard.looked
        return PairVerdicts(looked, pairs)

    def _on_all_rows(self, sets: U64, steps: Steps, work: Work) -> PairVerdicts:
        verdicts = steps.verify(sets, work)
        self.verified += int(verdicts.looked.sum())
        return verdicts

    def _held(self, cover: Cover, held: U64) -> Cover:
        kept = np.isin(keys(canonical_each(self._rows.space, cover.sets)), keys(held))
        return minimal_among(Cover(cover.sets[kept], complete=False), self._known.words)

    def _many_orders(self, sets: U64) -> Mask:
        """Which rules have more orders, and inequalities but one, than a sweep takes: boxes can take hundreds of times
        as long."""
        space, orders = self._rows.space, np.full(sets.shape[0], -1, dtype=np.int64)
        for first, comparison in zip(space.offsets, space.comparisons, strict=True):
            atoms = space.mask(range(first, first + len(comparison.atoms)))
            there = np.bitwise_count(sets & atoms).sum(axis=1)
            equal = space.mask(first + at for at, op in enumerate(comparison.atoms) if op is not Op.NE)
            orders += (there > 0) & ((sets & atoms) != equal).any(axis=1)
        found: Mask = orders > SWEPT_ORDERS
        return found

    def _likely(self, sets: U64) -> I64:
        """An order in which rules come first that chance would break most often: they say the most where they hold."""
        words, counts = self._weights
        atoms = len(self._rows.space.atoms)
        total = max(1, int(counts.sum()))
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :atoms]
        shares = np.log((counts @ bits + 0.5) / (total + 0.5)) if words.shape[0] else np.zeros(atoms)
        mine = np.unpackbits(np.ascontiguousarray(sets).view(np.uint8), axis=1, bitorder="little")[:, :atoms]
        found: I64 = np.argsort(-(mine @ shares), kind="stable")
        return found

    def _broken(self, cover: Cover, pairs: I64, search: CoverSearch, steps: Steps, work: Work) -> Cover:
        """The cover after these pairs, in both orders, are known."""
        words, first = steps.words(pairs)
        self._known.add(words, first)
        return search.extended(cover, np.unique(words, axis=0), work)

    def explain(self) -> list[str]:
        """What is kept, what the last batch would have cost, and which indexes serve the rules."""
        lines = [f"{len(self._known)} evidences with a pair each are kept, {self.verified} rules were verified"]
        return lines + ([] if self.costs is None else [self.costs.text]) + self._probes.explain()

    def size_bytes(self) -> int:
        """Memory held."""
        return (
            self._known.size_bytes()
            + self._pool.size_bytes()
            + sum(array.nbytes for array in self._weights)
            + self._probes.size_bytes()
        )

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state; indexes are built anew when they are needed."""
        sample = {"sample_words": self._weights[0], "sample_counts": self._weights[1]}
        return self._known.snapshot() | sample

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot."""
        atoms = self._rows.space.mask(range(len(self._rows.space.atoms)))
        self._known.restore(arrays, atoms, self._rows.size)
        sample = arrays.sets("sample_words", atoms)
        counts = arrays.array("sample_counts", np.int64, (sample.shape[0],))
        arrays.within("sample_counts", counts, 0, MOST_SLOTS**2)
        self._weights = sample, counts
