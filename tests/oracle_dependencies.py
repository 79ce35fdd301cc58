"""What keys, functional dependencies and conditional ones mean, over all pairs of rows in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
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
