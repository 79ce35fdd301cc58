"""From votes to suspects: in every row the cell that most is said against, then what that leaves unexplained.

The score of a cell and a proposed value is the sum of its votes, less what agreeing rows have against them, plus

- for a text or integer that few edits make of the proposed one: the log of 0.7 over how often two values of the column
  are as close, at most 2.5 (and - 0.5 where it is not close); nothing for measures, which are close by nature;
- for a value that at most three cells of the column have: the log of 1/2 over the share of such cells, at most 2.5
  (and - 0.5 where more have it);
- for a missing value 2;
- and - 3.2, the log odds that any cell is wrong (1 in 25).

Votes on the right sides of one left side count for nothing in a row that breaks most of them (three, and more than
half): it is another thing that has that left side too, as two branches of one shop, or its left side is wrong.

The cell of a row with the highest score above 0 is a suspect (above 0.4 where one rule alone says so that nobody
declared). Every rule that it is part of is explained by it, and has no votes on other cells of the row any more. This
goes on until nothing is left. Confidence is what share of the suspects with such a score were wrong (`KNOTS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdstrue.discovery.suspects.cells import CodedCells, edits_between
from holdstrue.discovery.suspects.chains import OrderRule
from holdstrue.discovery.suspects.votes import UNKNOWN, Ballot
from holdstrue.discovery.suspects.voting_rules import VotingRule
from holdstrue.typing import F64, I64, Mask

PRIOR = -3.2
"""The log odds that any cell is wrong, 1 in 25. With -3.0 an eighth more of what is found in
`benchmarks/workloads/dirty` is no error; with -3.5 a twentieth less of the errors of the seeded orders of
tests/dirty_tables.py is found."""
LONE = 0.4
"""What a cell of which one learned rule alone speaks must score: of those below it 3 of 47 were wrong indeed on all
tables of `benchmarks/scenarios/suspects.py`, of those of which several speak 65 of 66."""
KNOTS = ((0.0, 0.80), (0.5, 0.88), (1.0, 0.90), (3.5, 0.94), (4.0, 0.98), (6.0, 0.99), (10.0, 0.999))
"""Scores, and the share of suspects with them that are wrong; straight lines between. By isotonic regression it is 0.90
from 0.4 to 3.9 and 0.98 above on the eight tables of `benchmarks/workloads/dirty`, 0.96 and 0.99 with the tables beside
them that thresholds were chosen on; the lines lie between, and rise so that higher scores stand first."""
CLOSE = 0.5
"""How much of the longer text stays for two texts to be close."""
MOST_BONUS = 2.5
MISSING = 2.0
LEAST_BROKEN = 3
"""With 2 in place of it fewer errors of breweries were found, and no fewer cells that were right."""
ROUNDS = 8
"""CodedCells of one row that are suspected at most."""
DOUBT = 10
"""Pairs of values, one in twenty of them close, that are added to those of a column: a few pairs say little."""
SAMPLED = 25
"""Values of a column that are compared with each other to learn how close values usually are."""


@dataclass(frozen=True)
class Verdict:
    """Suspects: cells by row and column, the proposed codes, scores, and which votes speak for each."""

    rows: I64
    columns: I64
    codes: I64
    scores: F64
    votes: list[I64]


@dataclass(frozen=True)
class Votes:
    """All votes as arrays."""

    rows: I64
    columns: I64
    codes: I64
    weights: F64
    rules: I64

    @staticmethod
    def of(ballot: Ballot) -> Votes:
        """The votes that were cast."""
        none = np.empty(0, dtype=np.int64)
        parts = [np.concatenate([none, *part]) for part in (ballot.rows, ballot.columns, ballot.codes, ballot.rules)]
        weights = np.concatenate([np.empty(0), *ballot.weights])
        return Votes(parts[0], parts[1], parts[2], weights, parts[3])


def decide(
    cells: CodedCells, votes: Votes, against: F64, rules: Sequence[VotingRule | OrderRule], proposals: list[list[str]]
) -> Verdict:
    """Suspects in the order in which they are found.

    A code beyond those of a column stands for a text of its `proposals`.
    """
    columns = len(cells.names)
    part_of = np.zeros((len(rules) + 1, columns), dtype=np.bool_)
    for number, rule in enumerate(rules):
        ends = (rule.first, rule.second) if isinstance(rule, OrderRule) else (rule.right,)
        part_of[number, [*rule.left, *ends]] = True
    heads = np.full(len(rules) + 1, 2.0)
    for number, rule in enumerate(rules):
        if isinstance(rule, VotingRule) and rule.declared is None:
            heads[number] = 1.0
    bonuses = _Bonuses(cells, proposals)
    live = ~_of_other_things(votes, rules)
    found: list[tuple[I64, I64, I64, F64]] = []
    supports: list[I64] = []
    for _ in range(ROUNDS):
        at = np.flatnonzero(live)
        if not at.size:
            break
        row, column, code, score = _candidates(votes, at, columns, votes.weights)
        # a form, or a rule that somebody declared, counts as much as two that are learned
        speaking = _candidates(votes, at, columns, heads[votes.rules])[3]
        score = score + PRIOR - against[column, row] + bonuses.of(row, column, code)
        order = np.lexsort((code, column, -score, row))
        best = order[np.concatenate(([True], row[order][1:] != row[order][:-1]))]
        best = best[score[best] > np.where(speaking[best] < 2, LONE, 0.0)]
        if not best.size:
            break
        found.append((row[best], column[best], code[best], score[best]))
        supports += _supporters(votes, at, row[best], column[best], code[best], columns)
        suspect = np.full(cells.rows, -1, dtype=np.int64)
        suspect[row[best]] = column[best]
        taken = suspect[votes.rows]
        live &= (taken < 0) | ~(part_of[votes.rules, taken] | (votes.columns == taken))
    if not found:
        none = np.empty(0, dtype=np.int64)
        return Verdict(none, none, none, np.empty(0), [])
    rows, cols, codes, scores = (np.concatenate(part) for part in zip(*found, strict=True))
    return Verdict(rows, cols, codes, scores, supports)


def confidence(score: float) -> float:
    """The share of suspects with a score that are wrong, never less for a higher one.

    >>> [round(confidence(score), 3) for score in (0.0, 0.25, 2.0, 5.0, 99.0)]
    [0.8, 0.84, 0.916, 0.985, 0.999]
    """
    scores, shares = zip(*KNOTS, strict=True)
    return float(np.interp(score, scores, shares))


def _of_other_things(votes: Votes, rules: Sequence[VotingRule | OrderRule]) -> Mask:
    """Votes on right sides of rows that break most of what their left side determines."""
    lefts: dict[tuple[int, ...], int] = {}
    # the last are those of forms
    side, right = np.full(len(rules) + 1, -1), np.full(len(rules) + 1, -1)
    for number, rule in enumerate(rules):
        if isinstance(rule, VotingRule) and rule.declared is None:
            side[number], right[number] = lefts.setdefault(rule.left, len(lefts)), rule.right
    asked = np.bincount(side[side >= 0], minlength=1)
    mine = np.flatnonzero((side[votes.rules] >= 0) & (votes.columns == right[votes.rules]))
    row_side = votes.rows[mine] * asked.size + side[votes.rules[mine]]
    broken, counts = np.unique(
        np.unique(np.column_stack((row_side, votes.columns[mine])), axis=0)[:, 0], return_counts=True
    )
    others = broken[(counts >= LEAST_BROKEN) & (2 * counts > asked[broken % asked.size])]
    found = np.zeros(votes.rows.size, dtype=np.bool_)
    found[mine] = np.isin(row_side, others)
    return found


def _candidates(votes: Votes, at: I64, columns: int, weights: F64) -> tuple[I64, I64, I64, F64]:
    """Cells with each value that is proposed for them and the weight of its votes; those for no value count for all."""
    cell = votes.rows[at] * columns + votes.columns[at]
    code, weight = votes.codes[at], weights[at]
    open_ = code == UNKNOWN
    named, inverse = np.unique(np.column_stack((cell[~open_], code[~open_])), axis=0, return_inverse=True)
    sums = np.bincount(inverse.reshape(-1), weights=weight[~open_], minlength=named.shape[0]).astype(np.float64)
    bare, back = np.unique(cell[open_], return_inverse=True)
    extra = np.bincount(back, weights=weight[open_], minlength=bare.size).astype(np.float64)
    cells = named.reshape(-1, 2)[:, 0]
    where = np.searchsorted(bare, cells)
    has = (where < bare.size) & (bare[np.minimum(where, bare.size - 1)] == cells) if bare.size else np.zeros(0, bool)
    if bare.size:
        sums[has] += extra[where[has]]
    lone = ~np.isin(bare, cells)
    all_cells = np.concatenate((cells, bare[lone]))
    all_codes = np.concatenate((named.reshape(-1, 2)[:, 1], np.full(int(lone.sum()), UNKNOWN)))
    return all_cells // columns, all_cells % columns, all_codes, np.concatenate((sums, extra[lone]))


def _supporters(votes: Votes, at: I64, rows: I64, columns: I64, codes: I64, many: int) -> list[I64]:
    """For each suspect the votes for its proposed value, heaviest first."""
    cell = votes.rows[at] * many + votes.columns[at]
    order = at[np.lexsort((votes.rules[at], -votes.weights[at], cell))]
    ranked = votes.rows[order] * many + votes.columns[order]
    wanted = rows * many + columns
    low, high = np.searchsorted(ranked, wanted), np.searchsorted(ranked, wanted, side="right")
    found = []
    for start, end, code in zip(low.tolist(), high.tolist(), codes.tolist(), strict=True):
        mine = order[start:end]
        found.append(mine[(votes.codes[mine] == code) | (votes.codes[mine] == UNKNOWN)])
    return found


class _Bonuses:
    """What typing and rarity say of a cell and a value proposed for it."""

    def __init__(self, cells: CodedCells, proposals: list[list[str]]) -> None:
        self._cells = cells
        self._proposals = proposals
        self._usual: dict[int, float] = {}
        self._rare: dict[int, F64] = {}

    def of(self, rows: I64, columns: I64, codes: I64) -> F64:
        """By candidate."""
        found = np.full(rows.size, MISSING)
        for column in np.unique(columns).tolist():
            mine = np.flatnonzero(columns == column)
            held = self._cells.codes[column][rows[mine]].astype(np.int64)
            known = held >= 0
            found[mine[known]] = self._rarity(column, held[known])
            typed = known & (codes[mine] != UNKNOWN)
            found[mine[typed]] += self._typing(column, held[typed], codes[mine[typed]])
        return found

    def _rarity(self, column: int, held: I64) -> F64:
        counts = self._cells.counts[column]
        if column not in self._rare:
            shares = [(int(counts[counts <= most].sum()) + 1) / (self._cells.rows + 1) for most in (1, 2, 3)]
            self._rare[column] = np.clip(np.log(0.5 / np.array([1.0, *shares])), 0, MOST_BONUS)
        own = counts[held]
        return np.where(own <= 3, self._rare[column][np.minimum(own, 3)], -0.5)

    def _typing(self, column: int, held: I64, codes: I64) -> F64:
        if self._cells.measure_like(column):
            return np.zeros(held.size)
        texts = [*self._cells.texts(column), *self._proposals[column]]
        pairs, inverse = np.unique(np.column_stack((held, codes)), axis=0, return_inverse=True)
        close = _close(texts, pairs)
        if column not in self._usual:
            self._usual[column] = self._usually_close(column, texts)
        bonus = float(np.clip(np.log(0.7 / self._usual[column]), 0, MOST_BONUS))
        return np.where(close, bonus, -0.5)[inverse.reshape(-1)]

    def _usually_close(self, column: int, texts: list[str]) -> float:
        """How often two values that occur more than once are close, from values evenly spread in the order of text."""
        common = sorted(np.flatnonzero(self._cells.counts[column] >= 2).tolist(), key=texts.__getitem__)
        chosen = common[:: max(1, len(common) // SAMPLED)]
        pairs = np.array([(one, other) for one in chosen for other in chosen if one < other], dtype=np.int64)
        close = int(_close(texts, pairs).sum()) if pairs.size else 0
        return (close + DOUBT / 20) / (len(pairs) + DOUBT)


def _close(texts: list[str], pairs: I64) -> Mask:
    edits, longest = edits_between(texts, pairs)
    return edits <= (1 - CLOSE) * np.maximum(longest, 1)
