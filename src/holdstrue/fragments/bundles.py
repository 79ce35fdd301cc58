"""CFDs whose groups fragments agree on together: those with equal left sides that live at the same sites.

Each group of a bundle has an owner: one of the sites where the bundle's CFDs are indexed, by the id of the group. So
what changed in a group is told to one site, whichever CFDs it concerns and however many sites there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdstrue.fragments.normal_cfds import NormalCFD
from holdstrue.fragments.shipping_plan import ShippingPlan
from holdstrue.typing import I32, U64

if TYPE_CHECKING:
    from holdstrue.fragments.ids import Ids


@dataclass(frozen=True)
class Bundle:
    """CFDs with one left side, and the site of each fragment that takes part."""

    number: int
    cfds: tuple[int, ...]
    fragments: tuple[int, ...]
    sites: tuple[str, ...]

    def owners(self, x: Ids) -> I32:
        """By group the place of its owner among the sites."""
        return (x.lo % np.uint64(len(self.sites))).astype(np.int32)

    @property
    def words(self) -> int:
        """How many words of 64 bits say which sites hold rows of a group."""
        return (len(self.sites) + 63) // 64


def bundles_of(plan: ShippingPlan, cfds: Sequence[NormalCFD]) -> tuple[Bundle, ...]:
    """The bundles of a plan, numbered alike at every site; CFDs that one fragment can judge alone are in none."""
    found: dict[tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]], list[int]] = {}
    for cfd in cfds:
        for taking in plan.agreements(cfd):
            sites = tuple(plan.fragments[i].home(cfd.number).site for i in taking)
            found.setdefault((plan.fragments[taking[0]].left_side(cfd), taking, sites), []).append(cfd.number)
    return tuple(
        Bundle(number, tuple(some), taking, sites) for number, ((_, taking, sites), some) in enumerate(found.items())
    )


def bit(places: I32 | int, words: int) -> U64:
    """Sites as bits of words, a line each.

    >>> bit(np.array([0, 65], np.int32), 2).tolist()
    [[1, 0], [0, 2]]
    """
    at = np.atleast_1d(np.asarray(places, dtype=np.int64))
    found = np.zeros((at.size, words), dtype=np.uint64)
    found[np.arange(at.size), at // 64] = np.uint64(1) << (at % 64).astype(np.uint64)
    return found
