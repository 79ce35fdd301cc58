"""Conditions on one row, of `where` filters and of rules: boolean expressions over its columns."""

from __future__ import annotations

from dataclasses import replace

from holdstrue.operators import Op
from holdstrue.rules.shapes import ShapeError, translated
from holdstrue.rules.terms import All, Any, Comparison, Condition, Constant, IsNull, Length, Matches, Not
from holdstrue.rules.tokens import Cursor, Token

_OPERAND = "write a column by its name, and text in 'quotes'"
_LENGTH = "for example len(code) = 4, or len(code) between 2 and 4"
_SHAPE = "for example zip matches '^[0-9]{5}$'"
_LONGEST_TEXT = 2**31 - 1
_EXAMPLE = "for example state = 'CA' and (age > 5 or not vip = true)"


def parse_condition(text: str) -> Condition:
    """Read a condition on one row, of a `where` filter or a rule; `in` and `between` become comparisons.

    Double quotes hold a column's name on the left of an operator and text on its right. A column alone
    means that it is true. Columns may be written `t.name`.

    Examples
    --------
    >>> from holdstrue.rules.text import condition_text
    >>> condition_text(parse_condition("x in (1, 2) and y is not null and z between 1 and 5"))
    '(x = 1 or x = 2) and y is not null and (z >= 1 and z <= 5)'
    """
    cursor = Cursor(text)
    if cursor.peek().kind == "end":
        cursor.fail("the filter is empty", at=cursor.peek(), hint=_EXAMPLE)
    condition = _any(cursor)
    if cursor.peek().kind != "end":
        cursor.fail("expected and, or, or the end of the filter", hint=_EXAMPLE)
    return condition


def _any(cursor: Cursor) -> Condition:
    operands = [_all(cursor)]
    while cursor.accept("or"):
        operands.append(_all(cursor))
    return Any(tuple(operands)) if len(operands) > 1 else operands[0]


def _all(cursor: Cursor) -> Condition:
    operands = [_term(cursor)]
    while cursor.accept("and"):
        operands.append(_term(cursor))
    return All(tuple(operands)) if len(operands) > 1 else operands[0]


def _term(cursor: Cursor) -> Condition:
    if cursor.accept("not"):
        return Not(_term(cursor))
    if cursor.accept("("):
        condition = _any(cursor)
        cursor.expect(")", "to close the bracket")
        return condition
    if cursor.sees_constant() and cursor.peek().kind != "double":
        start, constant = cursor.peek(), cursor.constant(_OPERAND)
        op = cursor.operator(_EXAMPLE)
        if cursor.sees_constant() and cursor.peek().kind != "double":
            cursor.constant(_OPERAND)
            cursor.fail("this compares two constants", at=start, end=cursor.last, hint=_OPERAND)
        return Comparison(_column(cursor), op.flipped, constant)
    if is_length(cursor):
        return _length(cursor)
    return _about(cursor, _column(cursor))


def _about(cursor: Cursor, column: str) -> Condition:
    """What is said of a column after its name."""
    if cursor.accept("is"):
        negated = cursor.accept("not")
        cursor.expect("null", "after is")
        return IsNull(column, negated)
    negated = cursor.sees("not")
    if negated and not any(cursor.sees("not", word) for word in ("in", "between", "matches")):
        cursor.fail("expected a comparison", hint="write not before the column, or after it not in or not between")
    if negated:
        cursor.take()
    if cursor.accept("in"):
        return _one_of(cursor, column, negated)
    if cursor.accept("matches"):
        shape = _shape(cursor, column)
        return Not(shape) if negated else shape
    if cursor.accept("between"):
        low = cursor.constant(_OPERAND)
        cursor.expect("and", "between the two bounds")
        high = cursor.constant(_OPERAND)
        if negated:
            return Any((Comparison(column, Op.LT, low), Comparison(column, Op.GT, high)))
        return All((Comparison(column, Op.GE, low), Comparison(column, Op.LE, high)))
    if cursor.peek().kind == "end" or any(cursor.sees(word) for word in ("and", "or", ")")):
        return Comparison(column, Op.EQ, Constant(True))
    op = cursor.operator(_EXAMPLE)
    if cursor.sees_constant() or cursor.sees("null"):
        return Comparison(column, op, cursor.constant(_OPERAND))
    return Comparison(column, op, _column(cursor, "a constant or a column"))


def is_length(cursor: Cursor) -> bool:
    """Whether the length of a text comes next."""
    return cursor.peek().kind == "name" and (cursor.sees("len", "(") or cursor.sees("length", "("))


def _length(cursor: Cursor) -> Condition:
    """`len(column)` with what is said of it."""
    cursor.take()
    cursor.take()
    column = _column(cursor)
    cursor.expect(")", "after the column")
    if cursor.accept("between"):
        low = _size(cursor)
        cursor.expect("and", "between the two bounds")
        return All((Length(column, Op.GE, low), Length(column, Op.LE, _size(cursor))))
    return Length(column, cursor.operator(_LENGTH), _size(cursor))


def _size(cursor: Cursor) -> int:
    token = cursor.peek()
    value = cursor.constant(_LENGTH).value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value > _LONGEST_TEXT:
        cursor.fail("a length is a whole number", at=token, hint=_LENGTH)
    return value


def _shape(cursor: Cursor, column: str) -> Matches:
    token = cursor.peek()
    value = cursor.constant(_SHAPE).value
    if not isinstance(value, str):
        cursor.fail("a pattern is text", at=token, hint=_SHAPE)
    if not value:
        cursor.fail("every text matches this", at=token, hint=_SHAPE)
    try:
        translated(value, "re2")
    except ShapeError as error:
        cursor.fail(error.message, at=_inside(token, error.at, value), hint=error.hint)
    return Matches(column, value)


def _inside(token: Token, at: int, value: str) -> Token:
    """The place in a quoted text, where that is as long as what it means."""
    if token.end - token.start != len(value) + 2:
        return token
    return replace(token, start=token.start + 1 + at, end=token.start + 2 + at)


def _one_of(cursor: Cursor, column: str, negated: bool) -> Condition:
    cursor.expect("(", "before the values", "for example state in ('CA', 'NY')")
    values = [cursor.constant(_OPERAND)]
    while cursor.accept(","):
        values.append(cursor.constant(_OPERAND))
    cursor.expect(")", "after the values")
    op = Op.NE if negated else Op.EQ
    parts = tuple(Comparison(column, op, value) for value in values)
    if len(parts) == 1:
        return parts[0]
    return All(parts) if negated else Any(parts)


def _column(cursor: Cursor, what: str = "a column") -> str:
    first = cursor.name(what, _OPERAND)
    if not cursor.accept("."):
        return first.value
    name = cursor.name("a column name after the dot", _OPERAND)
    if first.value != "t":
        cursor.fail(
            f"a filter speaks of one row t, not of {first.value!r}",
            at=first,
            end=name,
            hint="a name with a dot in it goes in backticks: `a.b`",
        )
    return name.value
