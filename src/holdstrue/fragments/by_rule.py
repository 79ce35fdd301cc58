"""What sites found of CFDs, put together by rule: a row violates a rule when it violates one of its CFDs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from holdstrue.fragments.ids import Ids
from holdstrue.fragments.indexed_rows import ChangedKeys
from holdstrue.index.arrays import Numbering, all_true
from holdstrue.typing import Mask

FoundByCFD = Mapping[int, Sequence[ChangedKeys]]
"""By CFD what each site that keeps an index of it found."""


def listed_by_cfd(answers: Iterable[Mapping[int, ChangedKeys]]) -> FoundByCFD:
    """What all sites found, CFD by CFD."""
    found: dict[int, list[ChangedKeys]] = {}
    for answer in answers:
        for cfd, keys in answer.items():
            found.setdefault(cfd, []).append(keys)
    return found


def changed_keys(
    cfds: Sequence[int],
    found: FoundByCFD,
    key_ids: Callable[[pa.Table], Ids],
    violates: Callable[[int, pa.Table], Mask],
) -> ChangedKeys:
    """Keys of rows that began and ceased to violate the rule of these CFDs.

    A row that moved between fragments may be in several lists. `violates` tells which rows violate a CFD after the
    batch; it is asked only where a rule has several. Complexity: O(findings x CFDs).
    """
    everything = pa.concat_tables([table for cfd in cfds for keys in found.get(cfd, ()) for table in keys])
    if len(cfds) == 1 and not any(keys.removed.num_rows for keys in found[cfds[0]]):
        return ChangedKeys(everything, everything.slice(0, 0))
    ids = key_ids(everything)
    at, origin = Numbering().assign_new(ids.hi, ids.lo, all_true(ids.size))
    rows = everything.take(pa.array(origin))
    before, after = np.zeros((2, rows.num_rows), dtype=np.bool_)
    start = 0
    for cfd in cfds:
        changed = np.zeros((2, rows.num_rows), dtype=np.bool_)
        for keys in found.get(cfd, ()):
            for mask, table in zip(changed, keys, strict=True):
                mask[at[start : start + table.num_rows]] = True
                start += table.num_rows
        added, removed = changed
        now = added if len(cfds) == 1 else violates(cfd, rows)
        before |= (now & ~added) | removed
        after |= now
    return ChangedKeys(rows.filter(pa.array(after & ~before)), rows.filter(pa.array(before & ~after)))
