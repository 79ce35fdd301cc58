"""What discovery of denial constraints means, in plain loops over all predicate sets, pairs and assignments.

A comparison is (left column, right column, ordered). A constraint is a frozenset of (left, op, right), read
as: no two distinct rows t, s have t.left op s.right for all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Comparison = tuple[str, str, bool]
Constraint = frozenset[tuple[str, str, str]]
Row = dict[str, Any]

ORDERED = ("=", "!=", "<", "<=", ">", ">=")
EQUALITY = ("=", "!=")


def holds(left: Any, op: str, right: Any, nulls: str) -> bool:
    """One comparison of two values; None is NULL."""
    if left is None or right is None:
        if nulls == "unknown":
            return False
        # NULL is a value of its own, below all others
        left, right = (left is not None, left or 0), (right is not None, right or 0)
        if not left[0] or not right[0]:
            left, right = left[0], right[0]
    return bool(
        {"=": left == right, "!=": left != right}[op]
        if op in EQUALITY
        else {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]
    )


def satisfied(constraint: Constraint, t: Row, s: Row, nulls: str = "unknown") -> bool:
    """Whether the pair (t, s) breaks the constraint."""
    return all(holds(t[left], op, s[right], nulls) for left, op, right in constraint)


def breaking(constraint: Constraint, rows: Sequence[Row], nulls: str = "unknown") -> list[tuple[int, int]]:
    """All ordered pairs that break it."""
    return [
        (i, j) for i, t in enumerate(rows) for j, s in enumerate(rows) if i != j and satisfied(constraint, t, s, nulls)
    ]


def constraints(comparisons: Sequence[Comparison]) -> list[Constraint]:
    """All predicate sets with at most one operator for each comparison."""
    choices = [(None, *(ORDERED if ordered else EQUALITY)) for _, _, ordered in comparisons]
    return [
        frozenset((left, op, right) for (left, right, _), op in zip(comparisons, ops) if op is not None)
        for ops in itertools.product(*choices)
    ]


def atoms(constraint: Constraint) -> frozenset[tuple[str, str, str]]:
    """The constraint with < as <= and !=, > as >= and !=, and = also as <= and >=."""
    parts = {"=": ("=", "<=", ">="), "<": ("<=", "!="), ">": (">=", "!=")}
    return frozenset((left, part, right) for left, op, right in constraint for part in parts.get(op, (op,)))


Truth = tuple[NDArray[np.bool_], NDArray[np.bool_]]


@lru_cache(maxsize=64)
def _meaning(comparisons: tuple[Comparison, ...]) -> dict[tuple[str, str, str], Truth]:
    """Each predicate's truth over all assignments of values (or NULL) to two rows, and with the rows exchanged."""
    columns = sorted({c for left, right, _ in comparisons for c in (left, right)})
    home = {c: c for c in columns}
    for left, right, _ in comparisons:
        home = {c: home[left] if place == home[right] else place for c, place in home.items()}
    # as many values as there are cells to compare, so that every order of them occurs; -1 is NULL
    size = {c: 2 * sum(home[d] == home[c] for d in columns) for c in columns}
    grid = np.meshgrid(*([np.arange(-1, size[c]) for c in columns] * 2), indexing="ij")
    t = {c: grid[i].ravel() for i, c in enumerate(columns)}
    s = {c: grid[len(columns) + i].ravel() for i, c in enumerate(columns)}
    compare = {
        "=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    }  # fmt: skip
    found = {}
    for left, right, ordered in comparisons:
        for op in ORDERED if ordered else EQUALITY:
            one, other = (
                compare[op](x[left], y[right]) & (x[left] >= 0) & (y[right] >= 0) for x, y in ((t, s), (s, t))
            )
            found[left, op, right] = (one, other)
    return found


def _truth(comparisons: Sequence[Comparison], constraint: Constraint) -> Truth:
    meaning = _meaning(tuple(comparisons))
    forward, backward = (np.logical_and.reduce([meaning[p][i] for p in constraint]) for i in (0, 1))
    return forward, backward


def signature(comparisons: Sequence[Comparison], constraint: Constraint) -> bytes:
    """The same for constraints that mean the same, with the two rows exchanged or not."""
    return min(np.packbits(truth).tobytes() for truth in _truth(comparisons, constraint))


def minimal(
    comparisons: Sequence[Comparison],
    rows: Sequence[Row],
    nulls: str = "unknown",
    most: int | None = None,
    allowed: int = 0,
) -> dict[bytes, Constraint]:
    """The constraints broken by at most `allowed` pairs that can be broken at all and that no more general one implies.

    By signature: of constraints that mean the same one stands for all.
    """
    everything = [(left, op, right) for left, right, o in comparisons for op in (ORDERED if o else EQUALITY)]
    evidences = [
        frozenset((left, op, right) for left, op, right in everything if holds(t[left], op, s[right], nulls))
        for i, t in enumerate(rows)
        for j, s in enumerate(rows)
        if i != j
    ]
    if len(evidences) <= allowed:
        return {}
    kept: list[tuple[frozenset[tuple[str, str, str]], Constraint]] = []
    for constraint in sorted(constraints(comparisons), key=lambda c: len(atoms(c))):
        if constraint and sum(constraint <= evidence for evidence in evidences) <= allowed:
            own = atoms(constraint)
            if not any(other <= own for other, _ in kept):
                kept.append((own, constraint))
    by_meaning: dict[bytes, tuple[Constraint, Truth]] = {}
    for _, constraint in kept:
        truth = _truth(comparisons, constraint)
        if truth[0].any():
            key = signature(comparisons, constraint)
            if key not in by_meaning or len(constraint) < len(by_meaning[key][0]):
                by_meaning[key] = constraint, truth
    return {
        key: constraint
        for key, (constraint, (forward, _)) in by_meaning.items()
        if (most is None or len(constraint) <= most)
        and not any(
            other_key != key and not all((forward & ~one).any() for one in other)
            for other_key, (_, other) in by_meaning.items()
        )
    }
