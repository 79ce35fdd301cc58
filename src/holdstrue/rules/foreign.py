"""Rules as others write them: HoloClean's constraints, and the DC lists of Hydra, DCFinder and IncDC.

HoloClean has `t1&t2&EQ(t1.a,t2.a)&IQ(t1.b,t2.b)`, the lists `[DC: t0.a(String) == t1.a(String)  ... ]`.
"""

from __future__ import annotations

import re

from holdstrue.errors import RuleError
from holdstrue.operators import HOLOCLEAN, PATTERN, SYMBOLS
from holdstrue.rules.denial import Parsed, WrittenColumn, WrittenComparison, assemble
from holdstrue.rules.model import Constant, number_as_written
from holdstrue.rules.tokens import DENIAL

_NAME = r"[^\W\d]\w*"
_CALL = rf"{_NAME}\s*\(\s*(?:{_NAME}\s*\.|[\"'])"
_HOLOCLEAN_START = re.compile(rf"(\s*(?:{_NAME}\s*&\s*)+)(?={_CALL})")
_PART = re.compile(rf"({_NAME})\s*\((.*)\)\s*$", re.DOTALL)
_HOLOCLEAN_HINT = f"{DENIAL}: t1&t2&EQ(t1.a,t2.a)&IQ(t1.b,t2.b), with {' '.join(sorted(HOLOCLEAN, key=len))}"


def parse_foreign(text: str) -> Parsed | None:
    """A rule that starts with `[DC:`, or with variables and `&` before a call; None for any other text."""
    if _HYDRA_START.match(text):
        return parse_hydra(text)
    return parse_holoclean(text) if _HOLOCLEAN_START.match(text) else None


def parse_holoclean(text: str) -> Parsed:
    """Read one line of a HoloClean constraints file.

    Column names may hold spaces and odd characters: a name ends at the comma or the last bracket.
    Constants stand in quotes and are text; a bare number is a number.

    Examples
    --------
    >>> parse_holoclean('t1&EQ(t1.State,"al")&LT(t1.Bed Count,3)').body.text
    "not(t.State = 'al' and t.`Bed Count` < 3)"
    """
    opening = _HOLOCLEAN_START.match(text)
    assert opening is not None
    declared = re.findall(_NAME, opening.group(1))
    comparisons: list[WrittenComparison] = []
    start = opening.end(1)
    # An & separates where another call follows; any other belongs to a name.
    for cut in [*re.finditer(rf"&\s*(?={_CALL})", text[start:]), None]:
        end = opening.end(1) + cut.start() if cut else len(text)
        comparisons.append(_holoclean_comparison(text, start, text[start:end], declared))
        start = opening.end(1) + cut.end() if cut else start
    return assemble(text, comparisons, tuple(declared))


def _holoclean_comparison(text: str, start: int, part: str, variables: list[str]) -> WrittenComparison:
    end = start + len(part.rstrip())
    match = _PART.match(part)
    if match is None:
        raise RuleError(
            "expected a comparison such as EQ(t1.a,t2.a)", text=text, start=start, end=end, hint=_HOLOCLEAN_HINT
        )
    if match.group(1).upper() not in HOLOCLEAN:
        raise RuleError(
            f"unknown operator {match.group(1)!r}",
            text=text,
            start=start,
            end=start + match.end(1),
            hint=_HOLOCLEAN_HINT,
        )
    inside = match.group(2)
    known = "|".join(map(re.escape, variables))
    # The comma that separates is followed by a variable, a quote or a number; others belong to names.
    comma = re.search(rf",(?=\s*(?:(?:{known})\.|[\"'+\-.0-9]))", inside) or re.search(",", inside)
    if comma is None:
        raise RuleError("this comparison has one side", text=text, start=start, end=end, hint=_HOLOCLEAN_HINT)
    origin = start + match.start(2)
    left = _holoclean_operand(text, origin, inside[: comma.start()], variables)
    right = _holoclean_operand(text, origin + comma.end(), inside[comma.end() :], variables)
    return WrittenComparison(left, HOLOCLEAN[match.group(1).upper()], right, start, end)


def _holoclean_operand(text: str, start: int, side: str, variables: list[str]) -> WrittenColumn | Constant:
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
            hint=_HOLOCLEAN_HINT,
        )
    return WrittenColumn(variable.strip(), name.strip(), start, start + len(side))


_HYDRA_START = re.compile(r"\s*\[\s*DC\s*:", re.IGNORECASE)
_HYDRA_OPERATOR = re.compile(rf"\s({PATTERN})\s")
_HYDRA_COLUMN = re.compile(r"([^\W\d]\w*)\.(.+)", re.DOTALL)
_HYDRA_HINT = f"{DENIAL}, here with two spaces between comparisons: [DC: t0.a == t1.a  t0.b <> t1.b  ]"


def parse_hydra(text: str) -> Parsed:
    """Read one line of a DC list; a column keeps its `(Type)`, as the headers of such files carry it.

    Examples
    --------
    >>> parse_hydra("[DC: t0.id(String) == t1.code(String)  ]").body.text
    'not(t.`id(String)` = s.`code(String)`)'
    """
    opening = _HYDRA_START.match(text)
    assert opening is not None
    end = text.rfind("]")
    if end < 0:
        raise RuleError("expected ']' at the end", text=text, start=len(text.rstrip()), hint=_HYDRA_HINT)
    if text[end + 1 :].strip():
        raise RuleError("the rule should end here", text=text, start=end + 1, end=len(text), hint=_HYDRA_HINT)
    comparisons = [
        _hydra_comparison(text, opening.end() + part.start(), part.group())
        for part in re.finditer(r"\S+(?:\s\S+)*", text[opening.end() : end])
    ]
    if not comparisons:
        raise RuleError("the list of comparisons is empty", text=text, start=0, end=end + 1, hint=_HYDRA_HINT)
    return assemble(text, comparisons)


def _hydra_comparison(text: str, start: int, part: str) -> WrittenComparison:
    operator = _HYDRA_OPERATOR.search(part)
    if operator is None:
        raise RuleError("expected a comparison", text=text, start=start, end=start + len(part), hint=_HYDRA_HINT)
    left = _hydra_operand(text, start, part[: operator.start()])
    right = _hydra_operand(text, start + operator.end(), part[operator.end() :])
    return WrittenComparison(left, SYMBOLS[operator.group(1)], right, start, start + len(part))


def _hydra_operand(text: str, start: int, side: str) -> WrittenColumn:
    match = _HYDRA_COLUMN.fullmatch(side)
    if match is None:
        raise RuleError(
            "expected a column such as t0.name",
            text=text,
            start=start,
            end=start + max(1, len(side)),
            hint=_HYDRA_HINT,
        )
    return WrittenColumn(match.group(1), match.group(2), start, start + len(side))
