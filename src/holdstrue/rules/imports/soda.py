"""Checks of Soda (SodaCL): `checks for TABLE:` with metrics, thresholds and references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from holdstrue.errors import brief
from holdstrue.rules.bodies import Body, Inclusion, Key, NotNull
from holdstrue.rules.imports.collected import (
    Collected,
    ForeignTest,
    UnmappedError,
    between,
    condition_of,
    need,
    none_of,
    one_of,
    taken,
    unread,
)
from holdstrue.rules.model import Condition, Severity, Tolerance
from holdstrue.rules.tokens import name_text

_SECTION = re.compile(r"checks for\s+(.+?)(?:\s+\[(.+)\])?\s*")
_FILTER = re.compile(r"filter\s+(.+?)\s+\[(.+)\]\s*")
_METRIC = re.compile(r"\s*([a-z_]+)\s*(?:\(([^()]*)\))?\s*(.*)", re.DOTALL)
_LIMIT = re.compile(r"(=|<=|<|>|>=|!=)\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*")
_REFERENCE = re.compile(
    r"\s*values in\s+\(?([^()]+?)\)?\s+must exist in\s+([^\s()]+)\s+\(?([^()]+?)\)?\s*", re.IGNORECASE
)

_UNITS = ((1440, "day"), (60, "hour"), (1, "minute"))
"""Units of time by their minutes."""

Bodies = Callable[[tuple[str, ...], Mapping[str, Any]], list[Body]]


def _missing(columns: tuple[str, ...], _: Mapping[str, Any]) -> list[Body]:
    return [NotNull(columns)]


def _duplicates(columns: tuple[str, ...], _: Mapping[str, Any]) -> list[Body]:
    return [Key(columns)]


def _invalid(columns: tuple[str, ...], given: Mapping[str, Any]) -> list[Body]:
    [column] = columns
    found: list[Body] = []
    if "valid values" in given:
        found.append(one_of(column, given["valid values"]))
    if "invalid values" in given:
        found += none_of(column, given["invalid values"])
    if "valid min" in given or "valid max" in given:
        found += between(column, given.get("valid min"), given.get("valid max"))
    if not found:
        raise UnmappedError("it does not say which values are valid")
    return found


_VALID = ("valid values", "invalid values", "valid min", "valid max")
METRICS: Mapping[str, tuple[Bodies, tuple[str, ...], bool]] = {
    "missing_count": (_missing, (), True),
    "missing_percent": (_missing, (), True),
    "duplicate_count": (_duplicates, (), False),
    "duplicate_percent": (_duplicates, (), False),
    "invalid_count": (_invalid, _VALID, True),
    "invalid_percent": (_invalid, _VALID, True),
}
"""By metric: what it says of its columns, the settings that it reads, whether it counts rows. Another is a line."""

SUMMED = ("sum", "min", "max")
"""Metrics that are measures of a column here, too."""

NOT_YET: Mapping[str, str] = {
    "schema": "a column that a rule names must be there anyway",
}
"""Checks that are often met and do not map, with the reason."""


def read_soda(content: Mapping[Any, Any], into: Collected) -> None:
    """Add the rules of every table that is checked."""
    filters = {
        (found[1], found[2]): body
        for title, body in content.items()
        if isinstance(title, str) and (found := _FILTER.fullmatch(title)) is not None
    }
    for title, listed in content.items():
        found = _SECTION.fullmatch(title) if isinstance(title, str) else None
        if found is None:
            if not isinstance(title, str) or _FILTER.fullmatch(title) is None:
                into.miss(brief(title), "a section", "only checks of tables map")
            continue
        table, part = found[1], found[2]
        for check in listed if isinstance(listed, list) else [listed]:
            what, given = _written(check)
            test = ForeignTest(into, table, table, what)
            taken(test, _add, given, None if part is None else filters.get((table, part)), part)


def _written(check: Any) -> tuple[str, Any]:
    if isinstance(check, str):
        return check.strip(), {}
    if isinstance(check, dict) and len(check) == 1 and isinstance(next(iter(check)), str):
        what, given = next(iter(check.items()))
        return what.strip(), {} if given is None else given
    return "a check", check


def _add(test: ForeignTest, given: Any, named: Any, part: str | None) -> None:
    if not isinstance(given, dict):
        raise UnmappedError(f"{brief(given)} was not understood")
    where: Condition | None = None
    if part is not None:
        body = need(named, dict, f"the filter [{part}]")
        where = condition_of(body.get("where"), f"the filter [{part}]")
    if given.get("filter") is not None:
        if where is not None:
            raise UnmappedError("a filter of the check and one of the table")
        where = condition_of(given["filter"], "filter")
    name = given.get("name")
    if name is not None:
        name = need(name, str, "name").strip() or None
    reference = _REFERENCE.fullmatch(test.what)
    if reference is not None:
        columns, others = (tuple(part.strip() for part in reference[i].split(",")) for i in (1, 3))
        if len(columns) != len(others):
            raise UnmappedError(f"{len(columns)} columns refer to {len(others)}")
        _refuse_unread(given, ("filter", "name"))
        _with(test, name, "error", where, None).add(Inclusion(test.table, columns, reference[2], others))
        return
    called = _METRIC.fullmatch(test.what)
    if called is not None and called[1] in ("row_count", "freshness", *SUMMED):
        _add_measure(test, called, given, where, name)
        return
    _add_metric(test, given, where, name)


def _add_measure(
    test: ForeignTest, called: re.Match[str], given: Mapping[str, Any], where: Condition | None, name: str | None
) -> None:
    """A number of rows, the sum or an extreme of a column, or the age of the newest value."""
    _refuse_unread(given, ("filter", "name", "warn", "fail"))
    limits = list(_limits(called[3], given))
    if not limits:
        raise UnmappedError("it has no threshold")
    ready = []
    for severity, limit in limits:
        known = name if name is None or len(limits) == 1 else f"{name} ({severity})"
        ready.append((_with(test, known, severity, where, None), limit.strip()))
    for one, limit in ready:
        between_two = re.fullmatch(r"between\s+([0-9]+)\s+and\s+([0-9]+)", limit)
        if called[1] == "row_count":
            found = _LIMIT.fullmatch(limit)
            if between_two is not None:
                one.add_count(int(between_two[1]), int(between_two[2]))
            elif found is None or found[3] or "." in found[2]:
                raise UnmappedError(f"the threshold is {brief(limit)}")
            else:
                one.add_text(f"count() {found[1]} {found[2]}")
            continue
        column = (called[2] or "").strip()
        if called[1] in SUMMED:
            bound = r"-?[0-9]+(?:\.[0-9]+)?"
            if not column or not re.fullmatch(
                rf"(?:=|<=|<|>|>=|!=)\s*{bound}|between\s+{bound}\s+and\s+{bound}", limit
            ):
                raise UnmappedError(f"the threshold is {brief(limit)}")
            one.add_text(f"{called[1]}({name_text(column)}) {limit}")
            continue
        age = re.fullmatch(r"(<=?)\s*(?:([0-9]+)d)?\s*(?:([0-9]+)h)?\s*(?:([0-9]+)m)?", limit)
        if age is None or not any(age.groups()[1:]) or not column or "," in column:
            raise UnmappedError(f"the threshold is {brief(limit)}")
        minutes = sum(int(part or 0) * size for part, size in zip(age.groups()[1:], (1440, 60, 1), strict=True))
        size, unit = next((size, unit) for size, unit in _UNITS if not minutes % size)
        one.add_fresh(column, age[1], minutes // size, unit)


def _add_metric(test: ForeignTest, given: Mapping[str, Any], where: Condition | None, name: str | None) -> None:
    found = _METRIC.fullmatch(test.what)
    metric = found[1] if found is not None else test.what
    if found is None or metric not in METRICS:
        raise UnmappedError(NOT_YET.get(metric, "no rule here says this"))
    bodies, settings, by_rows = METRICS[metric]
    columns = tuple(part.strip() for part in (found[2] or "").split(",") if part.strip())
    if not columns or (bodies is not _duplicates and len(columns) > 1):
        raise UnmappedError(f"it is about {len(columns)} columns")
    _refuse_unread(given, ("filter", "name", "warn", "fail", *settings))
    said = bodies(columns, given)
    limits = list(_limits(found[3], given))
    if not limits:
        raise UnmappedError("it has no threshold")
    ready = []
    for severity, limit in limits:
        tolerance = _tolerance(limit, metric.endswith("_percent"), test)
        if tolerance is not None and not by_rows:
            raise UnmappedError("Soda counts the values that occur twice, a tolerance here counts rows")
        called = name if name is None or len(limits) == 1 else f"{name} ({severity})"
        ready.append(_with(test, called, severity, where, tolerance))
    for one in ready:
        one.add(*said)


def _limits(threshold: str, given: Mapping[str, Any]) -> Iterator[tuple[Severity, str]]:
    """The thresholds with their severities, each as what must hold."""
    if threshold.strip():
        yield "error", threshold
    levels: tuple[tuple[str, Severity], ...] = (("warn", "warn"), ("fail", "error"))
    turned = {">": "<=", ">=": "<", "!=": "=", "<": ">=", "<=": ">", "=": "!="}
    for field, severity in levels:
        if field not in given:
            continue
        found = re.fullmatch(r"\s*when\s+(>=|<=|!=|>|<|=)\s*(.*)", need(given[field], str, field), re.DOTALL)
        if found is None:
            raise UnmappedError(f"{field} is {brief(given[field])}")
        yield severity, f"{turned[found[1]]} {found[2]}"


def _tolerance(limit: str, percent: bool, test: ForeignTest) -> Tolerance | None:
    found = _LIMIT.fullmatch(limit.strip())
    if found is None or found[1] not in ("=", "<", "<="):
        raise UnmappedError(f"the threshold is {brief(limit.strip())}")
    number, op = Decimal(found[2]), found[1]
    if number == 0 and op in ("=", "<="):
        return None
    if op == "=" or number == 0 or (percent and number > 100) or (not percent and (found[3] or number % 1)):
        raise UnmappedError(f"the threshold is {brief(limit.strip())}")
    if not percent:
        count = int(number) - (op == "<")
        return Tolerance(count=count) if count else None
    if op == "<":
        test.into.note(test.place, f"{test.what}: here {number}% itself is tolerated too")
    return Tolerance(share=number.scaleb(-2))


def _with(
    test: ForeignTest, name: str | None, severity: Severity, where: Condition | None, tolerance: Tolerance | None
) -> ForeignTest:
    return ForeignTest(test.into, test.place, test.table, test.what, severity, where, tolerance, name=name)


def _refuse_unread(given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    odd = unread(given, known)
    if odd is not None:
        hint = ": give --null-value to the command that reads the table" if odd == "missing values" else ""
        raise UnmappedError(f"{odd} is no setting that is read here{hint}")
