"""A stable identity for what a rule says, whatever it is called and however it is written."""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal

from holdstrue.rules.model import Body, Constant, Rule
from holdstrue.rules.terms import with_constants
from holdstrue.rules.text import canonical_condition, condition_text


def fingerprint(rule: Rule) -> str:
    """16 hexadecimal digits that rules share when they say the same of the same table.

    Name, description, severity and tolerance do not count; the filter and the table do. A denial
    constraint is the same with t and s exchanged, and the same as the key or the FD it spells out (with
    NULL comparing as unknown).

    Examples
    --------
    >>> from holdstrue.rules.parser import parse_rule
    >>> spelled_out = parse_rule("not(s.city != t.city and t.zip = s.zip)")
    >>> fingerprint(parse_rule("zip -> city")) == fingerprint(spelled_out)
    True
    """
    where = "" if rule.where is None else condition_text(canonical_condition(with_constants(rule.where, _plain)))
    said = "\n".join((canonical_text(rule.body), where, rule.own_table or ""))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def canonical_text(body: Body) -> str:
    """The text that all ways of writing a body share."""
    return body.with_constants(_plain).normal().canonical().text


def _plain(constant: Constant) -> Constant:
    """One constant for all spellings of a number: 3, 3.0 and decimal '3.00' are the same value."""
    value = constant.value
    if constant.written is not None and constant.written.lstrip("+-").startswith("0") and isinstance(value, int):
        # 01907 is meant as text, where it is not 1907
        return constant
    if isinstance(value, int) and not isinstance(value, bool):
        return Constant(value)
    if isinstance(value, bool) or not isinstance(value, float | Decimal) or not math.isfinite(value):
        return constant
    if isinstance(value, Decimal) and abs(value.adjusted()) > 300:
        return constant
    if value == int(value):
        return Constant(int(value))
    if float(value) == value:
        return Constant(float(value))
    sign, digits, exponent = Decimal(value).as_tuple()
    written = "".join(map(str, digits))
    zeros = len(written) - len(written.rstrip("0"))
    assert isinstance(exponent, int)
    return Constant(Decimal((sign, digits[: len(digits) - zeros], exponent + zeros)))
