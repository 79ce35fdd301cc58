"""Which rows must meet: the checks of a plan covered by as few routes as possible.

Rows that violate a two-row check together agree on its equalities, so they meet when each row is
placed by the values of those columns, or of some of them. One route therefore serves every check
whose equalities contain its columns. A check without equalities takes the route with no columns,
where all rows share one place. One-row checks need no route: they run where a row is at home. Nor do measures of whole
tables, of which every home has a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias

from holdstrue.plan.checks import GroupCheck, MeasureCheck, PairCheck, ReferenceCheck, RowCheck
from holdstrue.plan.compile import Plan

RouteKind: TypeAlias = Literal["group", "cross", "reference"]
Equalities: TypeAlias = frozenset[tuple[str, str]]

EXACT_UP_TO = 12
"""With more distinct sets of equalities than this the cover is made greedily: the exact one tries all subsets."""


@dataclass(frozen=True)
class Side:
    """Rows of a table, placed by the values of some columns."""

    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Route:
    """A placing of rows under which every two rows that matter to its checks meet.

    `group`: both rows are placed by the same columns. `cross`: t by one list of columns, s by
    another, so a row has two places. `reference`: t refers, s provides.
    """

    kind: RouteKind
    checks: tuple[int, ...]
    t: Side
    s: Side
    nulls_equal: bool = False

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables whose rows travel."""
        return tuple(dict.fromkeys((self.t.table, self.s.table)))

    @property
    def flagged(self) -> bool:
        """Whether a row that travels must say in which of the two roles it came."""
        return self.kind == "cross" or (self.kind == "reference" and self.t.table == self.s.table)

    def __str__(self) -> str:
        left = ", ".join(self.t.columns) or "all rows together"
        if self.kind == "group":
            return f"{self.t.table} by ({left})"
        right = ", ".join(self.s.columns)
        return f"{self.t.table} by ({left}) with {self.s.table} by ({right})"


def routes_of(plan: Plan) -> tuple[Route, ...]:
    """The routes of a plan, every check but those that run at home in exactly one of them."""
    routes: list[Route] = []
    pairs: dict[str, list[tuple[int, Equalities]]] = {}
    references: dict[tuple[Side, Side], list[int]] = {}
    for number, check in enumerate(plan.checks):
        match check:
            case GroupCheck() | PairCheck():
                pairs.setdefault(check.table, []).append((number, _equalities(check)))
            case ReferenceCheck():
                sides = Side(check.table, check.referring), Side(check.ref_table, check.ref_columns)
                references.setdefault(sides, []).append(number)
            case RowCheck() | MeasureCheck():
                pass
    for table, wanted in pairs.items():
        for shared, numbers in _cover(wanted):
            ordered = sorted(shared)
            lefts, rights = tuple(left for left, _ in ordered), tuple(right for _, right in ordered)
            kind: RouteKind = "group" if lefts == rights else "cross"
            nulls = any(plan.checks[n].nulls_equal for n in numbers)
            routes.append(Route(kind, tuple(numbers), Side(table, lefts), Side(table, rights), nulls))
    for (t, s), numbers in references.items():
        routes.append(Route("reference", tuple(numbers), t, s))
    return tuple(routes)


def _equalities(check: GroupCheck | PairCheck) -> Equalities:
    """What a check's rows agree on; where some columns are compared with themselves, those alone: one place a row."""
    equal = frozenset(check.equal)
    plain = frozenset((left, right) for left, right in equal if left == right)
    return plain or equal


def _cover(wanted: Sequence[tuple[int, Equalities]]) -> list[tuple[Equalities, list[int]]]:
    """Few sets of equalities such that every check contains one: each with its checks, as wide as these allow."""
    sets = list(dict.fromkeys(equal for _, equal in wanted))
    candidates = _candidates(sets)
    chosen = _fewest(sets, candidates) if len(sets) <= EXACT_UP_TO else _greedy(sets, candidates)
    served: dict[Equalities, list[int]] = {}
    for number, equal in wanted:
        served.setdefault(max((c for c in chosen if _serves(c, equal)), key=_width), []).append(number)
    by_number = dict(wanted)
    # widened to all that its checks share: finer places, fewer rows in each
    return [(frozenset.intersection(*(by_number[n] for n in numbers)), numbers) for numbers in served.values()]


def _serves(route: Equalities, equal: Equalities) -> bool:
    # only a check without equalities may use the route where all rows are together
    return route <= equal and bool(route) == bool(equal)


def _width(route: Equalities) -> tuple[int, list[tuple[str, str]]]:
    return len(route), sorted(route)


def _candidates(sets: Sequence[Equalities]) -> list[Equalities]:
    """The sets and what they have in common, widest first."""
    found = dict.fromkeys(sets)
    for a, b in combinations(sets, 2):
        if a & b:
            found[a & b] = None
    common = [set_ for set_ in found if set_]
    for a, b in combinations(common[:64], 2):
        if a & b:
            found[a & b] = None
    return sorted(found, key=_width, reverse=True)


def _fewest(sets: Sequence[Equalities], candidates: Sequence[Equalities]) -> Sequence[Equalities]:
    for count in range(1, len(sets) + 1):
        for chosen in combinations(candidates, count):
            if all(any(_serves(c, equal) for c in chosen) for equal in sets):
                return chosen
    return sets


def _greedy(sets: Sequence[Equalities], candidates: Sequence[Equalities]) -> Sequence[Equalities]:
    open_ = set(sets)
    chosen: list[Equalities] = []
    while open_:
        best = max(candidates, key=lambda c: (sum(_serves(c, equal) for equal in open_), _width(c)))
        chosen.append(best)
        open_ = {equal for equal in open_ if not _serves(best, equal)}
    return chosen
