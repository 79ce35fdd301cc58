"""Horizontal fragments agree on which groups violate, through the groups' owners (paper 000, Section 6, incHor).

A site knows of each group of rows with equal X that it holds whether the group violates the CFD anywhere: all of a
group's rows do, or none. So a change is told only when it can change that, and only to the owner of the group:

- insert, case 1(a)(ii): a group that is new here; 1(b)(ii): a right side that is new in a clean group;
- delete, case 1(b): a violating group that lost a right side and has one or none left here.

Where a local row with the same X is already a violation nothing is told (the paper's Example 9), nor where the last
row of a clean group goes.

Rounds: `announce` (to the owner: X, the only right side left here, or "none" or "many"), `reply` (the owner says that a
group violates to those who cannot know; where it cannot tell from what it knows, it asks the sites that hold the
group), `verdict` (these say what they hold), `conclude` (the owner says whom it concerns). The first is one entry a
changed group, whatever the table's size and however many sites there are; the others are for groups that begin or
cease to violate, and go to the sites that hold them. A first load is the same, with all groups new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdstrue.fragments.bundles import Bundle, bit
from holdstrue.fragments.channel import Mailbox, MessageColumns, SiteMessage
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.indexed_rows import IndexedRows, IndexStep, Place
from holdstrue.fragments.owned_groups import CLEAN, DIRTY, EMPTY, OwnedGroups, OwnedStep
from holdstrue.fragments.right_sides import RightSides
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.kernels.sides import ONE
from holdstrue.typing import I32, U8, U64, Mask

SILENT, TELLS_ONE, TELLS_MANY, LOST_ALL, LEFT_ONE = range(5)
"""What a site tells of a group: nothing; it holds one right side, or several; of a violating one it lost some and has
none left, or one."""

_SAYS = np.array([SILENT, TELLS_ONE, TELLS_MANY], dtype=np.uint8)
"""By NONE, ONE or MANY right sides what a site says that holds them."""

_NO_GROUPS, _NO_CODES, _NO_WORDS = np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.uint64)


@dataclass(frozen=True)
class Told:
    """What sites told of groups: a line for each group and site, a column for each CFD of the bundle."""

    x: Ids
    code: U8
    value: U64
    who: I32
    """By line the place of the site in the bundle."""

    @staticmethod
    def join(parts: Sequence[Told]) -> Told:
        """Several as one."""
        return Told(
            Ids.concat(part.x for part in parts),
            np.concatenate([part.code for part in parts]),
            np.concatenate([part.value for part in parts]),
            np.concatenate([part.who for part in parts]),
        )

    def take(self, lines: Mask | I32) -> Told:
        """Some lines."""
        return Told(self.x.take(lines), self.code[lines], self.value[lines], self.who[lines])

    def columns(self) -> MessageColumns:
        """On the wire: words only where there is one to tell."""
        some = _speaks_of_one(self.code)
        return {"hi": self.x.hi, "lo": self.x.lo, "codes": self.code.T, "words": self.value[some]}

    @staticmethod
    def of(arrays: MessageColumns, who: int) -> Told:
        """Back from the wire."""
        code = np.ascontiguousarray(arrays["codes"].T)
        value = np.zeros(code.shape, dtype=np.uint64)
        value[_speaks_of_one(code)] = arrays["words"]
        return Told(Ids(arrays["hi"], arrays["lo"]), code, value, np.full(code.shape[0], who, dtype=np.int32))


def _speaks_of_one(code: U8) -> Mask:
    return (code == TELLS_ONE) | (code == LEFT_ONE)


def _signs(x: Ids, cells: Mask) -> MessageColumns:
    """Groups, and which CFDs of the bundle each is about."""
    return {"hi": x.hi, "lo": x.lo, "masks": [*cells.T]}


class ChangedSides(Protocol):
    """What a batch did to the right sides of some groups."""

    @property
    def sides(self) -> RightSides:
        """All of them."""

    @property
    def touched(self) -> I32:
        """The groups, ascending."""

    @property
    def telling(self) -> Sequence[bool]:
        """By CFD of the pair whether something must be told of a group."""

    def tells(self, cfd: int) -> tuple[Mask, Mask, Mask]:
        """By group whether it must be told of: at all, because it is new here, because it lost a right side."""

    def flag(self, cfd: int, groups: I32, value: int) -> None:
        """Set flags of groups; unknown ones are negative."""


class Exchange:
    """One bundle's exchange with other fragments in one batch, at a site that holds rows and owns groups of it.

    Parameters
    ----------
    here
        The place of the site in the bundle.
    steps
        By CFD of the bundle what the batch did.
    about
        What its messages are said to be about.
    """

    def __init__(
        self, bundle: Bundle, here: int, indexed: IndexedRows, steps: Sequence[ChangedSides], owned: OwnedGroups,
        mail: Mailbox, about: int,
    ) -> None:  # fmt: skip
        self.bundle, self._here, self._mail, self._owned, self._about = bundle, here, mail, owned, about
        self._places = [indexed.places[cfd] for cfd in bundle.cfds]
        self._left = indexed.left_sides[self._places[0].left]
        self._steps = steps
        self._own = self._changes()
        self._step: OwnedStep | None = None
        self._standing_here: Told | None = None

    # --- who holds rows -------------------------------------------------------------------------------

    def _changes(self) -> Told:
        """What must be told, after which flags of all other touched groups are as they will be."""
        found: list[tuple[I32, U8, U64]] = []
        for step, place in zip(self._steps, self._places, strict=True):
            cfd = place.column
            if not step.telling[cfd]:
                found.append((_NO_GROUPS, _NO_CODES, _NO_WORDS))
                continue
            told, new, narrowed = step.tells(cfd)
            groups = step.touched[told]
            state, value = step.sides.sole(groups, cfd)
            code, flags = _SAYS[state], step.sides.flags(groups, cfd)
            if flags.any():
                # what a group was flagged with in an earlier life is no more
                step.flag(cfd, groups[new[told] & (flags != 0)], 0)
            if narrowed.any():
                less = narrowed[told]
                code[less] = np.where(state[less] == ONE, LEFT_ONE, LOST_ALL)
                # what lost some violates until told otherwise
                step.flag(cfd, groups[less & (state == ONE)], 1)
            found.append((groups, code, value))
        return self._lines(found)

    def _lines(self, found: Sequence[tuple[I32, U8, U64]]) -> Told:
        """By group a line, out of what there is to say of each CFD."""
        groups = _distinct([some for some, _, _ in found], len(self._left))
        code = np.zeros((groups.size, len(found)), dtype=np.uint8)
        value = np.zeros((groups.size, len(found)), dtype=np.uint64)
        for column, (some, codes, values) in enumerate(found):
            at = np.searchsorted(groups, some)
            code[at, column], value[at, column] = codes, values
        return Told(self._left.ids(groups), code, value, np.full(groups.size, self._here, dtype=np.int32))

    def announce(self) -> Iterator[SiteMessage]:
        """What changed, each group to its owner."""
        owners = self.bundle.owners(self._own.x)
        for place, site in enumerate(self.bundle.sites):
            some = np.flatnonzero(owners == place).astype(np.int32)
            if place != self._here and some.size:
                yield self._send(site, "announce", self._own.take(some).columns())
        self._own = self._own.take(owners == self._here)

    def _send(self, site: str, kind: str, arrays: MessageColumns) -> SiteMessage:
        return self._mail.send(site, kind, arrays, self._about)

    def _came(self, *kinds: str) -> Iterator[tuple[int, str, MessageColumns]]:
        """What came for the bundle, with the place of who sent it."""
        for kind in kinds:
            for got in self._mail.take(kind, self._about):
                yield self.bundle.sites.index(got.source), kind, got.arrays()

    def verdict(self) -> Iterator[SiteMessage]:
        """Say what is here of the groups that owners ask for; those that have none left are silent."""
        self._take_verdicts("dirty")
        for place, _, arrays in self._came("ask"):
            told = self._standing(Ids(arrays["hi"], arrays["lo"]), np.stack(arrays["masks"], axis=1))
            if told.x.size:
                yield self._send(self.bundle.sites[place], "state", told.columns())

    def _standing(self, x: Ids, cells: Mask) -> Told:
        """What is here of groups, under the CFDs that are asked for."""
        groups = self._left.find(x)
        code, value = np.zeros(cells.shape, dtype=np.uint8), np.zeros(cells.shape, dtype=np.uint64)
        for column, (step, place) in enumerate(zip(self._steps, self._places, strict=True)):
            state, words = step.sides.sole(groups, place.column)
            code[:, column] = np.where(cells[:, column], _SAYS[state], SILENT)
            value[:, column] = np.where(cells[:, column], words, np.uint64(0))
        some = np.flatnonzero(code.any(axis=1)).astype(np.int32)
        return Told(x, code, value, np.full(x.size, self._here, dtype=np.int32)).take(some)

    def finish(self) -> None:
        """Take in what owners said in the end."""
        self._take_verdicts("broken", "clean")

    def _take_verdicts(self, *kinds: str) -> None:
        for _, kind, arrays in self._came(*kinds):
            self._flag(Ids(arrays["hi"], arrays["lo"]), np.stack(arrays["masks"], axis=1), int(kind != "clean"))

    def _flag(self, x: Ids, cells: Mask, value: int) -> None:
        groups = self._left.find(x)
        for column, (step, place) in enumerate(zip(self._steps, self._places, strict=True)):
            step.flag(place.column, groups[cells[:, column]], value)

    # --- the owner ------------------------------------------------------------------------------------

    def reply(self) -> Iterator[SiteMessage]:
        """Take in what was told of the groups owned here: say what is certain, ask for what is not."""
        heard = [Told.of(arrays, place) for place, _, arrays in self._came("announce")]
        told = self._told = Told.join([self._own, *heard])
        if not told.x.size:
            return
        lines = self._owned.number(told.x)
        groups, at = np.unique(lines, return_inverse=True)
        self._at = at.astype(np.int32)
        step = self._step = self._owned.stage(groups.astype(np.int32))
        size, words = groups.size, self.bundle.words
        many, value, differs = _gathered(told, self._at, size)
        broken = many | differs
        lost = _spread((told.code == LOST_ALL) | (told.code == LEFT_ONE), self._at, size)
        spoken = _spread(told.code != SILENT, self._at, size)
        one = _spread(_speaks_of_one(told.code), self._at, size)
        was_clean, was_dirty = step.state == CLEAN, step.state == DIRTY
        self._asked = ~broken & ((was_clean & one & (value != step.value)) | (was_dirty & lost))
        now_dirty = spoken & ~self._asked & (broken | was_dirty)
        state = np.where(now_dirty, DIRTY, np.where(spoken & ~self._asked, CLEAN, step.state)).astype(np.uint8)
        holders = step.holders.copy()
        np.bitwise_or.at(holders, self._at, bit(told.who, words))
        known = np.where(spoken & ~self._asked & one, value, step.value)
        self._owned.put(step.groups, state, known, holders)
        x = self._x = self._owned.ids(step.groups)
        if not (now_dirty.any() or self._asked.any()):
            return  # nobody needs to hear of it
        for place, site in enumerate(self.bundle.sites):
            said = self._said(place)
            # who tells of one right side of a violating group must hear of it; of one that begins, all who hold it
            tells = (said == TELLS_ONE) & now_dirty
            begins = now_dirty & ~was_dirty & (said == SILENT) & _held(step.holders, place)[:, None]
            yield from self._say(site, place, "dirty", x, tells | begins)
            yield from self._say(site, place, "ask", x, self._asked & (said == SILENT) & _held(holders, place)[:, None])

    def _said(self, place: int) -> U8:
        """By group and CFD what one site told in this batch."""
        code = np.zeros((self._x.size, len(self.bundle.cfds)), dtype=np.uint8)
        own = self._told.who == place
        code[self._at[own]] = self._told.code[own]
        return code

    def _say(self, site: str, place: int, kind: str, x: Ids, cells: Mask) -> Iterator[SiteMessage]:
        """Send groups that a site must hear of; what the owner tells itself is done at once."""
        some = np.flatnonzero(cells.any(axis=1))
        if not some.size:
            return
        if place != self._here:
            yield self._send(site, kind, _signs(x.take(some), cells[some]))
        elif kind == "ask":
            self._standing_here = self._standing(x.take(some), cells[some])
        else:
            self._flag(x.take(some), cells[some], int(kind != "clean"))

    def conclude(self) -> Iterator[SiteMessage]:
        """Decide the groups that were asked for, and tell whom it concerns."""
        heard = [Told.of(arrays, place) for place, _, arrays in self._came("state")]
        step = self._step
        if step is None or not self._asked.any():
            return
        told = Told.join([self._told, *([] if self._standing_here is None else [self._standing_here]), *heard])
        numbers = Numbering()
        numbers.assign(self._x.hi, self._x.lo, all_true(self._x.size))
        at = numbers.find(told.x.hi, told.x.lo, all_true(told.x.size))
        size = step.groups.size
        many, value, differs = _gathered(told, at, size)
        one = _spread(_speaks_of_one(told.code), at, size)
        dirty = self._asked & (many | differs)
        clean = self._asked & ~dirty
        state, known = self._owned.state[step.groups], self._owned.value[step.groups]
        state = np.where(dirty, DIRTY, np.where(clean & one, CLEAN, np.where(clean, EMPTY, state))).astype(np.uint8)
        self._owned.put(step.groups, state, np.where(clean & one, value, known), self._owned.holders[step.groups])
        was_dirty = step.state == DIRTY
        replies = told.take(np.arange(self._told.x.size, told.x.size, dtype=np.int32))
        replied_at = at[self._told.x.size :]
        for place, site in enumerate(self.bundle.sites):
            said, answered = self._said(place), np.zeros((size, len(self.bundle.cfds)), dtype=np.uint8)
            own = replies.who == place
            answered[replied_at[own]] = replies.code[own]
            broken = dirty & ((said == TELLS_ONE) | ((answered == TELLS_ONE) & ~was_dirty))
            yield from self._say(site, place, "broken", self._x, broken)
            mended = clean & was_dirty & ((said == LEFT_ONE) | (answered == TELLS_ONE))
            yield from self._say(site, place, "clean", self._x, mended)

    def changed(self) -> OwnedStep | None:
        """The owned groups of which something was told."""
        return self._step

    def abort(self) -> None:
        """Forget what was told of owned groups."""
        if self._step is not None:
            self._step.abort()


def _distinct(parts: Sequence[I32], total: int) -> I32:
    """The groups, of so many, that are in one of some lists, ascending."""
    if sum(part.size for part in parts) < total // 8:
        return np.unique(np.concatenate(parts)).astype(np.int32)
    there = np.zeros(total, dtype=np.bool_)  # a first load: marking them is cheaper than sorting
    for part in parts:
        there[part] = True
    return np.flatnonzero(there).astype(np.int32)


def _spread(lines: Mask, at: I32, size: int) -> Mask:
    """By group where one of its lines is true."""
    found = np.zeros((size, lines.shape[1]), dtype=np.bool_)
    rows, columns = np.nonzero(lines)
    found[at[rows], columns] = True
    return found


def _gathered(told: Told, at: I32, size: int) -> tuple[Mask, U64, Mask]:
    """By group and CFD: whether several right sides were told of at once, one that was told, whether others differ."""
    one = _speaks_of_one(told.code)
    rows, columns = np.nonzero(one)
    value = np.zeros((size, told.code.shape[1]), dtype=np.uint64)
    # the last one stands for all; where another differs there are several
    value[at[rows], columns] = told.value[rows, columns]
    other = one.copy()
    other[rows, columns] = told.value[rows, columns] != value[at[rows], columns]
    return _spread(told.code == TELLS_MANY, at, size), value, _spread(other, at, size)


def _held(holders: U64, place: int) -> Mask:
    found: Mask = holders[:, place // 64] >> np.uint64(place % 64) & np.uint64(1) != 0
    return found


SiteSides = tuple[str, Ids, U64]
"""A site with the ids of its left sides and the words of its right sides."""


def coordinator_of(spec: SiteSpec, number: int) -> str | None:
    """The site that compares a CFD's fragments; None when they need not agree. CFDs take turns."""
    taking = spec.plan.participants[number]
    if spec.fragment not in taking:
        return None
    return spec.plan.fragments[taking[number % len(taking)]].home(number).site


def own_side(name: str, place: Place, step: IndexStep, number: int) -> SiteSides:
    """What a site has to say of a variable CFD when everything is compared: all rows that match (batHor)."""
    member = step.given.members[number]
    return name, step.given.x[place.left].take(member), step.given.values[place.pair][member]


def pairs(side: SiteSides) -> MessageColumns:
    """A side on the wire."""
    _, x, words = side
    return {"hi": x.hi, "lo": x.lo, "words": words}


def violating_groups(sides: Iterable[SiteSides]) -> dict[str, Ids]:
    """By site which of its groups violate. Complexity: O(ids)."""
    known = [*sides]
    x, words = Ids.concat(side[1] for side in known), np.concatenate([side[2] for side in known])
    numbers = Numbering()
    at = numbers.assign(x.hi, x.lo, all_true(x.size))
    value = np.zeros(len(numbers), dtype=np.uint64)
    value[at] = words
    dirty = np.zeros(len(numbers), dtype=np.bool_)
    dirty[at[words != value[at]]] = True
    found, start = {}, 0
    for site, theirs, _ in known:
        own = np.unique(at[start : start + theirs.size])
        groups = own[dirty[own]]
        found[site] = Ids(numbers.hi[groups], numbers.lo[groups])
        start += theirs.size
    return found
