"""Denial constraints discovered in a table and kept current: the core behind discovery of the kind `dc`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdstrue.discovery.bitsets import without
from holdstrue.discovery.denials.batch_costs import batch_costs
from holdstrue.discovery.denials.breaking_pairs import near_misses, near_misses_by_sweeps
from holdstrue.discovery.denials.choose_space import choose_space, space_from
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.counting_way import CountingWay, CoverUpdate
from holdstrue.discovery.denials.cover import Cover, CoverSearch, violated
from holdstrue.discovery.denials.measures import ColumnFacts, DenialRule, Measures
from holdstrue.discovery.denials.probing_way import ProbingWay
from holdstrue.discovery.denials.refuter import Refuter
from holdstrue.discovery.denials.space import Space, contradictory, shown
from holdstrue.discovery.denials.sweeping_way import SweepingWay
from holdstrue.discovery.denials.way_choice import NEW_PAIRS, chosen_way
from holdstrue.discovery.found import Died, NearMiss, RuleTurnover
from holdstrue.discovery.options import DiscoveryOptions, Method
from holdstrue.discovery.work import Work
from holdstrue.errors import DataError
from holdstrue.index.arrays import Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.rules.model import DC
from holdstrue.typing import I64, U64

SEARCHED = 0.85
"""The share of the time that the search may take: what is found has to be ranked and told."""

MOST_RULES = 50_000
"""Rules after which a search stops, and says so: nobody reads more, and ranking these takes some seconds."""


class DenialCore:
    """All minimal denial constraints of a table, under rows that come and go.

    Every change leaves the rules that discovery from scratch over the same predicate space would find; the
    space is chosen when the table is loaded. `complete` is False when the time or another limit ended the
    search: then rules that are shown hold and are minimal, but there may be others.

    Memory: `CodedRows`, and what the way in use keeps (`CountingWay` or `ProbingWay`); 8 bytes a word and rule.

    Examples
    --------
    >>> table = pa.table({"zip": ["a", "a", "b"], "city": ["x", "x", "x"], "n": [1, 2, 3]})
    >>> core = DenialCore.load(table)
    >>> sorted(rule.body.text for rule in core.rules())
    ['not(t.city != s.city)', 'not(t.n = s.n)']
    >>> turnover = core.apply(np.array([2]), pa.table({"zip": ["a"], "city": ["y"], "n": [4]}))
    >>> [(died.body.text, died.rows) for died in turnover.died]
    [('not(t.city != s.city)', (3, 0))]
    """

    def __init__(
        self, space: Space, options: DiscoveryOptions, *, method: Method | None = None, most_rules: int = MOST_RULES
    ) -> None:
        self.space = space
        self.options = options
        self._wanted = method
        self._rows = CodedRows(space)
        self._search = CoverSearch(space, options.max_predicates, most_rules)
        self._cover = Cover(np.zeros((1, space.width), dtype=np.uint64))
        self._most_rules = most_rules
        self._way: CountingWay | ProbingWay | SweepingWay = CountingWay(self._rows, self._search, options.error)
        self._reasons: list[str] = []
        self.near_length: int | None = None
        """Up to how many predicates all near misses were found when they were last looked for; None: all there are."""

    @classmethod
    def load(
        cls,
        table: pa.Table,
        options: DiscoveryOptions | None = None,
        work: Work | None = None,
        *,
        space: Space | None = None,
        method: Method | None = None,
        most_rules: int = MOST_RULES,
    ) -> DenialCore:
        """Discover from scratch.

        Parameters
        ----------
        table
            The rows; they get slots 0, 1, 2, ...
        options, work
            What is looked for; time, threads and progress.
        space
            Instead of one chosen from the table.
        method
            `evidence`: the evidences of all pairs are counted. `index`: rules are searched on a sample and verified,
            new rows by what costs least. `sweep`: sets of atoms are counted by sweeps. By default the number of pairs
            and of evidences decides.
        most_rules
            The search ends when it has found this many.

        Complexity: O(rows^2 x comparisons / lanes of a vector) with counted evidences.
        """
        options = options or DiscoveryOptions()
        core = cls(space or choose_space(table, options), options, method=method, most_rules=most_rules)
        work = (work or Work()).first(SEARCHED)
        slots = core._rows.insert(table)
        method, reason = chosen_way(core._rows, options, method, work)
        core._reasons = [reason]
        core._way = core._way_of(method)
        core._cover = core._way.load(slots, work)
        return core

    @property
    def complete(self) -> bool:
        """Whether all rules there are were found."""
        return self._cover.complete

    @property
    def length(self) -> int | None:
        """Up to how many predicates all rules were found; None: all there are."""
        return None if self._cover.complete else self._cover.length

    @property
    def slots(self) -> int:
        """How many slots were given out: the next row gets this one."""
        return self._rows.size

    def living(self) -> I64:
        """The slots of the rows that are there, ascending."""
        return self._rows.live()

    @property
    def method(self) -> Method:
        """The way in use."""
        return self._way.method

    def apply(self, removed: I64, added: pa.Table, work: Work | None = None) -> RuleTurnover:
        """Take rows out (by slot) and put rows in; returns the rules that this ended and made.

        Runtime complexity: O(rows of the batch x rows) comparisons with counted evidences; with indexes
        O(candidate pairs), and verification of what removed rows make possible.
        """
        work = work or Work(threads=self.options.threads)
        before = shown(self.space, self._cover.sets)
        gone = np.unique(np.asarray(removed, dtype=np.int64)) if len(removed) else np.zeros(0, dtype=np.int64)
        if gone.size != len(removed):
            raise DataError("a row is removed twice in one batch", hint="remove each row once")
        self._choose_way(gone.size, added.num_rows)
        self._rows.remove(gone)
        rest = self._rows.live()
        new = self._rows.insert(added)
        outcome = self._way.apply(self._cover, gone, rest, new, work)
        self._cover = outcome.cover
        return self._turnover(before, outcome, work)

    def rules(self) -> tuple[DenialRule, ...]:
        """The rules that hold now, the most interesting first. Runtime complexity: as `Measures`, for each rule."""
        sets = shown(self.space, self._cover.sets)
        words, counts = self._way.weighted()
        measures = Measures(self.space, words, counts, self._facts(), sampled=self.method != "evidence")
        rules = measures.rules(sets, self._violations(sets))
        return tuple(sorted(rules, key=lambda rule: (-rule.score, len(rule.body.predicates))))

    def bodies(self) -> tuple[DC, ...]:
        """The rules that hold now without measures, in a fixed order."""
        return tuple(self.space.body(mask) for mask in shown(self.space, self._cover.sets))

    def near_misses(self, most: int, work: Work, *, limit: int = 100) -> tuple[tuple[NearMiss, ...], bool]:
        """Rules that at most this many ordered pairs break, with those pairs: likely errors in the data.

        The best of them, and whether there was time to look for all; `near_length` says up to which length there was.
        Where not all pairs are counted, rules are, by sweeps.
        """
        words, counts = self._way.weighted()
        measures = Measures(self.space, words, counts, self._facts(), sampled=self.method != "evidence")
        self.near_length = None
        if self.method == "evidence":
            return near_misses(self._rows, self._search, (words, counts), measures, most, limit, work)
        found, self.near_length = near_misses_by_sweeps(self._rows, self._search, measures, most, limit, work)
        return found, self.near_length is None

    def explain(self) -> list[str]:
        """Which way is in use, why, and what it keeps."""
        whole = "complete" if self.complete else f"complete up to {self._cover.length} predicates"
        found = f"{len(self._cover.sets)} sets of atoms, {whole}"
        head = f"{self.space.predicates} predicates on {len(self.space.columns)} columns; way: {self._way.name}"
        return [head, *self._reasons, *self._way.explain(), found]

    def _choose_way(self, removed: int, added: int) -> None:
        """From counted evidences to indexes when the new pairs are too many."""
        if self.method != "evidence":
            return
        rest = self._rows.live().size - removed
        cost = batch_costs(self._rows, self._cover.sets, rest, added, self._way.weighted())
        self._reasons = [cost.text]
        better = cost.pairs > NEW_PAIRS and cost.cheapest != "counting" and not removed
        if self._wanted is None and not self.options.error and better and self.complete:
            probing = self._probing()
            probing.adopt(*self._way.weighted(), self._cover)
            self._way = probing

    def _probing(self) -> ProbingWay:
        return ProbingWay(self._rows, self._search, self.options.sample)

    def _way_of(self, method: Method) -> CountingWay | ProbingWay | SweepingWay:
        if method == "sweep":
            return SweepingWay(self._rows, self._search, self.options.error, self._most_rules)
        return self._probing() if method == "index" else self._way

    def _violations(self, sets: U64) -> list[int]:
        """By rule: the ordered pairs that break it."""
        if not self.options.error:
            return [0] * sets.shape[0]
        broken: list[int] = self._way.violations(sets, Work(threads=self.options.threads)).tolist()
        return broken

    def _facts(self) -> ColumnFacts:
        live = self._rows.live()
        spread = []
        for i, domain in enumerate(self.space.domains):
            codes = self._rows.codes[i, live][self._rows.known[i, live]]
            whole = domain.kind == "int" and codes.size
            spread.append(float(codes.max()) - float(codes.min()) + 1 if whole else 1.0)
        continuous = tuple(domain.kind == "float" for domain in self.space.domains)
        if self.method == "evidence":
            return ColumnFacts(continuous, tuple(spread))
        pairs = max(1, live.size * (live.size - 1))
        equal = self.space.nulls == "equal"
        known, agreeing = [], []
        for i in range(len(self.space.columns)):
            mine = self._rows.known[i, live]
            counts = np.unique(self._rows.codes[i, live][mine], return_counts=True)[1]
            missing = live.size - int(mine.sum())
            counts = np.append(counts, missing) if equal else counts
            there = int(counts.sum())
            known.append(there * (there - 1) / pairs)
            agreeing.append(float((counts * (counts - 1)).sum() / pairs))
        return ColumnFacts(continuous, tuple(spread), pairs, tuple(known), tuple(agreeing))

    def _turnover(self, before: U64, outcome: CoverUpdate, work: Work) -> RuleTurnover:
        after = shown(self.space, self._cover.sets)
        died, born = without(before, after), without(after, before)
        witnesses = self._witnesses(died, outcome, work)
        return RuleTurnover(
            tuple(Died(self.space.body(mask), pair) for mask, pair in zip(died, witnesses, strict=True)),
            tuple(self.space.body(mask) for mask in born),
        )

    def _witnesses(self, died: U64, outcome: CoverUpdate, work: Work) -> list[tuple[int, ...]]:
        """A pair that breaks each rule, from the batch's own pairs; none where it still holds."""
        place = violated(died, outcome.words) if died.shape[0] else np.zeros(0, dtype=np.int64)
        pairs: list[tuple[int, ...]] = [tuple(outcome.pairs[e].tolist()) if e >= 0 else () for e in place.tolist()]
        if self.options.error:
            broken = [count > self._way.allowed for count in self._violations(died)]
            pairs = [pair if is_broken else () for pair, is_broken in zip(pairs, broken, strict=True)]
            lost = [i for i, pair in enumerate(pairs) if broken[i] and not pair]
        else:
            # a search that was cut short may have lost rules without a pair of the batch breaking them
            sure = self.complete and not outcome.anew
            lost = [] if sure else [i for i, pair in enumerate(pairs) if not pair]
        if lost:
            verdicts = Refuter(self._rows, work).verify(np.ascontiguousarray(died[lost]), work)
            for at, i in enumerate(lost):
                pairs[i] = verdicts.pair(at) or ()
        return pairs

    def size_bytes(self) -> dict[str, int]:
        """Memory of each part."""
        return {
            "rows": self._rows.size_bytes(),
            self._way.name: self._way.size_bytes(),
            "rules": int(self._cover.sets.nbytes),
        }

    def snapshot(self) -> Snapshot:
        """Plain arrays that make up the state."""
        arrays = nested("rows", self._rows.snapshot()) | nested("way", self._way.snapshot())
        arrays["cover"] = self._cover.sets
        arrays["flags"] = np.array([self._cover.complete, self.method == "index"])
        if self.method == "sweep":
            arrays["sweeping"] = np.array([True])
        arrays["length"] = np.array([self._cover.length], dtype=np.int64)
        arrays["columns"] = np.frombuffer("\0".join(self.space.columns).encode(), dtype=np.uint8).copy()
        arrays["comparisons"] = np.array([(c.left, c.right, c.ordered) for c in self.space.comparisons], dtype=np.int64)
        return arrays

    @classmethod
    def restore(
        cls,
        schema: pa.Schema,
        options: DiscoveryOptions,
        arrays: Checked,
    ) -> DenialCore:
        """The core as it was left."""
        comparisons = arrays.array("comparisons", np.int64, (0, 3), grows=0)
        try:
            names = arrays.array("columns", np.uint8, (0,), grows=0).tobytes().decode().split("\0")
            space = space_from(schema, names, comparisons, options)
        except ValueError as error:
            raise arrays.damaged(f"its comparisons cannot be: {error}") from error
        core = cls(space, options)
        core._rows.restore(arrays.part("rows"))
        complete, probing = arrays.flags("flags", 2).tolist()
        sweeping = "sweeping" in arrays
        arrays.require(not (probing and sweeping), "it is kept in two ways")
        core._way = core._way_of("sweep" if sweeping else "index" if probing else "evidence")
        core._way.restore(arrays.part("way"))
        sets = arrays.sets("cover", space.mask(range(len(space.atoms)))).copy()
        arrays.require(not contradictory(space, sets).any(), "a rule contradicts itself")
        length = 0
        if "length" in arrays:
            [length] = arrays.array("length", np.int64, (1,)).tolist()
            arrays.require(0 <= length <= len(space.comparisons), f"rules of {length} predicates cannot be")
        core._cover = Cover(sets, complete, length)
        core._reasons = ["as it was left"]
        return core
