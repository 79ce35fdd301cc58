"""What people write first, rewritten as the rule it is here, for the hint of an error."""

from __future__ import annotations

import re

from holdstrue.errors import RuleError
from holdstrue.operators import PATTERN, Op
from holdstrue.rules.condition import parse_condition
from holdstrue.rules.model import All, Any, Column, Comparison, Condition, IsNull, Not, Predicate
from holdstrue.rules.text import predicate_text
from holdstrue.rules.tokens import name_text

_CALL = re.compile(r"\s*((?:is|primary|unique)?[\s_]*[a-z_]+)\s*\(([^()]+)\)\s*", re.IGNORECASE)
_SAID = re.compile(r"\s*([^\s()=<>]+)\s+(?:is\s+)?(unique|not[\s_]null|required|mandatory)\s*", re.IGNORECASE)
_COMPARES = re.compile(rf"{PATTERN}|\b(?:in|between|is)\b", re.IGNORECASE)
_KEY = frozenset(("unique", "isunique", "primarykey", "uniquekey", "pk", "distinct", "nodups", "noduplicates"))
_NOT_NULL = frozenset(("notnull", "isnotnull", "nonnull", "nonempty", "notempty", "required", "mandatory", "notna"))

_MOST = 5
"""Rules or comparisons that are written out in a hint."""


def rewritten(text: str) -> str | None:
    """The rule, or rules, that a text most plainly means; None where it is not plain.

    Examples
    --------
    >>> rewritten("unique(zip)"), rewritten("NOT_NULL(zip)"), rewritten("zip is unique")
    ('key(zip)', 'not null(zip)', 'key(zip)')
    >>> rewritten("zip > 0"), rewritten("zip in (10, 11)")
    ('not(t.zip <= 0)', 'not(t.zip != 10 and t.zip != 11)')
    >>> rewritten("a >= 1 and b is not null")
    'two rules, not(t.a < 1) and not null(b)'
    """
    call, said = _CALL.fullmatch(text), _SAID.fullmatch(text)
    if call is not None or said is not None:
        word, columns = (call[1], call[2].strip()) if call is not None else (said[2], said[1]) if said else ("", "")
        word = re.sub(r"[\s_]", "", word).lower()
        if word in _KEY:
            return f"key({columns})"
        return f"not null({columns})" if word in _NOT_NULL else None
    if not _COMPARES.search(text):  # a column alone is a condition, but no rule that anybody means
        return None
    try:
        rules = _rules(parse_condition(text))
    except RuleError:
        return None
    if rules is None or len(rules) > _MOST:
        return None
    if len(rules) == 1:
        return rules[0]
    number = ("two", "three", "four", "five")[len(rules) - 2]
    return f"{number} rules, {', '.join(rules[:-1])} and {rules[-1]}"


def _rules(condition: Condition) -> list[str] | None:
    """Rules that together demand a condition of every row."""
    match condition:
        case All(operands):
            parts = [_rules(operand) for operand in operands]
            return None if None in parts else [rule for part in parts for rule in part or ()]
        case IsNull(column, negated=True):
            return [f"not null({name_text(column)})"]
        case Any(operands):
            terms = [_opposite(operand) for operand in operands]
        case _:
            terms = [_opposite(condition)]
    if None in terms or len(terms) > _MOST:
        return None
    return [f"not({' and '.join(term for term in terms if term)})"]


def _opposite(condition: Condition) -> str | None:
    match condition:
        case Not(Comparison() as inner):
            return _comparison(inner, inner.op)
        case Comparison():
            return _comparison(condition, condition.op.negated)
        case _:
            return None


def _comparison(condition: Comparison, op: Op) -> str:
    right = Column("t", condition.right) if isinstance(condition.right, str) else condition.right
    return predicate_text(Predicate(Column("t", condition.column), op, right))
