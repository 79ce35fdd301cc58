"""One entry of a rule file: checked field by field, so that a mistake is named where it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from holdstrue.errors import RuleError, brief, underline
from holdstrue.rules.model import Rule, Severity, Tolerance
from holdstrue.rules.parser import parse_rule

FIELDS = ("name", "rule", "severity", "where", "tolerance", "description", "table")


def rule_from_entry(entry: Mapping[Any, Any], place: str) -> Rule:
    """The rule of a mapping with the fields of a rule file; `place` starts every message.

    Examples
    --------
    >>> rule_from_entry({"rule": "key(id)", "severity": "warn", "tolerance": "1%"}, "rule 1").tolerance
    Tolerance(count=None, share=Decimal('0.01'))
    """
    for field in entry:
        if field not in FIELDS:
            raise RuleError(f"{place}: unknown field {brief(field)}", hint=f"a rule has {', '.join(FIELDS)}")
    name = text_field(entry, "name", place)
    if name is not None:
        place = f"{place} ({name})"
    text = text_field(entry, "rule", place)
    if text is None:
        raise RuleError(f"{place}: no rule text", hint="write it as rule: 'zip -> city'")
    severity = entry.get("severity", "error")
    if severity not in ("error", "warn"):
        raise RuleError(f"{place}: severity {brief(severity)}", hint="severity is error or warn")
    allowed: Severity = severity
    description, where, table = (text_field(entry, field, place) for field in ("description", "where", "table"))
    try:
        return parse_rule(
            text.strip(),
            name=name,
            description=description or "",
            severity=allowed,
            where=where,
            tolerance=parse_tolerance(entry.get("tolerance")),
            table=table,
        )
    except RuleError as error:
        raise located(error, place) from None


def text_field(entry: Mapping[Any, Any], field: str, place: str) -> str | None:
    """A field that holds text, or None where it is absent."""
    value = entry.get(field)
    if field == "where" and isinstance(value, str) and not value.strip():
        raise RuleError(f"{place}: where is empty", hint="leave it out, or write a condition: where: state = 'CA'")
    if field in entry and (not isinstance(value, str) or not value.strip()):
        note = "" if value is None or isinstance(value, str) else "; put it in quotes to keep YAML from reading it"
        raise RuleError(f"{place}: {field} must be text, got {brief(value)}", hint=f"write {field}: some text{note}")
    return value


def parse_tolerance(value: object) -> Tolerance | None:
    """A tolerance: a count of rows (`5`), or a share of them (`0.01` or `1%`).

    Examples
    --------
    >>> parse_tolerance(5), parse_tolerance("1%")
    (Tolerance(count=5, share=None), Tolerance(count=None, share=Decimal('0.01')))
    """
    if value is None:
        return None
    if isinstance(value, str):
        percent = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*%\s*", value)
        if percent and Decimal(percent.group(1)) <= 100:
            return Tolerance(share=Decimal(percent.group(1)).scaleb(-2))
        if re.fullmatch(r"\s*[0-9]+\s*", value):
            return Tolerance(count=int(value))
    elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Tolerance(count=value)
    elif isinstance(value, float) and 0 <= value < 1:
        return Tolerance(share=Decimal(repr(value)))
    raise RuleError(
        f"tolerance {brief(value)}", hint="a count of rows such as 5, or a share such as 0.01 or 1% (at most 100%)"
    )


def located(error: RuleError, place: str) -> RuleError:
    """The same error with the place of its rule in front."""
    message = error.message
    if error.text is None:
        return RuleError(f"{place}: {message}", hint=error.hint)
    message = message.removesuffix("\n" + underline(error.text, error.start, error.end))
    return RuleError(f"{place}: {message}", text=error.text, start=error.start, end=error.end, hint=error.hint)
