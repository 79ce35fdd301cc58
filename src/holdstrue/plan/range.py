"""RANGE (paper 002, Algorithm 2): which columns the rules read, and which constants of them suffice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdstrue.rules.model import (
    CFD,
    DC,
    FD,
    All,
    Any,
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
    Rule,
    Scalar,
)


def value_range(rules: Iterable[Rule]) -> dict[str, frozenset[Scalar] | None]:
    """Columns of the rules' own table, each with the constants it is matched with, or None for any value.

    Examples
    --------
    >>> from holdstrue.rules import parse_rule
    >>> value_range([parse_rule("IL -> AT, (10 || 20)")])
    {'IL': frozenset({10}), 'AT': frozenset({20})}
    """
    found: dict[str, frozenset[Scalar] | None] = {}
    for rule in rules:
        for column, constant in (*_of_body(rule), *_of_condition(rule.where)):
            known = found.get(column, frozenset())
            found[column] = None if constant is None or known is None else known | {constant.value}
    return found


def _of_body(rule: Rule) -> Iterator[tuple[str, Constant | None]]:
    match rule.body:
        case Key(columns) | NotNull(columns):
            yield from ((column, None) for column in columns)
        case FD(lhs, rhs):
            yield from ((column, None) for column in (*lhs, *rhs))
        case CFD(lhs, rhs, tableau):
            for pattern in tableau:
                yield from zip(lhs, pattern.lhs, strict=True)
                yield from zip(rhs, pattern.rhs, strict=True)
        case DC(predicates):
            for predicate in predicates:
                constant = predicate.right if isinstance(predicate.right, Constant) else None
                yield predicate.left.name, constant if predicate.op is Op.EQ else None
                if isinstance(predicate.right, Column):
                    yield predicate.right.name, None
        case Inclusion(_, columns, _, _):
            yield from ((column, None) for column in columns)


def _of_condition(condition: Condition | None) -> Iterator[tuple[str, Constant | None]]:
    match condition:
        case Comparison(column, op, right):
            yield column, right if isinstance(right, Constant) and op is Op.EQ else None
            if isinstance(right, str):
                yield right, None
        case IsNull(column):
            yield column, None
        case Not(operand):
            yield from _of_condition(operand)
        case All(operands) | Any(operands):
            for operand in operands:
                yield from _of_condition(operand)
