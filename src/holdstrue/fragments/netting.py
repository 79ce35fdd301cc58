"""Changes as they come in, netted by key and handed to the sites that hold the rows (paper 000, Fig. 5 and 8, line 1).

Several changes of one key become one; opposite ones cancel. A delete needs only the key: every fragment is told
and the one that has the row removes it. An update may move a row from one fragment to another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import DELETE, INSERT, OP_NAMES, UPSERT, Changes
from holdstrue.errors import ChangeError
from holdstrue.fragments.fragment_layout import FragmentLayout
from holdstrue.fragments.ids import Ids
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.plan.filter import holds
from holdstrue.typing import Mask


@dataclass(frozen=True)
class NetChanges:
    """One row a key: its last image, and whether it is there after the batch."""

    rows: pa.Table
    now: Mask


def netted(changes: Changes, key: Sequence[str], ids: Ids, presence: Callable[[pa.Table], Mask]) -> NetChanges:
    """The net effect of changes; those that do not fit what is there are refused. Complexity: O(n log n)."""
    of = Numbering().assign(ids.hi, ids.lo, all_true(ids.size))
    order = np.argsort(of, kind="stable")
    ops, sorted_of = changes.ops[order], of[order]
    first = np.ones(ops.size, dtype=np.bool_)
    first[1:] = sorted_of[1:] != sorted_of[:-1]
    last = np.roll(first, -1)
    keys = changes.rows.select(list(key)).take(pa.array(order[first]))
    there = presence(keys)
    before = np.empty(ops.size, dtype=np.bool_)
    before[1:] = ops[:-1] != DELETE
    before[first] = there
    bad = (ops != UPSERT) & (before == (ops == INSERT))
    if bad.any():
        worst = order[bad].min()
        raise _conflict(changes, key, int(worst), exists=bool(changes.ops[worst] == INSERT))
    ends = order[last]
    now = changes.ops[ends] != DELETE
    real = now | there
    return NetChanges(changes.rows.take(pa.array(ends[real])), now[real])


def _conflict(changes: Changes, key: Sequence[str], row: int, *, exists: bool) -> ChangeError:
    shown = ", ".join(f"{name}={changes.rows.column(name)[row].as_py()!r}" for name in key)
    said = "exists already" if exists else "does not exist"
    return ChangeError(
        f"{changes.place(row)}: {OP_NAMES[changes.ops[row]]} of {shown}, which {said}; nothing was applied",
        hint="use upsert for rows that may be there or not",
    )


def routed(net: NetChanges, layout: FragmentLayout) -> list[Mask]:
    """By fragment which rows are there after the batch; every row belongs to exactly one fragment."""
    found = [
        net.now & holds(fragment.where, lambda name: net.rows.column(name).combine_chunks(), net.now.size)
        for fragment in layout.fragments
    ]
    count = np.sum(found, axis=0)
    wrong = net.now & (count != 1)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        key = {name: net.rows.column(name)[at].as_py() for name in layout.key}
        names = [f.name for f, mask in zip(layout.fragments, found, strict=True) if mask[at]]
        said = "to no fragment" if not names else f"to {len(names)} fragments: {', '.join(names)}"
        raise ChangeError(
            f"row {key} belongs {said}; nothing was applied", hint="filters of fragments must tell all rows apart"
        )
    return found
