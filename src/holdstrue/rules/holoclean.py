"""HoloClean's constraints: `t1&t2&EQ(t1.a,t2.a)&IQ(t1.b,t2.b)`."""

from __future__ import annotations

import re

from holdstrue.errors import RuleError
from holdstrue.operators import HOLOCLEAN
from holdstrue.rules.cursor import DENIAL
from holdstrue.rules.denial import Parsed, WrittenColumn, WrittenComparison, assemble
from holdstrue.rules.model import Constant, number_as_written

_NAME = r"[^\W\d]\w*"
_CALL = rf"{_NAME}\s*\(\s*(?:{_NAME}\s*\.|[\"'])"
_START = re.compile(rf"(\s*(?:{_NAME}\s*&\s*)+)(?={_CALL})")
_PART = re.compile(rf"({_NAME})\s*\((.*)\)\s*$", re.DOTALL)
_HINT = f"{DENIAL}: t1&t2&EQ(t1.a,t2.a)&IQ(t1.b,t2.b), with {' '.join(sorted(HOLOCLEAN, key=len))}"


def looks_like_holoclean(text: str) -> bool:
    """Whether the text starts with variables and `&` before a call."""
    return _START.match(text) is not None


def parse_holoclean(text: str) -> Parsed:
    """Read one line of a HoloClean constraints file.

    Column names may hold spaces and odd characters: a name ends at the comma or the last bracket.
    Constants stand in quotes and are text; a bare number is a number.

    Examples
    --------
    >>> from holdstrue.rules.text import text_of
    >>> text_of(parse_holoclean('t1&EQ(t1.State,"al")&LT(t1.Bed Count,3)').body)
    "not(t.State = 'al' and t.`Bed Count` < 3)"
    """
    opening = _START.match(text)
    assert opening is not None
    declared = re.findall(_NAME, opening.group(1))
    comparisons: list[WrittenComparison] = []
    start = opening.end(1)
    # An & separates where another call follows; any other belongs to a name.
    for cut in [*re.finditer(rf"&\s*(?={_CALL})", text[start:]), None]:
        end = opening.end(1) + cut.start() if cut else len(text)
        comparisons.append(_comparison(text, start, text[start:end], declared))
        start = opening.end(1) + cut.end() if cut else start
    return assemble(text, comparisons, tuple(declared))


def _comparison(text: str, start: int, part: str, variables: list[str]) -> WrittenComparison:
    end = start + len(part.rstrip())
    match = _PART.match(part)
    if match is None:
        raise RuleError("expected a comparison such as EQ(t1.a,t2.a)", text=text, start=start, end=end, hint=_HINT)
    if match.group(1).upper() not in HOLOCLEAN:
        raise RuleError(
            f"unknown operator {match.group(1)!r}",
            text=text,
            start=start,
            end=start + match.end(1),
            hint=_HINT,
        )
    inside = match.group(2)
    known = "|".join(map(re.escape, variables))
    # The comma that separates is followed by a variable, a quote or a number; others belong to names.
    comma = re.search(rf",(?=\s*(?:(?:{known})\.|[\"'+\-.0-9]))", inside) or re.search(",", inside)
    if comma is None:
        raise RuleError("this comparison has one side", text=text, start=start, end=end, hint=_HINT)
    origin = start + match.start(2)
    left = _operand(text, origin, inside[: comma.start()], variables)
    right = _operand(text, origin + comma.end(), inside[comma.end() :], variables)
    return WrittenComparison(left, HOLOCLEAN[match.group(1).upper()], right, start, end)


def _operand(text: str, start: int, side: str, variables: list[str]) -> WrittenColumn | Constant:
    start += len(side) - len(side.lstrip())
    side = side.strip()
    if len(side) >= 2 and side[0] in "'\"" and side[-1] == side[0]:
        return Constant(side[1:-1])
    if re.fullmatch(r"[+-]?[0-9]+", side):
        return number_as_written(int(side), side)
    if re.fullmatch(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)", side):
        return number_as_written(float(side), side)
    variable, dot, name = side.partition(".")
    if not dot or variable.strip() not in variables or not name.strip():
        raise RuleError(
            f"expected {' or '.join(f'{v}.column' for v in variables)} or a constant in quotes",
            text=text,
            start=start,
            end=start + max(1, len(side)),
            hint=_HINT,
        )
    return WrittenColumn(variable.strip(), name.strip(), start, start + len(side))
