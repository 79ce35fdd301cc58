"""Changes as they come in, netted by key and handed to the sites that hold the rows (paper 000, Fig. 5 and 8, line 1).

Several changes of one key become one; opposite ones cancel. A delete needs only the key: every fragment is told
and the one that has the row removes it. An update may move a row from one fragment to another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import DELETE, INSERT, UPDATE, Changes
from holdstrue.data.coding import Domain
from holdstrue.detect.resolve import net
from holdstrue.errors import ChangeError
from holdstrue.fragments.fragment_layout import FragmentLayout
from holdstrue.fragments.ids import Ids, column_ids, in_order
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.plan.filter import holds
from holdstrue.typing import I32, U8, Mask

NOWHERE, SEVERAL = -1, -2
"""In place of a fragment's number."""
FITS = "inserted rows must be new, updated and deleted ones must be there; upsert takes rows that may be either"


@dataclass(frozen=True)
class NetRows:
    """One row a key: its last image, and whether it is there after the batch."""

    rows: pa.Table
    now: Mask
    key: I32
    """By row the number of its key, in the order in which keys came first."""


def netted(changes: Changes, key: Sequence[str], ids: Ids, presence: Callable[[pa.Table], Mask]) -> NetRows:
    """The net effect of changes; those that do not fit what is there are refused. Complexity: O(n log n)."""
    number = Numbering().assign(ids.hi, ids.lo, all_true(ids.size))
    _, first = np.unique(number, return_index=True)
    there = presence(changes.rows.select(list(key)).take(pa.array(first)))
    try:
        final = net(changes, changes.rows, key, np.where(there, 0, -1)[number].astype(np.int32), number)
    except ChangeError as error:
        raise ChangeError(error.message, hint=FITS) from error
    now = final[:, 1] >= 0
    return NetRows(changes.rows.take(pa.array(np.where(now, final[:, 1], final[:, 2]))), now, number[final[:, 2]])


def contents_of(net: NetRows, ids: Ids, domains: Mapping[str, Domain]) -> str:
    """One word for what a batch comes to: the same for the same rows that stay and keys that go, in any order.

    `ids` are those of the keys, `domains` those of the other columns. Complexity: O(cells).
    """
    whole = ids
    for name, domain in domains.items():
        cells = column_ids(net.rows.column(name), domain, name, nulls_equal=True)
        whole = whole + Ids(np.where(net.now, cells.hi, 0), np.where(net.now, cells.lo, 0))
    order = in_order(whole)
    told = hashlib.blake2b(whole.hi[order].tobytes(), digest_size=16)
    for part in (whole.lo, net.now):
        told.update(part[order].tobytes())
    return told.hexdigest()


def stays(ops: U8, ids: Ids) -> Mask:
    """Which changes are the last of their keys and leave a row. Complexity: O(n log n).

    >>> ids = Ids(np.zeros(3, np.uint64), np.array([7, 8, 7], np.uint64))
    >>> stays(np.array([INSERT, INSERT, DELETE], np.uint8), ids).tolist()
    [False, True, False]
    """
    number = Numbering().assign(ids.hi, ids.lo, all_true(ids.size))
    _, first = np.unique(number[::-1], return_index=True)
    last = np.zeros(ids.size, dtype=np.bool_)
    last[ids.size - 1 - first] = True
    found: Mask = last & (ops != DELETE)
    return found


@dataclass(frozen=True)
class PartNet:
    """The net effect of changes in one part of a fragment."""

    net: NetRows
    wanted: int
    """How many keys must be there before the batch, in some fragment."""
    there: int
    """How many of those are in this one."""


def net_of_part(
    changes: Changes, key: Sequence[str], ids: Ids, there: Mask, fragment: I32, own: int, *, alone: bool
) -> PartNet:
    """The net effect of changes where only this part of one fragment is known; all sites of it find the same.

    Parameters
    ----------
    there
        By change whether its row is in this fragment before the batch.
    fragment
        By change the fragment that its row belongs to: NOWHERE or SEVERAL where that is not one.
    own
        The number of this one.
    alone
        Whether there are no other fragments, so that a row that is not here is nowhere.
    """
    number = Numbering().assign(ids.hi, ids.lo, all_true(ids.size))
    _, first = np.unique(number, return_index=True)
    op = changes.ops[first]
    needed, here = (op == UPDATE) | (op == DELETE), there[first]
    # what the first change of a key asks for is taken to be so where another fragment may know
    believed = here if alone else np.where(op == INSERT, here, True)
    try:
        final = net(changes, changes.rows, key, np.where(believed, 0, -1)[number].astype(np.int32), number)
    except ChangeError as error:
        raise ChangeError(error.message, hint=FITS) from error
    now = final[:, 1] >= 0
    rows = np.where(now, final[:, 1], final[:, 2])
    wrong = now & (fragment[rows] < 0)
    if wrong.any():
        at = int(rows[np.flatnonzero(wrong)[0]])
        shown = {name: changes.rows.column(name)[at].as_py() for name in key}
        said = "to no fragment" if fragment[at] == NOWHERE else "to several fragments"
        raise ChangeError(
            f"row {shown} belongs {said}; nothing was applied",
            hint="filters of fragments must tell all rows apart",
        )
    # what is neither here nor comes here belongs to other fragments
    comes = now & (fragment[rows] == own)
    some = comes | here[number[rows]]
    kept = NetRows(changes.rows.take(pa.array(rows[some])), comes[some], number[rows[some]])
    return PartNet(kept, int(needed.sum()), int((needed & here).sum()))


def fragment_of(rows: pa.Table, layout: FragmentLayout) -> I32:
    """By row the number of the fragment that it belongs to, NOWHERE or SEVERAL where that is not one."""
    found = np.full(rows.num_rows, NOWHERE, dtype=np.int32)
    for number, fragment in enumerate(layout.fragments):
        own = holds(fragment.where, lambda name: rows.column(name).combine_chunks(), rows.num_rows)
        found[own] = np.where(found[own] == NOWHERE, number, SEVERAL)
    return found


def routed(rows: NetRows, layout: FragmentLayout) -> list[Mask]:
    """By fragment which rows are there after the batch; every row belongs to exactly one fragment."""
    found = [
        rows.now & holds(fragment.where, lambda name: rows.rows.column(name).combine_chunks(), rows.now.size)
        for fragment in layout.fragments
    ]
    count = np.sum(found, axis=0)
    wrong = rows.now & (count != 1)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        key = {name: rows.rows.column(name)[at].as_py() for name in layout.key}
        names = [f.name for f, mask in zip(layout.fragments, found, strict=True) if mask[at]]
        said = "to no fragment" if not names else f"to {len(names)} fragments: {', '.join(names)}"
        raise ChangeError(
            f"row {key} belongs {said}; nothing was applied", hint="filters of fragments must tell all rows apart"
        )
    return found
