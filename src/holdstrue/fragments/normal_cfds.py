"""CFDs in the form that fragments check: one right-hand column, one pattern, the filter cut at its `and`s.

A rule is the union of such CFDs: a row violates the rule when it violates one of them (paper 000, Section 2.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdstrue.errors import RuleError
from holdstrue.fragments.fragment_layout import FragmentLayout
from holdstrue.plan.compile import given_columns
from holdstrue.rules.model import CFD, FD, All, Comparison, Condition, Constant, Op, Pattern, Rule, RuleSet
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

    @property
    def guards(self) -> dict[str, Condition]:
        """By column, or by part of the filter: what rows must fulfil to be looked at."""
        return {c: Comparison(c, Op.EQ, value) for c, value in self.constants} | dict(self.parts)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All that a row must fulfil on the left side."""
        return tuple(self.guards.values())


def normal_cfds(rules: RuleSet, layout: FragmentLayout) -> tuple[NormalCFD, ...]:
    """FDs and CFDs in normal form; other rules are refused."""
    cfds: list[NormalCFD] = []
    for number, rule in enumerate(rules):
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
