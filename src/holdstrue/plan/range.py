"""RANGE (paper 002, Algorithm 2): which columns the rules read, and which constants of them suffice."""

from __future__ import annotations

from collections.abc import Iterable

from holdstrue.rules.model import Constant, Op, Rule, Scalar


def value_range(rules: Iterable[Rule]) -> dict[str, frozenset[Scalar] | None]:
    """Columns of the rules' own table, each with the constants it is matched with, or None for any value.

    Examples
    --------
    >>> from holdstrue.rules import parse_rule
    >>> value_range([parse_rule("IL -> AT, (10 || 20)")])
    {'IL': frozenset({10}), 'AT': frozenset({20})}
    """
    found: dict[str, frozenset[Scalar] | None] = {}
    for read in (read for rule in rules for read in rule.reads()):
        constant = read.right if read.op is Op.EQ and isinstance(read.right, Constant) else None
        for column in read.columns:
            known = found.get(column, frozenset())
            found[column] = None if constant is None or known is None else known | {constant.value}
    return found
