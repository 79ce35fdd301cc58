"""Rules that a table with errors speaks for although it breaks them: FDs, and orders inside of the groups of FDs.

They are found as those that vote on suspects (`suspects/voting_rules.py`), and stand in one list with the rules that
hold, by what each is worth: the score of an FD, times the square of 1 - odds. An FD that follows from better ones by
transitivity is folded, and so is one of several columns on the left that follows from any others: where zip -> state
and state, pay -> rate, zip, pay -> rate says nothing more. For an FD S, a -> b in which b nearly never falls (or rises)
while a rises, the order is a rule too, unless it follows from one inside of larger groups; its error is the share of
rows that lie on no longest chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from holdstrue.data.values import family_of
from holdstrue.discovery.dependencies.ranking import Profile, fd_score
from holdstrue.discovery.found import FoundRule
from holdstrue.discovery.suspects.cells import CodedCells
from holdstrue.discovery.suspects.chains import off_chain_rows
from holdstrue.discovery.suspects.voting_rules import VotingRule, learned
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.operators import Op
from holdstrue.rules.model import DC, FD, Predicate
from holdstrue.rules.terms import across

MOST_OFF = 0.02
"""The largest share of rows that break an order which is told."""

MOST_BROKEN = 0.1
"""The largest share of rows that break an FD which is told. Chosen, not tuned."""

ORDERED = ("integer", "float", "decimal", "date", "timestamp", "zoned", "time", "duration")


class _Place(NamedTuple):
    """What an order compares: inside of groups, one column by another, by the numbers of columns."""

    groups: frozenset[int]
    by: int
    column: int
    falling: bool


def nearly_holding(table: pa.Table, shown: str | None, work: Work) -> list[FoundRule]:
    """Rules that some rows break, the best first, none that follows from better ones."""
    if table.num_rows < 2:
        return []
    cells = CodedCells(table)
    try:
        rules, _ = learned(cells, cells.codes, work)
    except OutOfTimeError:
        return []
    found = [(rule, *_judged(cells, rule, shown)) for rule in rules]
    found.sort(key=lambda one: (-one[1].score, len(one[1].text), one[1].text))
    kept: list[VotingRule] = []
    told: dict[VotingRule, FoundRule] = {}
    orders: dict[_Place, FoundRule] = {}
    for rule, said, broken in found:
        if rule.right in _closure(rule.left, kept):
            continue
        if broken <= MOST_BROKEN * cells.rows:
            told[rule] = said
        kept.append(rule)
        orders |= _orders(cells, rule, said)
    broken_ones = [said for rule, said in _telling(told).items() if said.measures["error"]]
    everything = [*broken_ones, *_inside_largest(orders, list(told))]
    return sorted(everything, key=lambda one: (-one.score, len(one.text), one.text))


def _telling(rules: dict[VotingRule, FoundRule]) -> dict[VotingRule, FoundRule]:
    """FDs, best first, without those of several columns on the left that follow from the rest. O(rules^3)."""
    left = dict(rules)
    for rule in reversed(rules):
        others = [other for other in left if other is not rule]
        if len(rule.left) > 1 and rule.right in _closure(rule.left, others):
            del left[rule]
    return left


def _inside_largest(orders: dict[_Place, FoundRule], rules: list[VotingRule]) -> list[FoundRule]:
    """Orders, without those inside of groups by a column that determines another by which the order is there too."""
    left = dict(orders)
    for place in sorted(orders, key=lambda place: (orders[place].score, orders[place].text)):
        wider = (
            place._replace(groups=place.groups - {rule.left[0]} | {rule.right})
            for rule in rules
            if len(rule.left) == 1 and rule.left[0] in place.groups and rule.right not in place.groups
        )
        if any(other in left for other in wider):
            del left[place]
    return list(left.values())


def _judged(cells: CodedCells, rule: VotingRule, shown: str | None) -> tuple[FoundRule, int]:
    tally = cells.tally(cells.grouped(rule.left), rule.right)
    several = tally.known >= 2
    rows, groups = int(tally.known[several].sum()), int(several.sum())
    broken = rows - int(tally.first[several].sum())
    left = [_profile(cells, column) for column in rule.left]
    score = fd_score(left, _profile(cells, rule.right), rows, groups, cells.rows) * (1 - rule.odds) ** 2
    body = FD(tuple(cells.names[column] for column in rule.left), (cells.names[rule.right],))
    measures = {"support": rows, "groups": groups, "error": broken / cells.rows, "odds": round(rule.odds, 6)}
    return FoundRule(body, score, measures, shown), broken


def _profile(cells: CodedCells, column: int) -> Profile:
    known = cells.known[column]
    commonest = int(cells.counts[column].max(initial=0)) / max(1, known)
    return Profile(cells.names[column], 1.0, cells.counts[column].size, known, commonest)


def _closure(columns: Iterable[int], rules: list[VotingRule]) -> set[int]:
    """The columns that follow from some by the rules. Complexity: O(rules^2)."""
    reached = set(columns)
    while True:
        more = {rule.right for rule in rules if rule.right not in reached and reached.issuperset(rule.left)}
        if not more:
            return reached
        reached |= more


def _orders(cells: CodedCells, rule: VotingRule, said: FoundRule) -> Iterator[tuple[_Place, FoundRule]]:
    """Orders of the right side by a column of the left, inside of groups by the others, that some rows break."""
    if len(rule.left) < 2 or not _ordered(cells, rule.right):
        return
    for first in rule.left:
        rest = tuple(column for column in rule.left if column != first)
        if not _ordered(cells, first):
            continue
        for falling in (False, True):
            off, judged, moves = off_chain_rows(cells, rest, first, rule.right, falling=falling)
            # where all rows lie on some longest chain, it holds, or as many rows speak for it as against it
            if moves and 0 < off <= MOST_OFF * judged:
                equal = [across(cells.names[column], Op.EQ) for column in rest]
                ends = (across(cells.names[first], Op.GT), across(cells.names[rule.right], Op.GT if falling else Op.LT))
                predicates: tuple[Predicate, ...] = (*equal, *ends)
                measures = {"support": judged, "error": off / max(1, cells.rows)}
                place = _Place(frozenset(rest), first, rule.right, falling)
                yield place, FoundRule(DC(predicates), said.score * 0.99, measures, said.table)


def _ordered(cells: CodedCells, column: int) -> bool:
    return family_of(cells.table.schema.field(cells.names[column]).type) in ORDERED
