"""A whole table checked once: nothing is built to be kept current, and what is done with is let go.

Keys, FDs and CFDs are sifted (`detect/sift.py`), and only the rows that are left are coded, grouped and counted. What
is found of a rule is its counts and these rows; its groups are made again when somebody asks for more, so that a
thousand rules take the memory of a few. Checks run in threads, each over its own arrays: where there are fewer checks
than threads, the rows are shared out instead.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import RLock

import numpy as np
import pyarrow as pa

from holdstrue.data.coding import Domain, key_digest
from holdstrue.detect.clock import Clock
from holdstrue.detect.detector import Batch, Batches, Detector, NewRows, Outcome, Pairs, no_pairs
from holdstrue.detect.engine import Engine
from holdstrue.detect.group import GroupDetector
from holdstrue.detect.row import RowDetector
from holdstrue.detect.sift import Pieces, exact_domain, sifted
from holdstrue.index.arrays import Snapshot, no_slots
from holdstrue.index.checked import Checked
from holdstrue.index.grouping import Grouping
from holdstrue.index.rows import Rows
from holdstrue.plan.checks import Check, GroupCheck, PairCheck, ReferenceCheck
from holdstrue.plan.compile import Plan
from holdstrue.progress import each as told
from holdstrue.threads import available, each, results
from holdstrue.typing import I32, I64

MOST_HELD = 64 << 20
"""Bytes of groups that are held at a time: those asked for last."""


TOGETHER = 1 << 15
"""Rows from which on checks run in threads: below, handing them over takes longer than they do."""


ENOUGH = 2
"""Rules a thread from which on no thread is left without one for long. Chosen, not tuned."""


class Shelf:
    """The detectors of rules that were asked for last, up to so many bytes in all."""

    def __init__(self) -> None:
        self._most = MOST_HELD
        self._held: OrderedDict[Check, tuple[GroupDetector, int]] = OrderedDict()
        self._lock = RLock()

    def get(self, check: Check) -> GroupDetector | None:
        """The detector of a check, if it is held."""
        with self._lock:
            found = self._held.get(check)
            if found is None:
                return None
            self._held.move_to_end(check)
            return found[0]

    def put(self, check: Check, detector: GroupDetector, size: int) -> None:
        """Hold a detector, and let those go that nobody asked for since."""
        with self._lock:
            self._held[check] = detector, size
            while len(self._held) > 1 and sum(size for _, size in self._held.values()) > self._most:
                self._held.popitem(last=False)


class SiftedGroups(Detector):
    """A key, FD or CFD of a whole table: its counts, and its groups for as long as somebody reads them."""

    check: GroupCheck

    def __init__(self, check: GroupCheck, rows: Rows, domains: dict[str, tuple[int, Domain]], shelf: Shelf) -> None:
        self.check = check
        self._rows = rows
        self._domains = {name: (number, exact_domain(domain)) for name, (number, domain) in domains.items()}
        self._shelf = shelf
        self._slots = np.empty(0, dtype=np.int32)
        self._groups = 0

    @property
    def compared(self) -> tuple[str, ...]:
        """The columns whose values are compared."""
        return tuple(dict.fromkeys((*self.check.lhs, *self.check.rhs)))

    def load(self, pieces: Pieces) -> None:
        """Find the rows that are in a violation, and count. Complexity: O(rows)."""
        self._slots = sifted(self.check, pieces)
        pieces.release(self.compared)
        if not self._slots.size:
            return
        few = self._slots.size < self._rows.size // 4
        found = self._counted() if few else self._exact()
        self.rows, self.pairs, self._groups = found.rows, found.pairs, found.groups
        if self.rows < self._slots.size // 2:
            # chance met some rows, or kept them: of rules that nothing violates nothing is held
            violating = found.violating()
            self._slots = self._slots[violating] if few else violating

    def _counted(self) -> GroupDetector:
        """The groups of the rows that were left, which are numbered from 0 as if there were no others.

        Complexity: O(rows left): most tables are clean, and whoever reads the groups of others makes them anew.
        """
        rows = Rows(self._rows.schema, keyed=False)
        values = self._rows.take(self._slots, self.check.columns(self.check.table))
        rows.hold(values)
        return self._grouped(rows, np.arange(rows.size, dtype=np.int32), values)

    def _exact(self) -> GroupDetector:
        """The groups of the rows that were left. Complexity: O(rows left), and 8 bytes a row of the table."""
        found = self._shelf.get(self.check)
        if found is not None:
            return found
        slots, columns = self._slots, self.check.columns(self.check.table)
        whole = slots.size == self._rows.size
        values = self._rows.values().select(list(columns)) if whole else self._rows.take(slots, columns)
        detector = self._grouped(self._rows, slots, values)
        self._shelf.put(self.check, detector, detector.size_bytes() + detector.grouping.size_bytes())
        return detector

    def _grouped(self, rows: Rows, slots: I32, values: pa.Table) -> GroupDetector:
        """The groups of some rows, of which these are the values."""
        check, grouping = self.check, Grouping()
        detector = GroupDetector(check, rows, grouping)
        incoming = NewRows(check.table, values, self._domains, {})
        coded = [incoming.coded(column) for column in check.lhs]
        seed = next(iter(self._domains.values()))[1].seed
        grouping.place(slots, rows.size, key_digest(coded, slots.size, seed, nulls_equal=check.nulls_equal))
        nobody = np.empty(0, dtype=np.int32)
        batch = Batch(rows, 0, incoming, nobody, slots, nobody, no_slots(slots.size))
        detector.apply({check.table: batch}, 0)
        return detector

    def apply(self, batches: Batches, limit: int) -> Outcome:
        """Nothing: a table that is checked once does not change."""
        raise TypeError("a table that is checked once takes no changes")

    @property
    def groups(self) -> int:
        """Groups with a violation."""
        return self._groups

    @property
    def group_by_slot(self) -> I32:
        """By slot: the group of rows with the same left side, of rows that may violate the rule."""
        return self._exact().group_by_slot if self.rows else no_slots(self._rows.size)

    def violating(self) -> I32:
        """Slots of rows in a violation, ascending."""
        return self._exact().violating() if self.rows else np.empty(0, dtype=np.int32)

    def violations(self) -> Iterator[Pairs]:
        """Chunks of violating pairs, by their first row."""
        return self._exact().violations() if self.rows else iter(())

    def violations_of(self, slot: int) -> Pairs:
        """The violating pairs that one row is in, by their other row."""
        return self._exact().violations_of(slot) if self.rows else no_pairs()

    def degrees(self, slots: I32) -> I64:
        """How many violating pairs each row is in."""
        return self._exact().degrees(slots) if self.rows else np.zeros(slots.size, dtype=np.int64)

    def violating_groups(self) -> I32:
        """Groups with a violating pair."""
        return self._exact().violating_groups() if self.rows else np.empty(0, dtype=np.int32)

    def conflicting(self, group: int) -> list[I32]:
        """Rows of a violating group: one array for each right-hand side that occurs."""
        return self._exact().conflicting(group)

    def size_bytes(self) -> int:
        """Memory held while nobody reads the groups."""
        return self._slots.nbytes

    def snapshot(self) -> Snapshot:
        """Nothing: a table that is checked once has no state."""
        raise TypeError("a table that is checked once has no state")

    def restore(self, arrays: Checked) -> None:
        """Nothing: a table that is checked once has no state."""
        raise TypeError("a table that is checked once has no state")


class ScratchEngine(Engine):
    """An engine for tables that are checked once and do not change."""

    def __init__(self, plan: Plan, kept: Mapping[str, pa.Schema], *, clock: Clock | None = None) -> None:
        self._shelf = Shelf()
        # groups that order rules need are those of the whole table, and serve other rules as well
        self._whole = {
            (check.table, check.equal) for check in plan.checks if isinstance(check, PairCheck) and check.equal
        }
        super().__init__(plan, kept, clock=clock)

    def _detector(self, check: Check, pair_checks: dict[str, list[PairCheck]]) -> Detector:
        if isinstance(check, GroupCheck) and ((check.table, check.equal) not in self._whole or check.nulls_equal):
            table = self.tables[check.table]
            return SiftedGroups(check, table.rows, table.domains, self._shelf)
        return super()._detector(check, pair_checks)

    def check(
        self,
        tables: Mapping[str, pa.Table],
        threads: int | None = None,
        some: Mapping[str, tuple[I32, int]] | None = None,
    ) -> None:
        """Take in whole tables and run every check. Complexity: see the detectors.

        `some` says of tables that hold but the rows which rules look at the numbers of these, and how many there are
        in all.
        """
        count = available(threads)
        self.clock.read()
        for name, values in tables.items():
            self.tables[name].rows.hold(values, *(some or {}).get(name, ()))
        pieces = {name: self._pieces(name, values, count) for name, values in tables.items()}
        alone = [detector for detector in self.detectors if isinstance(detector, SiftedGroups | RowDetector)]
        rest = [detector for detector in self.detectors if detector not in alone]
        size = sum(values.num_rows for values in tables.values())
        for detector in alone:
            if isinstance(detector, SiftedGroups):
                pieces[detector.check.table].expect(detector.compared)
        # what takes longest first, so that no thread is left alone with it at the end
        tasks: list[Callable[[], None]] = [partial(self._check_rest, rest, tables, count)] if rest else []
        tasks += [partial(_load, detector, pieces[detector.check.table]) for detector in alone]
        done = results(lambda task: task(), tasks, count if size >= TOGETHER else 1, tasks=True)
        names = ([", ".join(map(self._checking, rest))] if rest else []) + [self._checking(own) for own in alone]
        for _ in told(names, str, size):
            next(done)
        self.clock.started = True

    def _pieces(self, name: str, values: pa.Table, threads: int) -> Pieces:
        conditions = [condition for check in self.plan.checks if check.table == name for condition in check.conditions]
        # with rules enough for all threads, sieves that threads share would only be filled and joined in vain
        sharing = 1 if len(self.detectors) >= ENOUGH * threads else threads
        return Pieces(values, self.tables[name].domains, threads, conditions, sharing)

    def _check_rest(self, rest: Sequence[Detector], tables: Mapping[str, pa.Table], threads: int) -> None:
        """The checks that need all rows coded: those that compare by order, references and measures."""
        columns = {
            name: list(dict.fromkeys(c for d in rest for c in d.check.columns(name) if c in table.domains))
            for name, table in self.tables.items()
        }
        batches = {name: self._batch(name, new, threads) for name, new in self._coded(tables, columns, threads).items()}
        for name, batch in batches.items():
            table = self.tables[name]
            self._group(table, batch.incoming, batch.new.size)
            if table.pairs is not None:
                table.pairs.begin(batch)
        for detector in rest:
            detector.apply(batches, 0)
        for name, batch in batches.items():
            pairs = self.tables[name].pairs
            if pairs is not None:
                pairs.end(batch)

    def _coded(
        self, tables: Mapping[str, pa.Table], columns: Mapping[str, Sequence[str]], threads: int
    ) -> dict[str, NewRows]:
        """The rows with these columns coded, those of one dictionary by one thread."""
        digested = {(d.check.table, column) for d in self.detectors for pair in d.check.equal for column in pair}
        for check in self.plan.checks:
            if isinstance(check, ReferenceCheck):
                digested |= {(check.table, column) for column in check.referring}
                digested |= {(check.ref_table, column) for column in check.ref_columns}
        while True:
            epochs = [labels.epoch for labels in self.labels.values()]
            coded = {}
            parts: dict[int, list[tuple[str, str]]] = {}
            for name, values in tables.items():
                plain = frozenset(column for column in columns[name] if (name, column) not in digested)
                coded[name] = NewRows(name, values, self.tables[name].domains, self.labels, plain)
                for column in columns[name]:
                    parts.setdefault(self.tables[name].domains[column][0], []).append((name, column))
            each(lambda part: [coded[n].coded(c) for n, c in part], parts.values(), threads)  # noqa: B023
            # an order-keeping dictionary that was labelled anew half-way leaves codes of before
            if epochs == [labels.epoch for labels in self.labels.values()]:
                break
        for labels in self.labels.values():
            labels.take_translation()  # of codes that nobody kept
        return coded

    def _batch(self, name: str, new: NewRows, threads: int) -> Batch:
        table = self.tables[name]
        size = table.rows.size
        table.rows.code([new.coded(column).codes for column in table.code_columns])
        nobody = np.empty(0, dtype=np.int32)
        return Batch(table.rows, 0, new, nobody, np.arange(size, dtype=np.int32), nobody, no_slots(size), threads)


def _load(detector: SiftedGroups | RowDetector, pieces: Pieces) -> None:
    if isinstance(detector, SiftedGroups):
        detector.load(pieces)
    else:
        detector.load(pieces.satisfying(detector.check.broken))
