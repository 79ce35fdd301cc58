"""A stable identity for what a rule says, whatever it is called and however it is written."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from decimal import Decimal

from holdstrue.rules.model import (
    CFD,
    DC,
    FD,
    All,
    Any,
    Body,
    Column,
    Comparison,
    Condition,
    Constant,
    Inclusion,
    IsNull,
    Key,
    Not,
    NotNull,
    Op,
    Pattern,
    Predicate,
    Rule,
)
from holdstrue.rules.normal import normal_body, swapped
from holdstrue.rules.text import condition_text, text_of


def fingerprint(rule: Rule) -> str:
    """16 hexadecimal digits that rules share when they say the same of the same table.

    Name, description, severity and tolerance do not count; the filter and the table do. A denial
    constraint is the same with t and s exchanged, and the same as the key or the FD it spells out (with
    NULL comparing as unknown).

    Examples
    --------
    >>> from holdstrue.rules.parser import parse_rule
    >>> spelled_out = parse_rule("not(s.city != t.city and t.zip = s.zip)")
    >>> fingerprint(parse_rule("zip -> city")) == fingerprint(spelled_out)
    True
    """
    where = "" if rule.where is None else condition_text(_canonical_condition(rule.where))
    said = "\n".join((canonical_text(rule.body), where, table_of(rule) or ""))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def table_of(rule: Rule) -> str | None:
    """The table a rule speaks of, where it says so."""
    if rule.table is None and isinstance(rule.body, Inclusion):
        return rule.body.table
    return rule.table


def canonical_text(body: Body) -> str:
    """The text that all ways of writing a body share."""
    normal = normal_body(_with_plain_numbers(body))
    match normal:
        case Key(columns):
            return _canonical_dc(DC(tuple(_across(column, Op.EQ) for column in columns)))
        case FD(lhs, (rhs,)):
            return _canonical_dc(DC((*(_across(column, Op.EQ) for column in lhs), _across(rhs, Op.NE))))
        case DC():
            return _canonical_dc(normal)
        case NotNull(columns):
            return text_of(NotNull(tuple(sorted(columns))))
        case Inclusion():
            return text_of(replace(normal, table=None))
        case _:
            return text_of(normal)


def _across(column: str, op: Op) -> Predicate:
    return Predicate(Column("t", column), op, Column("s", column))


def _canonical_dc(body: DC) -> str:
    as_written = normal_body(body)
    exchanged = normal_body(DC(tuple(swapped(predicate) for predicate in body.predicates)))
    return min(text_of(as_written), text_of(exchanged))


def _with_plain_numbers(body: Body) -> Body:
    match body:
        case DC(predicates):
            rights = (_plain(p.right) if isinstance(p.right, Constant) else p.right for p in predicates)
            return DC(tuple(replace(p, right=right) for p, right in zip(predicates, rights, strict=True)))
        case CFD(_, _, tableau):
            rows = tuple(Pattern(_plain_cells(row.lhs), _plain_cells(row.rhs)) for row in tableau)
            return replace(body, tableau=rows)
        case _:
            return body


def _plain_cells(cells: tuple[Constant | None, ...]) -> tuple[Constant | None, ...]:
    return tuple(None if cell is None else _plain(cell) for cell in cells)


def _plain(constant: Constant) -> Constant:
    """One constant for all spellings of a number: 3, 3.0 and decimal '3.00' are the same value."""
    value = constant.value
    if constant.written is not None and constant.written.lstrip("+-").startswith("0") and isinstance(value, int):
        # 01907 is meant as text, where it is not 1907
        return constant
    if isinstance(value, int) and not isinstance(value, bool):
        return Constant(value)
    if isinstance(value, bool) or not isinstance(value, float | Decimal) or not math.isfinite(value):
        return constant
    if isinstance(value, Decimal) and abs(value.adjusted()) > 300:
        return constant
    if value == int(value):
        return Constant(int(value))
    if float(value) == value:
        return Constant(float(value))
    sign, digits, exponent = Decimal(value).as_tuple()
    written = "".join(map(str, digits))
    zeros = len(written) - len(written.rstrip("0"))
    assert isinstance(exponent, int)
    return Constant(Decimal((sign, digits[: len(digits) - zeros], exponent + zeros)))


def _canonical_condition(condition: Condition) -> Condition:
    match condition:
        case All(operands) | Any(operands):
            kind = type(condition)
            parts: dict[str, Condition] = {}
            for operand in map(_canonical_condition, operands):
                for part in operand.operands if isinstance(operand, kind) else (operand,):
                    parts[condition_text(part)] = part
            ordered = tuple(parts[text] for text in sorted(parts))
            return kind(ordered) if len(ordered) != 1 else ordered[0]
        case Not(operand):
            return Not(_canonical_condition(operand))
        case Comparison(column, op, right):
            if isinstance(right, Constant):
                return Comparison(column, op, _plain(right))
            return condition if column <= right else Comparison(right, op.flipped, column)
        case IsNull():
            return condition
