"""Keys, FDs and the variable part of CFDs: counters per group, pairs only when asked for.

Papers 000 (classes of equal left sides and their right-hand values) and 002 (GROUP, MATCH, MERGE).
Memory beside the shared grouping: 16 bytes a group; for FDs 20 bytes a group, 4 a row and 43 to 53 a
distinct (group, right side); 4 more a row once pairs are listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdstrue.detect.costs import Counting
from holdstrue.detect.detector import Batch, Batches, Detector, Outcome, Pairs, first, no_pairs, nothing
from holdstrue.index.arrays import Numbering, Snapshot, nested, room, turns, with_slack
from holdstrue.index.checked import Checked
from holdstrue.index.grouping import Grouping, RowLists
from holdstrue.index.rows import Rows
from holdstrue.kernels import bounds, digest
from holdstrue.kernels import groups as kernels
from holdstrue.plan.checks import GroupCheck
from holdstrue.plan.filter import holds
from holdstrue.typing import I32, I64, U64, Mask

CHUNK = 1 << 16

MOST_RHS = 24
"""Unknown right-hand values are bits beside the group's number in a kind's key."""

NO_PAIRS = no_pairs()
NOTHING = nothing(2)
"""What most batches do to a rule that holds."""

_NULL_VALUE = np.int64(-0x2545F4914F6CDD1D)
"""Stands for NULL among right-hand values where NULLs compare as equal."""


@dataclass(frozen=True)
class GroupCounters:
    """The arrays of a key or an FD (see `kernels/groups.py`), the numbers of its kinds, and the kind of each row."""

    numbers: Numbering
    core: I32
    pairs: I64
    extra: I32
    kinds: I32
    values: I64
    kind_by_slot: I32
    totals: I64


class GroupDetector(Detector):
    """Counts of rows, right sides and conflicting pairs by group of equal left sides."""

    check: GroupCheck

    def __init__(self, check: GroupCheck, rows: Rows, grouping: Grouping) -> None:
        self.check = check
        self._rows = rows
        self._grouping = grouping
        self._is_key = not check.rhs
        self._several = len(check.rhs) > 1
        # a key over all rows needs no kinds of its own: a row's kind is its group
        self._aliased = self._is_key and check.member is None
        self._numbers = Numbering()
        self._lists = RowLists()
        self._turn = next(turns)
        self._core = np.zeros((64, 2), dtype=np.int32)
        self._pairs = np.zeros(64, dtype=np.int64)
        self._extra = self._no_extra(64)
        self._kinds = np.zeros((0 if self._is_key else 64, 4), dtype=np.int32)
        self._values = np.zeros((len(check.rhs) if self._several else 0, 64), dtype=np.int64)
        self._row_kind = np.full(64, -1, dtype=np.int32)
        self._totals = np.zeros(3, dtype=np.int64)
        self._partial = False

    def _no_extra(self, groups: int) -> I32:
        extra = np.zeros((1 if self._is_key else groups, 4 if self._several else 1), dtype=np.int32)
        extra[:, : 2 if self._several else 1] = -1
        return extra

    @property
    def groups(self) -> int:
        """Groups with a violation."""
        return int(self._totals[kernels.GROUPS_TOTAL])

    @property
    def group_by_slot(self) -> I32:
        """By slot: the group of rows with the same left side."""
        return self._grouping.t_groups

    def apply(self, batches: Batches, limit: int) -> Outcome:
        """Count old rows out and new ones in. Complexity: O(batch), plus the pairs listed."""
        batch = batches.get(self.check.table)
        if batch is None:
            return nothing(2)
        self._place(batch)
        kinds = self._kind_by_slot()
        counters = (self._core, self._pairs, self._extra, self._kinds, self._values)
        if batch.first_new == 0 and not self._partial:
            # the first rows of a table; of the counters only those that are in use, as each has some room more
            groups, used = len(self._grouping), len(self._numbers)
            core, pairs, right = self._core[:groups], self._pairs[:groups], self._kinds[:used]
            kernels.load_rows(core, pairs, self._extra, right, self._values, kinds[: batch.rows.size], self._totals)
            self.pairs, self.rows, _ = self._totals.tolist()
            return Outcome(self.pairs, 0, first(self.violations(), limit) if limit else no_pairs(), no_pairs())
        self.estimate = Counting(batch.old.size, batch.new.size, batch.staying)
        old, new = kinds[batch.old], kinds[batch.new]
        lost, won = np.empty(old.size, dtype=np.int64), np.empty(new.size, dtype=np.int64)
        if batch.leaves_few:
            stay, known = kinds[: batch.first_new], (len(self._grouping), len(self._numbers))
            removed = kernels.count_anew(*counters, stay, batch.rows.alive, *known, self._totals, old, lost)
        else:
            removed = kernels.remove_rows(*counters, old, self._totals, lost) if old.size else 0
        kept = self._kept(kinds, batch) if old.size and new.size else 0
        added = kernels.add_rows(*counters, new, self._totals, won) if new.size else 0
        added, removed = added - kept, removed - kept
        self.pairs, self.rows, _ = self._totals.tolist()
        added_list = self._list(batch, won, min(limit, added), after=True)
        removed_list = self._list(batch, lost, min(limit, removed), after=False)
        return Outcome(added, removed, added_list, removed_list)

    def reserve(self, slots: int, more: int = 1) -> None:
        """Make room for so many more groups and kinds, and for rows in so many slots."""
        self._make_groups(len(self._grouping) + more)
        if not self._aliased:
            self._row_kind = room(self._row_kind, slots, fill=-1, turn=self._turn)
        if not self._is_key:
            self._numbers.reserve(more)
            self._kinds = room(self._kinds, len(self._numbers) + more, fill=0, turn=self._turn)
        if self._several:
            self._values = room(self._values, len(self._numbers) + more, axis=1, turn=self._turn)

    @property
    def counters(self) -> GroupCounters:
        """The arrays, for kernels that count single rows (they are replaced as they grow)."""
        arrays = (self._core, self._pairs, self._extra, self._kinds, self._values)
        return GroupCounters(self._numbers, *arrays, self._kind_by_slot(), self._totals)

    @property
    def grouping(self) -> Grouping:
        """The groups of its left side."""
        return self._grouping

    @property
    def shape(self) -> int:
        """Which of the shapes of `kernels/one_row.py` it has."""
        from holdstrue.kernels import one_row  # which needs numba; a table that is checked once has no single rows

        if self._is_key:
            return one_row.ALIASED if self._aliased else one_row.UNIQUE
        return one_row.SEVERAL if self._several else one_row.SINGLE

    def counted(self, batch: Batch, added: int, removed: int, kept: int, hits: I32 | None, limit: int) -> Outcome:
        """What a batch did that the counters hold already, and who had conflicts (see `kernels/many_rules.py`).

        A batch that adds and removes no conflicts leaves the totals as they are, and need not be told.
        """
        self.pairs, self.rows, _ = self._totals.tolist()
        kinds = self._kind_by_slot()
        if added and removed:
            before, after = self._updated(kinds, batch)
            groups = after if self._is_key else self._kinds[after, kernels.GROUP]
            # a pair that conflicts before and after is in a group with conflicts now
            both = (after >= 0) & (self._pairs[groups] > 0)
            kept += self._kept_among(before[both], after[both])
        added, removed = added - kept, removed - kept
        if not limit:
            return Outcome(added, removed, no_pairs(), no_pairs())
        won, lost = ((kinds[slots] >= 0).astype(np.int64) for slots in (batch.new, batch.old))
        if hits is not None:
            won[:], lost[:] = 0, 0
            won[hits[hits >= 0]], lost[~hits[hits < 0]] = 1, 1
        added_list = self._list(batch, won, min(limit, added), after=True)
        removed_list = self._list(batch, lost, min(limit, removed), after=False)
        return Outcome(added, removed, added_list, removed_list)

    def apply_row(self, old: int, new: int, found: Sequence[int], limit: int) -> Outcome:
        """What one row did, which the counters hold already: conflicts that went, came, or did both."""
        _, lost, won, kept, partial = found
        self._partial |= bool(partial)
        self.pairs, self.rows, _ = self._totals.tolist()
        added, removed = won - kept, lost - kept
        if not limit or not (added or removed):
            return Outcome(added, removed, NO_PAIRS, NO_PAIRS)
        came = self._row_list(new, old, won, min(limit, added), after=True) if added else NO_PAIRS
        went = self._row_list(old, new, lost, min(limit, removed), after=False) if removed else NO_PAIRS
        return Outcome(added, removed, came, went)

    def _row_list(self, own: int, other: int, found: int, limit: int, *, after: bool) -> Pairs:
        """As `_listed` of one row's version, whose other version is `other` (-1: none)."""
        image, twins = self._rows.alive, np.array([other], dtype=np.int32)
        self._rows.twin[own] = other
        image[own] = 2
        if other >= 0:
            image[other] = 0
        out = np.empty((limit, 2), dtype=np.int32)
        seeds, counts = np.array([own], dtype=np.int32), np.array([found], dtype=np.int64)
        size = self._fill(out, seeds, counts, twins, after=after)
        image[own] = after
        if other >= 0:
            image[other] = not after
        return out[:size]

    def retract(self, slot: int) -> None:
        """Forget the last slot, whose row was counted out."""
        self._lists.retract(slot, int(self._kind_by_slot()[slot]))

    def _kind_by_slot(self) -> I32:
        return self._grouping.t_groups if self._aliased else self._row_kind

    def _place(self, batch: Batch) -> None:
        """Give the new rows their kinds, and every new group and kind its counters."""
        self._make_groups(len(self._grouping))
        if self._aliased:
            return
        group = self._grouping.t_groups[batch.new]
        member = group >= 0
        if self.check.member is not None:
            member &= holds(self.check.member, batch.incoming.column, group.size)
        kinds = np.where(member, group, np.int32(-1)) if self._is_key else self._kind(batch, group, member)
        self._row_kind = room(self._row_kind, batch.rows.size, fill=-1, turn=self._turn)
        batch.put(self._row_kind, kinds, -1)

    def _make_groups(self, groups: int) -> None:
        """Make room for the counters of so many groups."""
        self._core = room(self._core, groups, fill=0, turn=self._turn)
        self._pairs = room(self._pairs, groups, fill=0, turn=self._turn)
        if not self._is_key and groups > self._extra.shape[0]:
            known = self._extra.shape[0]
            self._extra = room(self._extra, groups, fill=0, turn=self._turn)
            self._extra[known:] = self._no_extra(self._extra.shape[0] - known)

    def _kind(self, batch: Batch, group: I32, member: Mask) -> I32:
        """Numbers that stand for (group, right side); rows with no known right-hand value are no members."""
        if not self._several and batch.incoming.coded(self.check.rhs[0]).valid is None and self.check.asked[0] is None:
            value = batch.incoming.coded(self.check.rhs[0]).identity
            unknown, values = np.zeros(group.size, dtype=np.int64), [value]
            upper, lower = group.astype(np.uint64), value.view(np.uint64)
        else:
            upper, lower, unknown, values = self._unknowns(batch, group)
            member = member & (unknown != (1 << len(values)) - 1)
        kinds, origin = self._numbers.assign_new(upper, lower, member)
        if origin.size:
            self._describe(group[origin], unknown[origin], [value[origin] for value in values])
        return kinds

    def _unknowns(self, batch: Batch, group: I32) -> tuple[U64, U64, I64, list[I64]]:
        """Keys of the right sides, the bits of their unknown values, and the values."""
        values: list[I64] = []
        unknown, null = np.zeros((2, group.size), dtype=np.int64)
        for i, column in enumerate(self.check.rhs):
            coded = batch.incoming.coded(column)
            value, valid = coded.identity, coded.valid
            if valid is not None and self.check.nulls_equal:
                null |= np.where(valid, np.int64(0), np.int64(1 << i))
                value, valid = np.where(valid, value, _NULL_VALUE), None
            asked = self.check.asked[i]
            if asked is not None:
                wanted = holds(asked, batch.incoming.column, group.size)
                valid = wanted if valid is None else valid & wanted
            if valid is not None:
                unknown |= np.where(valid, np.int64(0), np.int64(1 << i))
                value = np.where(valid, value, np.int64(0))
            values.append(value)
        lower = values[0].view(np.uint64)
        if self._several:
            lower, upper = np.empty(group.size, dtype=np.uint64), np.empty(group.size, dtype=np.uint64)
            seed = batch.incoming.coded(self.check.rhs[0]).seed
            upper[:], lower[:] = seed.start
            # a NULL that is a value is told from the number that its code happens to be
            for value in (*values, null):
                digest.extend_key_by_words(upper, lower, value.view(np.uint64), seed.keys)
        flag = np.sign(null) << (32 + MOST_RHS)
        upper = (group.astype(np.int64) | (unknown << 32) | flag).view(np.uint64)
        return upper, np.ascontiguousarray(lower), unknown, values

    def _describe(self, group: I32, unknown: I64, values: list[I64]) -> None:
        """Write down group, mask and values of the kinds that are new."""
        total = len(self._numbers)
        known = total - group.size
        self._kinds = room(self._kinds, total, fill=0, turn=self._turn)
        self._kinds[known:total, kernels.COUNT] = 0
        self._kinds[known:total, kernels.GROUP] = group
        self._kinds[known:total, kernels.MASK] = unknown
        self._partial |= bool(unknown.any())
        if self._several:
            self._values = room(self._values, total, axis=1, turn=self._turn)
            for i, value in enumerate(values):
                self._values[i, known:total] = value
        kernels.enlist_kinds(self._extra, self._kinds, known, total)

    def _updated(self, kinds: I32, batch: Batch) -> tuple[I32, I32]:
        """The kinds of updated rows before and after."""
        updated = batch.old_twin >= 0
        return kinds[batch.old[updated]], kinds[batch.old_twin[updated]]

    def _kept(self, kinds: I32, batch: Batch) -> int:
        """Pairs that violate before and after the batch, so that they are neither added nor removed."""
        before, after = self._updated(kinds, batch)
        kept = kernels.kept_with_unchanged(self._core, self._extra, self._kinds, self._values, before, after)
        return kept + self._kept_among(before, after)

    def _kept_among(self, before: I32, after: I32) -> int:
        """Those of two updated rows, by their kinds."""
        both = (before >= 0) & (after >= 0)
        old, new = before[both].astype(np.int64), after[both].astype(np.int64)
        old_group = old if self._is_key else self._kinds[old, kernels.GROUP].astype(np.int64)
        new_group = new if self._is_key else self._kinds[new, kernels.GROUP].astype(np.int64)
        # two updated rows can conflict before and after only if they came from one group and went to one group
        move = old_group << 32 | new_group
        if self._several:
            order = np.argsort(move, kind="stable")
            return kernels.kept_between_updated(self._kinds, self._values, old[order], new[order], move[order])
        kept = _equal_pairs(move)
        if not self._is_key:
            kept += (
                _equal_pairs(old << 32 | new)
                - _equal_pairs(old << 32 | new_group)
                - _equal_pairs(old_group << 32 | new)
            )
        return kept

    def _list(self, batch: Batch, found: I64, limit: int, *, after: bool) -> Pairs:
        """Violating pairs that exist only after (or only before) the batch. Complexity: O(pairs listed)."""
        return self._listed(batch.new, batch.old, batch.new_twin, batch.old_twin, found, limit, after=after)

    def _listed(
        self, new: I32, old: I32, new_twin: I32, old_twin: I32, found: I64, limit: int, *, after: bool
    ) -> Pairs:
        if limit == 0:
            return no_pairs()
        seeds, twins = (new, new_twin) if after else (old, old_twin)
        image, twin = self._rows.alive, self._rows.twin
        twin[seeds] = twins
        image[new], image[old] = (2, 0) if after else (0, 2)
        out = np.empty((limit, 2), dtype=np.int32)
        size = self._fill(out, seeds, found, twins, after=after)
        image[new], image[old] = 1, 0
        return out[:size]

    def _fill(self, out: Pairs, seeds: I32, found: I64, twins: I32, *, after: bool = False, once: bool = False) -> int:
        """Write the conflicts of some rows, of which there are `found`; returns how many pairs were written."""
        kinds = (self._extra, self._kinds, self._values, self._kind_by_slot(), *self._read_lists())
        image, twin = self._rows.alive, self._rows.twin
        return kernels.list_conflicts(*kinds, seeds, found, twins, image, twin, after, once, out)

    def _read_lists(self) -> tuple[I32, I32]:
        distinct = len(self._grouping) if self._is_key else len(self._numbers)
        return self._lists.upto(self._kind_by_slot(), distinct, self._rows.size)

    def violating_groups(self) -> I32:
        """Groups with a violating pair. Complexity: O(groups), vectorised."""
        return np.flatnonzero(self._pairs[: len(self._grouping)] > 0).astype(np.int32)

    def conflicting(self, group: int) -> list[I32]:
        """Rows of a violating group: one array for each right-hand side that occurs (each row, for a key)."""
        self._read_lists()
        kinds = [group]
        if not self._is_key:
            kinds = []
            for which in range(2 if self._several else 1):
                kind = int(self._extra[group, which])
                while kind >= 0:
                    kinds.append(kind)
                    kind = int(self._kinds[kind, kernels.NEXT])
        sides = [slots[self._rows.alive[slots] != 0] for slots in map(self._lists.read, kinds)]
        if self._is_key:
            return [slots[i : i + 1] for slots in sides for i in range(slots.size)]
        return sorted((slots for slots in sides if slots.size), key=lambda slots: int(slots[0]))

    def violations(self) -> Iterator[Pairs]:
        """Chunks of violating pairs, by their first row. Complexity: O(pairs)."""
        seeds = self.violating()
        degrees = self.degrees(seeds)
        start = 0
        while start < seeds.size:
            # at least one row, and as many as fill a chunk
            end = start + max(1, int(np.searchsorted(np.cumsum(degrees[start : start + CHUNK]), CHUNK, side="right")))
            part = seeds[start:end]
            out = np.empty((int(degrees[start:end].sum()), 2), dtype=np.int32)
            alone = np.full(part.size, -1, dtype=np.int32)
            size = self._fill(out, part, degrees[start:end], alone, once=True)
            if size:
                yield out[:size][np.lexsort((out[:size, 1], out[:size, 0]))]
            start = end

    def violations_of(self, slot: int) -> Pairs:
        """The violating pairs that one row is in, by their other row. Complexity: O(pairs)."""
        own = np.array([slot], dtype=np.int32)
        degree = self.degrees(own)
        out = np.empty((int(degree[0]) + 1, 2), dtype=np.int32)
        found = out[: self._fill(out, own, degree, np.full(1, -1, dtype=np.int32))]
        found = found[found[:, 1] != slot]  # a row agrees with itself on a key
        return found[np.argsort(found[:, 1])]

    def degrees(self, slots: I32) -> I64:
        """How many violating pairs each row is in. Complexity: O(rows), O(kinds of the group) with unknown values."""
        kinds = np.where(self._rows.alive[slots] != 0, self._kind_by_slot()[slots], np.int32(-1))
        out = np.zeros(slots.size, dtype=np.int64)
        kernels.count_conflicts(self._core, self._extra, self._kinds, self._values, kinds, out)
        return out

    def violating(self) -> I32:
        """Slots of rows in a violation, ascending. Complexity: O(groups + result)."""
        groups = self.violating_groups()
        out = np.empty(int(self._core[groups, kernels.N].sum()), dtype=np.int32)
        lists = self._read_lists()
        size = kernels.rows_of(groups, self._extra, self._kinds, self._values, *lists, self._rows.alive, out)
        slots = np.sort(out[:size])
        return slots[self.degrees(slots) > 0] if self._several else slots

    def explain(self) -> list[str]:
        """How the last batch was counted."""
        return [str(self.estimate)] if self.estimate else []

    def size_bytes(self) -> int:
        """Memory held beside the grouping, which rules share."""
        arrays = (self._core, self._pairs, self._extra, self._kinds, self._values, self._row_kind)
        own = 0 if self._is_key else self._numbers.size_bytes()
        return own + self._lists.size_bytes() + sum(array.nbytes for array in arrays)

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        groups, kinds, rows = len(self._grouping), len(self._numbers), self._rows.size
        extra = self._extra
        if not self._is_key:
            extra = with_slack(self._extra, groups, turn=self._turn)
            extra = np.concatenate((extra[:groups], self._no_extra(extra.shape[0] - groups)))
        return {
            "core": with_slack(self._core, groups, turn=self._turn),
            "pairs": with_slack(self._pairs, groups, turn=self._turn),
            "extra": extra,
            "kinds": self._kinds if self._is_key else with_slack(self._kinds, kinds, turn=self._turn),
            "values": with_slack(self._values, kinds, axis=1, turn=self._turn) if self._several else self._values,
            "row_kind": self._row_kind if self._aliased else with_slack(self._row_kind, rows, fill=-1, turn=self._turn),
            "totals": self._totals,
            **nested("numbers", self._numbers.snapshot()),
        }

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot, whose counters must be those of its rows. Complexity: O(slots)."""
        self._numbers.restore(arrays.part("numbers"))
        groups, size = len(self._grouping), self._rows.size
        used = groups if self._is_key else len(self._numbers)
        self._core = arrays.array("core", np.int32, (groups, 2), grows=0, fill=0)
        self._pairs = arrays.array("pairs", np.int64, (groups,), grows=0, fill=0)
        if not self._aliased:
            self._row_kind = arrays.index("row_kind", -1, used - 1, size)
        if not self._is_key:
            self._kinds = arrays.array("kinds", np.int32, (used, 4), grows=0)
            self._extra = arrays.array("extra", np.int32, (groups, 4 if self._several else 1), grows=0)
            self._check_lists(arrays, groups, used)
        if self._several:
            self._values = arrays.array("values", np.int64, (len(self.check.rhs), used), grows=1)
        # of a single right-hand column nothing is partial
        self._partial = self._several and bool(self._kinds[:used, kernels.MASK].any())
        counted = np.zeros(used, dtype=np.int32)
        bounds.count_living(self._kind_by_slot()[:size], self._rows.alive, counted)
        self._totals = np.zeros(3, dtype=np.int64)
        counters = (self._core, self._pairs, self._extra, self._kinds, self._values)
        wrong = kernels.misfit(*counters, counted, used, groups, self._totals)
        arrays.require(wrong < 0, f"its counts do not follow from its rows, as those of {wrong} show")
        told = arrays.few("totals", 0, self._rows.living**2, 3)
        self.pairs, self.rows, _ = self._totals.tolist()
        arrays.require(told == self._totals.tolist(), f"its totals are {told}, not {self._totals.tolist()}")

    def _check_lists(self, arrays: Checked, groups: int, used: int) -> None:
        """The lists of kinds stay within their groups and end; groups to come have none."""
        links, spare = self._kinds[:used], self._extra[groups:]
        wrong = bounds.unlinked(links, kernels.GROUP, kernels.NEXT)
        arrays.require(wrong < 0, f"the list of kinds after {wrong} leaves its group, or runs in a circle")
        listed = np.count_nonzero(links[:, kernels.NEXT] >= 0)
        for which in (kernels.FULL, kernels.PARTIAL)[: 2 if self._several else 1]:
            listed += np.count_nonzero(self._extra[:groups, which] >= 0)
            wrong = bounds.unheaded(self._extra[:groups], which, links, kernels.GROUP)
            arrays.require(wrong < 0, f"the list of kinds of group {wrong} starts in another group")
        arrays.require(listed == used, f"{listed} of its {used} kinds are in lists")
        arrays.require(np.array_equal(spare, self._no_extra(spare.shape[0])), "groups to come have kinds")


def _equal_pairs(values: NDArray[np.integer]) -> int:
    """Number of unordered pairs of equal values."""
    if values.size < 2:
        return 0
    counts = np.unique(values, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())
