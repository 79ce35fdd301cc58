"""How much a discovered rule says: measures of keys and FDs, and a score between 0 and 1 made of them.

An FD is worth more the more rows could have broken it. Its score is the product of

- the root of the share of rows that have a partner with the same left side,
- e / (e + 10), where e is how many of these rows would differ from their partners if the right side
  were drawn at random: (rows with a partner - groups) * (1 - share of the right side's commonest value),
- 1 / (1 + (columns on the left - 1) / 4).

A key is worth more the less it is a matter of chance. Its score is the product of

- for each column what its type makes of it: 1 for text and integers called like a key (id, code, ...),
  0.8 for others, 0.5 for dates and times, 0.3 for booleans, 0.15 for fractions, which are measures;
- the share of rows in which all its columns are known,
- for several columns e / (e + 1), where e is how many pairs of rows would be equal if the columns
  were independent: pairs / product of the numbers of distinct values,
- 1 / (1 + (columns - 1) / 4).

Keys and FDs that a handful of rows break are near misses, and these rows likely wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from holdstrue.data.values import Family, family_of
from holdstrue.discovery.bitsets import members, set_of
from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.limited_search import NO_LIMIT, within
from holdstrue.discovery.dependencies.validation import Validator
from holdstrue.discovery.found import NearMiss
from holdstrue.kernels import antichains
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.rules.model import DC, FD, Body, Column, Key, Op, Predicate
from holdstrue.typing import I32, I64, U64

KEY_NAMES = re.compile(
    r"(?:^|[\W_])(?:id|ids|key|code|no|nr|num|number|uuid|guid|sku|isbn|iban|ssn|ean|iata|icao|email|login)(?:$|[\W_])"
    r"|[a-z](?:Id|ID|Key|Code|No|Nr|Number)$",
)
_TYPES: dict[Family | None, float] = {
    "text": 0.8, "bytes": 0.8, "integer": 0.8, "float": 0.15, "decimal": 0.15, None: 0.15, "bool": 0.3, "null": 0.0,
    "date": 0.5, "time": 0.5, "timestamp": 0.5, "zoned": 0.5, "duration": 0.15,
}  # fmt: skip
_CHANCE = 10.0

BodyOf = Callable[[int, U64], Body]
"""The rule of a target and a left side."""


@dataclass(frozen=True)
class Dependency:
    """A discovered key, FD or constant column with its measures.

    `support` are the rows that have a partner with the same left side (for a key: the rows in which it
    is known), `groups` how many groups they form; `error` is the share of pairs, or of rows to
    remove, that break it: 0 unless an error was allowed. `implied_by_key`: the left side holds a key, so
    the FD says nothing more. `implied`: it follows from better rules by transitivity.
    """

    body: Body
    score: float
    support: int
    groups: int
    error: float = 0.0
    implied_by_key: bool = False
    implied: bool = False


@dataclass(frozen=True)
class Profile:
    """What ranking has to know of a column."""

    name: str
    quality: float
    distinct: int
    known: int
    commonest: float
    """Share of the commonest value among known ones."""


def profiles(codes: Codes, schema: pa.Schema) -> list[Profile]:
    """Look at every column. Complexity: O(values)."""
    members = codes.members()
    found = []
    for number, name in enumerate(codes.names):
        column = codes.matrix[number][members]
        counts = np.bincount(column[column >= 0], minlength=1)
        known = int(counts.sum())
        commonest = int(counts.max()) / known if known else 1.0
        quality = quality_of(schema.field(name))
        found.append(Profile(name, quality, int(np.count_nonzero(counts)), known, commonest))
    return found


def quality_of(field: pa.Field) -> float:
    """What the type and the name of a column make of it as a part of keys."""
    quality = _TYPES[family_of(field.type)]
    return 1.0 if quality == 0.8 and KEY_NAMES.search(field.name) else quality


def _brevity(columns: int) -> float:
    return 1 / (1 + max(0, columns - 1) / 4)


def surprise(support: int, groups: int, target: Profile) -> float:
    """Rows that would break an FD if its right side were drawn at random."""
    return max(0, support - groups) * (1 - target.commonest)


def fd_score(left: list[Profile], target: Profile, support: int, groups: int, rows: int) -> float:
    """The score of an FD. A constant column has all rows in one group, and so scores by how many there are."""
    if not rows or not support:
        return 0.0
    share = float(np.sqrt(support / rows))
    if not left:
        return share * target.known / (target.known + 10 * _CHANCE) * 0.5
    expected = surprise(support, groups, target)
    return share * expected / (expected + _CHANCE) * _brevity(len(left))


def chance(columns: list[Profile], rows: int) -> float:
    """How many pairs of rows would agree on all columns if these were independent."""
    pairs = rows * (rows - 1) / 2
    return float(pairs / np.prod([float(max(1, column.distinct)) for column in columns]))


def key_score(columns: list[Profile], rows: int) -> float:
    """The score of a key."""
    if not rows:
        return 0.0
    score = _brevity(len(columns))
    for column in columns:
        score *= column.quality * column.known / rows
    if len(columns) > 1:
        expected = chance(columns, rows)
        score *= expected / (expected + 1)
    return score


def body_of(target: int, line: U64, names: tuple[str, ...]) -> Body:
    """A dependency as a rule; that of no columns on the left says that no two rows differ in the target."""
    columns = tuple(names[i] for i in members(line))
    if target == len(names):
        return Key(columns)
    name = names[target]
    if not columns:
        return DC((Predicate(Column("t", name), Op.NE, Column("s", name)),))
    return FD(columns, (name,))


def columns_of(body: Body) -> tuple[tuple[str, ...], str | None]:
    """The left side and the right column of a discovered rule; a key has none on the right."""
    match body:
        case Key(columns):
            return columns, None
        case FD(lhs, (rhs,)):
            return lhs, rhs
        case DC((predicate,)):
            return (), predicate.left.name
    raise ValueError(f"not a discovered dependency: {body}")


MOST_RELATED = 600
"""So many of the best FDs are looked through for those that follow from others. Chosen, not tuned."""


def follow_from_others(lefts: U64, targets: I64, middle: U64) -> list[bool]:
    """Which FDs, given best first, follow from others by transitivity through the columns of `middle`.

    With NULL as unknown an FD carries over only through columns that are never NULL. Of FDs that follow
    from each other the better ones stay. Complexity: O(dependencies^2 * columns).
    """
    words = lefts.shape[1]
    gains = np.zeros((targets.size, words), dtype=np.uint64)
    gains[np.arange(targets.size), targets >> 6] = np.uint64(1) << (targets & 63).astype(np.uint64)
    kept = np.ones(targets.size, dtype=np.bool_)
    for i in range(targets.size - 1, -1, -1):
        kept[i] = False
        reached, usable = lefts[i].copy(), lefts[i].copy()
        while True:
            fires = kept & ((lefts & usable) == lefts).all(axis=1)
            wider = np.bitwise_or.reduce(gains[fires], axis=0, initial=0) | reached
            if (wider & gains[i]).any():
                break
            if (wider == reached).all():
                kept[i] = True
                break
            reached, usable = wider, lefts[i] | (wider & middle)
    return (~kept).tolist()


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
        whole = (i for i, column in enumerate(columns) if nulls_equal or column.known == rows)
        middle = set_of(whole, lines.shape[1])
        for i, implied in zip(chosen, follow_from_others(lines[chosen], targets[chosen], middle), strict=True):
            found[i] = replace(found[i], implied=implied)
    return tuple(found[i] for i in order)


CONFIRMED = 20
"""Rows that must follow a near miss for each that breaks it, and in all. Chosen, not tuned."""

UNLIKELY = 0.1
"""A near miss breaks at most this share of what would break it by chance. Chosen, not tuned."""

LIKE_A_KEY = 0.5
"""Columns of a worse quality for keys (dates, measures) make no near key."""


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
    rows = codes.rows
    limits = np.array([NO_LIMIT, most], dtype=np.int64)
    weighed, whole = within(validator, len(columns), targets, limits, max_lhs)
    found = []
    for one in weighed:
        left = [columns[i] for i in members(one.line)]
        target = columns[one.target] if one.target < len(columns) else None
        if not believable(left, target, one.counts, rows):
            continue
        # for each row that should go it and one that it disagrees with, as slots
        pairs = suspects(None if target is None else codes.matrix[one.target], *validator.rows_of(one.line))
        slots = tuple(sorted((int(codes.slots[gone]), int(codes.slots[stays])) for gone, stays in pairs))
        support, groups = int(one.counts[SUPPORT]), int(one.counts[GATHERED])
        score = key_score(left, rows) if target is None else fd_score(left, target, support, groups, rows)
        measures = {"score": round(score, 4), "pairs": int(one.counts[OFFENDING]), "support": support}
        error = int(one.counts[SURPLUS]) / rows
        miss = NearMiss(body(one.target, one.line), len(slots), error, slots, measures=measures)
        found.append((score, miss))
    found.sort(key=lambda rated: (-rated[0], rated[1].measures["pairs"], str(rated[1].body)))
    return tuple(miss for _, miss in found), whole


def believable(left: list[Profile], target: Profile | None, counts: I64, rows: int) -> bool:
    """Whether a near miss is more than chance: followed by many rows, and by more than random values would."""
    surplus, support, groups = int(counts[SURPLUS]), int(counts[SUPPORT]), int(counts[GATHERED])
    if surplus == 0:
        return False
    if target is None:
        known = min((column.known for column in left), default=0)
        unlikely = len(left) < 2 or int(counts[OFFENDING]) <= UNLIKELY * chance(left, rows)
        sound = bool(left) and min(column.quality for column in left) > LIKE_A_KEY
        return sound and unlikely and known >= CONFIRMED * (surplus + 1)
    confirmed = support - groups - surplus
    return confirmed >= CONFIRMED * surplus and surplus <= UNLIKELY * surprise(support, groups, target)


def suspects(column: I32 | None, rows: I32, starts: I32) -> list[tuple[int, int]]:
    """Rows that should go, each with one that stays; `column` holds the right side's codes (None: a key).

    In every group the commonest value stays, of equally common ones the first. Complexity: O(rows).
    """
    if column is None:
        return [(int(row), int(rows[start])) for start, end in pairwise(starts) for row in rows[start + 1 : end]]
    if starts.size < 2:
        return []
    codes = column[rows]
    highest = np.maximum.reduceat(codes, starts[:-1])
    lowest = np.minimum.reduceat(np.where(codes < 0, np.iinfo(np.int32).max, codes), starts[:-1])
    found = []
    for g in np.flatnonzero((highest >= 0) & (highest != lowest)):
        members, values = rows[starts[g] : starts[g + 1]], codes[starts[g] : starts[g + 1]]
        kinds, first, counts = np.unique(values[values >= 0], return_index=True, return_counts=True)
        # the first of the commonest values, in the order of rows
        best = kinds[np.lexsort((first, -counts))[0]]
        stays = int(members[values == best][0])
        found += [(int(row), stays) for row in members[(values >= 0) & (values != best)]]
    return found
