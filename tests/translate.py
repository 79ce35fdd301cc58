"""Rules of the package as the oracle's tuples, and the oracle's answers by key."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import oracle
from holdstrue.rules import (
    CFD,
    DC,
    FD,
    All,
    Column,
    Comparison,
    Condition,
    Constant,
    Demand,
    Inclusion,
    IsNull,
    Key,
    Length,
    Matches,
    Measured,
    Not,
    NotNull,
    Rule,
    RuleSet,
)
from holdstrue.rules import Any as AnyOf
from holdstrue.rules.measure import Amount, Measure


def as_tuple(rule: Rule, main: str | None = None) -> tuple[Any, ...]:
    """A rule's body for the oracle; `main` is the table of rules that name none."""
    match rule.body:
        case Key(columns):
            return ("key", list(columns))
        case FD(lhs, rhs):
            return ("fd", list(lhs), list(rhs))
        case Demand(condition):
            return ("demand", lambda row: _truth(condition, row))
        case NotNull(columns):
            return ("not null", list(columns))
        case CFD(lhs, rhs, tableau):
            cells = [tuple([None if c is None else c.value for c in side] for side in (p.lhs, p.rhs)) for p in tableau]
            return ("cfd", list(lhs), list(rhs), cells)
        case DC(predicates):
            return ("dc", [(_side(p.left), str(p.op), _side(p.right)) for p in predicates])
        case Inclusion(_, columns, ref_table, ref_columns):
            return ("in", list(columns), ref_table, list(ref_columns))
        case Measured(left, bounds):
            own = rule.own_table or main
            return ("measure", _measure(left, own), [(str(bound.op), _right(bound.right, own)) for bound in bounds])
    raise ValueError(rule)


def _side(side: Column | Constant) -> tuple[str, Any]:
    return (side.var, side.name) if isinstance(side, Column) else ("const", side.value)


def _measure(measure: Measure, own: str | None) -> tuple[str, str | None, str | None]:
    return measure.function, None if measure.table == own else measure.table, measure.column


def _right(right: Measure | Amount, own: str | None) -> tuple[Any, ...]:
    if isinstance(right, Measure):
        return _measure(right, own)
    return ("const", right.constant.value) if right.unit is None else ("seconds", right.seconds)


def as_filter(where: Condition | None) -> Callable[[oracle.Row], bool | None] | None:
    """A where filter for the oracle."""
    return None if where is None else lambda row: _truth(where, row)


def _truth(where: Condition, row: oracle.Row) -> bool | None:
    match where:
        case Comparison(column, op, Constant(value)):
            return oracle.compare(row[column], str(op), value)
        case Comparison(column, op, str(other)):
            return oracle.compare(row[column], str(op), row[other])
        case IsNull(column, negated):
            return (row[column] is None) != negated
        case Matches(column, shape):
            return oracle.has_shape(row[column], shape)
        case Length(column, op, size):
            return None if row[column] is None else oracle.compare(len(row[column]), str(op), size)
        case Not(operand):
            inner = _truth(operand, row)
            return None if inner is None else not inner
        case All(operands):
            parts = [_truth(operand, row) for operand in operands]
            return False if False in parts else None if None in parts else True
        case AnyOf(operands):
            parts = [_truth(operand, row) for operand in operands]
            return True if True in parts else None if None in parts else False
    raise ValueError(where)


def expected(
    rules: RuleSet,
    rows: list[oracle.Row],
    keys: list[Any],
    *,
    others: dict[str, list[oracle.Row]] | None = None,
    now: dt.datetime | None = None,
) -> dict[str, set[tuple[Any, ...]]]:
    """Per rule the violations by key; symmetric pairs with the smaller key first. Freshness is judged at `now`."""
    found: dict[str, set[tuple[Any, ...]]] = {}
    for rule in rules:
        body = as_tuple(rule, rules.table)
        raw = oracle.violations(
            body,
            rows,
            others=others,
            nulls_equal=rules.nulls == "equal" and body[0] != "dc",
            where=as_filter(rule.where),
            now=now,
        )
        ordered = body[0] == "dc" and not oracle.symmetric(body[1])
        named = {tuple(keys[i] for i in violation) for violation in raw}
        found[rule.name] = named if ordered else {tuple(sorted(violation)) for violation in named}
    return found


def at_first(rules: RuleSet) -> dict[str, set[tuple[Any, ...]]]:
    """Per rule the violations before the first batch: there are none, not of rules about whole tables either."""
    return {rule.name: set() for rule in rules}
