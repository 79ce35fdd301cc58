"""The default index of two-row rules: equality groups, then sorted runs with chains and fenced blocks.

Each rule has one spine (both roles read the same columns) or two. A spine is a list of immutable runs
of geometrically growing size, merged as new ones come in (see `spine`); a removed row is skipped by its `alive`
flag and dropped when its run is merged. Memory: 20.5 bytes a row and spine.

Worked example: not(t.state = s.state and t.pay > s.pay and t.tax < s.tax) on five rows

    slot   0    1    2    3    4
    state  NY   NY   NJ   NY   NY      (groups 0, 0, 1, 0, 0)
    pay    10   20   10   30   40
    tax    1    2    1    3    1

In group 0 pay and tax rise together from slot 0 over 1 to 3, which is the chain (of a group of 64 rows or more;
smaller ones are scanned); slot 4 is the rest. Who completes a violation with slot 4 as t? A partner s of group 0 with
pay <= 39 and tax >= 2: the first bound leaves positions 0 to 2 of the chain, the second 1 to 2, hence slots 1 and 3;
of the rest nobody. So (4, 1) and (4, 3) are the violations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from holdstrue.index.arrays import MOST_SLOTS, Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.index.drive import Drive, choices, orders, shares
from holdstrue.index.protocol import S_ROLE, T_ROLE, Hits, Name, PairRows, Shape, Slots, Term
from holdstrue.index.run import Run, UnsortedRun, hits_a_row
from holdstrue.index.spine import Spine
from holdstrue.kernels import runs as kernels
from holdstrue.operators import Op
from holdstrue.typing import I32, I64

MOST_UNSORTED = 128
"""Rows that wait unsorted, to spare building a run for each small batch. Chosen, not tuned."""

CHOSEN_FROM = 256
"""Rows from which on the driving terms of rules with three or more inequalities are chosen by what holds of them."""
CHOSEN_AGAIN = 8
"""They are chosen again when there are this many times as many rows, which are sorted anew where others drive then."""
BETTER = 0.75
"""Other terms drive only if at most this share of the candidates is left: choosing by less would follow the sample."""

SORTED_AFTER = 200
"""Rows that came are sorted for a check when it was asked about this many: sorting one into a run takes 150 to 350 ns,
looking at it without order 1.5."""
READ = 8
"""To read the rows at all takes as long as looking at them for so many."""

MOST_LATE = 1 << 16
"""Rows that may wait for a check to take them in: more would have whoever asks for all checks wait for a second, with a
hundred of them. Chosen: 150 ns a row and check."""
AT_ONCE = 16
"""Of checks for which too many rows wait, one in so many takes them in with a batch, so that no batch pays for all."""

LOOKED_AT = 1 << 13
"""Of rows that wait so many are looked at to estimate what a probe would find. Chosen, not tuned: 16 rows that ask look
at as many in 0.2 ms, and at a million in 25."""

_NOTHING = np.zeros(1, dtype=np.int64)


class BlockIndex:
    """A `PairIndex` of sorted runs (see the module)."""

    reads_equalities: ClassVar[bool] = False
    takes_keys: ClassVar[bool] = False
    keeps_arrays: ClassVar[bool] = True

    def __init__(self, shapes: Sequence[Shape], rows: PairRows) -> None:
        self._rows = rows
        self._shapes = tuple(shapes)
        self._drives = [Drive.of(shape.terms) for shape in shapes]
        # by check: from how many rows on its driving terms are chosen; never where there is no choice
        self._choose_at = [CHOSEN_FROM if len(orders(shape.terms)) > 2 else MOST_SLOTS + 1 for shape in shapes]
        self._spines: list[dict[int, Spine[Run]]] = []
        self._among: dict[int, tuple[Slots, int, Run]] = {}
        self._late: list[list[Slots]] = [[] for _ in shapes]
        self._late_rows = [0 for _ in shapes]
        self._scanned = [0 for _ in shapes]
        for check, shape in enumerate(shapes):
            one = all(term.left == term.right for term in shape.terms) and not rows.lopsided[check]
            self._spines.append({T_ROLE | S_ROLE: Spine()} if one else {T_ROLE: Spine(), S_ROLE: Spine()})

    def insert(self, slots: Slots) -> None:
        """Add rows, which a check takes in when it is settled, or too many wait. Complexity: O(checks) amortised."""
        if not slots.size:
            return
        for check, late in enumerate(self._late):
            late.append(slots)
            self._late_rows[check] += slots.size
        overdue = [check for check, rows in enumerate(self._late_rows) if rows > MOST_LATE]
        for check in overdue[: -(-len(overdue) // AT_ONCE)]:
            self.settle(check)

    def settle(self, check: int) -> None:
        """Sort the rows that came since into the runs of a check. Complexity: O(rows * log(held / rows)) amortised."""
        if not self._late[check]:
            return
        slots, self._late[check], self._late_rows[check], self._scanned[check] = self._waiting(check), [], 0, 0
        if slots.size + self._held(check) >= self._choose_at[check]:
            self._choose(check, slots)
        for role, spine in self._spines[check].items():
            self._add(check, role, spine, slots)

    def _waiting(self, check: int) -> Slots:
        """The living rows that are in no run of a check."""
        late = self._late[check]
        slots = late[0] if len(late) == 1 else np.concatenate(late)
        alive = self._rows.alive[slots] != 0
        return slots if alive.all() else slots[alive]

    def _unsorted(self, check: int, role: int, asked: int) -> UnsortedRun | None:
        """The rows that a check has not taken in yet, where looking at each is cheaper than sorting them; else None.

        Being asked about so many rows once more may be what makes sorting cheaper: then the check is settled.
        """
        self._scanned[check] += asked + READ
        if not self._late[check] or self._scanned[check] > SORTED_AFTER:
            self.settle(check)
            return None
        slots = self._waiting(check)
        slots = slots[(self._rows.roles[check][slots] & role) != 0]
        return UnsortedRun(*self._attributes(check, role, slots), slots)

    def _held(self, check: int) -> int:
        """Rows inside that may play a role of a check."""
        return max(spine.held for spine in self._spines[check].values())

    def _choose(self, check: int, slots: Slots) -> None:
        """Let those two terms drive that the fewest pairs satisfy, of the rows inside and of those that come."""
        terms = self._shapes[check].terms
        self._choose_at[check] = CHOSEN_AGAIN * (slots.size + self._held(check))
        found = self._shares(check, slots)
        possible = choices(terms)
        best = min(range(len(possible)), key=found.__getitem__)
        if best == self._chosen(check) or found[best] > BETTER * found[self._chosen(check)]:
            return
        self._drives[check] = Drive.of(terms, possible[best])
        self._among.pop(check, None)
        # a new spine rather than new runs: one that is being merged beside the work goes with the old
        for role, spine in self._spines[check].items():
            living = spine.living(self._rows.alive)
            self._spines[check][role] = Spine.of(self.run(check, role, living)) if living.size else Spine()

    def _shares(self, check: int, slots: Slots) -> list[float]:
        """What share of pairs satisfies each choice of driving terms, of the rows inside and of some others."""
        roles = self._rows.roles[check][slots]
        by_role = []
        for role in (T_ROLE, S_ROLE):
            spine = self._spine(check, role)
            by_role.append(np.concatenate((spine.living(self._rows.alive), slots[(roles & role) != 0])))
        t, s = by_role
        return shares(self._shapes[check].terms, self._rows, check, t, s)

    def _chosen(self, check: int) -> int:
        """Which of the choices of driving terms is in use; 0 is the written one, also where there is none."""
        drive = self._drives[check]
        same = [pair == (drive.first, drive.second) for pair in choices(self._shapes[check].terms)]
        return same.index(True) if any(same) else 0

    def _spine(self, check: int, role: int) -> Spine[Run]:
        """Where the rows are that may play a role."""
        spines = self._spines[check]
        return spines.get(T_ROLE | S_ROLE) or spines[role]

    def _add(self, check: int, role: int, spine: Spine[Run], slots: Slots) -> None:
        members = slots[(self._rows.roles[check][slots] & role) != 0]
        if not members.size:
            return
        spine.held += members.size
        if members.size <= MOST_UNSORTED:
            waiting = members if spine.unsorted is None else np.concatenate((spine.unsorted.slots, members))
            if waiting.size <= MOST_UNSORTED:
                spine.unsorted = UnsortedRun(*self._attributes(check, role, waiting), waiting)
                return
            spine.unsorted = None
            run = self.run(check, role, waiting)
        else:
            run = self._probed(check, role, slots) or self.run(check, role, members)
        spine.append(run, self._rows.alive, partial(self.run, check, role))

    def _probed(self, check: int, role: int, slots: Slots) -> Run | None:
        """The run that `probe_among` built of the same rows just before."""
        known = self._among.pop(check, None)
        if known is None or known[0] is not slots or known[1] != role:
            return None
        return replace(known[2], slots=slots[known[2].slots])

    def _settle_all(self) -> None:
        for check in range(len(self._shapes)):
            self.settle(check)

    def remove(self, slots: Slots) -> None:
        """Forget rows (their `alive` flag is off already). Complexity: O(rows) amortised."""
        for check, role, spine in self._each():
            # slots ascend in the order in which rows come
            late = int(self._late[check][0][0]) if self._late[check] else MOST_SLOTS
            spine.dead += int(np.count_nonzero(self._rows.roles[check][slots[slots < late]] & role))
            spine.squeeze(self._rows.alive, partial(self.run, check, role))

    def _each(self) -> Iterator[tuple[int, int, Spine[Run]]]:
        """Every spine with its check and role."""
        return ((check, role, spine) for check, own in enumerate(self._spines) for role, spine in own.items())

    def run(self, check: int, role: int, slots: Slots, names: Slots | None = None) -> Run:
        """A run of the given rows as they are searched when they play `role`; `names` replace their slots."""
        drive = self._drives[check]
        named = slots if names is None else names
        group, a, b = self._attributes(check, role, slots)
        return Run.build(group, a, b, named, rising=drive.rising, chains=drive.second is not None)

    def _attributes(self, check: int, role: int, slots: Slots) -> tuple[I32, I64, I64]:
        """Group, first and second attribute of rows as they are searched when they play `role`."""
        drive = self._drives[check]
        t_groups, s_groups = self._rows.groups(check)
        as_t = role == T_ROLE
        a, b = (
            np.zeros(slots.size, dtype=np.int64)
            if term is None
            else self._rows.codes(term.left if as_t else term.right)[slots]
            for term in (drive.first, drive.second)
        )
        return (t_groups if as_t else s_groups)[slots], a, b

    def queries(self, check: int, slots: Slots, role: int) -> tuple[I32, I64, I64]:
        """Groups, interval pairs and probed positions of a search for the partners of rows in `role`."""
        drive = self._drives[check]
        roles, groups_by_role, as_t = self._rows.roles[check], self._rows.groups(check), role == T_ROLE
        own_groups = groups_by_role[0 if as_t else 1]
        # the operators that a partner's value must satisfy against a row's own
        ops = [
            kernels.ANY if term is None else (term.op.flipped if as_t else term.op).code
            for term in (drive.first, drive.second)
        ]
        columns = [
            _NOTHING if term is None else self._rows.codes(term.left if as_t else term.right)
            for term in (drive.first, drive.second)
        ]
        position = np.arange(slots.size, dtype=np.int64)
        groups, found = [], []
        # a != is two searches: below and above
        for op in (Op.LT.code, Op.GT.code) if ops[0] == Op.NE.code else (ops[0],):
            group, box = np.empty(slots.size, dtype=np.int32), np.empty((slots.size, 4), dtype=np.int64)
            kernels.boxes(slots, roles, role, own_groups, columns[0], op, columns[1], ops[1], group, box)
            groups.append(group)
            found.append(box)
        if len(found) == 1:
            return groups[0], found[0], position
        return np.concatenate(groups), np.concatenate(found), np.concatenate((position, position))

    def drive(self, check: int) -> Drive[int]:
        """The terms that a check is searched by."""
        self.settle(check)
        return self._drives[check]

    def spine(self, check: int, role: int) -> tuple[Spine[Run], bool]:
        """Where the partners of rows in `role` are, and whether it holds the rows of both roles."""
        self.settle(check)
        spines = self._spines[check]
        both = spines.get(T_ROLE | S_ROLE)
        return (spines[S_ROLE if role == T_ROLE else T_ROLE], False) if both is None else (both, True)

    def unsearched(self, check: int) -> tuple[Term[int], ...]:
        """Terms that probes do not take care of, so that their answers are candidates only."""
        if self._choose_at[check] <= MOST_SLOTS:
            self.settle(check)  # which may choose others
        return self._drives[check].rest

    def probe(self, check: int, slots: Slots, role: int) -> Iterator[Hits]:
        """Partners by the driving terms; the remaining terms are the caller's to check.

        Complexity: O(runs * log n + answers) a row on clean data.
        """
        other = S_ROLE if role == T_ROLE else T_ROLE
        late = self._unsorted(check, other, slots.size)
        spines = self._spines[check]
        spine = spines.get(T_ROLE | S_ROLE) or spines[other]
        parts = spine.parts if late is None else [*spine.parts, late]
        if not parts:
            return
        group, box, position = self.queries(check, slots, role)
        for part in parts:
            for query, partner in part.probe(group, box, self._rows.alive):
                yield Hits(position[query], partner)

    def hits_about(self, check: int, slots: Slots, role: int, most: int) -> float:
        """About how many partners a probe finds for each of a few rows; of many rows that wait some are looked at.

        Complexity: O(rows that wait), that of a copy, and of a probe in the others.
        """
        if self._late_rows[check] + self._held(check) >= self._choose_at[check]:
            self.settle(check)  # which chooses what is searched by
        other = S_ROLE if role == T_ROLE else T_ROLE
        parts: list[tuple[Run | UnsortedRun, int]] = [(part, 1) for part in self._spine(check, other).parts]
        if self._late[check]:
            step = max(1, self._late_rows[check] // LOOKED_AT)
            some = self._waiting(check)[::step]
            some = some[(self._rows.roles[check][some] & other) != 0]
            parts.append((UnsortedRun(*self._attributes(check, other, some), some), step))
        group, box, _ = self.queries(check, slots, role)
        found = (step * hits_a_row(part.probe(group, box, self._rows.alive), group.size, most) for part, step in parts)
        # a != is two questions a row
        return sum(found) * group.size / max(1, slots.size)

    def probe_among(self, check: int, slots: Slots) -> Iterator[Hits]:
        """Partners s of each of the rows as t, among the same rows; `partners` are positions in `slots`."""
        members = np.flatnonzero(self._rows.roles[check][slots] & S_ROLE).astype(np.int32)
        if not members.size:
            return
        spines = self._spines[check]
        role = T_ROLE | S_ROLE if T_ROLE | S_ROLE in spines else S_ROLE
        part: Run | UnsortedRun
        if members.size <= MOST_UNSORTED:
            part = UnsortedRun(*self._attributes(check, role, slots[members]), members)
        else:
            part = self.run(check, role, slots[members], members)
            self._among[check] = (slots, role, part)
        group, box, position = self.queries(check, slots, T_ROLE)
        present = np.ones(slots.size, dtype=np.uint8)
        for query, partner in part.probe(group, box, present):
            yield Hits(position[query], partner)

    def size_bytes(self) -> int:
        """Memory held."""
        self._settle_all()
        return sum(run.size_bytes() for _, _, spine in self._each() for run in spine.runs)

    @staticmethod
    def outline(terms: Sequence[Term[str]]) -> list[str]:
        """How a check of these terms will be served.

        >>> BlockIndex.outline([Term("state", Op.EQ, "state"), Term("pay", Op.GT, "pay"), Term("tax", Op.NE, "tax")])[0]
        'hash on t.state = s.state; search t.pay > s.pay; then test t.tax != s.tax'
        """
        drive = Drive.of(terms)
        equal = [term for term in terms if term.op is Op.EQ]
        steps = [f"hash on {_listed(equal)}" if equal else "no equality: one group of all rows"]
        searched = [term for term in (drive.first, drive.second) if term is not None]
        ordered = orders(terms)
        if len(ordered) > 2:
            unequal = [term for term in drive.rest if term not in ordered]
            steps += [f"search two of {', '.join(map(str, ordered))}, those that the fewest pairs satisfy"]
            steps += [f"then test the others{' and ' if unequal else ''}{_listed(unequal)}"]
        else:
            steps += [f"search {_listed(searched)}"] if searched else []
            steps += [f"then test {_listed(drive.rest)}"] if drive.rest else []
        scratch = "sort and sweep" if len(ordered) <= 2 else "sort, halve by one term after the other and sweep"
        return ["; ".join(steps), f"from scratch: {scratch}, counted without listing"]

    def explain(self, check: int) -> list[str]:
        """What the index searches by and why, for people."""
        self.settle(check)
        drive = self._drives[check]
        spines = self._spines[check]
        lines = [f"runs: {', '.join(str(len(part)) for spine in spines.values() for part in spine.parts) or 'none'}"]
        if drive.first is None:
            return [*lines, "groups only: every two rows of a group are candidates"]
        if drive.second is None:
            return [*lines, "one range on the first attribute inside the group"]
        trend = "rise together" if drive.rising else "run against each other"
        if drive.first is not None and len(orders(self._shapes[check].terms)) > 2:
            found = self._shares(check, np.empty(0, dtype=np.int32))
            seen = [
                f"{_listed(pair)} {share:.1%}"
                for pair, share in zip(choices(self._shapes[check].terms), found, strict=True)
            ]
            lines.append(f"driven by {_listed((drive.first, drive.second))}; of pairs drawn satisfy: {', '.join(seen)}")
        return [
            *lines,
            f"two ranges inside the group: a chain of rows that {trend}, the others in fenced blocks",
        ]

    def snapshot(self) -> Snapshot:
        """All runs, merged into one a spine, so that opening maps few arrays."""
        arrays: Snapshot = {}
        self._settle_all()
        for check, role, spine in self._each():
            spine.settle(self._rows.alive, partial(self.run, check, role))
            for run in spine.runs:
                arrays |= nested(self._place(check, role), run.snapshot())
        return arrays

    def _place(self, check: int, role: int) -> str:
        """The name of a spine in a snapshot, which says by what it is sorted where that is not as written."""
        number = self._chosen(check)
        return f"{check}.{role}.by.{number}" if number else f"{check}.{role}"

    def restore(self, arrays: Checked, slots: int) -> None:
        """Take over the runs of a snapshot of so many slots: in each are the living rows that may play its role."""
        for check in range(len(self._shapes)):
            self._late[check], self._late_rows[check] = [], 0
            self._drives[check] = self._kept_drive(arrays, check)
        for check, role, spine in self._each():
            able = self._rows.alive[:slots] & ((self._rows.roles[check][:slots] & role) != 0)
            members, rising = int(np.count_nonzero(able)), self._drives[check].rising
            own = arrays.part(self._place(check, role))
            spine.runs = [Run.restore(own, members, slots, rising=rising)] if members else []
            spine.held, spine.dead = members, 0
            if len(orders(self._shapes[check].terms)) > 2:
                self._choose_at[check] = max(CHOSEN_FROM, CHOSEN_AGAIN * members)

    def _kept_drive(self, arrays: Checked, check: int) -> Drive[int]:
        """The driving terms by which a snapshot is sorted; as written in states of before they were chosen."""
        terms = self._shapes[check].terms
        for number, pair in enumerate(choices(terms)):
            if number and any("slots" in arrays.part(f"{check}.{role}.by.{number}") for role in self._spines[check]):
                return Drive.of(terms, pair)
        return Drive.of(terms)


def _listed(terms: Sequence[Term[Name]]) -> str:
    return " and ".join(map(str, terms))
