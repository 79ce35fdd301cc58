"""Votes of dependencies on cells: what the majority of a group says of the right side, and of the left.

For a row that does not have the value of its group's majority (more than half of the known values, and one and a half
times as many as any other) the right side gets a vote, of the weight

    trust * max(log((majority + 1/2) / (own + 1/2)), log(pure groups / others)), both at most 3

(the first alone where the group has the row's own value twice: errors hardly agree), where `trust` falls with the odds
of the rule; votes of a declared one have the weight 5. The left side B of X -> A gets one where most rows that have the
rest of X and this row's A have another value of B: then B alone explains the row. Its weight is the same, and larger
the rarer the row's A is than its B: a chance error would hardly hit just the value that another group has. Rows that
follow a rule speak against votes on either side of it.

Exceptions that follow from something that the rule leaves out (`systematic.py`) get no votes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from holdstrue.discovery.suspects.cells import CodedCells, Grouped, GroupTally, in_groups
from holdstrue.discovery.suspects.systematic import LEAST_ROWS, came_later, changed_alike, went_together
from holdstrue.discovery.suspects.voting_rules import VotingRule
from holdstrue.typing import F64, I32, I64, Mask

MOST = 3.0
"""The weight of a vote at most: twenty rows against one."""

DECLARED = 5.0
"""The weight of a declared rule's vote: enough where nothing speaks against it, also if the value is a usual one."""

CLEAR = 1.5
"""How many times as often as the next the value of a majority occurs."""

AGAINST = 1.3
"""How much of a vote's weight rows which agree have against others. With 0.8 and with 1.6 no more errors were found in
any table of `benchmarks/scenarios/suspects.py`, and with 0.8 more cells that were right."""

LEFT_AGAINST = 0.5
"""The same for the left side of a rule that a row follows."""

SURE = 0.005
"""The odds of a rule that is trusted wholly."""

SPOILT = 0.97
"""The share of pure groups from which a group without a majority is one that rows got into by mistake."""

UNKNOWN = -1
"""The proposed code where it is not known what a cell should be."""


@dataclass
class Ballot:
    """Votes: which cell should have which code, by which rule (-1: a form), with what weight."""

    rows: list[I64] = field(default_factory=list)
    columns: list[I64] = field(default_factory=list)
    codes: list[I64] = field(default_factory=list)
    weights: list[F64] = field(default_factory=list)
    rules: list[I64] = field(default_factory=list)

    def cast(self, rows: I64, column: int, codes: I64, weights: F64, rule: int) -> None:
        """Add votes of positive weight."""
        kept = weights > 0
        size = int(kept.sum())
        self.rows.append(rows[kept].astype(np.int64))
        self.columns.append(np.full(size, column, dtype=np.int64))
        self.codes.append(codes[kept].astype(np.int64))
        self.weights.append(weights[kept].astype(np.float64))
        self.rules.append(np.full(size, rule, dtype=np.int64))


def trust(rule: VotingRule) -> float:
    """How much a rule's votes count: 1 for a declared one, less for odds of chance.

    >>> [round(trust(VotingRule((0,), 1, odds)), 2) for odds in (0.0, 0.01, 0.1)]
    [1.0, 0.83, 0.43]
    """
    return 1.0 if rule.declared is not None else min(1.0, float(np.log(1 / (rule.odds + 0.002)) / np.log(1 / SURE)))


def vote(cells: CodedCells, codes: I32, number: int, rule: VotingRule, ballot: Ballot, against: F64) -> None:
    """Cast the votes of one rule, and add what rows that agree have against votes of others.

    `codes` are those of the table without values that are no witnesses. Complexity: O(columns * rows).
    """
    grouped = cells.grouped(rule.left, codes)
    if rule.rows is not None:
        grouped = _within(grouped, rule.rows)
    tally, column = cells.tally(grouped, rule.right, codes), codes[rule.right]
    group, believed = np.maximum(grouped.of, 0), trust(rule)
    first, second = tally.first[group], tally.second[group]
    size = np.diff(grouped.starts)[group]
    top = tally.top[group].astype(np.int64)
    named = grouped.of >= 0
    missing = cells.codes[rule.right] < 0
    clear = named & (first >= 2) & (first > CLEAR * second) & (2 * first > tally.known[group])
    if rule.constant is not None:
        top, clear = np.full(cells.rows, rule.constant, dtype=np.int64), named
    muted = (column < 0) & ~missing
    # a missing value is one that is known elsewhere: in most of the column, and of the group
    filled = missing & (first >= 3) & (2 * first > size) & (2 * cells.known[rule.right] > cells.rows)
    if rule.constant is not None:
        filled = missing & (2 * cells.known[rule.right] > cells.rows)
    differs = clear & (top != column) & (~missing | filled)
    alike = np.zeros(cells.rows, dtype=np.bool_)
    if rule.declared is None:
        sides, plain = (*rule.left, rule.right), differs & ~muted & ~missing
        differs &= (
            ~(went_together(cells, sides, plain, clear & (column >= 0)) | came_later(cells, grouped, plain))
            | muted
            | missing
        )
        differs &= ~(missing & went_together(cells, sides, missing & differs, clear))
        alike = changed_alike(cells, rule.right, top, plain)
        differs &= ~alike
    floor = _floor(rule)
    rows = np.flatnonzero(differs)
    weights = believed * _weight(first[rows], tally.own[rows], floor, declared=rule.declared is not None)
    if rule.constant is not None:
        weights = np.full(rows.size, DECLARED)
    ballot.cast(rows, rule.right, top[rows], weights, number)
    agrees = named & (column >= 0) & (top == column) & (first >= 2) & (first > second)
    against[rule.right, agrees] += AGAINST * believed * np.maximum(_log_ratio(first[agrees] - 1, second[agrees]), 0.0)
    if rule.constant is None:
        # a value that so many rows do not have is no chance: the left side is right too
        telling = np.flatnonzero(agrees & clear)
        chance = np.log(cells.rows / cells.counts[rule.right][column[telling]])
        for left in rule.left:
            against[left, telling] += LEFT_AGAINST * believed * np.minimum(chance, MOST)
        doubtful = named & (column >= 0) & (first < tally.known[group]) & ((top != column) | ~clear) & ~alike
        _vote_left(cells, codes, number, rule, np.flatnonzero(doubtful), ballot)
        if rule.declared is None and len(rule.left) == 1 and rule.pure >= SPOILT:
            _vote_spoilt(number, rule, grouped, tally, column, ballot)


def _log_ratio(many: I32, few: I32) -> F64:
    return np.minimum(np.log((many + 0.5) / (few + 0.5)), MOST)


def _weight(majority: I32, own: I32, floor: float, *, declared: bool) -> F64:
    ratio = _log_ratio(majority, own)
    return np.maximum(ratio, floor) if declared else np.where(own < 2, np.maximum(ratio, floor), ratio)


def _floor(rule: VotingRule) -> float:
    """What pure groups add to a rule's belief; a declared rule is believed."""
    if rule.declared is not None:
        return DECLARED
    return min(MOST, float(np.log((rule.pure + 1e-9) / (1 - rule.pure + 1 / (rule.groups + 1)))))


def _within(grouped: Grouped, rows: Mask) -> Grouped:
    """The groups of some rows only."""
    return in_groups(np.where(rows, grouped.of, -1), grouped.many)


def _vote_left(cells: CodedCells, codes: I32, number: int, rule: VotingRule, rows: I64, ballot: Ballot) -> None:
    """Votes on columns of the left side that alone explain doubtful rows."""
    if not rows.size:
        return
    right = codes[rule.right][rows]
    rarity = np.log(cells.counts[rule.right][right] / cells.rows)
    for at, column in enumerate(rule.left):
        rest = (*rule.left[:at], *rule.left[at + 1 :], rule.right)
        grouped = cells.grouped(rest, codes)
        tally = cells.tally(grouped, column, codes)
        group, held = np.maximum(grouped.of[rows], 0), codes[column][rows]
        first, own = tally.first[group], tally.own[rows]
        good = (grouped.of[rows] >= 0) & (tally.top[group] != held) & (first >= 2) & (first > own)
        good &= (2 * first > tally.known[group]) & (held >= 0)
        commonness = np.log(np.maximum(cells.counts[column][np.maximum(held, 0)], 1) / cells.rows)
        floor = _floor(rule) if rule.pure > 0.9 else 0.0
        ratio = _weight(first, own, floor, declared=rule.declared is not None)
        weights = trust(rule) * ratio + np.clip(commonness - rarity, -MOST, MOST)
        ballot.cast(rows[good], column, tally.top[group][good], weights[good], number)


def _vote_spoilt(
    number: int, rule: VotingRule, grouped: Grouped, tally: GroupTally, column: I32, ballot: Ballot
) -> None:
    """Votes on the left side of rows that got into a group: many, of many values, where other groups have one."""
    spoilt = (tally.known >= LEAST_ROWS) & (2 * tally.first <= tally.known)
    spoilt &= 4 * np.maximum(tally.first, tally.second) <= 3 * tally.known
    group = np.maximum(grouped.of, 0)
    alone = (grouped.of >= 0) & spoilt[group] & (column >= 0) & ((tally.own < 2) | (tally.top[group] != column))
    rows = np.flatnonzero(alone)
    ballot.cast(rows, rule.left[0], np.full(rows.size, UNKNOWN), np.full(rows.size, trust(rule) * MOST), number)
