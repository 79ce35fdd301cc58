"""The DC lists that Hydra, DCFinder and IncDC print: `[DC: t0.a(String) == t1.a(String)  ... ]`."""

from __future__ import annotations

import re

from holdstrue.errors import RuleError
from holdstrue.operators import PATTERN, SYMBOLS
from holdstrue.rules.cursor import DENIAL
from holdstrue.rules.denial import Parsed, WrittenColumn, WrittenComparison, assemble

_START = re.compile(r"\s*\[\s*DC\s*:", re.IGNORECASE)
_OPERATOR = re.compile(rf"\s({PATTERN})\s")
_COLUMN = re.compile(r"([^\W\d]\w*)\.(.+)", re.DOTALL)
_HINT = f"{DENIAL}, here with two spaces between comparisons: [DC: t0.a == t1.a  t0.b <> t1.b  ]"


def looks_like_hydra(text: str) -> bool:
    """Whether the text starts with `[DC:`."""
    return _START.match(text) is not None


def parse_hydra(text: str) -> Parsed:
    """Read one line of a DC list; a column keeps its `(Type)`, as the headers of such files carry it.

    Examples
    --------
    >>> from holdstrue.rules.text import text_of
    >>> text_of(parse_hydra("[DC: t0.id(String) == t1.code(String)  ]").body)
    'not(t.`id(String)` = s.`code(String)`)'
    """
    opening = _START.match(text)
    assert opening is not None
    end = text.rfind("]")
    if end < 0:
        raise RuleError("expected ']' at the end", text=text, start=len(text.rstrip()), hint=_HINT)
    if text[end + 1 :].strip():
        raise RuleError("the rule should end here", text=text, start=end + 1, end=len(text), hint=_HINT)
    comparisons = [
        _comparison(text, opening.end() + part.start(), part.group())
        for part in re.finditer(r"\S+(?:\s\S+)*", text[opening.end() : end])
    ]
    if not comparisons:
        raise RuleError("the list of comparisons is empty", text=text, start=0, end=end + 1, hint=_HINT)
    return assemble(text, comparisons)


def _comparison(text: str, start: int, part: str) -> WrittenComparison:
    operator = _OPERATOR.search(part)
    if operator is None:
        raise RuleError("expected a comparison", text=text, start=start, end=start + len(part), hint=_HINT)
    left = _operand(text, start, part[: operator.start()])
    right = _operand(text, start + operator.end(), part[operator.end() :])
    return WrittenComparison(left, SYMBOLS[operator.group(1)], right, start, start + len(part))


def _operand(text: str, start: int, side: str) -> WrittenColumn:
    match = _COLUMN.fullmatch(side)
    if match is None:
        raise RuleError(
            "expected a column such as t0.name",
            text=text,
            start=start,
            end=start + max(1, len(side)),
            hint=_HINT,
        )
    return WrittenColumn(match.group(1), match.group(2), start, start + len(side))
