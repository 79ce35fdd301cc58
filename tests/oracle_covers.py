"""Minimal rules of tables too wide to try every set of columns: the least sets that no pair of rows contains.

A rule that names a set of predicates holds when no pair of rows satisfies all of them, so when the set has a member
outside of what each pair satisfies. Sets are bits of an integer. Plain Python; imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

from oracle_denial import Comparison, Constraint, holds
from oracle_dependencies import Dependency

ATOMS = {True: ("<=", ">=", "!="), False: ("=", "!=")}
TOGETHER = {("<=", ">="): "=", ("!=", "<="): "<", ("!=", ">="): ">"}
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def bits(number: int) -> Iterator[int]:
    """The places of the ones."""
    return (place for place in range(number.bit_length()) if number >> place & 1)


def transversals(sets: Iterable[int]) -> list[int]:
    """The minimal sets that share a member with each of these, one of these after the other (Berge's way)."""
    found, done = [0], list[int]()
    for edge in sorted(set(sets), key=lambda some: (some.bit_count(), some)):
        if any(one & edge == one for one in done):
            continue
        done.append(edge)
        hit = [one for one in found if one & edge]
        grown = {one | 1 << place for one in found if not one & edge for place in bits(edge)}
        # two that grew cannot contain each other: neither had a member of the edge before
        found = hit + [one for one in grown if not any(part & one == part for part in hit)]
    return found


def dependencies(rows: Sequence[Sequence[Any]], columns: int) -> set[Dependency]:
    """Minimal keys and FDs, NULL a value like others; a key has the number behind the last column on its right."""
    agreed = {
        sum(1 << place for place in range(columns) if one[place] == other[place])
        for one, other in combinations(rows, 2)
    }
    everything = (1 << columns) - 1
    found = set()
    for target in range(columns + 1):
        apart = [everything & ~some & ~(1 << target) for some in agreed if not some >> target & 1]
        found |= {(frozenset(bits(left)), target) for left in transversals(apart)}
    return found


def one_way(constraint: Constraint) -> Constraint:
    """One of the two ways to write it, where columns are compared with themselves: (t, s) and (s, t) are all pairs."""
    if any(left != right for left, _, right in constraint):
        return constraint
    return min(constraint, frozenset((left, FLIPPED.get(op, op), right) for left, op, right in constraint), key=sorted)


class Evidence:
    """What all ordered pairs of distinct rows without NULL satisfy of the comparisons, each with its last row."""

    def __init__(self, rows: Sequence[dict[str, Any]], comparisons: Sequence[Comparison]) -> None:
        self.atoms = [(left, op, right) for left, right, ordered in comparisons for op in ATOMS[ordered]]
        self.first: dict[int, int] = {}
        for last, row in enumerate(rows):
            for t, s in ((t, s) for other in rows[:last] for t, s in ((row, other), (other, row))):
                satisfied = sum(
                    1 << place
                    for place, (left, op, right) in enumerate(self.atoms)
                    if holds(t[left], op, s[right], "equal")
                )
                self.first.setdefault(satisfied, last)

    def constraints(self, rows: int) -> set[Constraint]:
        """The minimal denial constraints of the first rows; of two that say the same of (t, s) and (s, t) one."""
        everything = (1 << len(self.atoms)) - 1
        minimal = transversals(everything & ~some for some, last in self.first.items() if last < rows)
        return {named for one in minimal if (named := self.named(one)) is not None}

    def named(self, atoms: int) -> Constraint | None:
        """Atoms of one comparison as its operator; None where they cannot be true together."""
        chosen: dict[tuple[str, str], list[str]] = {}
        for place in bits(atoms):
            left, op, right = self.atoms[place]
            chosen.setdefault((left, right), []).append(op)
        if any(len(ops) == 3 or sorted(ops) == ["!=", "="] for ops in chosen.values()):
            return None
        found = frozenset(
            (left, ops[0] if len(ops) == 1 else TOGETHER[min(ops), max(ops)], right)
            for (left, right), ops in chosen.items()
        )
        return one_way(found)
