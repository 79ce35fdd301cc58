"""What a column says of its own values: never empty, one of a few, within a range, of one length, of one shape.

A form is told where all rows keep to it, or all but a few (`NEARLY`). A shape is written as runs of digits, capital
and small letters and the signs between them: `AB-1234` is `^[A-Z]{2}-[0-9]{4}$`, with as many of each as rows have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.values import family_of
from holdstrue.errors import HoldstrueError
from holdstrue.rules.bodies import Demand, NotNull
from holdstrue.rules.parser import parse_body
from holdstrue.rules.terms import Constant
from holdstrue.rules.text import constant_text, names_text

NEARLY = 0.02
"""The largest share of rows that break a form which is told, where no other error is allowed. Chosen, not tuned."""

LEAST_CELLS = 20
"""Known cells of a column that say what is usual in it."""

MOST_ALLOWED, EACH = 20, 10
"""Values that a list has at most, and rows for each of them at least, on average. Chosen, not tuned."""

FAR = 20
"""How many spans of the middle 95% a number lies outside to be left out of a range."""

LONGEST = 12
"""Runs of signs that a shape has at most."""

_ORDERED = ("integer", "float", "decimal", "date")
_LISTED = ("text", "integer", "bool")
_RUNS = (("9", "[0-9]"), ("A", "[A-Z]"), ("a", "[a-z]"))
"""How the runs of a shape are written here, and in a pattern."""


@dataclass(frozen=True)
class ColumnForm:
    """A rule about one column: how many rows break it, and how much it says by itself, between 0 and 1."""

    body: NotNull | Demand
    column: str
    broken: int
    worth: float
    implied: bool = False


def column_forms(column: pa.ChunkedArray, name: str, most: float) -> Iterator[ColumnForm]:
    """The forms of a column that all but a share of its rows keep to. Complexity: O(rows)."""
    rows, known = len(column), len(column) - column.null_count
    family = family_of(column.type)
    if known < LEAST_CELLS or family is None:
        return
    if column.null_count <= most * rows:
        yield ColumnForm(NotNull((name,)), name, column.null_count, 0.5)
    shown = names_text((name,))
    values = pc.drop_null(column.combine_chunks() if column.num_chunks > 1 else column)
    counted = pc.value_counts(values)
    kinds, counts = counted.field("values"), counted.field("counts").to_numpy(zero_copy_only=False)
    allowed = list(_allowed(kinds, counts, most)) if family in _LISTED else []
    for broken, some in allowed:
        text = ", ".join(constant_text(Constant(value)) for value in some)
        yield from _told(f"{shown} in ({text})", name, broken, known / (known + 20 * len(some)))
    if family == "text":
        yield from _shapes(kinds, counts, name, shown, most, listed=bool(allowed))
    if family in _ORDERED and not allowed and len(kinds) < known:
        for broken, low, high in _range(kinds, counts, most):
            text = f"{shown} between {constant_text(Constant(low))} and {constant_text(Constant(high))}"
            yield from _told(text, name, broken, 0.3)


def _told(text: str, name: str, broken: int, worth: float, *, implied: bool = False) -> Iterator[ColumnForm]:
    """The form, where the language of rules can say it."""
    try:
        body = parse_body(text).body
    except HoldstrueError:
        return
    if isinstance(body, Demand):
        yield ColumnForm(body, name, broken, worth, implied)


def _allowed(kinds: pa.Array, counts: np.ndarray, most: float) -> Iterator[tuple[int, list[Any]]]:
    """The few values that all rows have, or all but those with values that hardly any has."""
    total, order = int(counts.sum()), np.argsort(-counts, kind="stable")
    usual = order[counts[order] > most * total / 4] if order.size > MOST_ALLOWED or most else order
    if order.size <= MOST_ALLOWED and total >= EACH * order.size and counts.min() >= EACH:
        usual = order
    broken = total - int(counts[usual].sum())
    if 1 < usual.size <= MOST_ALLOWED and total >= EACH * usual.size and broken <= most * total:
        yield broken, sorted(kinds[int(at)].as_py() for at in usual)


def _shapes(
    kinds: pa.Array, counts: np.ndarray, name: str, shown: str, most: float, *, listed: bool
) -> Iterator[ColumnForm]:
    total, fixed = int(counts.sum()), False
    runs = kinds
    for sign, pattern in _RUNS:
        runs = pc.replace_substring_regex(runs, f"{pattern}+", sign)
    coded = runs.dictionary_encode()
    of = coded.indices.to_numpy(zero_copy_only=False)
    weights = np.bincount(of, weights=counts, minlength=len(coded.dictionary)).astype(np.int64)
    best = int(weights.argmax())
    shape, broken = coded.dictionary[best].as_py(), total - int(weights[best])
    if broken <= most * total and len(shape) + (shape == "9") > 1 and len(shape) <= LONGEST and not shape.isalpha():
        parts, fixed = _pattern(shape, kinds.filter(pa.array(of == best)))
        yield from _told(
            f"{shown} matches {constant_text(Constant(f'^{parts}$'))}",
            name,
            broken,
            0.9 * total / (total + 100),
            implied=listed,
        )
    lengths = pc.utf8_length(kinds).to_numpy(zero_copy_only=False)
    sizes = np.bincount(lengths, weights=counts).astype(np.int64)
    usual = int(sizes.argmax())
    off = total - int(sizes[usual])
    if usual and off <= most * total:
        yield from _told(f"len({shown}) = {usual}", name, off, 0.6 * total / (total + 100), implied=listed or fixed)


def _pattern(shape: str, values: pa.Array) -> tuple[str, bool]:
    """A shape with as many signs in its runs as values have; and whether that is always the same number."""
    known = dict(_RUNS)
    captured = "".join(f"(?P<g{at}>{known[s]}+)" if s in known else re.escape(s) for at, s in enumerate(shape))
    groups = pc.extract_regex(values, f"^{captured}$")
    parts, fixed = [], True
    for at, sign in enumerate(shape):
        if sign not in known:
            parts.append(sign if sign.isalnum() or sign in " _-:/,@#%&=;~!<>" else f"\\{sign}")
            continue
        sizes = pc.min_max(pc.utf8_length(groups.field(f"g{at}"))).as_py()
        fixed &= sizes["min"] == sizes["max"]
        many = f"{sizes['min']}" if sizes["min"] == sizes["max"] else f"{sizes['min']},{sizes['max']}"
        parts.append(known[sign] + ("" if many == "1" else f"{{{many}}}"))
    return "".join(parts), fixed


def _range(kinds: pa.Array, counts: np.ndarray, most: float) -> Iterator[tuple[int, Any, Any]]:
    """The least and the greatest value, without those that lie far outside of the others."""
    total = int(counts.sum())
    if pa.types.is_floating(kinds.type):
        # NaN lies behind all numbers
        finite = pc.is_finite(kinds)
        kinds, counts = kinds.filter(finite), counts[finite.to_numpy(zero_copy_only=False)]
    beside = total - int(counts.sum())
    if not len(kinds) or beside > most * total:
        return
    order = pc.sort_indices(kinds).to_numpy(zero_copy_only=False)
    ordered, weights = kinds.take(pa.array(order)), counts[order]
    numbers = _numbers(ordered)
    ends = np.searchsorted(np.cumsum(weights), np.array([0.025, 0.975]) * weights.sum())
    low, high = numbers[np.minimum(ends, numbers.size - 1)]
    near = np.abs(numbers - np.clip(numbers, low, high)) <= FAR * max(high - low, abs(high) * 1e-3)
    broken = beside + int(weights[~near].sum())
    if broken > most * total:
        near[:], broken = True, beside
    places = np.flatnonzero(near)
    yield broken, ordered[int(places[0])].as_py(), ordered[int(places[-1])].as_py()


def _numbers(values: pa.Array) -> np.ndarray:
    if pa.types.is_date(values.type):
        values = values.cast(pa.date32()).cast(pa.int32())
    return values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
