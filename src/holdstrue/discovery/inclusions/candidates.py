"""Candidates for inclusions of one column more: pairs that agree but for their last column, all parts included.

The levelwise search of MIND (De Marchi et al.), which paper 004 names as what unary inclusions are the
start of. A pair relates columns of one table, in the table's order, to columns of another (or the same)
in any order, position by position.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

from holdstrue.discovery.inclusions.attributes import Attribute

LOOKS = 200
"""Pairs looked at for each candidate of the most that are wanted: a bound for alike columns. Chosen, not tuned."""

Pair = tuple[Attribute, Attribute]


def candidates(
    included: Collection[Pair], places: Mapping[str, Mapping[str, int]], most: int
) -> tuple[list[Pair], bool]:
    """Pairs of one column more whose parts are all included; and whether these are all, not only the first `most`.

    `places` gives the position of every column in its table. Complexity: O(pairs with a common prefix).
    """
    known = frozenset(included)
    families: defaultdict[tuple[object, ...], list[Pair]] = defaultdict(list)
    for left, right in included:
        families[left.table, left.columns[:-1], right.table, right.columns[:-1]].append((left, right))
    found: list[Pair] = []
    looked = 0
    for family in families.values():
        ordered = sorted(family, key=lambda pair: places[pair[0].table][pair[0].columns[-1]])
        for one, other in combinations(ordered, 2):
            looked += 1
            pair = _joined(one, other)
            if looked > LOOKS * most:
                return found, False
            if pair is not None and all(part in known for part in _parts(pair)):
                if len(found) == most:
                    return found, False
                found.append(pair)
    return found, True


def _joined(one: Pair, other: Pair) -> Pair | None:
    """Two pairs with a common prefix as one, unless a column would be there twice."""
    left, right = other[0].columns[-1], other[1].columns[-1]
    if left == one[0].columns[-1] or right == one[1].columns[-1]:
        return None
    return (
        Attribute(one[0].table, (*one[0].columns, left)),
        Attribute(one[1].table, (*one[1].columns, right)),
    )


def _parts(pair: Pair) -> Iterator[Pair]:
    """The pair without one of its columns, for each column."""
    left, right = pair
    for i in range(len(left.columns)):
        yield (
            Attribute(left.table, left.columns[:i] + left.columns[i + 1 :]),
            Attribute(right.table, right.columns[:i] + right.columns[i + 1 :]),
        )
