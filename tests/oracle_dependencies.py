"""What keys, functional dependencies and conditional ones mean, over all pairs of rows in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

Row = tuple[Any, ...]
Dependency = tuple[frozenset[int], int]
"""Columns on the left and the target on the right; the number behind the last column stands for a key."""


def agrees(one: Any, other: Any, *, equal: bool) -> bool:
    """Whether two values are known to be the same (`equal`: NULL is a value)."""
    return bool(one == other and (equal or one is not None))


def differs(one: Any, other: Any, *, equal: bool) -> bool:
    """Whether two values are known to be different."""
    return bool(one != other and (equal or (one is not None and other is not None)))


def breaks(one: Row, other: Row, dependency: Dependency, *, equal: bool) -> bool:
    """Whether two rows violate a dependency."""
    left, target = dependency
    return all(agrees(one[c], other[c], equal=equal) for c in left) and (
        target == len(one) or differs(one[target], other[target], equal=equal)
    )


def breaking_pairs(rows: Sequence[Row], dependency: Dependency, *, equal: bool) -> list[tuple[int, int]]:
    """All pairs of rows that violate a dependency."""
    return [(i, j) for i, j in combinations(range(len(rows)), 2) if breaks(rows[i], rows[j], dependency, equal=equal)]


def minimal_dependencies(
    rows: Sequence[Row], columns: int, *, equal: bool, longest: int | None = None
) -> set[Dependency]:
    """Every dependency that holds and none of whose parts does."""
    found: set[Dependency] = set()
    for target in range(columns + 1):
        others = [c for c in range(columns) if c != target]
        lefts: list[frozenset[int]] = []
        for size in range(min(len(others), len(others) if longest is None else longest) + 1):
            for chosen in combinations(others, size):
                left = frozenset(chosen)
                if not any(smaller <= left for smaller in lefts) and not any(
                    breaks(one, other, (left, target), equal=equal) for one, other in combinations(rows, 2)
                ):
                    lefts.append(left)
        found |= {(left, target) for left in lefts}
    return found


def rows_to_remove(rows: Sequence[Row], dependency: Dependency, *, equal: bool) -> int:
    """The fewest rows whose removal makes a dependency hold (all subsets are tried)."""
    pairs = breaking_pairs(rows, dependency, equal=equal)
    involved = sorted({i for pair in pairs for i in pair})
    for size in range(len(involved) + 1):
        for gone in combinations(involved, size):
            if all(i in gone or j in gone for i, j in pairs):
                return size
    return len(involved)


def extent(rows: Sequence[Row], left: frozenset[int], *, equal: bool) -> tuple[int, int]:
    """Rows that agree with another one on the left, and how many groups they form."""
    groups: dict[Row, int] = {}
    for row in rows:
        key = tuple(row[c] for c in sorted(left))
        if equal or None not in key:
            groups[key] = groups.get(key, 0) + 1
    several = [size for size in groups.values() if size > 1]
    return sum(several), len(several)


Condition = frozenset[tuple[int, Any]]
"""Columns that have certain values."""
Conditional = tuple[Condition, frozenset[int], int]
"""The condition, the other columns on the left, the target."""


def says_more(one: Conditional, other: Conditional) -> bool:
    """Whether a pattern is more general: fewer constants, some of them any value instead, and no further columns."""
    (condition, left, target), (other_condition, other_left, other_target) = one, other
    columns = {column for column, _ in other_condition}
    return (
        one != other and target == other_target and condition <= other_condition and left <= other_left | columns
    )  # fmt: skip


def conditional_dependencies(
    rows: Sequence[Row], columns: int, *, support: int, confidence: Fraction, longest: int, equal: bool
) -> set[Conditional]:
    """Patterns that hold where columns have certain values, with enough rows, while none that says more holds.

    A pattern holds if as few of its rows have to go as the confidence allows. Without a constant it is an FD.
    """
    holding: list[Conditional] = []
    for target in range(columns):
        others = [c for c in range(columns) if c != target]
        for size in range(min(longest, len(others)) + 1):
            for whole in map(frozenset, combinations(others, size)):
                for fixed in (frozenset(some) for k in range(size + 1) for some in combinations(sorted(whole), k)):
                    for condition in {frozenset((c, row[c]) for c in fixed) for row in rows} or {frozenset()}:
                        some = [row for row in rows if all(row[c] == value for c, value in condition)]
                        known = all(value is not None for _, value in condition)
                        most = (1 - confidence) * len(some)
                        if known and surplus(some, (whole - fixed, target), equal=equal) <= most:
                            holding.append((condition, whole - fixed, target))
    minimal = [one for one in holding if one[0] and not any(says_more(other, one) for other in holding)]
    found = set()
    for condition, left, target in minimal:
        some = [row for row in rows if all(row[c] == value for c, value in condition)]
        if len(partnered(some, left, target, equal=equal)) >= support:
            found.add((condition, left, target))
    return found


def partnered(rows: Sequence[Row], left: frozenset[int], target: int, *, equal: bool) -> list[int]:
    """Rows with a known target and another such row that agrees with them on the left."""
    known = [i for i, row in enumerate(rows) if equal or row[target] is not None]
    return [
        i
        for i in known
        if any(i != j and all(agrees(rows[i][c], rows[j][c], equal=equal) for c in left) for j in known)
    ]


def surplus(rows: Sequence[Row], dependency: Dependency, *, equal: bool) -> int:
    """The fewest rows to remove, group by group: all but those with the commonest value."""
    left, target = dependency
    groups: dict[Row, list[Any]] = {}
    for row in rows:
        key = tuple(row[c] for c in sorted(left))
        if equal or None not in key:
            groups.setdefault(key, []).append(row[target] if target < len(row) else object())
    known = [[v for v in values if equal or v is not None] for values in groups.values()]
    return sum(len(values) - max(map(values.count, values)) for values in known if values)
