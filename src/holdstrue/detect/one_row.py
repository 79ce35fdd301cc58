"""One row at a time: its key, groups and counters in one compiled call, its partners in another.

An update or a delete is the same with the row's former version. Structures and counters end up as a batch of one row
leaves them (`Engine.apply`), which checks of other shapes are still given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.data.cells import RowCoder, UnfitError, Values
from holdstrue.data.coding import Domain
from holdstrue.detect.detector import Batch, Detector, NewRows, Outcome
from holdstrue.detect.engine import Engine, Table
from holdstrue.detect.frame import FrameLines
from holdstrue.detect.group import GroupDetector
from holdstrue.detect.pair import PairDetector
from holdstrue.detect.pair_set import PairSet
from holdstrue.detect.row import RowDetector
from holdstrue.index.blocks import BlockIndex
from holdstrue.index.one_probe import RowProbe
from holdstrue.index.rows import table_of
from holdstrue.kernels import one_row as kernels
from holdstrue.plan.row_truth import RowTruth, row_truth
from holdstrue.rules.model import Condition
from holdstrue.typing import I32, I64

LOOK_EVERY = 4096
"""Rows after which structures are told that more will come, so that what takes long is begun before they are full."""
MOST_UNASKED = 62
"""Right-hand columns of which a word of bits can say that a row is not asked for them."""


@dataclass(frozen=True)
class RowChange:
    """What one row did: the slots of its former and its new version (-1: none), and by check what changed."""

    old: int
    new: int
    outcomes: dict[int, Outcome]


class RowProgram:
    """Takes single rows of a table into an engine.

    Examples
    --------
    >>> from holdstrue.plan.compile import compile_rules
    >>> from holdstrue.rules import load_rules
    >>> schema = pa.schema({"id": pa.int64(), "zip": pa.string(), "city": pa.string()})
    >>> engine = Engine(compile_rules(load_rules(["zip -> city"]), "data", {"data": schema}), {"data": schema})
    >>> program = RowProgram(engine, "data", ["id"])
    >>> for row in [(1, "a", "x"), (2, "a", "x"), (3, "a", "y")]:
    ...     change = program.apply(program.write(row), kernels.INSERT, 10)
    >>> change.outcomes[0].added, change.outcomes[0].added_list.tolist()
    (2, [[2, 1], [2, 0]])
    """

    def __init__(self, engine: Engine, table: str, key: Sequence[str]) -> None:
        self._engine = engine
        self._name = table
        self._table: Table = engine.tables[table]
        self._rows = self._table.rows
        self.schema: pa.Schema = self._rows.schema
        self._places: dict[tuple[str, bool], int] = {}
        wanted: list[tuple[str, int, Domain]] = []
        for name in key:
            self._places[name, True] = len(wanted)
            wanted.append((name, -1, engine.key_domain(table, name)))
        for name, (number, domain) in self._table.domains.items():
            self._places[name, False] = len(wanted)
            wanted.append((name, number, domain))
        self.coder = RowCoder(self.schema, wanted, engine.labels)
        self._labels = [engine.labels[number] for number, _ in self._table.domains.values() if number in engine.labels]
        self._groupings = list(self._table.groupings.items())
        self._sort_detectors()
        self._conditions: list[tuple[int, int, RowTruth, int]] = []
        """Which entries of `_chosen` depend on the row, and on which of its conditions."""
        self._columns: list[int] = []
        self._key_first = self._listed([(name, True) for name in key])
        self._key_count = len(key)
        self._key_places = tuple(self.schema.get_field_index(name) for name in key)
        self._code_first = self._listed([(name, False) for name in self._table.code_columns])
        self._plan_lines()
        self._column_array = np.array(self._columns, dtype=np.int32)
        self._keys = engine.plan.seed.keys
        checks = len(self._groups) + len(self._pairs)
        self._chosen = np.zeros((max(checks, 1), 2), dtype=np.int64)
        self._chosen[:, 0] = 1
        self._chosen[len(self._groups) :, 1] = 1
        self._out = np.zeros((len(self._groups) + 2, 5), dtype=np.int64)
        self._frame = np.zeros((0, kernels.WIDTH), dtype=np.int64)
        self._held = FrameLines()
        self._generation = -1
        self._until_room = LOOK_EVERY
        self._after_row = False
        """Whether the batch before the last row was one, too."""
        self._probe: RowProbe | None = None
        self._probed = -1

    @property
    def usable(self) -> bool:
        """Whether this table's rows can come in this way."""
        asked = max((len(detector.check.rhs) for _, detector in self._groups), default=0)
        return self.coder.usable and asked <= MOST_UNASKED

    def _sort_detectors(self) -> None:
        engine = self._engine
        self._groups: list[tuple[int, GroupDetector]] = []
        self._singles: list[tuple[int, RowDetector, RowTruth]] = []
        self._pairs: list[tuple[int, PairDetector]] = []
        self._others: list[tuple[int, Detector]] = []
        blocks = self._table.pairs is not None and isinstance(self._table.pairs.index, BlockIndex)
        for at, detector in enumerate(engine.detectors):
            own = detector.check.table == self._name
            if own and isinstance(detector, GroupDetector):
                self._groups.append((at, detector))
            elif own and isinstance(detector, RowDetector):
                self._singles.append((at, detector, row_truth(detector.check.broken, self.schema)))
            elif own and isinstance(detector, PairDetector) and blocks:
                self._pairs.append((at, detector))
            elif own or not isinstance(detector, GroupDetector | RowDetector | PairDetector):
                self._others.append((at, detector))
        self._index_aside = bool(self._table.pairs is not None and not blocks)
        """Whether the pair index takes rows in batches only."""

    def _listed(self, names: Sequence[tuple[str, bool]]) -> int:
        """Where the words of some columns stand in the list of columns."""
        first = len(self._columns)
        self._columns += [self._places[name] for name in names]
        return first

    def _when(self, line: int, entry: int, condition: Condition | None, bit: int = -1) -> None:
        if condition is not None:
            self._conditions.append((line, entry, row_truth(condition, self.schema), bit))

    def _plan_lines(self) -> None:
        """What of the lines never changes: lists of columns, shapes, and what rows are chosen."""
        order = {id(grouping): 2 + at for at, (_, grouping) in enumerate(self._groupings)}
        self._sides = [
            (
                self._listed([(n, False) for n in lefts]),
                len(lefts),
                self._listed([(n, False) for n in rights]),
                len(rights),
            )
            for (lefts, rights, _), _ in self._groupings
        ]
        self._rights = []
        for line, (_, detector) in enumerate(self._groups):
            check = detector.check
            first = self._listed([(name, False) for name in check.rhs])
            self._rights.append((order[id(detector.grouping)], detector.shape, first, len(check.rhs)))
            self._when(line, 0, check.member)
            for bit, condition in enumerate(check.asked):
                self._when(line, 1, condition, bit)
        self._roles = []
        for line, (_, pair) in enumerate(self._pairs, len(self._groups)):
            terms = pair.check.terms
            t = self._listed([(term.left, False) for term in terms])
            s = self._listed([(term.right, False) for term in terms])
            two = pair.lopsided or any(term.left != term.right for term in terms)
            self._roles.append((order[id(pair.grouping)], t, len(terms), s, len(terms), int(two)))
            self._when(line, 0, pair.check.t_member)
            self._when(line, 1, pair.check.s_member)

    # --- where everything lies -----------------------------------------------------------------

    def _lay_out(self) -> None:
        """Write the frame: where the arrays of all structures lie now."""
        self._held = FrameLines()
        self._frame = self._lines(self._held)
        self._generation = self._engine.generation
        self._probed = -1

    def check(self) -> None:
        """Raise unless the frame that the kernel would be given says where all arrays lie: for tests."""
        now = self._lines(FrameLines())
        if self._generation == self._engine.generation and not np.array_equal(self._frame, now):
            raise AssertionError("arrays were replaced, and Engine.generation does not say so")

    def _lines(self, held: FrameLines) -> I64:
        rows = self._rows
        numbers, current = rows.by_key
        slots = min(rows.alive.size, rows.twin.size, rows.codes.shape[1])
        head = [held.at(rows.alive), slots, held.at(rows.codes), rows.codes.shape[1], self._code_first]
        head += [rows.codes.shape[0], held.at(current), current.size, self._key_first, self._key_count]
        lines = [[*head, len(self._groupings), len(self._groups), len(self._pairs)], held.numbering(numbers)]
        for ((_, _, nulls_equal), grouping), sides in zip(self._groupings, self._sides, strict=True):
            lines.append(held.grouping(grouping, sides, nulls_equal=nulls_equal))
        for (_, detector), right in zip(self._groups, self._rights, strict=True):
            lines.append(held.counters(detector, right))
        for (_, pair), roles in zip(self._pairs, self._roles, strict=True):
            size = min(pair.roles.size, pair.degree_by_slot.size)
            lines.append([held.at(pair.roles), size, *roles])
        return FrameLines.frame(lines)

    def _make_room(self) -> None:
        self._until_room = LOOK_EVERY
        slots = self._rows.size + 1
        self._rows.reserve()
        for _, grouping in self._groupings:
            grouping.reserve(slots)
        for _, detector in self._groups:
            detector.reserve(slots)
        for _, pair in self._pairs:
            pair.reserve(slots)
        if self._table.together is not None:
            self._table.together.stale = True
        self._lay_out()

    # --- a row ---------------------------------------------------------------------------------

    def write(self, values: Values, *, read: bool = False) -> Values:
        """Hold a row against the columns and code it; returns it as it is to be applied next.

        Parameters
        ----------
        values
            In the order of the schema; of a delete only the key.
        read
            The values come out of columns of these types, so that they fit.

        Raises `UnfitError` where values would have to be converted. Complexity: O(columns and bytes).
        """
        if any(values[place] is None for place in self._key_places):
            raise UnfitError
        if not self._labels:
            return self.coder.write(values, read=read)
        epochs = [labels.epoch for labels in self._labels]
        values = self.coder.write(values, read=read)
        if epochs != [labels.epoch for labels in self._labels]:
            # an order-keeping dictionary that was labelled anew half-way leaves codes of before
            self.coder.write(values, read=read)
        return values

    def apply(self, values: Values, op: int, limit: int) -> RowChange | None:
        """Take in the row that was written last; None where its key clashes with those there are: nothing changed.

        Complexity: O(rules), and what finding partners costs.
        """
        engine, rows = self._engine, self._rows
        if self._labels:
            engine.translate_labels()
        writes = op != kernels.DELETE
        if writes and self._conditions:
            self._choose(values)
        pairs = self._table.pairs
        if pairs is not None:
            pairs.flush_batches()
        if self._generation != engine.generation:
            self._lay_out()
        self._until_room -= 1
        if not self._until_room:
            self._make_room()
        coder = self.coder
        for _ in range(2):
            status = kernels.change_row(
                self._frame,
                self._column_array,
                coder.words,
                coder.text,
                self._chosen,
                self._keys,
                rows.size,
                op,
                self._out,
            )
            if status != kernels.FULL_UP:
                break
            self._make_room()
        else:
            raise AssertionError("the kernel asks for more room than is made")
        if status == kernels.CLASH:
            return None
        return self._follow(values, limit)

    @property
    def retracts(self) -> bool:
        """Whether a row can be taken back without a trace: checks that only know batches cannot."""
        return not self._others and not self._index_aside

    def holds(self, values: Values) -> bool:
        """Whether there is a row with the key of the one that was written last."""
        if self._generation != self._engine.generation:
            self._lay_out()
        coder, head = self.coder, self._frame[0]
        first, count = int(head[kernels.KEY_FIRST]), int(head[kernels.KEY_COUNT])
        places = self._column_array[first : first + count]
        return bool(kernels.find_row(self._frame, places, coder.words, coder.text, self._keys) >= 0)

    def retract(self, values: Values, change: RowChange) -> RowChange:
        """Take back the row that came in last, as if it had never been; returns what that did."""
        after_row = self._after_row
        self.write(values, read=True)
        undone = self.apply(values, kernels.DELETE, 0)
        if undone is None or undone.old != change.new:
            raise RuntimeError("another row is the last one")
        self._engine.last_was_row = after_row
        self._rows.retract()
        for _, detector in self._groups:
            detector.retract(change.new)
        for _, single, _ in self._singles:
            single.retract(change.new)
        if self._table.pairs is not None:
            self._table.pairs.retract(change.new)
        return undone

    def _choose(self, values: Values) -> None:
        """Write which checks look at a row, and what they ask of it."""
        chosen = self._chosen
        chosen[: len(self._groups), 1] = 0
        for line, entry, truth, bit in self._conditions:
            holds = truth(values) is True
            if bit < 0:
                chosen[line, entry] = holds
            elif not holds:
                chosen[line, 1] |= 1 << bit

    def _follow(self, values: Values, limit: int) -> RowChange:
        """What remains to be done for a row that is in."""
        engine, rows = self._engine, self._rows
        old, new, touched = self._out[0, :3].tolist()
        if old >= 0:
            rows.living -= 1
        if new >= 0:
            rows.take_over(values)
        engine.clock.read()
        self._after_row, engine.last_was_row = engine.last_was_row, True
        outcomes: dict[int, Outcome] = {}
        if touched:
            for found in self._out[1 : touched + 1].tolist():
                at, detector = self._groups[found[0]]
                outcomes[at] = detector.apply_row(old, new, found, limit)
        for at, single, truth in self._singles:
            outcome = single.apply_row(old, new, new >= 0 and truth(values) is True, limit)
            if outcome is not None:
                outcomes[at] = outcome
        if self._table.pairs is not None and not self._index_aside:
            self._meet(self._table.pairs, old, new, outcomes, limit)
        if self._others or self._index_aside:
            self._hand_over(values, old, new, outcomes, limit)
        engine.clock.started = True
        return RowChange(old, new, outcomes)

    def _meet(self, pairs: PairSet, old: int, new: int, outcomes: dict[int, Outcome], limit: int) -> None:
        """Count the partners of a row in two-row checks, and let it into their index."""
        if old >= 0:
            pairs.leave_row(old)
        if self._probe is None or self._probed != pairs.generation:
            asked = [(pair.number, pair.roles_asked) for _, pair in self._pairs]
            index = pairs.held
            if not isinstance(index, BlockIndex):
                raise TypeError(f"{type(index)} takes no single rows")
            self._probe = RowProbe(index, pairs, asked, int(self._frame[0, kernels.SLOTS]))
            self._probed = pairs.generation
        alive, waiting = self._rows.alive, pairs.waiting
        before = {} if old < 0 else self._probe.probe(old, waiting, alive)
        after = {} if new < 0 else self._probe.probe(new, waiting, alive)
        if before is None or after is None:
            self._settle(old, new, outcomes, limit)
        elif before or after:
            for at, pair in self._pairs:
                if pair.number in before or pair.number in after:
                    met = before.get(pair.number, []), after.get(pair.number, [])
                    outcomes[at] = pair.apply_row(old, new, met, limit)
        if new >= 0:
            pairs.enter_row(new)

    def _settle(self, old: int, new: int, outcomes: dict[int, Outcome], limit: int) -> None:
        """Count partners check by check, where a row has very many."""
        batches = {self._name: self._batch(None, old, new)}
        for at, pair in self._pairs:
            outcomes[at] = pair.apply(batches, limit)

    def _hand_over(self, values: Values, old: int, new: int, outcomes: dict[int, Outcome], limit: int) -> None:
        """Give a row to checks that only know batches."""
        batch = self._batch(values, old, new)
        pairs = self._table.pairs
        if pairs is not None and self._index_aside:
            pairs.begin(batch)
        for at, detector in self._others:
            outcome = detector.apply({self._name: batch}, limit)
            if outcome.added or outcome.removed:
                outcomes[at] = outcome
        if pairs is not None and self._index_aside:
            pairs.end(batch)
            pairs.flush()

    def _batch(self, values: Values | None, old: int, new: int) -> Batch:
        """A row as a batch."""
        empty = self.schema.empty_table()
        held = empty if values is None or new < 0 else table_of([values], self.schema)
        incoming = NewRows(self._name, held, self._table.domains, self._engine.labels)
        came, went = _one(new), _one(old)
        twins = (came, went) if came.size and went.size else (_none(went), _none(came))
        first = self._rows.size - came.size
        return Batch(self._rows, first, incoming, went, came, *twins)


def _one(slot: int) -> I32:
    return np.array([slot] if slot >= 0 else [], dtype=np.int32)


def _none(slots: I32) -> I32:
    return np.full(slots.size, -1, dtype=np.int32)


__all__ = ["RowChange", "RowProgram", "UnfitError"]
