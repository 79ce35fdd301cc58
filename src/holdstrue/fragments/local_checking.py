"""When a CFD needs no other fragment (paper 000, Section 6, "local checking").

A fragment with filter F takes no part in the exchange about (X -> B, pattern) when all columns of F are in X
(rows that agree on X are then in the same fragment), or when F contradicts the pattern (no row of the
fragment matches).
"""

from __future__ import annotations

from itertools import product
from math import prod

from holdstrue.fragments.fragment_layout import Fragment
from holdstrue.fragments.normal_cfds import NormalCFD
from holdstrue.rules.model import All, Any, Column, Comparison, Condition, Constant, IsNull, Not, Predicate
from holdstrue.rules.order import Order
from holdstrue.rules.terms import condition_columns

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
