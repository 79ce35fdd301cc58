"""Several sources report the same things: what is true when they disagree, who is wrong more often counting less.

A table has this form where a column S of text (the source) and a column X (the thing) tell nearly all rows apart, and
sources differ in how often they agree with the rest. A value's weight is the sum over the sources that report it of

    log(10 a / (1 - a)) / (1 + sum of d^2 over the other sources that report it)

where a is how often the source was right, in this column and overall, and d how often the two sources say the same:
who copies adds little. The value with the most weight is taken for true, a is counted anew, and so on until nothing
changes.
Accuracy and copying after Dong, Berti-Equille, Srivastava: Integrating conflicting data: the role of source dependence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdstrue.discovery.suspects.cells import CodedCells
from holdstrue.typing import F64, I32, I64

MOST_ODDS = 0.6
"""Things whose reports differ as much as chance would have it are no reports of one thing."""

DISAGREE = 0.1
"""Below these odds errors are few, and votes of rules find them without asking who reports."""

APART = 5.0
"""How much sources differ at least in how often they agree with the rest: chi-square by degrees of freedom. It is 17 to
25 on flights; 0.6 to 2 for all pairs of columns of hospital but one."""

ALIKE = 0.98
"""The share of rows that source and thing tell apart."""

ROUNDS, SHARED, FIRST = 10, 20, 0.7
"""Rounds at most, reports that a source's overall accuracy counts as, and the accuracy to begin with."""

MOST_SOURCES = 1000


@dataclass(frozen=True)
class Reports:
    """Which column names the source, which the thing, and the columns that are reported."""

    source: int
    thing: int
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Verdicts:
    """By column and row the code that is taken for true (-1: none), and by how much weight it leads."""

    true: I64
    lead: F64


def find_reports(cells: CodedCells) -> Reports | None:
    """The form of a table in which several sources report the same things, the one with most columns reported."""
    found: Reports | None = None
    for source in range(len(cells.names)):
        sources = cells.counts[source].size
        if not cells.text_like(source) or not 3 <= sources <= min(cells.rows / 10, MOST_SOURCES):
            continue
        for thing in range(len(cells.names)):
            things = cells.counts[thing].size
            if thing == source or not 3 <= things <= cells.rows / 3:
                continue
            both = cells.grouped((source, thing))
            named = int(np.count_nonzero(both.of >= 0))
            if named < 0.9 * cells.rows or both.many < ALIKE * named:
                continue
            columns = _reported(cells, source, thing)
            if columns and (found is None or len(columns) > len(found.columns)):
                found = Reports(source, thing, columns)
    return found


def _reported(cells: CodedCells, source: int, thing: int) -> tuple[int, ...]:
    """The columns that agree by thing far more than chance; none unless sources differ in one that is disputed."""
    grouped, by = cells.grouped((thing,)), cells.codes[source]
    columns, disputed = [], False
    for column in range(len(cells.names)):
        if column in (source, thing) or cells.counts[column].size < 3:
            continue
        tally = cells.tally(grouped, column)
        several = tally.known >= 2
        rows, groups = int(tally.known[several].sum()), int(several.sum())
        broken = rows - int(tally.first[several].sum())
        chance = (rows - groups) * (1 - int(cells.counts[column].max()) / cells.known[column])
        if rows < cells.rows / 2 or rows - groups - broken < 50 or not chance > 0 or broken > MOST_ODDS * chance:
            continue
        columns.append(column)
        group = np.maximum(grouped.of, 0)
        counted = (grouped.of >= 0) & (cells.codes[column] >= 0) & (tally.known >= 3)[group] & (by >= 0)
        agrees = counted & (tally.top[group] == cells.codes[column])
        disputed |= broken > DISAGREE * chance and _apart(by[counted], by[agrees], cells.counts[source].size) >= APART
    return tuple(columns) if disputed else ()


def _apart(all_of: I32, agreeing: I32, sources: int) -> float:
    """Chi-square by degrees of freedom of how often each source agrees with the rest."""
    reports, agree = np.bincount(all_of, minlength=sources), np.bincount(agreeing, minlength=sources)
    share = agree.sum() / max(1, reports.sum())
    used = reports >= 3
    if used.sum() < 3 or share in (0, 1):
        return 0.0
    expected, spread = reports[used] * share, reports[used] * share * (1 - share)
    return float(((agree[used] - expected) ** 2 / spread).sum() / (used.sum() - 1))


def judge(cells: CodedCells, reports: Reports) -> Verdicts:
    """What is true of each thing. Complexity: O(reports * sources) a round and column."""
    by, of = cells.codes[reports.source], cells.codes[reports.thing]
    rows = np.flatnonzero((by >= 0) & (of >= 0))
    sources, many = cells.counts[reports.source].size, len(reports.columns)
    # one report for a source and thing: of several rows the one with the smallest value, whatever their order
    told = [_told(cells, column, rows, by, of) for column in reports.columns]
    alike = _alike(told, sources, cells.counts[reports.thing].size)
    accuracy = np.full((many, sources), FIRST)
    true = np.full((many, cells.counts[reports.thing].size), -1, dtype=np.int64)
    lead = np.zeros(true.shape)
    for _ in range(ROUNDS):
        before = true.copy()
        right, given = np.zeros((many, sources)), np.zeros((many, sources))
        for number, (who, what, code) in enumerate(told):
            strength = np.maximum(np.log(10 * accuracy[number] / (1 - accuracy[number])), 0.01)
            true[number], lead[number] = _heaviest(who, what, code, strength, alike[number], true.shape[1])
            given[number] = np.bincount(who, minlength=sources)
            right[number] = np.bincount(who[code == true[number][what]], minlength=sources)
        overall = (right.sum(axis=0) + 1.4) / (given.sum(axis=0) + 2)
        accuracy = np.clip((right + SHARED * overall) / (given + SHARED), 0.02, 0.99)
        if np.array_equal(before, true):
            break
    known = of >= 0
    return Verdicts(np.where(known, true[:, of], -1), np.where(known, lead[:, of], 0.0))


Told = tuple[I64, I64, I64]
"""Reports sorted by thing: who, of what, which code."""


def _told(cells: CodedCells, column: int, rows: I64, by: I32, of: I32) -> Told:
    texts = cells.texts(column)
    rank = np.empty(len(texts), dtype=np.int64)
    rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    code = cells.codes[column][rows].astype(np.int64)
    known = code >= 0
    rows, code = rows[known], code[known]
    order = np.lexsort((rank[code], by[rows], of[rows]))
    rows, code = rows[order], code[order]
    who, what = by[rows].astype(np.int64), of[rows].astype(np.int64)
    first = np.ones(rows.size, dtype=np.bool_)
    first[1:] = (who[1:] != who[:-1]) | (what[1:] != what[:-1])
    return who[first], what[first], code[first]


def _alike(told: list[Told], sources: int, things: int) -> list[F64]:
    """By column the square of how often two sources say the same of the same thing; few reports lean on all columns."""
    same, both = [], []
    for who, what, code in told:
        table = np.full((sources, things), -1, dtype=np.int64)
        table[who, what] = code
        known = (table >= 0).astype(np.float64)
        both.append(known @ known.T)
        same.append(np.stack([((table == line) & (line >= 0)).sum(axis=1) for line in table]).astype(np.float64))
    overall = sum(same) / np.maximum(sum(both), 1)
    found = []
    for agree, reports in zip(same, both, strict=True):
        share = np.where(reports >= 3, (agree + 2 * overall) / (reports + 2), 0.0) ** 2
        np.fill_diagonal(share, 0)
        found.append(share)
    return found


def _heaviest(who: I64, what: I64, code: I64, strength: F64, alike: F64, things: int) -> tuple[I64, F64]:
    """The heaviest value of each thing that two sources report on, and its lead; none where two weigh the same."""
    true, lead = np.full(things, -1, dtype=np.int64), np.zeros(things)
    starts = np.searchsorted(what, np.arange(things + 1))
    for thing in np.flatnonzero(np.diff(starts) >= 2).tolist():
        part = slice(starts[thing], starts[thing + 1])
        here, codes = who[part], code[part]
        copies = (alike[np.ix_(here, here)] * (codes[:, None] == codes)).sum(axis=1)
        values, at = np.unique(codes, return_inverse=True)
        weights = np.round(np.bincount(at, weights=strength[here] / (1 + copies)), 9)
        order = np.argsort(-weights, kind="stable")
        ahead = float(weights[order[0]] - (weights[order[1]] if order.size > 1 else 0.0))
        if ahead > 0:
            true[thing], lead[thing] = values[order[0]], ahead
    return true, lead
