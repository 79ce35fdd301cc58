"""What the owner of groups knows of them: for each CFD whether the group violates it, and where rows of it are.

The owner of a group that does not violate a CFD knows its one right side. Sites that may hold rows are noted as bits;
one whose last row went without a word is asked in vain the next time something is wrong with the group.

Memory: 27 to 37 bytes a group, 8 for each 64 sites, and 9 a group and CFD.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdstrue.fragments.bundles import Bundle
from holdstrue.fragments.ids import Ids
from holdstrue.index.arrays import Numbering, Snapshot, all_true, nested, room, with_slack
from holdstrue.index.checked import Checked
from holdstrue.typing import I32, U8, U64

EMPTY, CLEAN, DIRTY = 0, 1, 2
"""What is known of a group under a CFD: nothing, one right side everywhere, several."""


@dataclass
class OwnedStep:
    """Groups that a batch tells the owner of, as they were."""

    owned: OwnedGroups
    groups: I32
    state: U8
    value: U64
    holders: U64

    def abort(self) -> None:
        """Take everything back."""
        self.owned.put(self.groups, self.state, self.value, self.holders)


class OwnedGroups:
    """Groups of one bundle at one of its sites.

    Examples
    --------
    >>> owned = OwnedGroups(Bundle(0, (3, 4), (0, 1), ("a", "b")))
    >>> groups = owned.number(Ids(np.array([0, 0], np.uint64), np.array([6, 8], np.uint64)))
    >>> owned.put(groups, np.array([[1, 0], [2, 2]], np.uint8), np.zeros((2, 2), np.uint64), np.ones((2, 1), np.uint64))
    >>> owned.state[groups].tolist(), len(owned)
    ([[1, 0], [2, 2]], 2)
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        cfds = len(bundle.cfds)
        self._numbers = Numbering()
        self.state = np.zeros((64, cfds), dtype=np.uint8)
        self.value = np.zeros((64, cfds), dtype=np.uint64)
        self.holders = np.zeros((64, bundle.words), dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, x: Ids) -> I32:
        """Numbers of groups, new ones where they are unknown. Complexity: O(ids) expected."""
        found = self._numbers.assign(x.hi, x.lo, all_true(x.size))
        for name in ("state", "value", "holders"):
            setattr(self, name, room(getattr(self, name), len(self), fill=0))
        return found

    def ids(self, groups: I32) -> Ids:
        """The ids of groups."""
        return Ids(self._numbers.hi[groups], self._numbers.lo[groups])

    def stage(self, groups: I32) -> OwnedStep:
        """Note what is known of distinct groups before it changes."""
        return OwnedStep(self, groups, self.state[groups], self.value[groups], self.holders[groups])

    def put(self, groups: I32, state: U8, value: U64, holders: U64) -> None:
        """Set what is known of groups."""
        self.state[groups], self.value[groups], self.holders[groups] = state, value, holders

    def size_bytes(self) -> int:
        """Memory held."""
        return self._numbers.size_bytes() + self.state.nbytes + self.value.nbytes + self.holders.nbytes

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        arrays: Snapshot = nested("numbers", self._numbers.snapshot())
        known: Snapshot = {"state": self.state, "value": self.value, "holders": self.holders}
        return arrays | {name: with_slack(array, len(self)) for name, array in known.items()}

    def restore(self, arrays: Checked) -> None:
        """Take over the arrays of a snapshot (they will be written to). Complexity: O(groups)."""
        self._numbers.restore(arrays.part("numbers"))
        groups, cfds = len(self), len(self.bundle.cfds)
        self.state = arrays.array("state", np.uint8, (groups, cfds), grows=0)
        arrays.within("state", np.ascontiguousarray(self.state[:groups]), EMPTY, DIRTY)
        self.value = arrays.array("value", np.uint64, (groups, cfds), grows=0)
        self.holders = arrays.array("holders", np.uint64, (groups, self.bundle.words), grows=0)
        last = len(self.bundle.sites) % 64
        beyond = self.holders[:groups, -1] >> np.uint64(last) if last else np.zeros(1, dtype=np.uint64)
        arrays.require(not beyond.any(), "a group is held at a site that there is not")
