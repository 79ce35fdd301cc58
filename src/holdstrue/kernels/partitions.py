"""Partitions of rows by columns: groups of rows with equal codes, single rows left out, refined column by column.

A partition is two arrays: `rows`, group after group, ascending inside a group, and `starts`, where
each group begins (one entry more than groups). A code below zero stands for an unknown value and is
in no group. Rows from `fresh` on are new: where `fresh` is above zero only groups with a new row are
kept, for old rows alone were looked at before.

The idea of stripped partitions is that of TANE (Huhtala et al. 1999).

Five rows by zip make two groups, the last row is alone. By zip and city rows 0 and 1 part, which is to say that they
break zip -> city; rows 2 and 3 stay together.

>>> zips, cities = np.array([0, 0, 1, 1, 2], dtype=np.int32), np.array([0, 1, 0, 0, 0], dtype=np.int32)
>>> rows, starts, finer, finer_starts = (np.empty(5, dtype=np.int32) for _ in range(4))
>>> groups = group(zips, np.arange(5, dtype=np.int32), 3, 0, rows, starts)
>>> rows[: starts[groups]].tolist(), starts[: groups + 1].tolist()
([0, 1, 2, 3], [0, 2, 4])
>>> split(cities, rows[:4], starts[:3], np.zeros((3, 3), dtype=np.int32), finer, finer_starts), finer[:2].tolist()
(1, [2, 3])
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64, U64

ROWS, STARTS, GROUPS = range(3)
"""Fields of a partition's place in shared arrays: first row, first start, number of groups."""

DEPTH, NEXT, PAIRS = range(3)
"""Fields of a walk: columns on the stack, the next candidate, pairs written."""

Roots: TypeAlias = tuple[I32, I32, I64]
"""The partitions by each column, one behind the other: rows, starts, and by column its place in them (`ROWS`, `STARTS`,
`GROUPS`); that of all rows in one group comes last."""

Stack: TypeAlias = tuple[I64, I32, I64, I32, I32, I32]
"""Where a walk over many sets of columns stands: its fields (`DEPTH`, `NEXT`, `PAIRS`), the columns of the last set,
the places of the partitions by its prefixes, their rows, their starts, and the scratch of `refine`."""

OFFENDING, SURPLUS, SUPPORT, GATHERED = range(4)
"""What `weigh` counts: violating pairs, rows to remove, rows with a partner on the left side, their groups."""


@kernel
def group(column: I32, members: I32, distinct: int, fresh: int, rows: I32, starts: I32) -> int:
    """Partition `members` (ascending) by one column; returns the number of groups.

    Complexity: O(members + distinct).
    """
    counts = np.zeros(distinct, dtype=np.int32)
    n = members.size
    if fresh > 0:
        # -1 stands for a code that no new row has
        counts[:] = -1
        i = n - 1
        while i >= 0 and members[i] >= fresh:
            code = column[members[i]]
            if code >= 0:
                counts[code] = 0
            i -= 1
    for i in range(n):
        code = column[members[i]]
        if code >= 0 and counts[code] >= 0:
            counts[code] += 1
    groups = 0
    at = 0
    for code in range(distinct):
        size = counts[code]
        if size > 1:
            counts[code] = at
            starts[groups] = at
            groups += 1
            at += size
        else:
            counts[code] = -1
    starts[groups] = at
    for i in range(n):
        code = column[members[i]]
        if code >= 0 and counts[code] >= 0:
            rows[counts[code]] = members[i]
            counts[code] += 1
    return groups


@inline
def refine(
    column: I32,
    rows: I32,
    starts: I32,
    groups: int,
    fresh: int | np.int64,
    scratch: I32,
    out_rows: I32,
    out_starts: I32,
) -> int:
    """Split every group by one more column; returns the number of groups.

    `scratch` has three lines as long as the column has codes; the first is zero before and after.
    Complexity: O(rows of the partition).
    """
    counts = scratch[0]
    places = scratch[1]
    seen = scratch[2]
    made = 0
    at = 0
    for g in range(groups):
        start = starts[g]
        end = starts[g + 1]
        if end - start == 2:
            code = column[rows[start]]
            if code >= 0 and code == column[rows[start + 1]] and rows[start + 1] >= fresh:
                out_starts[made] = at
                out_rows[at] = rows[start]
                out_rows[at + 1] = rows[start + 1]
                made += 1
                at += 2
            continue
        kinds = 0
        before = made
        for i in range(start, end):
            code = column[rows[i]]
            if code >= 0:
                if counts[code] == 0:
                    seen[kinds] = code
                    kinds += 1
                counts[code] += 1
                places[code] = rows[i]
        for k in range(kinds):
            code = seen[k]
            if counts[code] > 1 and places[code] >= fresh:
                out_starts[made] = at
                places[code] = at
                made += 1
                at += counts[code]
            else:
                places[code] = -1
            counts[code] = 0
        if made > before:
            for i in range(start, end):
                code = column[rows[i]]
                if code >= 0 and places[code] >= 0:
                    out_rows[places[code]] = rows[i]
                    places[code] += 1
    out_starts[made] = at
    return made


@kernel
def split(column: I32, rows: I32, starts: I32, scratch: I32, out_rows: I32, out_starts: I32) -> int:
    """`refine` a whole partition; returns the number of groups. Complexity: O(rows)."""
    return refine(column, rows, starts, starts.size - 1, np.int64(0), scratch, out_rows, out_starts)


@inline
def _differing(column: I32, rows: I32, starts: I32, groups: int, most: int, pairs: I32, at: int) -> int:
    """Write up to `most` pairs of rows of one group that differ in the column, one a group; returns the end."""
    found = 0
    for g in range(groups):
        last = -1
        value = -1
        for i in range(starts[g], starts[g + 1]):
            code = column[rows[i]]
            if code < 0:
                continue
            if last >= 0 and code != value:
                pairs[at, 0] = last
                pairs[at, 1] = rows[i]
                at += 1
                found += 1
                break
            last = rows[i]
            value = code
        if found == most:
            break
    return at


@inline
def _together(rows: I32, starts: I32, groups: int, most: int, pairs: I32, at: int) -> int:
    """Write up to `most` pairs of rows that are in one group; returns the end."""
    step = max(1, groups // most)
    for k in range(min(groups, most)):
        start = starts[k * step]
        pairs[at, 0] = rows[start]
        pairs[at, 1] = rows[start + 1]
        at += 1
    return at


@inline
def _descend(codes: I32, fresh: int | np.int64, roots: Roots, columns: I32, stack: Stack) -> tuple[I32, I32, int, int]:
    """The partition by all of `columns`: rows, starts, groups; and how many rows were looked at.

    Partitions of the prefix shared with the last call are taken from the stack.
    """
    root_rows, root_starts, places = roots
    walk, path, levels, stack_rows, stack_starts, scratch = stack
    length = 0
    while length < columns.size and columns[length] >= 0:
        length += 1
    depth = 0
    while depth < length and depth < walk[DEPTH] and path[depth] == columns[depth]:
        depth += 1
    work = 0
    rows = root_rows
    starts = root_starts
    groups = 0
    if depth <= 1:
        root = places[columns[0]] if length else places[codes.shape[0]]
        rows = root_rows[root[ROWS] :]
        starts = root_starts[root[STARTS] :]
        groups = root[GROUPS]
        if length:
            path[0] = columns[0]
            depth = 1
            levels[1, ROWS] = 0
            levels[1, STARTS] = 0
    else:
        rows = stack_rows[levels[depth, ROWS] :]
        starts = stack_starts[levels[depth, STARTS] :]
        groups = levels[depth, GROUPS]
    while depth < length:
        column = columns[depth]
        free_rows = levels[depth, ROWS]
        free_starts = levels[depth, STARTS]
        if depth > 1:
            free_rows += starts[groups]
            free_starts += groups + 1
        out_rows = stack_rows[free_rows:]
        out_starts = stack_starts[free_starts:]
        work += starts[groups]
        groups = refine(codes[column], rows, starts, groups, fresh, scratch, out_rows, out_starts)
        rows = out_rows
        starts = out_starts
        path[depth] = column
        depth += 1
        levels[depth, ROWS] = free_rows
        levels[depth, STARTS] = free_starts
        levels[depth, GROUPS] = groups
    walk[DEPTH] = length
    return rows, starts, groups, work


@kernel
def validate(
    codes: I32, fresh: int, roots: Roots, columns: I32, wanted: U64, stack: Stack, broken: U64, extent: I64,
    pairs: I32, most: int, budget: int,
) -> None:  # fmt: skip
    """Test dependencies X -> A for many X at once, walking over the tree of their prefixes.

    `columns[i]` are the columns of the i-th X, filled up with -1; equal prefixes are neighbours.
    `wanted[i]` are the targets A to test as bits, where the bit behind the last column asks whether X
    is a key; `broken[i]` receives those that fail, each with up to `most` pairs of rows that break it;
    `extent[i]` the rows and groups of X's partition.
    Stops after some `budget` rows, or when `pairs` are full; the stack tells where to go on.
    Complexity: O(rows in the partitions of all prefixes), each at most that of the first column.
    """
    many = codes.shape[0]
    words = wanted.shape[1]
    walk = stack[0]
    work = 0
    while walk[NEXT] < columns.shape[0] and work < budget:
        i = walk[NEXT]
        asked = 0
        for w in range(words):
            bits = wanted[i, w]
            while bits:
                asked += 1
                bits &= bits - np.uint64(1)
            broken[i, w] = 0
        if walk[PAIRS] + asked * most > pairs.shape[0]:
            return
        rows, starts, groups, passed = _descend(codes, fresh, roots, columns[i], stack)
        work += passed + 100
        extent[i, 0] = starts[groups] if groups else 0
        extent[i, 1] = groups
        if groups:
            for target in range(many + 1):
                bit = np.uint64(1) << np.uint64(target & 63)
                if wanted[i, target >> 6] & bit == 0:
                    continue
                before = walk[PAIRS]
                if target == many:
                    walk[PAIRS] = _together(rows, starts, groups, most, pairs, before)
                else:
                    work += starts[groups]
                    walk[PAIRS] = _differing(codes[target], rows, starts, groups, most, pairs, before)
                if walk[PAIRS] > before:
                    broken[i, target >> 6] |= bit
        walk[NEXT] = i + 1


@inline
def _offences(column: I32, rows: I32, starts: I32, groups: int, scratch: I32, limits: I64, out: I64) -> None:
    """Count what breaks a dependency in its groups, until a limit is passed; see `weigh`."""
    counts = scratch[0]
    seen = scratch[2]
    for g in range(groups):
        kinds = 0
        known = np.int64(0)
        for i in range(starts[g], starts[g + 1]):
            code = column[rows[i]]
            if code >= 0:
                if counts[code] == 0:
                    seen[kinds] = code
                    kinds += 1
                counts[code] += 1
                known += 1
        largest = np.int64(0)
        equal = np.int64(0)
        for k in range(kinds):
            count = np.int64(counts[seen[k]])
            equal += count * (count - 1) // 2
            largest = max(largest, count)
            counts[seen[k]] = 0
        out[OFFENDING] += known * (known - 1) // 2 - equal
        out[SURPLUS] += known - largest
        if known > 1:
            out[SUPPORT] += known
            out[GATHERED] += 1
        if out[OFFENDING] > limits[OFFENDING] or out[SURPLUS] > limits[SURPLUS]:
            return


@kernel
def weigh(
    codes: I32, roots: Roots, columns: I32, targets: I32, stack: Stack, limits: I64, out: I64, budget: int
) -> None:
    """How much breaks each dependency X -> A: pairs of rows, and the fewest rows whose removal mends it.

    Counting ends early beyond `limits`. Otherwise `out[i]` also holds the rows that have a partner on the
    left and a known right side, and the groups they form. Arguments otherwise as for `validate`.
    Complexity: O(rows in the partitions of all prefixes and left sides).
    """
    many = codes.shape[0]
    walk, scratch = stack[0], stack[5]
    work = 0
    while walk[NEXT] < columns.shape[0] and work < budget:
        i = walk[NEXT]
        rows, starts, groups, passed = _descend(codes, np.int64(0), roots, columns[i], stack)
        out[i] = 0
        work += passed + 100
        if groups:
            work += starts[groups]
            if targets[i] < many:
                _offences(codes[targets[i]], rows, starts, groups, scratch, limits, out[i])
            else:
                for g in range(groups):
                    size = np.int64(starts[g + 1] - starts[g])
                    out[i, OFFENDING] += size * (size - 1) // 2
                    out[i, SURPLUS] += size - 1
                out[i, SUPPORT] = starts[groups]
                out[i, GATHERED] = groups
        walk[NEXT] = i + 1


@kernel
def shifted(codes: I32, fresh: int, gone: int, roots: Roots, columns: I32, stack: Stack, out: I64, budget: int) -> None:
    """By how much the rows and groups of each left side change.

    Partitions hold the groups of rows that stay, of rows that come (from `fresh` on) and of rows that go (from
    `gone` on); only groups with a row of a batch are looked at. `out[i]` receives the change of rows and of groups.
    Arguments otherwise as for `validate`.
    Complexity: O(rows in the groups that the batch touches), for all prefixes.

    In a column 1 1 2, to which a 2 comes and from which a 1 goes, groups {1 1} and {2} become {1} and {2 2}, so that
    as many rows and groups are left. Where only the 2 comes, two rows more have a partner, in one group more.
    """
    walk = stack[0]
    work = 0
    while walk[NEXT] < columns.shape[0] and work < budget:
        i = walk[NEXT]
        rows, starts, groups, passed = _descend(codes, fresh, roots, columns[i], stack)
        out[i] = 0
        work += passed + 100
        if groups:
            work += starts[groups]
        for g in range(groups):
            went = 0
            came = 0
            # rows of a batch are the last of their group
            k = starts[g + 1] - 1
            while k >= starts[g] and rows[k] >= fresh:
                if rows[k] >= gone:
                    went += 1
                else:
                    came += 1
                k -= 1
            before = starts[g + 1] - starts[g] - came
            after = starts[g + 1] - starts[g] - went
            out[i, 0] += (after if after > 1 else 0) - (before if before > 1 else 0)
            out[i, 1] += (1 if after > 1 else 0) - (1 if before > 1 else 0)
        walk[NEXT] = i + 1


@kernel
def neighbours(rows: I32, starts: I32, groups: int, window: int, stride: int, pairs: I32) -> int:
    """Pairs of rows that are `window` apart in a group, every `stride`-th; returns how many.

    Complexity: O(rows / stride + groups).
    """
    made = 0
    skip = 0
    for g in range(groups):
        i = starts[g] + skip
        end = starts[g + 1] - window
        while i < end:
            if made == pairs.shape[0]:
                return made
            pairs[made, 0] = rows[i]
            pairs[made, 1] = rows[i + window]
            made += 1
            i += stride
        skip = max(0, i - end) if end > starts[g] else skip
    return made
