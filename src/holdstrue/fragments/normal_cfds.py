"""CFDs in the form that fragments check: one right-hand column, one pattern, the filter cut at its `and`s.

A rule is the union of such CFDs: a row violates the rule when it violates one of them (paper 000, Section 2.1).

Local checking (Section 6): a fragment with filter F takes no part in the exchange about (X -> B, pattern) when all
columns of F are in X (rows that agree on X are then in the same fragment), or when F contradicts the pattern (no row
of the fragment matches).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from holdstrue.errors import RuleError
from holdstrue.fragments.fragment_layout import Fragment, FragmentLayout
from holdstrue.plan.compile import given_columns
from holdstrue.rules.model import (
    CFD,
    FD,
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
    Op,
    Pattern,
    Predicate,
    Rule,
    RuleSet,
)
from holdstrue.rules.order import Order
from holdstrue.rules.terms import condition_columns
from holdstrue.rules.text import condition_text

GUARD = "?"
"""Starts the name of a part of a filter where it stands among the columns of a left side."""

MOST_CFDS = 1 << 16
"""CFDs are 16-bit numbers on the wire."""


@dataclass(frozen=True)
class NormalCFD:
    """A CFD (X -> B, pattern).

    `x` holds the left-hand columns and, by their text after `GUARD`, the parts of the rule's filter: a part
    is shipped, shared and counted like a column whose value is the same in all rows that matter.
    """

    number: int
    rule: int
    x: tuple[str, ...]
    b: str
    constants: tuple[tuple[str, Constant], ...] = ()
    wanted: Constant | None = None
    parts: tuple[tuple[str, Condition], ...] = ()

    @property
    def is_constant(self) -> bool:
        """Whether one row alone can violate it."""
        return self.wanted is not None

    @cached_property
    def guards(self) -> dict[str, Condition]:
        """By column, or by part of the filter: what rows must fulfil to be looked at."""
        return {c: Comparison(c, Op.EQ, value) for c, value in self.constants} | dict(self.parts)

    @cached_property
    def tests(self) -> tuple[tuple[str, str, Condition], ...]:
        """What rows must fulfil to be looked at, each with its column (or part of the filter) and its text."""
        return tuple((attr, condition_text(guard), guard) for attr, guard in self.guards.items())

    @cached_property
    def unwanted(self) -> tuple[str, Condition] | None:
        """Of a CFD that one row alone can violate: that its right side is another, with its text."""
        if self.wanted is None:
            return None
        differs = Comparison(self.b, Op.NE, self.wanted)
        return condition_text(differs), differs

    @property
    def free(self) -> tuple[str, ...]:
        """The columns of the left side that the pattern leaves open; the others are the same in all rows that match."""
        fixed = {name for name, _ in self.constants}
        return tuple(name for name in self.x if name not in fixed and not name.startswith(GUARD))

    @property
    def asks(self) -> tuple[str, ...]:
        """The texts of what rows must fulfil to be looked at."""
        return tuple(sorted({condition_text(condition) for condition in self.conditions}))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All that a row must fulfil on the left side."""
        return tuple(self.guards.values())


def normal_cfds(rules: RuleSet, layout: FragmentLayout) -> tuple[NormalCFD, ...]:
    """FDs and CFDs in normal form; other rules are refused."""
    cfds: list[NormalCFD] = []
    tables = dict.fromkeys(rule.table for rule in rules)
    if len(tables) > 1:
        raise RuleError(
            f"the rules speak of several tables: {', '.join(repr(table or rules.table) for table in tables)}",
            hint="fragments are of one relation: leave the rules of other tables out",
        )
    for number, rule in enumerate(rules):
        if rule.tolerance is not None:
            raise RuleError(
                f"rule {rule.name!r} has a tolerance, and over fragments no violation is tolerated",
                hint="leave the tolerance out of this file, or set severity: warn, which changes no exit code",
            )
        filtered = _parts(rule.where)
        for lhs, pattern, b, wanted in _cells(rule):
            if wanted is None and b in lhs:
                continue
            constants = tuple((c, cell) for c, cell in zip(lhs, pattern.lhs, strict=True) if cell is not None)
            x = tuple(c for c, _ in constants) if wanted is not None else lhs
            demanded = () if wanted is None or rules.nulls == "equal" else given_columns(lhs, pattern)
            parts = tuple((GUARD + condition_text(part), part) for part in (*filtered, *demanded))
            named = tuple(name for name, _ in parts)
            cfds.append(NormalCFD(len(cfds), number, (*x, *named), b, constants, wanted, parts))
        _require_columns(rule, layout)
    if len(cfds) > MOST_CFDS:
        raise RuleError(f"the rules hold {len(cfds)} CFDs of one right-hand column", hint=f"at most {MOST_CFDS}")
    return tuple(cfds)


def _cells(rule: Rule) -> Iterator[tuple[tuple[str, ...], Pattern, str, Constant | None]]:
    match rule.body:
        case FD(lhs, rhs):
            for b in rhs:
                yield lhs, Pattern((None,) * len(lhs), ()), b, None
        case CFD(lhs, rhs, tableau):
            for pattern in tableau:
                for b, cell in zip(rhs, pattern.rhs, strict=True):
                    yield lhs, pattern, b, cell
        case _:
            raise RuleError(
                f"rule {rule.name!r} is a {rule.kind} rule: over fragments FDs and CFDs are checked",
                hint="check other rules at one place, with Monitor",
            )


def _parts(where: Condition | None) -> tuple[Condition, ...]:
    if where is None:
        return ()
    if isinstance(where, All):
        return tuple(part for operand in where.operands for part in _parts(operand))
    return (where,)


def _require_columns(rule: Rule, layout: FragmentLayout) -> None:
    for name in rule.columns:
        if name not in layout.columns:
            raise RuleError(
                f"rule {rule.name!r} reads column {name!r}, which no site holds",
                hint=f"the columns are {', '.join(layout.columns)}",
            )
    for part in _parts(rule.where):
        for fragment in layout.fragments:
            if not fragment.holders(condition_columns(part)):
                raise RuleError(
                    f"rule {rule.name!r}: no site holds all columns of the filter {condition_text(part)!r}",
                    hint="a filter is cut at its 'and's; each part must be answered at one site",
                )


def answerable(columns: Iterable[str], cfds: Iterable[NormalCFD]) -> set[str]:
    """Columns, and the parts of filters that who holds them can answer."""
    own = set(columns)
    return own | {name for cfd in cfds for name, part in cfd.parts if own.issuperset(condition_columns(part))}


def needed(cfds: Iterable[NormalCFD]) -> set[str]:
    """The columns that some CFDs read."""
    found: set[str] = set()
    for cfd in cfds:
        found |= {cfd.b, *(c for c in cfd.x if not c.startswith(GUARD))}
        found |= {column for condition in cfd.conditions for column in condition_columns(condition)}
    return found


MOST_CASES = 256
"""Disjunctions that would give more cases than this are not proved contradictory. Chosen, not tuned."""


def participants(cfd: NormalCFD, fragments: tuple[Fragment, ...]) -> tuple[int, ...]:
    """The fragments whose rows may violate a variable CFD together with rows of another one."""
    if cfd.is_constant:
        return ()
    found = tuple(i for i, fragment in enumerate(fragments) if not _apart(cfd, fragment))
    return found if len(found) > 1 else ()


def _apart(cfd: NormalCFD, fragment: Fragment) -> bool:
    if fragment.where is None:
        return False
    return set(condition_columns(fragment.where)) <= set(cfd.x) or contradicts(fragment.where, cfd)


def contradicts(where: Condition, cfd: NormalCFD) -> bool:
    """Whether no row fulfils both the filter of a fragment and the pattern of a CFD."""
    cases = _cases(All((where, *cfd.conditions)), negated=False)
    return cases is not None and not any(_possible(case) for case in cases)


def _cases(condition: Condition, *, negated: bool) -> list[tuple[Condition, ...]] | None:
    """The condition as alternatives of conjunctions; None when there are too many."""
    match condition:
        case Not(operand):
            return _cases(operand, negated=not negated)
        case All(operands) | Any(operands):
            inner = [_cases(operand, negated=negated) for operand in operands]
            if any(part is None for part in inner):
                return None
            known = [part for part in inner if part is not None]
            if isinstance(condition, All) == negated:
                found = [case for part in known for case in part]
            else:
                if prod(map(len, known)) > MOST_CASES:
                    return None
                found = [tuple(c for case in choice for c in case) for choice in product(*known)]
            return found if len(found) <= MOST_CASES else None
        case Comparison(column, op, right):
            return [(Comparison(column, op.negated if negated else op, right),)]
        case IsNull(column, inner_negated):
            return [(IsNull(column, inner_negated != negated),)]
        case Matches() | Length():
            return [(Not(condition) if negated else condition,)]
    raise TypeError(f"not a condition: {condition!r}")


def _possible(case: tuple[Condition, ...]) -> bool:
    compared = {name for part in case if isinstance(part, Comparison) for name in condition_columns(part)}
    null = {part.column for part in case if isinstance(part, IsNull) and not part.negated}
    known = {part.column for part in case if isinstance(part, IsNull) and part.negated}
    if null & (compared | known):
        return False
    return Order([_predicate(part) for part in case if isinstance(part, Comparison)]).possible


def _predicate(part: Comparison) -> Predicate:
    right = part.right if isinstance(part.right, Constant) else Column("t", part.right)
    return Predicate(Column("t", part.column), part.op, right)
