"""Denial constraints put together from comparisons: whose variables they use, and which rows these are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdstrue.errors import RuleError
from holdstrue.rules.model import DC, Body, Column, Constant, Op, Predicate, Var
from holdstrue.rules.text import predicate_text
from holdstrue.rules.tokens import DENIAL, Cursor, quote

Spans = tuple[tuple[str, int, int], ...]

_CLOSING = {"(": ")", "{": "}", "[": "]"}
_OPERAND = "write a column as t.name or s.name, and text in 'quotes'"


@dataclass(frozen=True)
class Parsed:
    """A body and where its names stand in the text."""

    body: Body
    spans: Spans


@dataclass(frozen=True)
class WrittenColumn:
    """A column as written: its variable, None where the rule names none, and its place."""

    variable: str | None
    name: str
    start: int
    end: int


@dataclass(frozen=True)
class WrittenComparison:
    """A comparison as written, before its variables become t and s."""

    left: WrittenColumn | Constant
    op: Op
    right: WrittenColumn | Constant
    start: int
    end: int


def parse_denial(cursor: Cursor) -> Parsed:
    """Read `not(...)` with its other spellings: `!(...)`, `¬{...}`, `∀t,s: ¬(...)`."""
    declared = _declared(cursor) if cursor.accept("forall") else ()
    if not cursor.accept("not"):
        cursor.fail("expected not(...)", hint=DENIAL)
    opening = cursor.peek()
    if opening.kind != "symbol" or opening.word not in _CLOSING:
        cursor.fail("expected '(' after not", hint=f"{DENIAL}: not(t.a = s.a and t.b < s.b)")
    cursor.take()
    comparisons = _conjunction(cursor)
    cursor.expect(_CLOSING[opening.word], "to end the list", _joined_hint(cursor))
    cursor.finish()
    return assemble(cursor.text, comparisons, declared)


def assemble(text: str, comparisons: list[WrittenComparison], declared: tuple[str, ...] = ()) -> Parsed:
    """Name the variables t and s, put columns on the left, and note each place.

    A rule written with t and s keeps them. Other names become t and s in the order they are
    declared, by their number where they have one (`t1` before `t2`), otherwise as first met. The only
    variable of a rule is t, whatever it is called.
    """
    operands = [side for c in comparisons for side in (c.left, c.right) if isinstance(side, WrittenColumn)]
    roles = _roles(text, operands, declared)
    spans: dict[str, tuple[int, int]] = {}
    predicates = []
    for comparison in comparisons:
        left, op, right = comparison.left, comparison.op, comparison.right
        if isinstance(left, Constant):
            if isinstance(right, Constant):
                raise RuleError(
                    "this compares two constants",
                    text=text,
                    start=comparison.start,
                    end=comparison.end,
                    hint=f"{DENIAL}; at least one side must be a column such as t.age",
                )
            left, op, right = right, op.flipped, left
        sides = [
            Column(roles[side.variable], side.name) if isinstance(side, WrittenColumn) else side
            for side in (left, right)
        ]
        for side, column in zip((left, right), sides, strict=True):
            if isinstance(side, WrittenColumn) and isinstance(column, Column):
                spans.setdefault(f"{column.var}.{column.name}", (side.start, side.end))
        assert isinstance(sides[0], Column)
        predicate = Predicate(sides[0], op, sides[1])
        predicates.append(predicate)
        spans.setdefault(predicate_text(predicate), (comparison.start, comparison.end))
        if isinstance(sides[1], Column):
            turned = Predicate(sides[1], op.flipped, sides[0])
            spans.setdefault(predicate_text(turned), (comparison.start, comparison.end))
    return Parsed(DC(tuple(predicates)), tuple((name, *place) for name, place in spans.items()))


def _declared(cursor: Cursor) -> tuple[str, ...]:
    names = [cursor.name("a variable after forall").value]
    while cursor.accept(","):
        names.append(cursor.name("a variable").value)
    if cursor.accept("in"):
        cursor.name("a table name")
    cursor.expect(":", "after the variables", "for example ∀t,s: ¬(t.a = s.a)")
    return tuple(names)


def _conjunction(cursor: Cursor) -> list[WrittenComparison]:
    comparisons = _comparisons(cursor)
    while cursor.accept("and") or cursor.accept(","):
        comparisons += _comparisons(cursor)
    return comparisons


def _comparisons(cursor: Cursor) -> list[WrittenComparison]:
    if cursor.accept("("):
        inner = _conjunction(cursor)
        cursor.expect(")", "to close the bracket", _joined_hint(cursor))
        return inner
    if cursor.sees("not"):
        cursor.fail("expected a comparison", hint=f"{DENIAL}; for not, use the opposite operator (= and !=, < and >=)")
    start = cursor.peek().start
    left = _operand(cursor, left=True)
    op = cursor.operator(f"{DENIAL}: comparisons joined by and")
    right = _operand(cursor, left=False)
    return [WrittenComparison(left, op, right, start, cursor.last.end)]


def _operand(cursor: Cursor, *, left: bool) -> WrittenColumn | Constant:
    token = cursor.peek()
    # On the left, double quotes hold a column's name; after an operator they hold text.
    if cursor.sees_constant() and not (left and token.kind == "double"):
        return cursor.constant(_OPERAND)
    if token.kind not in ("name", "quoted", "double") or cursor.sees("null"):
        return cursor.constant(f"{DENIAL}; {_OPERAND}")
    first = cursor.take()
    if not cursor.accept("."):
        return WrittenColumn(None, first.value, first.start, first.end)
    name = cursor.name("a column name after the dot", f"{DENIAL}; {_OPERAND}")
    value, end = name.value, name.end
    opening, kind, closing = (cursor.peek(i) for i in range(3))
    # The headers of Hydra and IncDC carry their types: t0.elevation_ft(Integer).
    adjacent = opening.start == end and kind.end == closing.start
    if adjacent and kind.kind == "name" and cursor.sees("(", kind.word, ")"):
        value, end = f"{value}({kind.value})", closing.end
        for _ in range(3):
            cursor.take()
    return WrittenColumn(first.value, value, first.start, end)


def _joined_hint(cursor: Cursor) -> str:
    if cursor.sees("or"):
        return f"{DENIAL}; write one rule for each alternative of an or"
    before, here = cursor.last, cursor.peek()
    if before.kind in ("name", "number") and here.kind in ("name", "number"):
        return f"text of several words goes in quotes: '{before.value} {here.value}'"
    return f"{DENIAL}, joined by and"


def _roles(text: str, operands: list[WrittenColumn], declared: tuple[str, ...]) -> dict[str | None, Var]:
    used = list(dict.fromkeys(operand.variable for operand in operands))
    named = [variable for variable in used if variable is not None]
    if None in used and named:
        bare = next(operand for operand in operands if operand.variable is None)
        quoted = f"{text[: bare.start]}{quote(bare.name)}{text[bare.end :]}"
        raise RuleError(
            f"which row's {bare.name!r}?",
            text=text,
            start=bare.start,
            end=bare.end,
            hint=f"write {named[0]}.{bare.name} for the column, '{bare.name}' in single quotes for text: "
            f"{quoted[:200]}",
        )
    if len(named) > 2:
        third = next(operand for operand in operands if operand.variable == named[2])
        raise RuleError(
            f"a third row variable {named[2]!r} beside {named[0]!r} and {named[1]!r}",
            text=text,
            start=third.start,
            end=third.end,
            hint=f"{DENIAL}, of one row t or of two rows t and s",
        )
    if len(named) < 2:
        return dict.fromkeys(used, "t")
    if set(named) == {"t", "s"}:
        return {"t": "t", "s": "s"}
    first, second = _ordered(named, declared)
    return {first: "t", second: "s"}


def _ordered(named: list[str], declared: tuple[str, ...]) -> list[str]:
    if set(named) <= set(declared):
        return sorted(named, key=declared.index)
    (stem, number), (other_stem, other_number) = (_numbered(name) for name in named)
    if stem == other_stem and other_number < number:
        return named[::-1]
    return named


def _numbered(variable: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*?)([0-9]*)(['′]?)", variable)
    assert match is not None
    return match.group(1), 2 * int(match.group(2) or 0) + bool(match.group(3))
