"""Rules in plain words, for people who do not read logic."""

from __future__ import annotations

from collections.abc import Sequence

from holdstrue.rules.model import CFD, DC, FD, Body, Column, Constant, Inclusion, Key, NotNull, Op, Pattern, Predicate
from holdstrue.rules.text import constant_text


def in_words(body: Body) -> str:
    """What a rule says.

    Examples
    --------
    >>> in_words(FD(("zip",), ("city",)))
    'rows with the same zip have the same city'
    >>> in_words(Key(("area", "phone")))
    'no two rows have the same area and phone'
    >>> pay, tax = (Predicate(Column("t", n), op, Column("s", n)) for n, op in (("pay", Op.GT), ("tax", Op.LT)))
    >>> in_words(DC((pay, tax)))
    'no row has a higher pay and a lower tax than another'
    """
    match body:
        case Key(columns):
            return f"no two rows have the same {_listed(columns)}"
        case FD(lhs, rhs):
            return f"rows with the same {_listed(lhs)} have the same {_listed(rhs)}"
        case CFD(lhs, rhs, tableau):
            return "; ".join(_conditional(lhs, rhs, pattern) for pattern in tableau)
        case NotNull(columns):
            return f"{_listed(columns)} {'is' if len(columns) == 1 else 'are'} never empty"
        case Inclusion(table, columns, ref_table, ref_columns):
            of = f" of {table}" if table else ""
            return f"every {_listed(columns)}{of} occurs in {_listed(ref_columns)} of {ref_table}"
        case DC(predicates):
            return _denied(predicates, two_rows=body.two_rows)


def _conditional(lhs: Sequence[str], rhs: Sequence[str], pattern: Pattern) -> str:
    fixed = [f"{name} is {constant_text(value)}" for name, value in zip(lhs, pattern.lhs, strict=True) if value]
    free = [name for name, value in zip(lhs, pattern.lhs, strict=True) if value is None]
    known = [f"{name} is {constant_text(value)}" for name, value in zip(rhs, pattern.rhs, strict=True) if value]
    same = [name for name, value in zip(rhs, pattern.rhs, strict=True) if value is None]
    where = f"where {_listed(fixed)}, " if fixed else ""
    if same:
        subject = f"rows with the same {_listed(free)}" if free else "rows"
        known.append(f"{subject} have the same {_listed(same)}")
    return where + _listed(known)


def _denied(predicates: Sequence[Predicate], *, two_rows: bool) -> str:
    if not two_rows:
        return f"no row where {_listed([_one(predicate) for predicate in predicates])}"
    if all(_own(predicate) for predicate in predicates):
        same = [p.left.name for p in predicates if p.op is Op.EQ]
        rest = [p for p in predicates if p.op is not Op.EQ]
        if not rest:
            return f"no two rows have the same {_listed(same)}"
        among = f"among rows with the same {_listed(same)}, " if same else ""
        held = [f"{predicate.op.against} {predicate.left.name}" for predicate in rest]
        return f"{among}no row has {_listed(held)} than another"
    return f"no two rows t and s where {_listed([_one(predicate) for predicate in predicates])}"


def _own(predicate: Predicate) -> bool:
    """Whether a predicate compares a column of one row with the same column of the other, seen from t."""
    left, right = predicate.left, predicate.right
    return isinstance(right, Column) and (left.var, right.var) == ("t", "s") and left.name == right.name


def _one(predicate: Predicate) -> str:
    left, right = predicate.left, predicate.right
    said = constant_text(right) if isinstance(right, Constant) else f"{right.var}.{right.name}"
    return f"{left.var}.{left.name} {predicate.op.says} {said}"


def _listed(items: Sequence[str]) -> str:
    """Words with commas and an `and`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
