"""Rules into checks: the steps from what people write to what the detectors run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from holdstrue.data.coding import Domain, domain_of
from holdstrue.data.seed import PROCESS, Seed
from holdstrue.errors import RuleError
from holdstrue.index.protocol import IndexKind, Term, index_type
from holdstrue.plan.bind import bind
from holdstrue.plan.checks import Check, GroupCheck, MeasureCheck, PairCheck, ReferenceCheck, RowCheck
from holdstrue.plan.measures import bound_measures
from holdstrue.rules.model import (
    CFD,
    DC,
    FD,
    All,
    Any,
    Comparison,
    Condition,
    Constant,
    Demand,
    Inclusion,
    IsNull,
    Key,
    Measured,
    Not,
    NotNull,
    Op,
    Pattern,
    Predicate,
    Rule,
    RuleSet,
)

Cell: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class Plan:
    """What must be done for a rule set over tables of known types."""

    rules: RuleSet
    main: str
    schemas: Mapping[str, pa.Schema]
    checks: tuple[Check, ...]
    domains: Mapping[Cell, tuple[int, Domain]]
    index: IndexKind = "blocks"
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seed: Seed = PROCESS
    """Of the digests of values."""

    def domain(self, table: str, column: str) -> Domain:
        """How a column is coded."""
        return self.domains[table, column][1]


def main_table(rules: RuleSet, others: tuple[str, ...], default: str = "data") -> str:
    """The name of the table that rules without a table speak of, and that data without a name belongs to."""
    if rules.table is not None:
        return rules.table
    named = [rule.own_table for rule in rules]
    free = list(dict.fromkeys(name for name in named if name is not None and name not in others))
    if None in named:
        return free[0] if len(free) == 1 else default
    return free[0] if free else next(name for name in named if name is not None)


def needed_columns(rules: RuleSet, main: str) -> dict[str, tuple[str, ...]]:
    """Per table the columns that rules read (RANGE: nothing else is read from a file)."""
    needed: dict[str, dict[str, None]] = {main: {}}
    for rule in rules:
        for table, columns in ((rule.own_table or main, rule.columns), *rule.body.references.items()):
            needed.setdefault(table, {}).update(dict.fromkeys(columns))
    return {table: tuple(columns) for table, columns in needed.items()}


def compile_rules(
    rules: RuleSet,
    main: str,
    schemas: Mapping[str, pa.Schema],
    index: IndexKind = "blocks",
    seed: Seed = PROCESS,
) -> Plan:
    """Bind the rules to their tables, split them into checks, and choose how columns are coded.

    `seed` is that of the state where digests are kept; what stays in this process has its own.
    """
    checks: list[Check] = []
    as_pairs = index_type(index).takes_keys
    for number, rule in enumerate(rules):
        table = rule.own_table or main
        if table not in schemas:
            raise RuleError(
                f"rule {rule.name!r} speaks of table {table!r}, which is not given",
                hint=f"name it with --table {table}=PATH (known: {', '.join(schemas)})",
            )
        bind(rule, table, schemas)
        if isinstance(rule.body, Measured):
            checks.append(MeasureCheck(number, table, *bound_measures(rule, rule.body, table, schemas)))
        else:
            checks.extend(_checks(number, rule, table, rules.nulls == "equal", as_pairs))
    return Plan(
        rules,
        main,
        dict(schemas),
        tuple(checks),
        _domains(checks, schemas, seed),
        index,
        needed_columns(rules, main),
        seed,
    )


def checks_of(number: int, rule: Rule, table: str, *, nulls_equal: bool) -> list[Check]:
    """What breaks a rule, before it meets types: for those who say it in another language."""
    return list(_checks(number, rule, table, nulls_equal, as_pairs=False))


def _checks(number: int, rule: Rule, table: str, nulls_equal: bool, as_pairs: bool) -> Iterator[Check]:
    """The checks of a rule; equality columns are in one order, so that rules that share them share an index."""
    where = rule.where
    match rule.body:
        case Key(columns):
            yield _by_group(GroupCheck(number, table, tuple(sorted(set(columns))), (), nulls_equal, where), as_pairs)
        case FD(lhs, rhs):
            asked = (None,) * len(rhs)
            left = tuple(sorted(set(lhs)))
            yield _by_group(GroupCheck(number, table, left, rhs, nulls_equal, where, asked), as_pairs)
        case CFD():
            yield from _conditional(number, rule.body, table, nulls_equal, where)
        case Demand(condition):
            yield RowCheck(number, table, _both(where, Not(condition)))
        case NotNull(columns):
            yield RowCheck(number, table, _both(where, _any(*(IsNull(column) for column in columns))))
        case Inclusion():
            body = rule.body
            yield ReferenceCheck(number, table, body.columns, body.ref_table, body.ref_columns, where)
        case DC():
            yield _denial(number, rule.body, table, where, as_pairs)


def _by_group(check: GroupCheck, as_pairs: bool) -> Check:
    """A key or an FD; with one right-hand column as the denial constraint it is, for indexes that take it so."""
    if not as_pairs or len(check.rhs) > 1 or check.nulls_equal:
        return check
    terms = [Term(column, Op.EQ, column) for column in check.lhs]
    terms += [Term(column, Op.NE, column) for column in check.rhs]
    return PairCheck(check.rule, check.table, tuple(terms), check.member, check.member)


def _conditional(number: int, body: CFD, table: str, nulls_equal: bool, where: Condition | None) -> Iterator[Check]:
    broken = [
        _all(_match(body, pattern), *given, Comparison(column, Op.NE, constant))
        for pattern in body.tableau
        for given in [() if nulls_equal else given_columns(body.lhs, pattern)]
        for column, constant in zip(body.rhs, pattern.rhs, strict=True)
        if constant is not None
    ]
    if broken:
        yield RowCheck(number, table, _both(where, _any(*broken)))
    free = [
        (column, [_match(body, pattern) for pattern in body.tableau if pattern.rhs[i] is None])
        for i, column in enumerate(body.rhs)
    ]
    asked = {column: None if None in matches else _any(*matches) for column, matches in free if matches}
    if asked:
        conditions = tuple(asked.values())
        member = conditions[0] if len(set(conditions)) == 1 else None if None in conditions else _any(*conditions)
        each = (None,) * len(asked) if len(set(conditions)) == 1 else conditions
        left = tuple(sorted(set(body.lhs)))
        yield GroupCheck(number, table, left, tuple(asked), nulls_equal, _all(where, member), each)


def _match(body: CFD, pattern: Pattern) -> Condition | None:
    return _all(
        *(
            Comparison(column, Op.EQ, constant)
            for column, constant in zip(body.lhs, pattern.lhs, strict=True)
            if constant is not None
        )
    )


def given_columns(lhs: tuple[str, ...], pattern: Pattern) -> tuple[Condition, ...]:
    """A row whose left side is not known matches no pattern, also where that leaves a column open."""
    return tuple(
        IsNull(column, negated=True) for column, constant in zip(lhs, pattern.lhs, strict=True) if constant is None
    )


def _denial(number: int, body: DC, table: str, where: Condition | None, as_pairs: bool) -> Check:
    if not body.two_rows:
        broken = All(tuple(_single(predicate) for predicate in body.predicates))
        return RowCheck(number, table, _both(where, broken))
    members: dict[str, list[Condition | None]] = {"t": [where], "s": [where]}
    terms: list[Term[str]] = []
    for predicate in body.predicates:
        left, right = predicate.left, predicate.right
        if isinstance(right, Constant) or left.var == right.var:
            members[left.var].append(_single(predicate))
        elif left.var == "t":
            terms.append(Term(left.name, predicate.op, right.name))
        else:
            terms.append(Term(right.name, predicate.op.flipped, left.name))
    # each condition once, in an order that does not depend on how the rule was written
    t_member, s_member = (_all(*sorted({c for c in members[var] if c is not None}, key=repr)) for var in ("t", "s"))
    check = PairCheck(number, table, tuple(dict.fromkeys(terms)), t_member, s_member)
    if as_pairs or not check.grouped:
        return check
    lhs = tuple(sorted(set(check.lhs)))
    return GroupCheck(number, table, lhs, check.rhs, False, check.t_member, (None,) * len(check.rhs))


def _single(predicate: Predicate) -> Condition:
    """A comparison within one row, the smaller name on the left."""
    left, right, op = predicate.left.name, predicate.right, predicate.op
    if isinstance(right, Constant):
        return Comparison(left, op, right)
    return Comparison(left, op, right.name) if left <= right.name else Comparison(right.name, op.flipped, left)


def _all(*conditions: Condition | None) -> Condition | None:
    known = [condition for condition in conditions if condition is not None]
    if len(known) < 2:
        return known[0] if known else None
    return All(tuple(known))


def _both(where: Condition | None, condition: Condition) -> Condition:
    return condition if where is None else All((where, condition))


def _any(*conditions: Condition | None) -> Condition:
    known = tuple(condition for condition in conditions if condition is not None)
    return known[0] if len(known) == 1 else Any(known)


def _domains(checks: list[Check], schemas: Mapping[str, pa.Schema], seed: Seed) -> dict[Cell, tuple[int, Domain]]:
    """Columns that are compared with each other, each set with its common domain."""
    parent: dict[Cell, Cell] = {}
    ordered: set[Cell] = set()

    def root(cell: Cell) -> Cell:
        parent.setdefault(cell, cell)
        while parent[cell] != cell:
            cell = parent[cell]
        return cell

    for check in checks:
        match check:
            case GroupCheck(_, table, lhs, rhs):
                for column in (*lhs, *rhs):
                    root((table, column))
            case PairCheck(_, table, terms):
                for term in terms:
                    left, right = root((table, term.left)), root((table, term.right))
                    parent[right] = left
                    if term.op.is_order:
                        ordered.add((table, term.left))
            case ReferenceCheck(_, table, columns, ref_table, ref_columns):
                for column, ref_column in zip(columns, ref_columns, strict=True):
                    parent[root((ref_table, ref_column))] = root((table, column))
    sets: dict[Cell, list[Cell]] = {}
    for cell in parent:
        sets.setdefault(root(cell), []).append(cell)
    ordered_roots = {root(cell) for cell in ordered}
    domains: dict[Cell, tuple[int, Domain]] = {}
    for number, (top, cells) in enumerate(sets.items()):
        types = [schemas[table].field(column).type for table, column in cells]
        domain = domain_of(types, ordered=top in ordered_roots, seed=seed)
        if domain is None:
            names = ", ".join(f"{column} ({data_type})" for (_, column), data_type in zip(cells, types, strict=True))
            raise RuleError(
                f"the rules compare columns of different kinds with each other: {names}",
                hint="cast them to one kind",
            )
        domains.update(dict.fromkeys(cells, (number, domain)))
    return domains


def part_of(plan: Plan, checks: Sequence[Check], schemas: Mapping[str, pa.Schema]) -> Plan:
    """The plan of some of the checks over tables that hold what these need."""
    domains = _domains(list(checks), schemas, plan.seed)
    return replace(plan, schemas=dict(schemas), checks=tuple(checks), domains=domains)
