"""Any rule text turned into a rule: the syntax is told from the text itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from holdstrue.errors import RuleError
from holdstrue.operators import PATTERN, SYMBOLS
from holdstrue.rules.condition import parse_condition
from holdstrue.rules.denial import Parsed, parse_denial
from holdstrue.rules.foreign import parse_foreign
from holdstrue.rules.hints import rewritten
from holdstrue.rules.measured_text import is_measured, measure_meant, parse_measured
from holdstrue.rules.model import (
    CFD,
    FD,
    Condition,
    Constant,
    Demand,
    Inclusion,
    Key,
    Measured,
    NotNull,
    Pattern,
    Rule,
    Severity,
    Source,
    Tolerance,
)
from holdstrue.rules.terms import condition_columns
from holdstrue.rules.text import condition_text
from holdstrue.rules.tokens import DENIAL, Cursor, Token

_FORMS = (
    "rules look like key(a), a -> b, [a=1, b] -> [c], not(t.a = s.a and t.b < 3), a in table.b, not null(a), "
    "a between 0 and 9, b in ('x', 'y'), c matches '^[0-9]+$', len(d) = 4, count() > 1000"
)
_COMPARES = re.compile(rf"{PATTERN}|\b(?:in|between)\b", re.IGNORECASE)
_EVERY_ROW = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)
_CELL = "write _ for any value, and text in 'quotes'"


def parse_rule(
    text: str,
    *,
    name: str | None = None,
    description: str = "",
    severity: Severity = "error",
    where: str | Condition | None = None,
    tolerance: Tolerance | None = None,
    table: str | None = None,
) -> Rule:
    """Read a rule in any of the known syntaxes.

    The rule keeps the form it was written in; `normalise` gives its normal form. A rule that no data
    can violate is rejected here.

    Parameters
    ----------
    text
        The rule: native, HoloClean's, Desbordante's, or a line of Hydra's and IncDC's DC lists.
    name
        By default the rule's own text, as printed.
    where
        Only rows for which this filter is true are looked at.

    Examples
    --------
    >>> parse_rule("[CC=44, zip] -> [street]").text
    '[CC=44, zip] -> [street]'
    >>> parse_rule("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)").text
    'not(t.zip = s.zip and t.city != s.city)'
    >>> parse_rule("zip ->")
    Traceback (most recent call last):
    holdstrue.errors.RuleError: expected a column name, but the text ends
      zip ->
            ^
    hint: names with spaces or other unusual characters go in backticks, `like this`
    """
    parsed = parse_body(text)
    condition = parse_condition(where) if isinstance(where, str) else where
    printed = parsed.body.text
    if name is None:
        name = printed if condition is None else f"{printed} where {condition_text(condition)}"
    rule = Rule(parsed.body, name, description, severity, condition, tolerance, table, Source(text, parsed.spans))
    rule.body.normal(rule.source)  # refuses what no data can violate
    if tolerance is not None and isinstance(rule.body, Measured):
        raise RuleError(
            f"{rule.text} has a tolerance, which counts rows, and is violated by a whole table",
            hint="put what is tolerated into the number: count() > 900 instead of 1000",
        )
    return rule


def parse_body(text: str) -> Parsed:
    """The body of a rule text and its places, without asking whether the rule makes sense."""
    if not text.strip() or text.lstrip().startswith("#"):
        raise RuleError("the rule is empty", text=text.rstrip() or None, hint=_FORMS)
    return parse_foreign(text) or parse_native(text)


def parse_native(text: str) -> Parsed:
    """The same of a text that is written as rules are printed here."""
    # SQL's way of counting rows; the text keeps its length, so that places in it stay where they are
    cursor = Cursor(_EVERY_ROW.sub(lambda found: found.group().replace("*", " "), text))
    if cursor.sees("not", "null", "("):
        return _parse_columns(cursor, NotNull)
    if cursor.sees("key", "("):
        return _parse_columns(cursor, Key)
    if cursor.sees("not") or cursor.sees("forall"):
        return parse_denial(cursor)
    if is_measured(cursor):
        return parse_measured(cursor)
    if cursor.holds("->"):
        return _parse_dependency(cursor)
    meant = rewritten(text)
    if meant is None and _is_demand(cursor):
        return _parse_demand(text)
    if cursor.holds("in") and meant is None:
        return _parse_inclusion(cursor)
    aggregate = measure_meant(cursor)
    if aggregate is not None:
        cursor.fail("there is no such measure", at=cursor.peek(), hint=aggregate)
    if _COMPARES.search(text):
        hint = f"{DENIAL}, as in not(t.a < 0); what every row must have is written without t: a >= 0"
        cursor.fail("expected not(...) around comparisons", at=cursor.peek(), hint=hint)
    return cursor.fail("this is not a rule", at=cursor.peek(), hint=_FORMS if meant is None else f"write {meant}")


def _is_demand(cursor: Cursor) -> bool:
    """Whether a text begins as a condition on one row that is written without t."""
    at = 0
    while cursor.peek(at).word in ("(", "not"):
        at += 1
    if cursor.peek(at).kind == "name" and cursor.peek(at).word in ("len", "length") and cursor.peek(at + 1).word == "(":
        return True
    if cursor.peek(at).kind in ("string", "number"):
        return cursor.peek(at + 1).word in SYMBOLS and cursor.peek(at + 3).word != "."
    if cursor.peek(at).kind not in ("name", "quoted", "double"):
        return False
    following = cursor.peek(at + 1)
    at += 2 if following.word == "not" else 1
    said = cursor.peek(at)
    if said.kind == "symbol" and said.word in SYMBOLS:
        return cursor.peek(at + 2).word != "."  # a column of t or s is a denial's
    if said.word == "in":
        return cursor.peek(at + 1).word == "(" and cursor.peek(at + 2).kind in ("string", "number", "double", "name")
    return said.word in ("between", "matches", "is")


def _parse_demand(text: str) -> Parsed:
    condition = parse_condition(text)
    found = ((column, text.find(column)) for column in condition_columns(condition))
    return Parsed(Demand(condition), tuple((column, at, at + len(column)) for column, at in found if at >= 0))


def _spans(tokens: list[Token]) -> tuple[tuple[str, int, int], ...]:
    return tuple((token.value, token.start, token.end) for token in tokens)


def _parse_columns(cursor: Cursor, kind: type[Key] | type[NotNull]) -> Parsed:
    while not cursor.accept("("):
        cursor.take()
    names = [cursor.name("a column name")]
    while cursor.accept(","):
        names.append(cursor.name("a column name"))
    cursor.expect(")", "after the columns")
    cursor.finish()
    return Parsed(kind(tuple(token.value for token in names)), _spans(names))


@dataclass(frozen=True)
class _Attribute:
    token: Token
    cell: Constant | None
    fixed: bool


def _parse_dependency(cursor: Cursor) -> Parsed:
    outer = cursor.sees("(") and cursor.wrapped()
    if outer:
        cursor.take()
    lhs = _attributes(cursor)
    cursor.expect("->", "between the two sides")
    rhs = _attributes(cursor)
    tableau = _tableau(cursor, len(lhs), len(rhs))
    if outer:
        cursor.expect(")", "to close the outer bracket")
    cursor.finish()
    inline = [attribute for attribute in lhs + rhs if attribute.fixed]
    if inline and tableau:
        cursor.fail(
            "a constant here and a pattern tableau as well",
            at=inline[0].token,
            hint="put all constants in the tableau",
        )
    if inline:
        tableau = (Pattern(tuple(a.cell for a in lhs), tuple(a.cell for a in rhs)),)
    left, right = (tuple(a.token.value for a in side) for side in (lhs, rhs))
    body = CFD(left, right, tableau) if tableau else FD(left, right)
    return Parsed(body, _spans([a.token for a in lhs + rhs]))


def _attributes(cursor: Cursor) -> list[_Attribute]:
    brackets = cursor.accept("[")
    attributes = [_attribute(cursor)]
    # `, (` and `, tp = (` start the papers' pattern tuple, not another attribute.
    while cursor.sees(",") and (brackets or not _sees_pattern(cursor)):
        cursor.take()
        attributes.append(_attribute(cursor))
    if brackets:
        cursor.expect("]", "after the attributes")
    return attributes


def _attribute(cursor: Cursor) -> _Attribute:
    token = cursor.name("a column name")
    if not cursor.accept("="):
        return _Attribute(token, None, fixed=False)
    return _Attribute(token, _cell(cursor), fixed=True)


def _sees_pattern(cursor: Cursor) -> bool:
    following = cursor.peek(1)
    named = following.kind == "name" and cursor.sees(",", following.word, "=", "(")
    return named or cursor.sees(",", "(")


def _tableau(cursor: Cursor, left: int, right: int) -> tuple[Pattern, ...]:
    if cursor.sees(",") and _sees_pattern(cursor):
        cursor.take()
        if not cursor.sees("("):
            cursor.take()
            cursor.take()
    elif not cursor.accept("with"):
        return ()
    rows = [_pattern(cursor, left, right)]
    while cursor.accept(","):
        rows.append(_pattern(cursor, left, right))
    return tuple(rows)


def _pattern(cursor: Cursor, left: int, right: int) -> Pattern:
    start = cursor.expect("(", "to start a pattern", f"for example with (44, _ || _); {_CELL}")
    cells, bar = [_cell(cursor)], None
    while cursor.sees(",") or (bar is None and cursor.sees("||")):
        bar = len(cells) if cursor.take().word == "||" else bar
        cells.append(_cell(cursor))
    end = cursor.expect(")", "to end the pattern", _CELL)
    if len(cells) != left + right or bar not in (None, left):
        got = len(cells) if bar is None else f"{bar} || {len(cells) - bar}"
        cursor.fail(
            f"this pattern has {got} values for {left} attributes on the left and {right} on the right",
            at=start,
            end=end,
            hint="one value or _ for each attribute, with || in place of the arrow",
        )
    return Pattern(tuple(cells[:left]), tuple(cells[left:]))


def _cell(cursor: Cursor) -> Constant | None:
    return None if cursor.accept("_") else cursor.constant(_CELL)


def _parse_inclusion(cursor: Cursor) -> Parsed:
    start = cursor.peek()
    left_table, left = _reference(cursor)
    cursor.expect("in", "between the columns and what they refer to")
    table, right = _reference(cursor)
    end = cursor.last
    cursor.finish()
    if table is None:
        cursor.fail(
            "which table is referred to?",
            at=right[0],
            end=end,
            hint=f"write the table before the column: customers.{right[0].value}",
        )
    if len(left) != len(right):
        cursor.fail(
            f"{len(left)} columns refer to {len(right)}",
            at=start,
            end=end,
            hint="both sides need the same number: orders.(a, b) in customers.(x, y)",
        )
    left_name, name = (None if t is None else t.value for t in (left_table, table))
    spans = _spans(left) + tuple((f"{name}.{token.value}", token.start, token.end) for token in right)
    assert name is not None
    body = Inclusion(left_name, tuple(t.value for t in left), name, tuple(t.value for t in right))
    return Parsed(body, spans + _spans([t for t in (left_table, table) if t is not None]))


def _reference(cursor: Cursor) -> tuple[Token | None, list[Token]]:
    """A table, if any, and its columns: `a`, `orders.a`, `orders.(a, b)`, `orders[a, b]`, `(a, b)`."""
    path: list[Token] = []
    while not (cursor.sees("(") or cursor.sees("[")):
        path.append(cursor.name("a column or table name"))
        if cursor.sees("["):
            break
        if not cursor.accept("."):
            return _joined(path[:-1]), path[-1:]
    closing = ")" if cursor.take().word == "(" else "]"
    columns = [cursor.name("a column name")]
    while cursor.accept(","):
        columns.append(cursor.name("a column name"))
    cursor.expect(closing, "after the columns")
    return _joined(path), columns


def _joined(path: list[Token]) -> Token | None:
    """The table a dotted path names: `sales.orders` is one name with a dot."""
    if not path:
        return None
    return replace(path[0], value=".".join(token.value for token in path), end=path[-1].end)
