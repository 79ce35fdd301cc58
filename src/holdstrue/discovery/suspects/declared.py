"""Rules that people declared, as rules that vote: what each says of single cells, as far as it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from holdstrue.discovery.suspects.cells import CodedCells
from holdstrue.discovery.suspects.chains import OrderRule
from holdstrue.discovery.suspects.votes import UNKNOWN
from holdstrue.discovery.suspects.voting_rules import VotingRule
from holdstrue.operators import Op
from holdstrue.plan.checks import GroupCheck, PairCheck
from holdstrue.plan.compile import compile_rules, given_columns
from holdstrue.plan.filter import holds
from holdstrue.rules.model import CFD, All, Comparison, Condition, Constant, Not, NotNull, Rule, RuleSet
from holdstrue.typing import Mask

MUTE = "no suspects by {}: it does not say which cell is wrong"


@dataclass
class DeclaredRules:
    """Declared rules by what they can say: dependencies, orders, and columns that may not be missing."""

    dependencies: list[VotingRule] = field(default_factory=list)
    orders: list[OrderRule] = field(default_factory=list)
    required: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def declared_rules(ruleset: RuleSet, table: str, cells: CodedCells) -> DeclaredRules:
    """The rules of a set about one table, by what they say of its cells."""
    found = DeclaredRules()
    own = [rule for rule in ruleset if (rule.own_table or table) == table]
    for rule in own:
        plan = (
            compile_rules(RuleSet((rule,), table=table, nulls=ruleset.nulls), table, {table: cells.table.schema})
            if not rule.body.references and rule.kind != "measure"
            else None
        )
        said = False
        for check in () if plan is None else plan.checks:
            if isinstance(check, GroupCheck):
                found.dependencies += _groups(check, rule, cells)
                said |= bool(check.rhs)
            elif isinstance(check, PairCheck):
                order = _order(check, rule, cells)
                found.orders += order
                said |= bool(order)
        if isinstance(rule.body, CFD):
            constants = list(_constants(rule, rule.body, cells))
            found.dependencies += constants
            said |= bool(constants)
        if isinstance(rule.body, NotNull):
            found.required += [(cells.names.index(column), rule.name) for column in rule.body.columns]
            said = True
        if not said:
            found.notes.append(MUTE.format(rule.name))
    return found


def _where(cells: CodedCells, *conditions: Condition | None) -> Mask:
    known = tuple(condition for condition in conditions if condition is not None)
    return holds(All(known) if known else None, _columns(cells.table), cells.rows)


def _columns(table: pa.Table) -> _Columns:
    return _Columns(table)


@dataclass(frozen=True)
class _Columns:
    """Columns of a table by name, each in one piece."""

    table: pa.Table

    def __call__(self, name: str) -> pa.Array:
        whole = self.table.column(name).combine_chunks()
        return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _groups(check: GroupCheck, rule: Rule, cells: CodedCells) -> Iterator[VotingRule]:
    left = tuple(cells.names.index(name) for name in check.lhs)
    asked = check.asked or (None,) * len(check.rhs)
    for name, condition in zip(check.rhs, asked, strict=True):
        rows = _where(cells, check.member, condition)
        yield VotingRule(left, cells.names.index(name), declared=rule.name, rows=rows)


def _order(check: PairCheck, rule: Rule, cells: CodedCells) -> list[OrderRule]:
    """A rule of equal columns and two orders of one column each, with both rows chosen alike."""
    orders = [term for term in check.terms if term.op.is_order]
    others = [term for term in check.terms if not term.op.is_order]
    plain = all(term.left == term.right for term in check.terms) and check.t_member == check.s_member
    if len(orders) != 2 or not plain or any(term.op is not Op.EQ for term in others):
        return []
    first, second = orders
    up = {Op.GT, Op.GE}
    # not(t.a > s.a and t.b < s.b): the second must not fall; with both > it must not rise
    falling = (first.op in up) == (second.op in up)
    left = tuple(cells.names.index(term.left) for term in others)
    at = (cells.names.index(first.left), cells.names.index(second.left))
    return [OrderRule(left, *at, falling, rule.name, _where(cells, check.t_member))]


def _constants(rule: Rule, body: CFD, cells: CodedCells) -> Iterator[VotingRule]:
    """What patterns say that the right side must be."""
    left = tuple(cells.names.index(name) for name in body.lhs)
    for pattern in body.tableau:
        given = zip(body.lhs, pattern.lhs, strict=True)
        match = [Comparison(name, Op.EQ, constant) for name, constant in given if constant is not None]
        rows = _where(cells, rule.where, *match, *given_columns(body.lhs, pattern))
        for name, constant in zip(body.rhs, pattern.rhs, strict=True):
            if constant is not None:
                column = cells.names.index(name)
                wrong = _where(cells, Not(Comparison(name, Op.EQ, constant))) | (cells.codes[column] < 0)
                code = _code(cells, column, constant)
                yield VotingRule(left, column, declared=rule.name, rows=rows & wrong, constant=code)


def _code(cells: CodedCells, column: int, constant: Constant) -> int:
    """The code of the values that equal a constant; `UNKNOWN` where no cell has it."""
    name = cells.names[column]
    values = pa.table({name: cells.distinct[column]})
    equal = np.flatnonzero(holds(Comparison(name, Op.EQ, constant), _columns(values), len(values)))
    return int(equal[0]) if equal.size else UNKNOWN
