"""Minimal keys and functional dependencies of a table, kept exact as rows come and go.

Under changes (the idea of DynFD, Schirmer et al. 2019): new rows can only break dependencies, and
only in groups they are in; gone rows can only mend them, where the pair that showed the contrary lost
a row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdstrue.discovery.bitsets import set_of, without
from holdstrue.discovery.dependencies.agree_sets import AgreeSets
from holdstrue.discovery.dependencies.coded_core import CodedCore
from holdstrue.discovery.dependencies.left_sides import LeftSides
from holdstrue.discovery.dependencies.ranking import Dependency, judged, profiles
from holdstrue.discovery.dependencies.search import Extents, LeftSideSearch, sample
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.found import Died, RuleTurnover
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.index.arrays import Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.rules.model import Body
from holdstrue.typing import I64, U64


class DependencyCore(CodedCore):
    """All minimal keys and FDs of a table.

    Examples
    --------
    >>> table = pa.table({"id": [1, 2, 3], "zip": [10, 10, 20], "city": ["A", "A", "B"]})
    >>> core = DependencyCore.load(table)
    >>> sorted(core.bodies(), key=str)[-1]
    Key(columns=('id',))
    >>> turnover = core.apply(np.array([], dtype=np.int64), pa.table({"id": [4], "zip": [20], "city": ["C"]}))
    >>> turnover.died[0].body, turnover.died[0].rows
    (FD(lhs=('zip',), rhs=('city',)), (2, 3))
    """

    def __init__(self, schema: pa.Schema, options: DiscoveryOptions) -> None:
        if options.error:
            raise ValueError("rules with an error are found by ApproximateCore")
        super().__init__(schema, options)
        covers = [LeftSides(target, len(self.names)) for target in self._targets]
        self._search = LeftSideSearch(self.codes, AgreeSets(len(self.names)), covers, Extents(), self._longest)

    def _find(self, work: Work) -> None:
        parts = Partitions(self.codes)
        parts.ranked(work)
        sample(self.codes, parts, self._search.agree_sets, work)
        work.tell(0.05, "rows sampled")
        self._search.take(self._search.agree_sets.known(), work)
        self.complete = self._search.deepen(parts, parts, work.part(0.05, 0.95))

    @property
    def searched(self) -> int:
        """All rules with left sides (keys) of up to this many columns were found, also when not `complete`."""
        return self._search.searched

    @property
    def length(self) -> int | None:
        """Up to how many columns on the left all rules were found; None: all there are."""
        return None if self.complete else self._search.searched

    def apply(self, removed: I64, added: pa.Table, work: Work | None = None) -> RuleTurnover:
        """Take rows out by slot, add others; what became of the rules.

        Complexity: O(rows) for every column to find the groups of new rows, then O(rows in these groups);
        removed rows cost a validation for each pair of the evidence that they were in.
        """
        search, codes, work = self._search, self.codes, work or self._work
        # all that can be refused is refused here, before anything changes
        fresh_codes, places = codes.encode(added, work), codes.places(removed)
        before = {cover.target: cover.holding().copy() for cover in search.covers}
        unsearched = self.bodies() if search.searched == 0 and not self.complete else ()
        search.resume()
        gone = np.zeros(codes.used, dtype=np.bool_)
        gone[places] = True
        gone_codes = codes.matrix[:, places]
        codes.remove(places)
        lost = search.agree_sets.remove(gone) if places.size else np.empty(0, dtype=np.int64)
        moved = codes.compact()
        if moved is not None:
            search.agree_sets.move(moved)
        fresh = codes.used
        codes.append(fresh_codes)
        if added.num_rows:
            for cover in search.covers:
                cover.age()
        search.extents.follow(codes, fresh, gone_codes, before.values(), work)
        whole = Partitions(codes)
        touched = Partitions(codes, fresh) if added.num_rows and fresh else whole
        self._mend(lost, whole, work)
        self.complete = search.deepen(whole, touched, work)
        turnover = self._turnover(before)
        told = {*self.bodies(), *(one.body for one in turnover.died)} if unsearched else set()
        ended = tuple(Died(body, self._witness(body)) for body in unsearched if body not in told)
        turnover = RuleTurnover(turnover.died + ended, turnover.born)
        search.agree_sets.compact()
        return turnover

    def _mend(self, lost: I64, whole: Partitions, work: Work) -> None:
        """Look for other pairs where those are gone that showed a dependency not to hold; renew covers without."""
        search = self._search
        evidence = search.agree_sets
        if lost.size == 0:
            return
        targets = set_of((cover.target for cover in search.covers), evidence.words)
        # agree sets inside a known one told nothing
        wanted = evidence.uncovered(lost) & targets
        asked = np.flatnonzero(wanted.any(axis=1))
        if asked.size == 0:
            return
        tested = Validator(whole, work).test(evidence.agree[lost[asked]], wanted[asked])
        mended = np.bitwise_or.reduce(wanted[asked] & ~tested.broken, axis=0)
        search.take(evidence.add(self.codes.matrix, tested.pairs), work)
        renewed = [c for c in search.covers if mended[c.target >> 6] & np.uint64(1 << (c.target & 63))]
        search.renew(renewed, work)

    def _turnover(self, before: dict[int, U64]) -> RuleTurnover:
        died: list[Body] = []
        born: list[Body] = []
        for cover in self._search.covers:
            target, held = cover.target, cover.holding()
            died += [self._body(target, line) for line in without(before[target], held) if self._shown(target, line)]
            born += [self._body(target, line) for line in without(held, before[target]) if self._shown(target, line)]
        return RuleTurnover(tuple(Died(body, self._witness(body)) for body in died), tuple(born))

    def _witness(self, body: Body) -> tuple[int, ...]:
        """Slots of two rows that break a dependency; none when it holds."""
        target, line = self._target_and_line(body)
        evidence = self._search.agree_sets
        numbers = evidence.against(evidence.known(), target)
        breaking = numbers[((evidence.agree[numbers] & line) == line).all(axis=1)]
        if breaking.size == 0:
            return ()
        return tuple(int(slot) for slot in self.codes.slots[np.sort(evidence.witness[breaking[0]])])

    def _shown(self, target: int, line: U64) -> bool:
        return target < len(self.names) or bool(line.any())

    def _dependencies(self) -> tuple[U64, I64]:
        """The left sides that hold, and their targets."""
        search = self._search
        parts = [(cover.target, cover.holding()) for cover in search.covers]
        if search.searched == 0 and not self.complete:
            parts = [(target, self._unique(sets) if target == len(self.names) else sets) for target, sets in parts]
        lines = np.concatenate([sets for _, sets in parts] or [np.empty((0, search.agree_sets.words), dtype=np.uint64)])
        targets = np.concatenate([np.full(len(sets), target) for target, sets in parts] or [np.empty(0)])
        targets = targets.astype(np.int64)
        shown = (targets < len(self.names)) | lines.any(axis=1)
        return lines[shown], targets[shown]

    def _unique(self, known: U64) -> U64:
        """These keys and every column that is one by itself: those take no search, and are told when it had no time."""
        if self.codes.rows < 2 or (known.shape[0] and not known.any(axis=1).all()):
            return known
        codes = self.codes.matrix[:, self.codes.members()]
        found = []
        for column, of_rows in enumerate(codes):
            values = of_rows[of_rows >= 0]
            if values.size > 1 and np.unique(values).size == values.size:
                found.append(set_of([column], known.shape[1]))
        more = without(np.array(found, dtype=np.uint64).reshape(-1, known.shape[1]), known)
        return np.concatenate([known, more])

    def bodies(self) -> tuple[Body, ...]:
        """The minimal keys and FDs; a column of one value is the denial constraint that no two rows differ in it."""
        return tuple(self._body(int(target), line) for line, target in zip(*self._dependencies(), strict=True))

    def rules(self) -> tuple[Dependency, ...]:
        """The minimal keys and FDs with their measures, the best first.

        Complexity: O(rules), and a partition for each left side whose extent is not known (see `Extents`).
        """
        (lines, targets), columns = self._dependencies(), profiles(self.codes, self._schema)
        extents = self._search.extents.of(lines, lambda: Validator(Partitions(self.codes), self._work))
        equal = self.options.nulls == "equal"
        rows, known = self.codes.rows, self.codes.known_rows
        return judged(lines, targets, self._body, extents, columns, rows, known, nulls_equal=equal)

    def size_bytes(self) -> int:
        """Memory held."""
        return (
            self.codes.size_bytes()
            + self._search.agree_sets.size_bytes()
            + sum(cover.sets.nbytes + cover.status.nbytes for cover in self._search.covers)
        )

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        arrays = nested("codes", self.codes.snapshot()) | nested("evidence", self._search.agree_sets.snapshot())
        for cover in self._search.covers:
            arrays |= nested(f"cover{cover.target}", cover.snapshot())
        arrays |= nested("extents", self._search.extents.snapshot(self._search.agree_sets.words))
        return arrays | {
            "progress": np.array([self._search.searched, self._search.length, self.complete], dtype=np.int64)
        }

    @classmethod
    def restore(cls, schema: pa.Schema, options: DiscoveryOptions, arrays: Checked) -> DependencyCore:
        """A core as it was left (the arrays will be written to)."""
        core = cls(schema, options)
        codes, search, many = core.codes, core._search, len(core.names)
        codes.restore(arrays.part("codes"))
        search.agree_sets.restore(arrays.part("evidence"), codes.matrix, codes.alive[: codes.used])
        for cover in search.covers:
            cover.restore(arrays.part(f"cover{cover.target}"))
        search.extents.restore(arrays.part("extents"), set_of(range(many), search.agree_sets.words), codes.rows)
        search.searched, search.length, complete = arrays.few("progress", 0, max(many, 1), 3)
        core.complete = bool(complete)
        return core
