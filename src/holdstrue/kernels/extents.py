"""How a batch changes the extents of left sides: rows that have a partner with the same values, and their groups."""

from __future__ import annotations

from holdstrue.kernels.jit import kernel
from holdstrue.kernels.partitions import NEXT, _descend
from holdstrue.typing import I32, I64


@kernel
def shifted(
    codes: I32,
    fresh: int,
    gone: int,
    root_rows: I32,
    root_starts: I32,
    roots: I64,
    columns: I32,
    walk: I64,
    path: I32,
    levels: I64,
    stack_rows: I32,
    stack_starts: I32,
    scratch: I32,
    out: I64,
    budget: int,
) -> None:
    """By how much the rows and groups of each left side change.

    Partitions hold the groups of rows that stay, of rows that come (from `fresh` on) and of rows that go (from
    `gone` on); only groups with a row of a batch are looked at. `out[i]` receives the change of rows and of groups.
    Arguments otherwise as for `partitions.validate`.
    Complexity: O(rows in the groups that the batch touches), for all prefixes.

    In a column 1 1 2, to which a 2 comes and from which a 1 goes, groups {1 1} and {2} become {1} and {2 2}, so that
    as many rows and groups are left. Where only the 2 comes, two rows more have a partner, in one group more.
    """
    work = 0
    while walk[NEXT] < columns.shape[0] and work < budget:
        i = walk[NEXT]
        rows, starts, groups, passed = _descend(
            codes, fresh, root_rows, root_starts, roots, columns[i],
            walk, path, levels, stack_rows, stack_starts, scratch,
        )  # fmt: skip
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
