"""Rules as text, which the parser reads back as the same rule, and in plain words, for people who do not read logic."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from holdstrue.operators import Op
from holdstrue.rules.terms import (
    All,
    Any,
    Column,
    Comparison,
    Condition,
    Constant,
    IsNull,
    Length,
    Matches,
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
    left, right = predicate.left, predicate.right
    said = f"{right.var}.{name_text(right.name)}" if isinstance(right, Column) else constant_text(right)
    return f"{left.var}.{name_text(left.name)} {predicate.op} {said}"


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
        case Matches(column, shape):
            return f"{name_text(column)} matches {quote(shape)}"
        case Length(column, op, size):
            return f"len({name_text(column)}) {op} {size}"
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


def canonical_condition(condition: Condition) -> Condition:
    """The one that all orders and nestings of its parts share."""
    match condition:
        case All(operands) | Any(operands):
            kind = type(condition)
            parts: dict[str, Condition] = {}
            for operand in map(canonical_condition, operands):
                for part in operand.operands if isinstance(operand, kind) else (operand,):
                    parts[condition_text(part)] = part
            ordered = tuple(parts[text] for text in sorted(parts))
            return kind(ordered) if len(ordered) != 1 else ordered[0]
        case Not(operand):
            return Not(canonical_condition(operand))
        case Comparison(column, op, str(right)) if right < column:
            return Comparison(right, op.flipped, column)
    return condition


def demand_text(condition: Condition) -> str:
    """A condition as people write it who demand it of every row: with `in` and `between`.

    Examples
    --------
    >>> one_of = Any((Comparison("size", Op.EQ, Constant("S")), Comparison("size", Op.EQ, Constant("L"))))
    >>> demand_text(one_of), demand_text(All((Length("zip", Op.GE, 4), Length("zip", Op.LE, 5))))
    ("size in ('S', 'L')", 'len(zip) between 4 and 5')
    """
    match condition:
        case Not(Matches(column, shape)):
            return f"{name_text(column)} not matches {quote(shape)}"
        case Not():
            # not(...) alone is a denial
            return f"({condition_text(condition)})"
        case Any(operands):
            values = [part.right for part in operands if isinstance(part, Comparison) and part.op is Op.EQ]
            known = [value for value in values if isinstance(value, Constant)]
            columns = {part.column for part in operands if isinstance(part, Comparison)}
            if len(known) == len(operands) and len(columns) == 1:
                return f"{name_text(columns.pop())} in ({', '.join(map(constant_text, known))})"
        case All((Length(column, Op.GE, low), Length(other, Op.LE, high))) if column == other:
            return f"len({name_text(column)}) between {low} and {high}"
        case All((Comparison(column, Op.GE, Constant() as least), Comparison(other, Op.LE, Constant() as most))) if (
            column == other
        ):
            return f"{name_text(column)} between {constant_text(least)} and {constant_text(most)}"
    return condition_text(condition)


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


def pattern_words(lhs: Sequence[str], rhs: Sequence[str], pattern: Pattern) -> str:
    """What one pattern of a conditional dependency says."""
    fixed = [f"{name} is {constant_text(value)}" for name, value in zip(lhs, pattern.lhs, strict=True) if value]
    free = [name for name, value in zip(lhs, pattern.lhs, strict=True) if value is None]
    known = [f"{name} is {constant_text(value)}" for name, value in zip(rhs, pattern.rhs, strict=True) if value]
    same = [name for name, value in zip(rhs, pattern.rhs, strict=True) if value is None]
    where = f"where {listed(fixed)}, " if fixed else ""
    if same:
        subject = f"rows with the same {listed(free)}" if free else "rows"
        known.append(f"{subject} have the same {listed(same)}")
    return where + listed(known)


def denial_words(predicates: Sequence[Predicate], *, two_rows: bool) -> str:
    """What a denial constraint says.

    Examples
    --------
    >>> pay, tax = (Predicate(Column("t", n), op, Column("s", n)) for n, op in (("pay", Op.GT), ("tax", Op.LT)))
    >>> denial_words((pay, tax), two_rows=True)
    'no row has a higher pay and a lower tax than another'
    """
    if not two_rows:
        return f"no row where {listed([_one(predicate) for predicate in predicates])}"
    # each compares a column of t with the same column of s
    if all(p.left.var == "t" and p.right == Column("s", p.left.name) for p in predicates):
        same = [p.left.name for p in predicates if p.op is Op.EQ]
        rest = [p for p in predicates if p.op is not Op.EQ]
        if not rest:
            return f"no two rows have the same {listed(same)}"
        among = f"among rows with the same {listed(same)}, " if same else ""
        held = [f"{predicate.op.against} {predicate.left.name}" for predicate in rest]
        return f"{among}no row has {listed(held)} than another"
    return f"no two rows t and s where {listed([_one(predicate) for predicate in predicates])}"


def _one(predicate: Predicate) -> str:
    left, right = predicate.left, predicate.right
    said = constant_text(right) if isinstance(right, Constant) else f"{right.var}.{right.name}"
    return f"{left.var}.{left.name} {predicate.op.says} {said}"


def listed(items: Sequence[str]) -> str:
    """Words with commas and an `and`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
