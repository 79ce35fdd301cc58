"""Rules that the counts of a column speak for, exactly or with a few exceptions.

At most one of these is told of a column, the first that fits at least 95% of its values:

- *between*: whole numbers that fill what lies between two of them (months, years, grades) three times in four.
- *one of*: up to twenty values, each five times as common as any other value, and in ten cells on average.
- *matches*: up to three shapes, each in at least a twentieth of the cells; or up to two loose ones. Words and names
  have no form: a shape has a digit or a sign in it, or is nothing but capital letters.
- *length*: more than twenty texts of one length, two characters at least.

Beside it, *not null* where at most 5% of the cells are NULL, and *not negative* where at most 1% of the numbers are.
Nothing is said of a column with fewer than twenty known cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any as Anything

from holdstrue.discovery.columns.profile import LONGEST_VALUE, ColumnProfile
from holdstrue.operators import Op
from holdstrue.rules.bodies import Demand, NotNull
from holdstrue.rules.terms import All, Any, Comparison, Condition, Constant, Length, Matches

LEAST_CELLS = 20
"""Known cells that say what is usual in a column."""

FEW = 0.05
"""What is usual is in all but this share of the cells."""

FEW_NEGATIVE = 0.01
"""Numbers below zero are errors only where they are rarer than other exceptions: most columns have none."""

MOST_VALUES, TIMES, LEAST_EACH = 20, 5, 5
"""An enumeration has so many values at most; each is so many times as common as those that do not belong, and in so
many cells at least."""

FILLED, LEAST_FILLED = 0.75, 5
"""The share of whole numbers between two that occur, and how many do at least. Numbers that fill half of what lies
between them are no enumeration either."""

MAIN, MOST_SHAPES, MOST_FORMS = 0.05, 3, 2
"""The least share of the cells with a main shape, and how many main shapes and loose ones a column has at most."""

SCORES = {"matches": 0.76, "one of": 0.755, "between": 0.75, "length": 0.745, "not null": 0.5, "not negative": 0.45}
"""Above denial constraints that only say what data looks like, below keys and FDs. Chosen by looking at hospital, tax,
flights and adult, not tuned."""

ESCAPED = r".+()*?$|\[]{}^"
SIGNS = ESCAPED + "-_/:,;@#%&'\" "
"""What beside letters and digits a shape may hold; some of it means something else in patterns."""


@dataclass(frozen=True)
class ColumnRule:
    """A rule about one column, how many rows speak for it, and how many break it."""

    body: Demand | NotNull
    score: float
    support: int
    broken: int
    rows: int


def rules_of(name: str, profile: ColumnProfile) -> list[ColumnRule]:
    """What the counts of a column speak for. Complexity: O(what is tallied).

    Examples
    --------
    >>> import pyarrow as pa
    >>> zips = ColumnProfile.of(pa.chunked_array([["10115"] * 30 + ["20095"] * 30 + ["2009x", None]]))
    >>> [(rule.body.text, rule.broken) for rule in rules_of("zip", zips)]
    [("zip in ('10115', '20095')", 1), ('not null(zip)', 1)]
    """
    if profile.known < LEAST_CELLS:
        return []
    found = []
    told = next(_forms(name, profile), None)
    if told is not None:
        found.append(_judged(profile, *told))
    elif profile.family in ("integer", "float", "decimal") and profile.negative <= FEW_NEGATIVE * profile.known:
        body = Demand(Comparison(name, Op.GE, Constant(0)))
        found.append(_judged(profile, "not negative", body, profile.known - profile.negative))
    nulls = profile.rows - profile.known
    if nulls <= FEW * profile.rows:
        score = SCORES["not null"] * (1 - nulls / profile.rows) ** 2
        found.append(ColumnRule(NotNull((name,)), score, profile.known, nulls, profile.rows))
    return found


def _judged(profile: ColumnProfile, kind: str, body: Demand, fits: int) -> ColumnRule:
    broken = profile.known - fits
    score = SCORES[kind] * (1 - broken / profile.known) ** 2 * profile.known / profile.rows
    return ColumnRule(body, score, fits, broken, profile.rows)


def _forms(name: str, profile: ColumnProfile) -> Iterator[tuple[str, Demand, int]]:
    """What may be told of a column, the best first: its kind, the rule, and how many cells fit."""
    least = (1 - FEW) * profile.known
    tallies = {what: tally.counts for what, tally in profile.tallies.items() if tally.counts is not None}
    values = tallies.get("values", {})
    many = profile.family == "text" and ("values" not in tallies or len(values) > MOST_VALUES)
    makers = (
        ("between", _between(name, values) if profile.family == "integer" else None),
        ("one of", _one_of(name, values, profile.known)),
        ("matches", _matches(name, tallies.get("shapes", {}), profile.known, loose=False)),
        ("matches", _matches(name, tallies.get("forms", {}), profile.known, loose=True)),
        ("length", _length(name, tallies.get("lengths", {})) if many else None),
    )
    for kind, made in makers:
        if made is not None and made[1] >= least:
            yield kind, Demand(made[0]), made[1]


def _between(name: str, values: Mapping[int, int]) -> tuple[Condition, int] | None:
    """The stretch of whole numbers with the most rows in which nearly all occur."""
    best: tuple[int, int, int] | None = None
    numbers = sorted(values)
    # a gap of one number is no end
    starts = [0, *(at for at in range(1, len(numbers)) if numbers[at] - numbers[at - 1] > 2), len(numbers)]
    for first, end in pairwise(starts):
        part = numbers[first:end]
        rows = sum(values[number] for number in part)
        filled = len(part) >= FILLED * (part[-1] - part[0] + 1) if part else False
        if filled and len(part) >= LEAST_FILLED and rows >= 3 * len(part) and (best is None or rows > best[0]):
            best = rows, part[0], part[-1]
    if best is None:
        return None
    rows, low, high = best
    return All((Comparison(name, Op.GE, Constant(low)), Comparison(name, Op.LE, Constant(high)))), rows


def _one_of(name: str, values: Mapping[Anything, int], known: int) -> tuple[Condition, int] | None:
    """The fewest values that stand out: those that are left are rare, or there are none."""
    ranked = sorted(values, key=lambda value: (-values[value], value))
    rest = known
    for size, value in enumerate(ranked[:MOST_VALUES], start=1):
        rest -= values[value]
        following = values[ranked[size]] if size < len(ranked) else 0
        if size < 2 or rest > FEW * known or values[value] < max(LEAST_EACH, TIMES * following):
            continue
        chosen = sorted(ranked[:size])
        if known < LEAST_CELLS * size / 2 or any(isinstance(one, str) and len(one) > LONGEST_VALUE for one in chosen):
            return None
        if not isinstance(chosen[0], str) and size >= LEAST_FILLED and 2 * size >= chosen[-1] - chosen[0] + 1:
            return None
        return Any(tuple(Comparison(name, Op.EQ, Constant(one)) for one in chosen)), known - rest
    return None


def _matches(name: str, tally: Mapping[str, int], known: int, *, loose: bool) -> tuple[Condition, int] | None:
    """Main shapes; those that differ only in how long a run of letters or digits is make one pattern."""
    main = sorted(shape for shape, count in tally.items() if count >= MAIN * known)
    if not 0 < len(main) <= (MOST_FORMS if loose else MOST_SHAPES) or not all(map(_telling, main)):
        return None
    alike: dict[str, list[str]] = {}
    for shape in main:
        alike.setdefault(_form(shape), []).append(shape)
    patterns = [pattern_of(shapes, loose=loose) for shapes in alike.values()]
    fits = sum(count for shape, count in tally.items() if _within(shape, alike.get(_form(shape), ())))
    whole = patterns[0] if len(patterns) == 1 else f"({'|'.join(patterns)})"
    return Matches(name, f"^{whole}$"), fits


def _form(shape: str) -> str:
    return re.sub("9+", "9", re.sub("A+", "A", re.sub("a+", "a", shape)))


def _runs(shape: str) -> list[int]:
    """How long the runs of letters and digits are."""
    return [len(run) for run in re.findall("9+|A+|a+", shape)]


def _within(shape: str, alike: Sequence[str]) -> bool:
    """Whether each run of a shape is as long as those of some that are alike, or between."""
    among = list(map(_runs, alike))
    return bool(among) and all(min(own) <= size <= max(own) for size, *own in zip(_runs(shape), *among, strict=True))


def _telling(shape: str) -> bool:
    """Whether a shape is more than that of a word."""
    plain = all(sign.isascii() and (sign.isalnum() or sign in SIGNS) for sign in shape)
    return plain and (re.search(r"[^Aa ]", shape) is not None or re.fullmatch("A+", shape) is not None)


def pattern_of(alike: Sequence[str], *, loose: bool) -> str:
    """Shapes that differ in the lengths of runs alone, as the pattern of a rule.

    Examples
    --------
    >>> pattern_of(["AA-9999"], loose=False), pattern_of(["A-9", "A-999"], loose=False), pattern_of(["A.9"], loose=True)
    ('[A-Z]{2}-[0-9]{4}', '[A-Z]-[0-9]{1,3}', '[A-Z]+\\\\.[0-9]+')
    """
    classes = {"9": "[0-9]", "A": "[A-Z]", "a": "[a-z]"}
    sizes = iter(list(zip(*map(_runs, alike), strict=True)))
    parts = []
    for sign in _form(alike[0]):
        if sign not in classes:
            parts.append(f"\\{sign}" if sign in ESCAPED else sign)
            continue
        low, high = min(own := next(sizes)), max(own)
        times = "+" if loose else "" if low == high == 1 else f"{{{low}}}" if low == high else f"{{{low},{high}}}"
        parts.append(classes[sign] + times)
    return "".join(parts)


def _length(name: str, tally: Mapping[int, int]) -> tuple[Condition, int] | None:
    if not tally:
        return None
    size = max(tally, key=lambda length: (tally[length], -length))
    return (Length(name, Op.EQ, size), tally[size]) if size >= 2 else None
