"""Rules in plain words, for people who do not read logic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdstrue.operators import Op
from holdstrue.rules.terms import Column, Constant, Pattern, Predicate
from holdstrue.rules.text import constant_text

if TYPE_CHECKING:
    from holdstrue.rules.bodies import Body


def in_words(body: Body) -> str:
    """What a rule says.

    Examples
    --------
    >>> from holdstrue.rules.model import DC, FD, Key
    >>> in_words(FD(("zip",), ("city",)))
    'rows with the same zip have the same city'
    >>> in_words(Key(("area", "phone")))
    'no two rows have the same area and phone'
    >>> pay, tax = (Predicate(Column("t", n), op, Column("s", n)) for n, op in (("pay", Op.GT), ("tax", Op.LT)))
    >>> in_words(DC((pay, tax)))
    'no row has a higher pay and a lower tax than another'
    """
    return body.words


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
    """What a denial constraint says."""
    if not two_rows:
        return f"no row where {listed([_one(predicate) for predicate in predicates])}"
    if all(_own(predicate) for predicate in predicates):
        same = [p.left.name for p in predicates if p.op is Op.EQ]
        rest = [p for p in predicates if p.op is not Op.EQ]
        if not rest:
            return f"no two rows have the same {listed(same)}"
        among = f"among rows with the same {listed(same)}, " if same else ""
        held = [f"{predicate.op.against} {predicate.left.name}" for predicate in rest]
        return f"{among}no row has {listed(held)} than another"
    return f"no two rows t and s where {listed([_one(predicate) for predicate in predicates])}"


def _own(predicate: Predicate) -> bool:
    """Whether a predicate compares a column of one row with the same column of the other, seen from t."""
    left, right = predicate.left, predicate.right
    return isinstance(right, Column) and (left.var, right.var) == ("t", "s") and left.name == right.name


def _one(predicate: Predicate) -> str:
    left, right = predicate.left, predicate.right
    said = constant_text(right) if isinstance(right, Constant) else f"{right.var}.{right.name}"
    return f"{left.var}.{left.name} {predicate.op.says} {said}"


def listed(items: Sequence[str]) -> str:
    """Words with commas and an `and`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
