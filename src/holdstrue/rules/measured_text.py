"""Rules about whole tables read from text: `count() > 1000`, `fresh(updated_at) < 2 days`, `sum(a) = other.sum(b)`."""

from __future__ import annotations

import math
from decimal import Decimal

from holdstrue.operators import SYMBOLS, Op
from holdstrue.rules.bodies import Measured
from holdstrue.rules.denial import Parsed
from holdstrue.rules.measure import FUNCTIONS, UNITS, Amount, Bound, Measure
from holdstrue.rules.tokens import Cursor, Token, name_text

EXAMPLES = "count() > 1000, sum(total) = lines.sum(amount), max(age) <= 120, fresh(updated_at) < 2 days"
_LIKE = f"rules about a whole table look like {EXAMPLES}"
_NUMBER = "hold it against a number, as in count() > 1000, or against another measure"
_PERIOD = f"write a number and a unit ({', '.join(f'{unit}s' for unit in UNITS)}): fresh(updated_at) < 2 days"

_MEANT = {
    **dict.fromkeys(("row_count", "rowcount", "rows", "count_rows", "num_rows", "len", "length", "size"), "count()"),
    **dict.fromkeys(("age", "freshness", "newest", "recent", "latest"), "fresh(column) < 2 days"),
    **dict.fromkeys(("avg", "mean", "average"), "a bound on sum(column) and one on count(column)"),
    "total": "sum(column)", "minimum": "min(column)", "maximum": "max(column)", "missing_count": "not null(column)",
    "duplicate_count": "key(column)", "count_distinct": "key(column)", "distinct": "key(column)",
}  # fmt: skip
"""What other tools call measures, and what to write here."""


def is_measured(cursor: Cursor) -> bool:
    """Whether a text begins with a measure, or with a constant that is compared with one."""
    if _measure_at(cursor, 0):
        return True
    flipped = cursor.sees_constant() and cursor.peek(1).word in SYMBOLS
    return flipped and cursor.peek(1).kind == "symbol" and _measure_at(cursor, 2)


def measure_meant(cursor: Cursor) -> str | None:
    """What to write for a measure of another tool that a text begins with; None where it begins with none."""
    if cursor.peek().kind == "name" and cursor.peek(1).word == "(":
        meant = _MEANT.get(cursor.peek().word)
        return None if meant is None else f"write {meant}; {_LIKE}"
    return None


def _measure_at(cursor: Cursor, at: int) -> bool:
    """Whether names with dots between them end in a function and a bracket."""
    while cursor.peek(at).kind in ("name", "quoted", "double") and cursor.peek(at + 1).word == ".":
        at += 2
    return cursor.peek(at).kind == "name" and cursor.peek(at).word in FUNCTIONS and cursor.peek(at + 1).word == "("


def parse_measured(cursor: Cursor) -> Parsed:
    """Read a comparison of a measure with a constant or another measure, or `measure between a and b`."""
    spans: list[tuple[str, int, int]] = []
    start = cursor.peek()
    if not _measure_at(cursor, 0):
        amount = _amount(cursor, _NUMBER)
        op = cursor.operator(_LIKE)
        left = _measure(cursor, spans)
        bounds: tuple[Bound, ...] = (Bound(op.flipped, amount),)
    else:
        left = _measure(cursor, spans)
        bounds = _bounds(cursor, spans)
    cursor.finish()
    _check_sides(cursor, left, bounds, start)
    return Parsed(Measured(left, bounds), tuple(spans))


def _bounds(cursor: Cursor, spans: list[tuple[str, int, int]]) -> tuple[Bound, ...]:
    if cursor.accept("between"):
        low = _amount(cursor, _NUMBER)
        cursor.expect("and", "between the two bounds")
        return Bound(Op.GE, low), Bound(Op.LE, _amount(cursor, _NUMBER))
    op = cursor.operator(_LIKE)
    if _measure_at(cursor, 0):
        return (Bound(op, _measure(cursor, spans)),)
    return (Bound(op, _amount(cursor, _NUMBER)),)


def _measure(cursor: Cursor, spans: list[tuple[str, int, int]]) -> Measure:
    """`[table.]function([column])` or `function(table.column)`."""
    path: list[Token] = []
    while not cursor.sees(cursor.peek().word, "("):
        path.append(cursor.name("a table name or a measure", _LIKE))
        cursor.expect(".", "between a table and its measure", _LIKE)
    called = cursor.take()
    if called.word not in FUNCTIONS:
        cursor.fail(f"there is no measure {called.value!r}", at=called, hint=_LIKE)
    function = FUNCTIONS[called.word]
    cursor.expect("(", "after the name of a measure", _LIKE)
    inside: list[Token] = []
    if not cursor.sees(")"):
        inside.append(cursor.name("a column name"))
        while cursor.accept("."):
            inside.append(cursor.name("a column name"))
    cursor.expect(")", "after the column of a measure")
    if function != "count" and not inside:
        cursor.fail(f"{function} of which column?", at=called, end=cursor.last, hint=f"write {function}(column)")
    if path and len(inside) > 1:
        cursor.fail("the table is named twice", at=path[0], end=cursor.last, hint="name it once: orders.sum(total)")
    table = ".".join(token.value for token in path or inside[:-1]) or None
    column = inside[-1].value if inside else None
    measure = Measure(function, column, table)
    first = path[0] if path else called
    spans.append((measure.text, first.start, cursor.last.end))
    if inside:
        spans.append((inside[-1].value, inside[-1].start, inside[-1].end))
        if table is not None:
            spans.append((f"{table}.{column}", inside[-1].start, inside[-1].end))
    if table is not None:
        named = path or inside[:-1]
        spans.append((table, named[0].start, named[-1].end))
    return measure


def _amount(cursor: Cursor, hint: str) -> Amount:
    constant = cursor.constant(hint)
    unit = cursor.peek()
    if unit.kind != "name" or unit.word in ("and", "or"):
        return Amount(constant)
    word = unit.word.removesuffix("s")
    if word not in UNITS:
        cursor.fail(f"there is no unit {unit.value!r}", at=unit, hint=_PERIOD)
    cursor.take()
    return Amount(constant, word)


def _check_sides(cursor: Cursor, left: Measure, bounds: tuple[Bound, ...], start: Token) -> None:
    """A freshness is held against lengths of time, all else against plain constants; both tables must be told."""
    fresh = left.function == "fresh"
    for bound in bounds:
        right = bound.right
        if isinstance(right, Measure):
            if fresh or right.function == "fresh":
                cursor.fail("freshness is held against a length of time", at=start, end=cursor.last, hint=_PERIOD)
            if left.table is not None and right.table is None:
                cursor.fail(
                    f"of which table is {right.text}?",
                    at=start,
                    end=cursor.last,
                    hint=f"name it: {name_text(left.table)}.{right.text}, if it is of the same table",
                )
            continue
        value = right.constant.value
        number = isinstance(value, int | float | Decimal) and not isinstance(value, bool) and math.isfinite(value)
        timed = number and right.unit is not None
        if fresh and not timed:
            cursor.fail("freshness is held against a length of time", at=start, end=cursor.last, hint=_PERIOD)
        if fresh and not bound.op.is_order:
            cursor.fail(f"freshness by {bound.op}", at=start, end=cursor.last, hint="write fresh(updated_at) < 2 days")
        if not fresh and right.unit is not None:
            cursor.fail(
                f"{left.function} is no length of time",
                at=start,
                end=cursor.last,
                hint="leave the unit out, or use fresh",
            )
