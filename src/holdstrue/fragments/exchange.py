"""Horizontal fragments agree on which groups violate, by digests (paper 000, Section 6, incHor on batches).

A site knows of each group of rows with equal X that it holds whether the group violates the CFD anywhere: all
of a group's rows do, or none. So a change is told to other fragments only when it can change that:

- insert, case 1(a)(ii): a group that is new here; 1(b)(ii): a right side that is new in a clean group;
- delete, case 1(b): a violating group that lost a right side and has one or none left here.

Where a local row with the same X is already a violation nothing is told (the paper's Example 9).

Rounds: `announce` (X, the only right side left here or "none" or "many"), `reply` (who holds another right
side says so), `verdict` (the first announcer calls a group clean again when nobody does). Each costs at most
one id a changed group and peer, whatever the table's size.

From scratch one fragment, the coordinator, is sent both sides' ids and says which groups violate. For a first load
each fragment sends every kind once; the batch algorithm (batHor) sends every matching row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdstrue.fragments.cfd_index import CFDIndex, IndexStep
from holdstrue.fragments.channel import Mailbox, MessageColumns, SiteMessage
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.indexed_rows import CFDStep
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.kernels.classes import MANY_KINDS, NO_KIND
from holdstrue.typing import I32, U8, Mask

Outgoing = tuple[str, str, MessageColumns]
"""What one CFD has to tell: target, kind of message, entries."""

NONE, ONE, MANY = 0, 1, 2
WAS_DIRTY = 4
"""Set in a state when the group violated before the batch."""


@dataclass(frozen=True)
class GroupStates:
    """States of groups as sites announced them; `who` is the fragment of each."""

    x: Ids
    state: U8
    value: Ids
    who: I32

    @staticmethod
    def join(parts: Iterable[GroupStates]) -> GroupStates:
        """Several as one."""
        x, state, value, who = zip(*((part.x, part.state, part.value, part.who) for part in parts), strict=True)
        return GroupStates(Ids.concat(x), np.concatenate(state), Ids.concat(value), np.concatenate(who))


class Exchange:
    """One CFD's exchange with other fragments in one batch, at its home."""

    def __init__(self, cfd: int, fragment: int, peers: Mapping[int, str], step: IndexStep) -> None:
        self._cfd, self._fragment, self._peers = cfd, fragment, peers
        self._index, self._step = step.index, step
        self._own_states = self._own()
        self._idle = False
        """Whether nobody announced anything."""

    def _own(self) -> GroupStates:
        """What must be announced, after which flags of all other touched groups are as they will be."""
        step = self._step
        before, after, dirty = step.sides_before, step.sides_after, step.dirty_before
        new = (before == 0) & (after > 0)
        widened = (before > 0) & ~dirty & step.gained
        narrowed = dirty & step.lost & (after < 2)
        told = new | widened | narrowed
        self._step.flag(step.groups[dirty & ~told & (after > 0)], 1)
        groups = step.groups[told]
        state, value = self._states(groups)
        state = state | np.where(dirty[told], np.uint8(WAS_DIRTY), np.uint8(0))
        return GroupStates(self._index.ids(groups), state, value, np.full(groups.size, self._fragment, dtype=np.int32))

    def _states(self, groups: I32) -> tuple[U8, Ids]:
        kind, value = self._index.sole_values(groups)
        state = np.where(kind == NO_KIND, NONE, np.where(kind == MANY_KINDS, MANY, ONE)).astype(np.uint8)
        return state, value

    def announced(self) -> Iterable[Outgoing]:
        """What goes to each peer."""
        own = self._own_states
        if own.x.size:
            for site in self._peers.values():
                yield site, "announce", _entries(self._cfd, own.x, own.state, own.value)

    def reply(self, heard: Iterable[GroupStates]) -> Iterable[Outgoing]:
        """Take in all announcements; (site, kind, entries) of the answers."""
        said = GroupStates.join([self._own_states, *heard])
        self._idle = not said.x.size
        if self._idle:
            return
        numbers = self._numbers = Numbering()
        at = numbers.assign(said.x.hi, said.x.lo, all_true(said.x.size))
        size = len(numbers)
        state = (said.state & 3).astype(np.uint8)
        self._x = Ids(numbers.hi[:size].copy(), numbers.lo[:size].copy())
        self._at, self._all = at, said
        many, one = _any(at[state == MANY], size), at[state == ONE]
        values = said.value.take(state == ONE)
        self._value = Ids.zeros(size)
        # the last value announced stands for all; where another one differs the group has several
        self._value.hi[one], self._value.lo[one] = values.hi, values.lo
        differs = _any(one[~values.equals(self._value.take(one))], size)
        self._two = many | differs
        self._one = _any(one, size) & ~self._two
        self._none = ~self._two & ~self._one
        mine = _any(at[said.who == self._fragment], size)
        groups = self._index.find(self._x)
        own, own_value = self._states(groups)
        has = own != NONE
        self._groups, self._mine, self._has = groups, mine, has
        self._step.flag(groups[self._two & has], 1)
        other = self._one & ~mine & has & ((own == MANY) | ~own_value.equals(self._value))
        self._step.flag(groups[other], 1)
        yield from self._conflicts(other, state)
        yield from self._leftovers(own, own_value)

    def _conflicts(self, other: Mask, state: U8) -> Iterable[Outgoing]:
        """Who announced a right side, and holds rows, hears that there is another one."""
        if not other.any():
            return
        for fragment, site in self._peers.items():
            told = np.unique(self._at[(self._all.who == fragment) & (state != NONE)])
            found = told[other[told]]
            if found.size:
                yield site, "conflict", group_ids(self._cfd, self._x.take(found))

    def _leftovers(self, own: U8, value: Ids) -> Iterable[Outgoing]:
        """Where all who announced have nothing left, the first of them hears what the others hold."""
        self._first = np.full(len(self._x.hi), np.iinfo(np.int32).max, dtype=np.int32)
        indexed = (self._all.state & 3 != NONE) | self._none[self._at]
        np.minimum.at(self._first, self._at[indexed], self._all.who[indexed])
        asked = self._none & ~self._mine & self._has
        if not asked.any():
            return
        for fragment, site in self._peers.items():
            found = np.flatnonzero(asked & (self._first == fragment))
            if found.size:
                yield site, "state", _entries(self._cfd, self._x.take(found), own[found], value.take(found))

    def verdict(self, conflicts: Ids, heard: Sequence[GroupStates]) -> Iterable[Outgoing]:
        """Decide the groups announced here; tell those who cannot know that a group is clean again."""
        if self._idle:
            return
        met = self._find(conflicts)
        conflict = _any(met[met >= 0], self._x.size)
        own = self._one & self._mine & self._has
        self._step.flag(self._groups[own & conflict], 1)
        self._step.flag(self._groups[own & ~conflict], 0)
        was = _any(self._at[self._all.state & WAS_DIRTY != 0], self._x.size)
        clean = own & ~conflict & was & (self._first == self._fragment)
        for fragment, site in self._peers.items() if clean.any() else ():
            knows = _any(self._at[(self._all.who == fragment) & (self._all.state & 3 != NONE)], self._x.size)
            found = clean & ~knows
            if found.any():
                yield site, "clean", group_ids(self._cfd, self._x.take(found))
        if heard:
            yield from self._settled(GroupStates.join(heard))

    def _settled(self, states: GroupStates) -> Iterable[Outgoing]:
        """Where all who announced have nothing left: what the others hold is clean when it is one right side."""
        at = self._find(states.x)
        many = _any(at[states.state & 3 == MANY], self._x.size)
        value = Ids.zeros(self._x.size)
        value.hi[at], value.lo[at] = states.value.hi, states.value.lo
        differs = _any(at[~states.value.equals(value.take(at))], self._x.size)
        clean = ~(many | differs)
        for fragment, site in self._peers.items():
            found = at[(states.who == fragment) & clean[at]]
            if found.size:
                yield site, "clean", group_ids(self._cfd, self._x.take(found))

    def finish(self, clean: Ids) -> None:
        """Take in what others called clean."""
        self._step.flag(self._index.find(clean), 0)

    def _find(self, x: Ids) -> I32:
        return self._numbers.find(x.hi, x.lo, all_true(x.size))


def _any(at: NDArray[np.integer], size: int) -> Mask:
    found = np.zeros(size, dtype=np.bool_)
    found[at] = True
    return found


def group_ids(cfd: int, x: Ids) -> MessageColumns:
    """Ids of groups on the wire."""
    return {"cfd": np.full(x.size, cfd, dtype=np.uint16), "hi": x.hi, "lo": x.lo}


def _entries(cfd: int, x: Ids, state: U8, value: Ids) -> MessageColumns:
    return group_ids(cfd, x) | {"state": state, "value_hi": value.hi, "value_lo": value.lo}


def posted(mail: Mailbox, parts: Iterable[Outgoing]) -> list[SiteMessage]:
    """One message a target and kind, with the entries of all CFDs."""
    by_target: dict[tuple[str, str], list[MessageColumns]] = {}
    for site, kind, arrays in parts:
        by_target.setdefault((site, kind), []).append(arrays)
    return [
        mail.send(site, kind, {name: np.concatenate([part[name] for part in some]) for name in some[0]})
        for (site, kind), some in by_target.items()
    ]


def by_cfd(messages: Iterable[SiteMessage]) -> Iterator[tuple[str, int, MessageColumns]]:
    """What messages say of each CFD, with who says it."""
    for got in messages:
        arrays = got.arrays()
        for cfd in np.unique(arrays["cfd"]):
            some = arrays["cfd"] == cfd
            yield got.source, int(cfd), {name: array[some] for name, array in arrays.items()}


def ids_in(arrays: MessageColumns, of: str = "") -> Ids:
    """Ids out of a message's columns: of groups, or of right sides (`of="value_"`)."""
    return Ids(arrays[f"{of}hi"], arrays[f"{of}lo"])


def states_of(messages: Iterable[SiteMessage], fragments: Mapping[str, int]) -> dict[int, list[GroupStates]]:
    """States of groups by CFD, out of messages; `fragments` says whose home each site is."""
    found: dict[int, list[GroupStates]] = {}
    for source, cfd, arrays in by_cfd(messages):
        who = np.full(arrays["state"].size, fragments[source], dtype=np.int32)
        states = GroupStates(ids_in(arrays), arrays["state"], ids_in(arrays, "value_"), who)
        found.setdefault(cfd, []).append(states)
    return found


def group_ids_of(messages: Iterable[SiteMessage]) -> dict[int, Ids]:
    """Ids of groups by CFD, out of messages."""
    found: dict[int, list[Ids]] = {}
    for _, cfd, arrays in by_cfd(messages):
        found.setdefault(cfd, []).append(ids_in(arrays))
    return {cfd: Ids.concat(parts) for cfd, parts in found.items()}


SiteSides = tuple[str, Ids, Ids]
"""A site with the ids of its left and right sides."""


def coordinator_of(spec: SiteSpec, number: int) -> str | None:
    """The site that compares a CFD's fragments; None when they need not agree. CFDs take turns."""
    taking = spec.plan.participants[number]
    if spec.fragment not in taking:
        return None
    return spec.plan.fragments[taking[number % len(taking)]].home(number).site


def own_side(spec: SiteSpec, staged: CFDStep, *, every_row: bool) -> SiteSides:
    """What a site has to say of a variable CFD: its kinds, or all rows that match."""
    if staged.step is None or every_row:
        given = staged.given
        return spec.name, given.x.take(given.member), given.b.take(given.member)
    return (spec.name, *staged.step.index.kinds())


def pairs(number: int, side: SiteSides) -> MessageColumns:
    """A side on the wire."""
    _, x, b = side
    return group_ids(number, x) | {"value_hi": b.hi, "value_lo": b.lo}


def sides_of(messages: Iterable[SiteMessage], number: int) -> list[SiteSides]:
    """The sides that came for a CFD."""
    came = by_cfd(messages)
    return [(source, ids_in(arrays), ids_in(arrays, "value_")) for source, cfd, arrays in came if cfd == number]


def violating_groups(sides: list[SiteSides]) -> dict[str, Ids]:
    """By site which of its groups violate. Complexity: O(ids)."""
    everything = CFDIndex()
    x, b = Ids.concat(side[1] for side in sides), Ids.concat(side[2] for side in sides)
    everything.stage(np.empty(0, dtype=np.int32), x, b, all_true(x.size))
    found = {}
    for site, theirs, _ in sides:
        own = np.zeros(len(everything), dtype=np.bool_)
        own[everything.find(theirs)] = True
        groups = np.flatnonzero(own).astype(np.int32)
        found[site] = everything.ids(groups[everything.dirty(groups)])
    return found
