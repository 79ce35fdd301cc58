"""Two-row denial constraints beyond keys and FDs: pairs found through an index, counted by row.

Papers 001 to 003. A batch is compared with the rows that stay, and with itself, through the index of
the rule set; pairs are counted and, up to a limit, listed, never stored. Memory: 9 bytes a row beside
the grouping, the code columns and the index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from holdstrue.detect import costs
from holdstrue.detect.detector import Batch, Batches, Detector, Outcome, Pairs, first, no_pairs, nothing
from holdstrue.detect.pair_set import PairSet
from holdstrue.detect.partners import FEW_UNEQUAL, MOST_UNEQUAL, partners_about, unequal_terms
from holdstrue.detect.recount import PairSweep
from holdstrue.index.arrays import Snapshot, room, turns, with_slack
from holdstrue.index.checked import Checked
from holdstrue.index.grouping import Grouping
from holdstrue.index.protocol import S_ROLE, T_ROLE, Term
from holdstrue.index.rows import Rows
from holdstrue.kernels import pairs as kernels
from holdstrue.plan.checks import PairCheck
from holdstrue.rules.model import Op
from holdstrue.typing import I32, I64, U8

COUNT_FROM = 4096
"""From this many rows into an empty table partners are counted by sweeping instead of found one by one."""


Met: TypeAlias = tuple[Sequence[tuple[int, I32]], Sequence[tuple[int, I32]]]
"""Of the old and of the new version of a row: its partners by the role that it plays."""


NOTHING = nothing(2)
"""What most batches do to a rule that holds."""


@dataclass(frozen=True)
class TwinnedRows:
    """Rows and their versions in the other image of the table, -1 where there is none."""

    slots: I32
    twins: I32

    def at(self, places: I64) -> TwinnedRows:
        """Some of the rows."""
        return self if places.size == self.slots.size else TwinnedRows(self.slots[places], self.twins[places])


@dataclass(frozen=True)
class Candidates:
    """Rows and their possible partners, each with its version in the other image of the table."""

    own: I32
    partners: I32
    own_twins: I32
    partner_twins: I32
    role: int
    among: bool

    def pair(self, own: I32, partners: I32) -> tuple[I32, I32]:
        """What belongs to t and what belongs to s."""
        return (own, partners) if self.role == T_ROLE else (partners, own)


class PairDetector(Detector):
    """Counts of violating pairs, in all and by row, of one two-row check."""

    check: PairCheck

    def __init__(self, number: int, check: PairCheck, pairs: PairSet, rows: Rows, columns: Sequence[str]) -> None:
        self.check = check
        self._columns = tuple(columns)
        self._number = number
        self._set = pairs
        self._rows = rows
        shape = pairs.shapes[number]
        self._shape = shape
        self._terms = _as_array([term for term in shape.terms if term.op is not Op.EQ])
        self._unsearched = pairs.index.unsearched(number)
        self._rest_array = _as_array(self._unsearched)
        self._symmetric = check.symmetric
        self._sweep = PairSweep(shape, pairs, number, check.symmetric)
        self._turn = next(turns)
        self._degree = np.zeros(64, dtype=np.int64)
        self._totals = np.zeros(2, dtype=np.int64)

    @property
    def groups(self) -> int:
        """Groups with a violating pair, of a key or an FD. Complexity: O(slots), vectorised."""
        return self.violating_groups().size if self.check.grouped and self.rows else 0

    @property
    def group_by_slot(self) -> I32:
        """By slot: the group of rows with equal equality columns, seen as t."""
        return self._set.groups(self._number)[0]

    def conflicting(self, group: int) -> list[I32]:
        """Rows of a violating group: one array for each right-hand side that occurs (each row, for a key)."""
        slots = self.violating()
        own = slots[self.group_by_slot[slots] == group]
        if not self.check.rhs:
            return [own[i : i + 1] for i in range(own.size)]
        codes = self._rows.codes[self._columns.index(self.check.rhs[0])][own]
        values, first = np.unique(codes, return_index=True)
        return [own[codes == value] for value in values[np.argsort(first)]]

    def _rest(self) -> I32:
        """The terms that candidates of the next probe may fail; an index may come to search by other terms."""
        self._set.flush()
        return self._rest_held()

    def _rest_held(self) -> I32:
        """The same of candidates that were found while rows wait."""
        terms = self._set.held.unsearched(self._number)
        if terms is not self._unsearched:
            self._unsearched, self._rest_array = terms, _as_array(terms)
        return self._rest_array

    def apply(self, batches: Batches, limit: int) -> Outcome:
        """Find what the old rows take along and the new rows bring: by probing, or by sweeping some groups or all rows.

        Complexity: O(batch * log n + pairs), or that of a count of the rows that are swept where that is less.
        """
        batch = batches.get(self.check.table)
        if batch is None:
            return nothing(2)
        self._degree = room(self._degree, batch.rows.size, fill=0, turn=self._turn)
        # the table was empty, so everything there is came in with this batch
        alone = not batch.old.size and batch.new.size == batch.rows.living
        if alone and batch.new.size >= COUNT_FROM and unequal_terms(self._shape) <= FEW_UNEQUAL:
            return self._load(batch, limit)
        old, new = self._concerned(batch)
        if not old.slots.size and not new.slots.size:
            return NOTHING
        stay = self._swept(batch, old.slots, new.slots, limit)
        if stay is not None:
            return self._recount(batch, stay, limit)
        removed, removed_list = self._settle(old.slots, old.twins, -1, limit)
        added, added_list = self._settle(new.slots, new.twins, 1, limit)
        self.rows, self.pairs = self._totals.tolist()
        return Outcome(added, removed, added_list, removed_list)

    def _concerned(self, batch: Batch) -> tuple[TwinnedRows, TwinnedRows]:
        """The old rows of a batch that were in a violation, and the new ones that may be in one."""
        old, new = TwinnedRows(batch.old, batch.old_twin), TwinnedRows(batch.new, batch.new_twin)
        if batch.old.size:
            old = old.at(np.flatnonzero(self._degree[batch.old]))
        suspects = self._set.suspects(self._number, batch)
        return old, new if suspects is None else new.at(suspects)

    def _swept(self, batch: Batch, old: I32, new: I32, limit: int) -> I32 | None:
        """The rows that stay in the groups that a batch touches, if they are better swept; else None.

        `old` and `new` are those of its rows that would be probed for.
        """
        rows = old.size + new.size
        updates = int(np.count_nonzero(self._degree[batch.new_twin[batch.new_twin >= 0]]))
        if rows <= costs.FEW or unequal_terms(self._shape) * (2 if updates else 1) > MOST_UNEQUAL:
            return None
        everything = batch.staying + batch.new.size
        least = costs.probe_cost(rows, 0)
        most = costs.SLOT * batch.rows.size + costs.sweep_cost(self._shape, everything, updates, self.rows)
        if most < least:
            # so large a batch need not ask the index what it would find, nor have it built for that
            self.estimate = costs.Estimate(None, least, everything, most, whole=True)
            return np.flatnonzero(self._rows.alive[: batch.first_new]).astype(np.int32)
        candidates = self._candidates_about(old, batch.staying) + self._candidates_about(new, batch.staying)
        probe = costs.probe_cost(rows, candidates)
        about = self._touched_about(batch)
        if probe <= costs.SLOT * batch.rows.size + costs.sweep_cost(self._shape, about, 0, 0) / 2:
            self.estimate = costs.Estimate(int(candidates), probe, 0, 0.0)
            return None
        stay = self._touched(batch)
        swept = stay.size + batch.new.size
        # pairs that are wanted are looked at anyway
        listed = costs.CANDIDATE * min(limit, candidates)
        violating = int(np.count_nonzero(self._degree[stay])) if updates else 0
        sweep = costs.SLOT * batch.rows.size + costs.sweep_cost(self._shape, swept, updates, violating) + listed
        self.estimate = costs.Estimate(int(candidates), probe, swept, sweep, whole=swept == everything)
        return stay if self.estimate.sweeps else None

    def _candidates_about(self, slots: I32, staying: int) -> float:
        """About how many candidates probing for some rows would find, from a few of them."""
        if not slots.size:
            return 0.0
        drawn = slots[:: max(1, slots.size // costs.DRAWN)]
        roles = (T_ROLE,) if self._symmetric else (T_ROLE, S_ROLE)
        found = sum(self._set.index.hits_about(self._number, drawn, role, costs.MOST_DRAWN) for role in roles)
        if slots.size <= staying:
            return found * slots.size * (1 + slots.size / staying)
        # the few rows that stay, if there are any, tell nothing of what the batch's own rows find among themselves
        searched = [term for term in self._shape.terms if term not in self._set.index.unsearched(self._number)]
        others = slots[:: max(1, slots.size // costs.LOOKED_AT)]
        among = partners_about(searched, self._set, self._number, drawn, others)
        return slots.size * (found + among * slots.size / others.size)

    def _touched(self, batch: Batch) -> I32:
        """The rows that stay in the groups of a batch's rows; all that stay where each role has its own groups."""
        stays = self._rows.alive[: batch.first_new] != 0
        touched = self._set.touched(self._number, batch)
        if touched is not None:
            stays &= touched[self._set.groups(self._number)[0][: batch.first_new]]
        return np.flatnonzero(stays).astype(np.int32)

    def _touched_about(self, batch: Batch) -> int:
        """About how many rows those are and how many come, from some of them."""
        drawn = np.arange(0, batch.first_new, max(1, batch.first_new // costs.LOOKED_AT))
        stays = self._rows.alive[drawn] != 0
        touched = self._set.touched(self._number, batch)
        if touched is not None:
            stays &= touched[self._set.groups(self._number)[0][drawn]]
        share = np.count_nonzero(stays) / max(1, drawn.size)
        return int(share * batch.first_new) + batch.new.size

    def _recount(self, batch: Batch, stay: I32, limit: int) -> Outcome:
        """Count the groups that a batch touches anew, and list the first pairs that it added and removed."""
        found = self._sweep.recount(batch, stay, self._degree)
        gone = self._degree[batch.old]
        violating = np.count_nonzero(self._degree[stay]) + np.count_nonzero(gone)
        self._degree[batch.old] = 0
        self._degree[found.slots] = found.degrees
        self._totals[kernels.ROWS_TOTAL] += np.count_nonzero(found.degrees) - violating
        self._totals[kernels.PAIRS_TOTAL] += found.pairs
        self.rows, self.pairs = self._totals.tolist()
        new = self._degree[batch.new] > 0
        removed = self._first(batch.old[gone > 0], batch.old_twin[gone > 0], min(limit, found.removed))
        added = self._first(batch.new[new], batch.new_twin[new], min(limit, found.added))
        return Outcome(found.added, found.removed, added, removed)

    def _first(self, slots: I32, twins: I32, wanted: int) -> Pairs:
        """So many of the pairs that some rows take along or bring. Complexity: up to their last one."""
        if not wanted:
            return no_pairs()
        listed: list[Pairs] = [no_pairs()]
        rest = self._rest()
        for found in self._candidates(slots, twins):
            t, s = found.pair(found.own, found.partners)
            t_twin, s_twin = found.pair(found.own_twins, found.partner_twins)
            only = np.flatnonzero(self._keep(rest, t, s, t_twin, s_twin, found.among and self._symmetric) == 1)
            listed.append(np.stack((t[only[:wanted]], s[only[:wanted]]), axis=1))
            wanted -= listed[-1].shape[0]
            if not wanted:
                break
        return np.concatenate(listed)

    def _settle(self, slots: I32, twins: I32, step: int, limit: int) -> tuple[int, Pairs]:
        """Count the pairs of some rows with the rows that stay and among themselves, and list the first."""
        total, room_left = 0, limit
        listed: list[Pairs] = []
        # rows that have no other version and nothing left to test: every candidate is a violation
        rest = self._rest()
        certain = not rest.size and not (twins >= 0).any()
        for found in self._candidates(slots, twins):
            t, s = found.pair(found.own, found.partners)
            if certain and not found.among:
                kernels.count_all(self._degree, found.own, found.partners, step, self._totals)
                total += t.size
                if room_left:
                    listed.append(np.stack((t[:room_left], s[:room_left]), axis=1))
                    room_left -= listed[-1].shape[0]
                continue
            t_twin, s_twin = found.pair(found.own_twins, found.partner_twins)
            keep = self._keep(rest, t, s, t_twin, s_twin, found.among and self._symmetric)
            kernels.count_degrees(self._degree, t, s, keep, step, self._totals)
            only = np.flatnonzero(keep == 1)
            total += only.size
            if room_left and only.size:
                only = only[:room_left]
                listed.append(np.stack((t[only], s[only]), axis=1))
                room_left -= only.size
        return total, np.concatenate(listed) if listed else no_pairs()

    def apply_row(self, old: int, new: int, met: Met, limit: int) -> Outcome:
        """As `apply` for one row, of which all partners were looked for already: those of its old and new version."""
        outcome: list[tuple[int, Pairs]] = []
        certain = not self._rest_held().size and (old < 0 or new < 0)
        for slot, twin, step, found in ((old, new, -1, met[0]), (new, old, 1, met[1])):
            if slot < 0 or not any(partners.size for _, partners in found):
                outcome.append((0, no_pairs()))
            elif not certain:
                own = np.array([slot], dtype=np.int32)
                outcome.append(self._settle(own, np.array([twin], dtype=np.int32), step, limit))
            else:
                outcome.append(self._count_row(slot, step, found, limit))
        self.rows, self.pairs = self._totals.tolist()
        (removed, removed_list), (added, added_list) = outcome
        return Outcome(added, removed, added_list, removed_list)

    def _count_row(self, slot: int, step: int, found: Sequence[tuple[int, I32]], limit: int) -> tuple[int, Pairs]:
        """Count the pairs of one row with partners that are certain."""
        total, listed = 0, []
        for role, partners in found:
            pairs = np.empty((partners.size, 2), dtype=np.int32)
            mine, theirs = (0, 1) if role == T_ROLE else (1, 0)
            pairs[:, mine], pairs[:, theirs] = slot, partners
            own = np.full(partners.size, slot, dtype=np.int32)
            kernels.count_all(self._degree, own, partners, step, self._totals)
            total += partners.size
            listed.append(pairs)
        return total, (listed[0] if len(listed) == 1 else np.concatenate(listed))[:limit]

    def reserve(self, slots: int) -> None:
        """Make room for rows in so many slots."""
        self._degree = room(self._degree, slots, fill=0, turn=self._turn)
        self._set.roles[self._number] = room(self._set.roles[self._number], slots, fill=0)

    @property
    def number(self) -> int:
        """Its number among the two-row checks of its table."""
        return self._number

    @property
    def roles(self) -> U8:
        """By slot: the roles a row may play."""
        return self._set.roles[self._number]

    @property
    def lopsided(self) -> bool:
        """Whether the two roles ask for different rows or columns."""
        return self._set.lopsided[self._number]

    @property
    def grouping(self) -> Grouping:
        """The groups of its equality columns."""
        return self._set.grouping(self._number)

    @property
    def degree_by_slot(self) -> I64:
        """By slot how many violating pairs a row is in."""
        return self._degree

    @property
    def roles_asked(self) -> tuple[int, ...]:
        """The roles in which a row's partners are looked for."""
        return (T_ROLE,) if self._symmetric else (T_ROLE, S_ROLE)

    def _candidates(self, slots: I32, twins: I32) -> Iterator[Candidates]:
        """Candidate pairs of some rows: with the rows that stay, then among themselves."""
        if not slots.size:
            return
        index = self._set.index
        for role in (T_ROLE,) if self._symmetric else (T_ROLE, S_ROLE):
            for hits in index.probe(self._number, slots, role):
                partners = hits.partners
                yield Candidates(slots[hits.queries], partners, twins[hits.queries], partners, role, among=False)
        if slots.size > 1:
            for hits in index.probe_among(self._number, slots):
                own, other = hits.queries, hits.partners
                yield Candidates(slots[own], slots[other], twins[own], twins[other], T_ROLE, among=True)

    def _keep(self, rest: I32, t: I32, s: I32, t_twin: I32, s_twin: I32, once: bool) -> U8:
        keep = np.empty(t.size, dtype=np.uint8)
        kernels.keep_pairs(
            rest,
            self._terms,
            self._rows.codes,
            t,
            s,
            t_twin,
            s_twin,
            self._set.roles[self._number],
            *self._set.groups(self._number),
            once,
            keep,
        )
        return keep

    def _load(self, batch: Batch, limit: int) -> Outcome:
        """Count all pairs of a table that was empty. Complexity: as `count_partners`, whatever the number of pairs."""
        degree = self._sweep.among(batch.new, batch.threads)
        self._degree[batch.new] = degree
        total = int(degree.sum()) // 2
        self._totals[kernels.PAIRS_TOTAL] = total
        self._totals[kernels.ROWS_TOTAL] = np.count_nonzero(degree)
        self.rows, self.pairs = self._totals.tolist()
        listed = no_pairs()
        if total and limit:
            # listing reads the index, so the rows go in now rather than at the end of the batch
            self._set.end(batch)
            listed = first(self.violations(), limit)
        return Outcome(total, 0, listed, no_pairs())

    def violating(self) -> I32:
        """Slots of rows in a violation. Complexity: O(slots), vectorised."""
        size = self._rows.size
        return np.flatnonzero((self._degree[:size] > 0) & (self._rows.alive[:size] != 0)).astype(np.int32)

    def violations(self) -> Iterator[Pairs]:
        """Chunks of violating pairs. Complexity: O(pairs + violating rows * log n)."""
        slots = self.violating()
        for start in range(0, slots.size, 1024):
            part, rest = slots[start : start + 1024], self._rest()
            for hits in self._set.index.probe(self._number, part, T_ROLE):
                t, s = part[hits.queries], hits.partners
                keep = self._keep(rest, t, s, t, s, self._symmetric) == 1
                if keep.any():
                    yield np.stack((t[keep], s[keep]), axis=1)

    def violations_of(self, slot: int) -> Pairs:
        """The violating pairs that one row is in, as t and as s. Complexity: O(pairs + log n)."""
        own, rest = np.array([slot], dtype=np.int32), self._rest()
        found = [no_pairs()]
        for role in ((T_ROLE,) if self._symmetric else (T_ROLE, S_ROLE)) if self.degrees(own)[0] else ():
            for hits in self._set.index.probe(self._number, own, role):
                alone = np.full(hits.partners.size, slot, dtype=np.int32)
                t, s = (alone, hits.partners) if role == T_ROLE else (hits.partners, alone)
                keep = self._keep(rest, t, s, t, s, False) == 1
                found.append(np.stack((t[keep], s[keep]), axis=1))
        return np.concatenate(found)

    def degrees(self, slots: I32) -> I64:
        """How many violating pairs each row is in. Complexity: O(rows)."""
        return np.where(self._rows.alive[slots] != 0, self._degree[slots], np.int64(0))

    def explain(self) -> list[str]:
        """What the index says of this check."""
        lines = [*self._set.index.explain(self._number), *([str(self.estimate)] if self.estimate else [])]
        return [re.sub(r"\b([ts])\.(\d+)", lambda m: f"{m[1]}.{self._columns[int(m[2])]}", line) for line in lines]

    def size_bytes(self) -> int:
        """Memory held beside the index, which rules share."""
        return self._degree.nbytes

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        return {"degree": with_slack(self._degree, self._rows.size), "totals": self._totals}

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot. Complexity: O(slots), vectorised."""
        size, living = self._rows.size, self._rows.living
        self.rows, self.pairs = arrays.few("totals", 0, living * living, 2)
        self._degree = arrays.index("degree", 0, 2 * living, size, dtype=np.int64, fill=0)
        own = self._degree[:size]
        counted = np.count_nonzero(own) == self.rows and int(own.sum()) == 2 * self.pairs
        arrays.require(counted, f"the pairs of its rows are not {self.pairs} in {self.rows} rows")
        self._totals = np.array([self.rows, self.pairs], dtype=np.int64)


def _as_array(terms: Sequence[Term[int]]) -> I32:
    rows = [(term.op.code, term.left, term.right) for term in terms]
    return np.array(rows, dtype=np.int32).reshape(-1, 3)
