"""The two terms that a pair index searches by, chosen from the rows and not from how the rule is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic

import numpy as np

from holdstrue.index.protocol import Name, PairRows, Slots, Term
from holdstrue.kernels.sorting import argsort
from holdstrue.operators import ABOVE, Op
from holdstrue.typing import I32

SAMPLED = 1024
"""Rows that are drawn to compare pairs of terms, each with `PARTNERS` others of its group. A pair that one in ten
thousand satisfies is then seen about once. Chosen, not tuned."""
PARTNERS = 8


@dataclass(frozen=True)
class Drive(Generic[Name]):
    """The (at most two) terms an index searches by; the others are checked on what it returns."""

    first: Term[Name] | None
    second: Term[Name] | None
    rest: tuple[Term[Name], ...]

    @staticmethod
    def of(terms: Sequence[Term[Name]], chosen: tuple[Term[Name], Term[Name]] | None = None) -> Drive[Name]:
        """Two order terms if there are (the chosen ones, or the first), else one, else a != term.

        A != term is searched as two ranges that leave out the equal rows.

        >>> drive = Drive.of([Term("state", Op.EQ, "state"), Term("tax", Op.NE, "tax"), Term("pay", Op.GT, "pay")])
        >>> print(drive.first, drive.second, *drive.rest, sep="; ")
        t.pay > s.pay; None; t.tax != s.tax
        """
        ordered = orders(terms)
        unequal = [term for term in terms if term.op is Op.NE]
        first, second = chosen or [*(ordered or unequal[:1]), None, None][:2]
        rest = tuple(term for term in (*ordered, *unequal) if term not in (first, second))
        return Drive(first, second, rest)

    @property
    def rising(self) -> bool:
        """Whether rows that do not violate have their two attributes ascending together."""
        if self.first is None or self.second is None:
            return True
        return (ABOVE in self.first.op.outcomes) != (ABOVE in self.second.op.outcomes)


def orders(terms: Sequence[Term[Name]]) -> list[Term[Name]]:
    """The terms that compare by order, each once."""
    return list(dict.fromkeys(term for term in terms if term.op.is_order))


def choices(terms: Sequence[Term[Name]]) -> list[tuple[Term[Name], Term[Name]]]:
    """The pairs of order terms that may drive, the written one first.

    >>> a, b, c = (Term(column, Op.GT, column) for column in "abc")
    >>> [str(x.left) + str(y.left) for x, y in choices([a, b, c])]
    ['ab', 'ac', 'bc']
    """
    return list(combinations(orders(terms), 2))


def shares(terms: Sequence[Term[int]], rows: PairRows, check: int, t: Slots, s: Slots) -> list[float]:
    """For each pair of `choices` the share of sampled pairs of one group that satisfy both terms.

    `t` and `s` are the rows that may play either role. Complexity: O(rows) to sort their groups.
    """
    t_rows, s_rows = _drawn(rows, check, t, s)
    if not t_rows.size:
        return [0.0] * len(choices(terms))
    holds = {
        term: term.op.on_codes(rows.codes(term.left)[t_rows], rows.codes(term.right)[s_rows]) for term in orders(terms)
    }
    return [float(np.count_nonzero(holds[a] & holds[b])) / t_rows.size for a, b in choices(terms)]


def _drawn(rows: PairRows, check: int, t: Slots, s: Slots) -> tuple[Slots, Slots]:
    """Pairs of rows of one group: evenly spread t, each with some s; the same rows give the same pairs."""
    t_groups, s_groups = rows.groups(check)
    t = t[:: max(1, t.size // SAMPLED)]
    order: I32 = argsort(s_groups[s])
    s = s[order]
    own = t_groups[t]
    low, high = np.searchsorted(s_groups[s], own, side="left"), np.searchsorted(s_groups[s], own, side="right")
    t, low, size = t[high > low], low[high > low], (high - low)[high > low]
    # fractions of the group that jump about: multiples of the golden ratio
    jumps = (np.arange(1, t.size * PARTNERS + 1).reshape(t.size, PARTNERS) * 0.6180339887498949) % 1.0
    t_rows = np.repeat(t, PARTNERS)
    s_rows = s[(low[:, None] + (jumps * size[:, None]).astype(np.int64)).reshape(-1)]
    return t_rows[t_rows != s_rows], s_rows[t_rows != s_rows]
