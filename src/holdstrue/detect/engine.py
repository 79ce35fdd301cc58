"""All checks of a plan over their tables: one batch in, exact outcomes out."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import arrow_of
from holdstrue.data.coding import Domain, domain_of, encode, key_digest
from holdstrue.data.labels import Labels
from holdstrue.detect.clock import Clock
from holdstrue.detect.detector import Batch, Detector, NewRows, Outcome
from holdstrue.detect.group import GroupDetector
from holdstrue.detect.measure import MeasureDetector
from holdstrue.detect.pair import PairDetector
from holdstrue.detect.pair_set import PairSet
from holdstrue.detect.reference import ReferenceDetector
from holdstrue.detect.row import RowDetector
from holdstrue.errors import DataError
from holdstrue.index.arrays import Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.index.grouping import Grouping
from holdstrue.index.protocol import Shape, Term, index_type
from holdstrue.index.rows import Rows
from holdstrue.kernels.jit import BUDGET, SMALL_CALL
from holdstrue.operators import Op
from holdstrue.plan.checks import Check, GroupCheck, MeasureCheck, PairCheck, ReferenceCheck, RowCheck
from holdstrue.plan.compile import Plan
from holdstrue.plan.measures import Part
from holdstrue.progress import each
from holdstrue.typing import I32, U64, Mask

if TYPE_CHECKING:
    from holdstrue.detect.many_rules import GroupProgram

GroupingKey: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], bool]


@dataclass(frozen=True)
class Incoming:
    """A resolved batch for one table: new row images, which old versions go, and who updates whom.

    `updates[i]` is the slot that the i-th new row replaces, -1 for an insert; `old` are all slots
    that go, ascending, replaced ones included. `keys` are the digests of the new rows' keys, `numbers` their numbers
    among the table's keys (-1: unknown so far) where these were looked up, `old_numbers` those of the old rows' keys.
    In batches that were composed, rows may have come and gone again: those that have not are `stays`,
    and `updates` and `keys` speak of these alone.
    """

    values: pa.Table
    old: I32
    updates: I32
    keys: tuple[U64, U64] | None = None
    numbers: I32 | None = None
    old_numbers: I32 | None = None
    stays: Mask | None = None

    @property
    def lasting(self) -> pa.Table:
        """The row images that are there afterwards."""
        return self.values if self.stays is None else self.values.take(arrow_of(np.flatnonzero(self.stays)))


@dataclass
class Table:
    """The rows of one table and everything that groups them."""

    name: str
    rows: Rows
    groupings: dict[GroupingKey, Grouping] = field(default_factory=dict)
    code_columns: tuple[str, ...] = ()
    domains: dict[str, tuple[int, Domain]] = field(default_factory=dict)
    key_domains: dict[str, Domain] = field(default_factory=dict)
    pairs: PairSet | None = None
    together: GroupProgram | None = None
    """What takes batches into the keys and FDs of the table together, once there was one."""


class Engine:
    """Rows, indexes and detectors of a plan; nothing here knows of files or of how changes were written.

    Rows of the tables that are `keyed` are found by their key. Rules that depend on the time are judged by `clock`.
    """

    def __init__(
        self, plan: Plan, kept: Mapping[str, pa.Schema], *, keyed: Container[str] = (), clock: Clock | None = None
    ) -> None:
        self.plan = plan
        self.clock = clock or Clock()
        self.labels = {
            number: Labels(domain.family) for number, domain in plan.domains.values() if domain.kind == "label"
        }
        self.tables: dict[str, Table] = {}
        for name, schema in kept.items():
            columns = self._code_columns(name)
            self.tables[name] = Table(
                name,
                Rows(schema, keyed=name in keyed, code_columns=len(columns)),
                code_columns=columns,
                domains={column: entry for (owner, column), entry in plan.domains.items() if owner == name},
            )
        self.detectors: list[Detector] = []
        self.generation = 0
        """Grows whenever arrays of structures may have been replaced by others than single rows need."""
        self.last_was_row = False
        """Whether the last batch was a single row, for which there is one way."""
        self._build()
        self.by_rule: list[list[int]] = [[] for _ in plan.rules]
        for at, detector in enumerate(self.detectors):
            self.by_rule[detector.check.rule].append(at)

    def _code_columns(self, table: str) -> tuple[str, ...]:
        """Columns whose codes are kept by row: those that pair terms compare (equalities are in the groups)."""
        every_term = index_type(self.plan.index).reads_equalities
        names = [
            name
            for check in self.plan.checks
            if isinstance(check, PairCheck) and check.table == table
            for term in check.terms
            if every_term or term.op is not Op.EQ
            for name in (term.left, term.right)
        ]
        return tuple(dict.fromkeys(names))

    def _build(self) -> None:
        pair_checks: dict[str, list[PairCheck]] = {}
        for check in self.plan.checks:
            if isinstance(check, PairCheck):
                pair_checks.setdefault(check.table, []).append(check)
        for name, checks in pair_checks.items():
            table = self.tables[name]
            place = {column: i for i, column in enumerate(table.code_columns)}
            shapes = [
                Shape(tuple(Term(place.get(term.left, -1), term.op, place.get(term.right, -1)) for term in check.terms))
                for check in checks
            ]
            groupings = [self._grouping(table, check) for check in checks]
            table.pairs = PairSet(checks, shapes, table.rows, groupings, self.plan.index)
        for check in self.plan.checks:
            self.detectors.append(self._detector(check, pair_checks))

    def _detector(self, check: Check, pair_checks: dict[str, list[PairCheck]]) -> Detector:
        table = self.tables[check.table]
        match check:
            case RowCheck():
                return RowDetector(check, table.rows)
            case GroupCheck():
                return GroupDetector(check, table.rows, self._grouping(table, check))
            case PairCheck():
                if table.pairs is None:
                    raise RuntimeError("pair checks were not collected")
                return PairDetector(
                    pair_checks[check.table].index(check), check, table.pairs, table.rows, table.code_columns
                )
            case ReferenceCheck():
                return ReferenceDetector(check, table.rows, self.tables[check.ref_table].rows)
            case MeasureCheck():
                return MeasureDetector(check, {name: own.rows for name, own in self.tables.items()}, self.clock)

    @staticmethod
    def _grouping(table: Table, check: GroupCheck | PairCheck) -> Grouping:
        """The grouping of a check's equality columns, one for all rules that share them."""
        lefts, rights = tuple(left for left, _ in check.equal), tuple(right for _, right in check.equal)
        key = (lefts, rights, check.nulls_equal)
        if key not in table.groupings:
            table.groupings[key] = Grouping(two_sided=lefts != rights)
        return table.groupings[key]

    def prepare(self, incoming: Mapping[str, Incoming]) -> dict[str, NewRows]:
        """Code every column that rules compare, so that a value that cannot be coded stops the batch here."""
        while True:
            epochs = [labels.epoch for labels in self.labels.values()]
            prepared = {}
            for name, part in incoming.items():
                prepared[name] = NewRows(name, part.lasting, self.tables[name].domains, self.labels)
                for column in self.tables[name].domains:
                    prepared[name].coded(column)
            # an order-keeping dictionary that was labelled anew half-way leaves codes of before
            if epochs == [labels.epoch for labels in self.labels.values()]:
                return prepared

    def key_digest(self, table: str, values: pa.Table, key: Sequence[str]) -> tuple[U64, U64]:
        """Digests of the rows' keys. Complexity: O(rows)."""
        columns = [encode(values.column(name), self.key_domain(table, name), name=name) for name in key]
        hi, lo, _ = key_digest(columns, values.num_rows, self.plan.seed)
        return hi, lo

    def key_domain(self, table: str, name: str) -> Domain:
        """How a key column is coded to tell rows apart."""
        domains = self.tables[table].key_domains
        if name not in domains:
            domain = domain_of([self.tables[table].rows.schema.field(name).type], ordered=False, seed=self.plan.seed)
            if domain is None:
                raise DataError(f"key column {name!r} holds values that do not compare", hint="choose a plain column")
            domains[name] = domain
        return domains[name]

    def load(self, table: str, values: pa.Table, keys: tuple[U64, U64] | None) -> None:
        """Take in rows that are known to fit, without asking what they change. Complexity: O(n log n)."""
        nobody = np.empty(0, dtype=np.int32)
        self.apply({table: Incoming(values, nobody, np.full(values.num_rows, -1, dtype=np.int32), keys)}, 0)

    def first_rows(self, table: str, values: pa.Table, key: Sequence[str]) -> Incoming:
        """Rows that are known to fit a table without rows, as a batch."""
        nobody = np.empty(0, dtype=np.int32)
        keys = self.key_digest(table, values, key)
        return Incoming(values, nobody, np.full(values.num_rows, -1, dtype=np.int32), keys)

    def with_keys(self, table: str, part: Incoming, key: Sequence[str]) -> Incoming:
        """A batch read back from a log, with the digests of its keys."""
        rows = self.tables[table].rows
        old_numbers = rows.numbers(*self.key_digest(table, rows.take(part.old, key), key))
        return replace(part, keys=self.key_digest(table, part.lasting, key), old_numbers=old_numbers)

    def settle(self) -> None:
        """Let rows that came in into the pair indexes now rather than when these are next read, where they will be."""
        for table in self.tables.values():
            if table.pairs is not None:
                table.pairs.settle()

    def forget_estimates(self) -> None:
        """Let no check say any more how the batch before was counted."""
        self.last_was_row = False
        for detector in self.detectors:
            detector.estimate = None

    def explain(self) -> dict[int, list[str]]:
        """What the running indexes say of each check."""
        if self.last_was_row:
            self.forget_estimates()
        return {at: detector.explain() for at, detector in enumerate(self.detectors)}

    def measures(self) -> dict[str, tuple[Part, ...]]:
        """What is kept of rules about whole tables, by their names. Complexity: O(rules)."""
        rules = self.plan.rules.rules
        return {rules[d.check.rule].name: d.parts for d in self.detectors if isinstance(d, MeasureDetector)}

    def apply(
        self, incoming: Mapping[str, Incoming], limit: int, prepared: dict[str, NewRows] | None = None
    ) -> list[Outcome]:
        """Apply a batch over one or more tables; one outcome a check. Complexity: see the detectors."""
        prepared = self.prepare(incoming) if prepared is None else prepared
        self.clock.read()
        self.generation += 1
        self.forget_estimates()
        if self.labels:
            self.translate_labels()
        batches = {name: self._enter(self.tables[name], part, prepared[name]) for name, part in incoming.items()}
        for name, batch in batches.items():
            pairs = self.tables[name].pairs
            if pairs is not None:
                pairs.begin(batch)
        rows = sum(batch.new.size + batch.old.size for batch in batches.values())
        done: dict[int, Outcome] = {}
        for name, batch in batches.items():
            together = self.tables[name].together
            if together is not None and not together.stale:
                done |= together.count(batch, limit)
        numbered = each(list(enumerate(self.detectors)), self._checking_numbered, rows)
        outcomes = [done[at] if at in done else detector.apply(batches, limit) for at, detector in numbered]
        for name, batch in batches.items():
            pairs = self.tables[name].pairs
            if pairs is not None:
                pairs.end(batch)
        self.clock.started = True
        return outcomes

    def _checking_numbered(self, numbered: tuple[int, Detector]) -> str:
        return self._checking(numbered[1])

    def _checking(self, detector: Detector) -> str:
        return f"checking {self.plan.rules.rules[detector.check.rule].name}"

    def _enter(self, table: Table, part: Incoming, incoming: NewRows) -> Batch:
        """Old versions out, new versions in, groups assigned."""
        rows = table.rows
        first = rows.size
        if part.old.size:
            rows.discard(part.old, part.old_numbers)
        codes = [incoming.coded(column).codes for column in table.code_columns]
        new = rows.append(part.values, part.keys, codes, part.stays, part.numbers)
        together = self._together(table, new.size + part.old.size) if first and part.stays is None else None
        if together is None:
            self._group(table, incoming, new.size, first, part.stays)
        else:
            together.group(incoming, first, new.size)
        if not part.old.size:
            return Batch(rows, first, incoming, part.old, new, part.old, part.updates)
        old_twin = np.full(part.old.size, -1, dtype=np.int32)
        updating = np.flatnonzero(part.updates >= 0)
        place = rows.twin  # by slot, for the moment: where it stands among the old
        place[part.old] = np.arange(part.old.size, dtype=np.int32)
        old_twin[place[part.updates[updating]]] = new[updating]
        return Batch(rows, first, incoming, part.old, new, old_twin, part.updates)

    def _together(self, table: Table, rows: int) -> GroupProgram | None:
        """What takes a batch into all keys and FDs of a table, where it is worth compiled code."""
        if not table.groupings or (BUDGET.left > 0 and rows * len(table.groupings) < SMALL_CALL):
            return None
        if table.together is None:
            from holdstrue.detect.many_rules import GroupProgram  # which needs numba

            own = [(at, d) for at, d in enumerate(self.detectors) if d.check.table == table.name]
            counted = [(at, d) for at, d in own if isinstance(d, GroupDetector) and GroupProgram.takes(d)]
            groupings = [(*key, grouping) for key, grouping in table.groupings.items()]
            table.together = GroupProgram(groupings, counted, self.plan.seed.keys)
        return table.together

    def _group(self, table: Table, incoming: NewRows, new: int, first: int = 0, stays: Mask | None = None) -> None:
        """Give the new rows, from slot `first` on, their groups."""
        seed = self.plan.seed
        if table.together is not None:
            table.together.stale = True
        for (lefts, rights, nulls_equal), grouping in table.groupings.items():
            t_key = key_digest([incoming.coded(c) for c in lefts], new, seed, nulls_equal=nulls_equal)
            s_key = key_digest([incoming.coded(c) for c in rights], new, seed) if grouping.two_sided else None
            if stays is not None:
                t_key, s_key = _spread(t_key, stays), s_key and _spread(s_key, stays)
            grouping.insert(first, t_key, s_key)

    def translate_labels(self) -> None:
        """Bring stored codes along when an order-keeping dictionary was labelled anew (rare)."""
        for number, labels in self.labels.items():
            translation = labels.take_translation()
            if translation is None:
                continue
            before, after = translation
            for table in self.tables.values():
                moved = False
                for i, column in enumerate(table.code_columns):
                    if self.plan.domains[table.name, column][0] == number and table.rows.size:
                        codes = table.rows.codes[i, : table.rows.size]
                        place = np.minimum(np.searchsorted(before, codes), before.size - 1)
                        codes[:] = np.where(before[place] == codes, after[place], codes)
                        moved = True
                if moved and table.pairs is not None:
                    table.pairs.rebuild()

    def size_bytes(self) -> dict[str, int]:
        """Memory held by each part."""
        sizes: dict[str, int] = {}
        for table in self.tables.values():
            sizes[f"rows of {table.name}"] = table.rows.size_bytes()
            for (lefts, rights, _), grouping in table.groupings.items():
                name = ", ".join(lefts) if lefts == rights else f"{', '.join(lefts)} | {', '.join(rights)}"
                sizes[f"groups of {table.name} by ({name})"] = grouping.size_bytes()
            if table.pairs is not None:
                sizes[f"pair index of {table.name}"] = table.pairs.size_bytes()
        for i, detector in enumerate(self.detectors):
            sizes[f"check {i}"] = detector.size_bytes()
        return sizes

    def snapshot(self) -> Snapshot:
        """Every array of every part under a name of its own."""
        arrays: Snapshot = {}
        for t, table in enumerate(self.tables.values()):
            arrays |= nested(f"t{t}.rows", table.rows.snapshot())
            for g, grouping in enumerate(table.groupings.values()):
                arrays |= nested(f"t{t}.g{g}", grouping.snapshot(table.rows.size))
            if table.pairs is not None:
                arrays |= nested(f"t{t}.pairs", table.pairs.snapshot())
        for d, detector in enumerate(self.detectors):
            arrays |= nested(f"d{d}", detector.snapshot())
        return arrays

    def restore(
        self, arrays: Checked, values: Mapping[str, pa.Table], keys: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Take over the arrays of a snapshot of the same plan, and the tables' values; `keys` for one without numbers.

        Complexity: O(slots).
        """
        self.generation += 1
        for t, (name, table) in enumerate(self.tables.items()):
            table.rows.restore(arrays.part(f"t{t}.rows"), values[name])
            if keys is not None and "current" not in arrays.part(f"t{t}.rows"):
                self._number(table, arrays.part(f"t{t}.rows"), keys[name])
            self._check_labels(table, arrays.part(f"t{t}.rows"))
            for g, grouping in enumerate(table.groupings.values()):
                grouping.restore(arrays.part(f"t{t}.g{g}"), table.rows.size)
            if table.pairs is not None:
                table.pairs.restore(arrays.part(f"t{t}.pairs"))
            if table.together is not None:
                table.together.stale = True
        for d, detector in enumerate(self.detectors):
            detector.restore(arrays.part(f"d{d}"))

    def _number(self, table: Table, arrays: Checked, key: Sequence[str]) -> None:
        """Find the living rows by their keys again, where a snapshot leaves out what follows from the values."""
        slots = table.rows.living_slots()
        values = table.rows.values(key) if slots.size == table.rows.size else table.rows.take(slots, key)
        different = table.rows.number(slots, self.key_digest(table.name, values, key))
        arrays.require(different, f"two of its {slots.size} rows have one key")

    def _check_labels(self, table: Table, arrays: Checked) -> None:
        """The codes of values by order are labels that were given; NULL has none."""
        for i, column in enumerate(table.code_columns):
            known = self.labels.get(table.domains[column][0])
            if known is not None:
                low, high = known.span
                arrays.within("codes", table.rows.codes[i, : table.rows.size], min(low, 0), max(high, 0))


def _spread(key: tuple[U64, U64, Mask], stays: Mask) -> tuple[U64, U64, Mask]:
    """Keys of the rows that stay, with those between them that have none."""
    hi, lo = np.zeros((2, stays.size), dtype=np.uint64)
    member = np.zeros(stays.size, dtype=np.bool_)
    hi[stays], lo[stays], member[stays] = key
    return hi, lo, member
