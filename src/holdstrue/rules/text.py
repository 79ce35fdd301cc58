"""Rules as text: what the printer writes, the parser reads back as the same rule."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

from holdstrue.rules.terms import (
    All,
    Any,
    Column,
    Comparison,
    Condition,
    Constant,
    IsNull,
    Not,
    Pattern,
    Predicate,
)
from holdstrue.rules.tokens import name_text, quote

if TYPE_CHECKING:
    from holdstrue.rules.bodies import Body


def text_of(body: Body) -> str:
    """The text of a rule's body; awkward names come in backticks, strings in single quotes.

    Examples
    --------
    >>> from holdstrue.rules.model import CFD, FD
    >>> text_of(FD(("zip",), ("city", "home state")))
    'zip -> city, `home state`'
    >>> text_of(CFD(("CC", "zip"), ("street",), (Pattern((Constant(44), None), (None,)),)))
    '[CC=44, zip] -> [street]'
    """
    return body.text


def predicate_text(predicate: Predicate) -> str:
    """The text of one comparison of a denial constraint.

    Examples
    --------
    >>> from holdstrue.operators import Op
    >>> predicate_text(Predicate(Column("t", "age"), Op.LT, Constant(0)))
    't.age < 0'
    """
    right = predicate.right
    right_text = column_text(right) if isinstance(right, Column) else constant_text(right)
    return f"{column_text(predicate.left)} {predicate.op} {right_text}"


def column_text(column: Column) -> str:
    """`t.salary`."""
    return f"{column.var}.{name_text(column.name)}"


def constant_text(constant: Constant) -> str:
    """A literal; types that a bare number cannot tell apart are named in front of it.

    Examples
    --------
    >>> constant_text(Constant(Decimal("1.50"))), constant_text(Constant(dt.date(2024, 1, 31)))
    ("decimal '1.50'", "date '2024-01-31'")
    """
    value = constant.value
    if constant.written is not None:
        return constant.written
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else f"float '{value!r}'"
        case Decimal():
            return f"decimal '{value}'"
        case str():
            return quote(value)
        case dt.datetime():
            return f"timestamp '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"date '{value.isoformat()}'"


def condition_text(condition: Condition) -> str:
    """The text of a `where` filter.

    Examples
    --------
    >>> from holdstrue.operators import Op
    >>> adult = Comparison("age", Op.GE, Constant(18))
    >>> condition_text(All((adult, Not(IsNull("zip code")))))
    'age >= 18 and not `zip code` is null'
    """
    match condition:
        case Comparison(column, op, right):
            right_text = name_text(right) if isinstance(right, str) else constant_text(right)
            return f"{name_text(column)} {op} {right_text}"
        case IsNull(column, negated):
            return f"{name_text(column)} is {'not ' if negated else ''}null"
        case Not(operand):
            return f"not {_operand(operand)}"
        case All(operands):
            return " and ".join(map(_operand, operands))
        case Any(operands):
            return " or ".join(map(_operand, operands))


def _operand(condition: Condition) -> str:
    # Nested groups keep brackets that precedence would not need: the parser keeps the nesting.
    text = condition_text(condition)
    return f"({text})" if isinstance(condition, All | Any) else text


def names_text(names: Iterable[str]) -> str:
    """Names with commas."""
    return ", ".join(map(name_text, names))


def pattern_text(pattern: Pattern) -> str:
    """One row of a pattern tableau: `(44, _ || _)`."""
    left, right = (
        ", ".join("_" if cell is None else constant_text(cell) for cell in cells)
        for cells in (pattern.lhs, pattern.rhs)
    )
    return f"({left} || {right})"
