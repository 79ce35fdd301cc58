"""Discovered keys and FDs with what they are worth, and those that only a few rows break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.limits import NO_LIMIT, Weighed, within
from holdstrue.discovery.dependencies.near import NearMiss, believable, suspects
from holdstrue.discovery.dependencies.ranking import (
    MOST_RELATED,
    Dependency,
    Profile,
    fd_score,
    follow_from_others,
    key_score,
)
from holdstrue.discovery.dependencies.validation import Validator
from holdstrue.kernels import antichains
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.rules.model import DC, FD, Body, Column, Key, Op, Predicate
from holdstrue.typing import I64, U64

BodyOf = Callable[[int, U64], Body]


def members(line: U64) -> list[int]:
    """The columns of a set."""
    return np.flatnonzero(np.unpackbits(np.ascontiguousarray(line).view(np.uint8), bitorder="little")).tolist()


def body_of(target: int, line: U64, names: tuple[str, ...]) -> Body:
    """A dependency as a rule; that of no columns on the left says that no two rows differ in the target."""
    columns = tuple(names[i] for i in members(line))
    if target == len(names):
        return Key(columns)
    name = names[target]
    if not columns:
        return DC((Predicate(Column("t", name), Op.NE, Column("s", name)),))
    return FD(columns, (name,))


def judged(
    lines: U64,
    targets: I64,
    body: BodyOf,
    extents: I64,
    columns: list[Profile],
    rows: int,
    known_rows: Callable[[list[int]], int],
    *,
    nulls_equal: bool,
) -> tuple[Dependency, ...]:
    """Dependencies with their measures, the best first. `extents` are rows and groups of the left sides.

    `known_rows` counts the rows in which all of some columns are known.
    """
    many = len(columns)
    keys = lines[targets == many]
    with_key = np.zeros(targets.size, dtype=np.bool_)
    antichains.contained(np.ascontiguousarray(lines), np.ascontiguousarray(keys), with_key)
    found = []
    for line, target, (support, groups), keyed in zip(lines, targets.tolist(), extents.tolist(), with_key, strict=True):
        left = [columns[i] for i in members(line)]
        if target == many:
            full = all(column.known == rows for column in left)
            known = rows if full and left else known_rows(members(line))
            found.append(Dependency(body(target, line), key_score(left, rows), known, 0))
        else:
            score = fd_score(left, columns[target], support, groups, rows)
            implied = bool(keyed) or (support == 0 and rows > 1)
            found.append(Dependency(body(target, line), score, support, groups, implied_by_key=implied))
    order = sorted(range(len(found)), key=lambda i: (-found[i].score, targets[i], lines[i].tolist()))
    chosen = [i for i in order if targets[i] < many and not found[i].implied_by_key][:MOST_RELATED]
    if chosen:
        middle = np.zeros(lines.shape[1], dtype=np.uint64)
        for i, column in enumerate(columns):
            if nulls_equal or column.known == rows:
                middle[i >> 6] |= np.uint64(1 << (i & 63))
        for i, implied in zip(chosen, follow_from_others(lines[chosen], targets[chosen], middle), strict=True):
            found[i] = replace(found[i], implied=implied)
    return tuple(found[i] for i in order)


def near_misses(
    codes: Codes,
    validator: Validator,
    targets: list[int],
    body: BodyOf,
    columns: list[Profile],
    most: int,
    max_lhs: int,
) -> tuple[tuple[NearMiss, ...], bool]:
    """Minimal keys and FDs of up to `max_lhs` columns that at most `most` rows break, the most believable first.

    And whether all were looked for.
    """
    rows = int(np.count_nonzero(codes.alive[: codes.used]))
    limits = np.array([NO_LIMIT, most], dtype=np.int64)
    weighed, whole = within(validator, len(columns), targets, limits, max_lhs)
    found = []
    for one in weighed:
        left = [columns[i] for i in members(one.line)]
        target = columns[one.target] if one.target < len(columns) else None
        if believable(left, target, one.counts, rows):
            found.append(_near_miss(codes, validator, one, body, left, target, rows))
    return tuple(sorted(found, key=lambda miss: (-miss.score, miss.pairs, str(miss.body)))), whole


def _near_miss(
    codes: Codes,
    validator: Validator,
    one: Weighed,
    body: BodyOf,
    left: list[Profile],
    target: Profile | None,
    rows: int,
) -> NearMiss:
    column = None if target is None else codes.matrix[one.target]
    pairs = suspects(column, *validator.rows_of(one.line))
    slots = sorted((int(codes.slots[gone]), int(codes.slots[stays])) for gone, stays in pairs)
    support = int(one.counts[SUPPORT])
    score = (
        key_score(left, rows) if target is None else fd_score(left, target, support, int(one.counts[GATHERED]), rows)
    )
    return NearMiss(
        body=body(one.target, one.line),
        pairs=int(one.counts[OFFENDING]),
        error=int(one.counts[SURPLUS]) / rows,
        suspects=tuple(gone for gone, _ in slots),
        witnesses=tuple(slots),
        support=support,
        score=score,
    )
