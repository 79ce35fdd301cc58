"""Findings of several CFDs put together to those of their rule, and rows that moved between fragments evened out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from holdstrue.data.domain import Domain
from holdstrue.fragments.ids import key_ids
from holdstrue.index.numbering import Numbering
from holdstrue.typing import Mask


@dataclass
class Lists:
    """What sites found of one CFD."""

    added: list[pa.Table] = field(default_factory=list)
    removed: list[pa.Table] = field(default_factory=list)


def merged(
    cfds: Sequence[int],
    lists: Mapping[int, Lists],
    key: tuple[str, ...],
    domains: Mapping[str, Domain],
    violates: Callable[[int, pa.Table], Mask],
) -> tuple[pa.Table, pa.Table]:
    """Keys of rows that began and ceased to violate the rule of these CFDs.

    `violates` tells which rows violate a CFD after the batch; it is asked only where a rule has several.
    Complexity: O(findings x cfds).
    """
    tables = [t for cfd in cfds if cfd in lists for t in (*lists[cfd].added, *lists[cfd].removed)]
    everything = pa.concat_tables(tables)
    if len(cfds) == 1 and not any(t.num_rows for t in lists[cfds[0]].removed):
        return everything, everything.slice(0, 0)
    ids = key_ids(everything, key, dict(domains))
    numbers = Numbering()
    at, origin = numbers.assign_new(ids.hi, ids.lo, np.ones(ids.size, dtype=np.bool_))
    keys = everything.take(pa.array(origin))
    before = np.zeros(keys.num_rows, dtype=np.bool_)
    after = np.zeros(keys.num_rows, dtype=np.bool_)
    start = 0
    for cfd in cfds:
        added, removed = np.zeros((2, keys.num_rows), dtype=np.bool_)
        own = lists.get(cfd, Lists())
        for mask, some in ((added, own.added), (removed, own.removed)):
            for table in some:
                mask[at[start : start + table.num_rows]] = True
                start += table.num_rows
        now = added if len(cfds) == 1 else violates(cfd, keys)
        before |= (now & ~added) | removed
        after |= now
    return keys.filter(pa.array(after & ~before)), keys.filter(pa.array(before & ~after))
