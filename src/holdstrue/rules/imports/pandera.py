"""Schemas of pandera as `schema.to_yaml()` writes them: nullable, unique and the built-in checks of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdstrue.errors import brief
from holdstrue.operators import Op
from holdstrue.rules.bodies import Body, Key, NotNull
from holdstrue.rules.imports.collected import (
    Collected,
    ForeignTest,
    UnmappedError,
    between,
    compared,
    declared_of,
    names_of,
    none_of,
    one_of,
    taken,
)
from holdstrue.rules.model import Severity

Bodies = Callable[[str, Mapping[str, Any]], list[Body]]


def _never(op: Op) -> Bodies:
    """A column that never stands so to the value."""
    return lambda column, given: [compared(column, op, _value(given, "value", "min_value", "max_value"))]


def _value(given: Mapping[str, Any], *names: str) -> Any:
    for name in names:
        if name in given:
            return given[name]
    raise UnmappedError("it has no value")


def _range(column: str, given: Mapping[str, Any]) -> list[Body]:
    low, high = given.get("min_value"), given.get("max_value")
    return between(column, low, high, low_too=given.get("include_min", True), high_too=given.get("include_max", True))


CHECKS: Mapping[str, Bodies] = {
    **dict.fromkeys(("greater_than_or_equal_to", "ge"), _never(Op.LT)),
    **dict.fromkeys(("greater_than", "gt"), _never(Op.LE)),
    **dict.fromkeys(("less_than_or_equal_to", "le"), _never(Op.GT)),
    **dict.fromkeys(("less_than", "lt"), _never(Op.GE)),
    **dict.fromkeys(("equal_to", "eq"), _never(Op.NE)),
    **dict.fromkeys(("not_equal_to", "ne"), _never(Op.EQ)),
    **dict.fromkeys(("in_range", "between"), _range),
    "isin": lambda column, given: [one_of(column, _value(given, "value", "allowed_values"))],
    "notin": lambda column, given: none_of(column, _value(given, "value", "forbidden_values")),
}
"""By check what it says of its column. Another one is a line."""


def read_pandera(content: Mapping[str, Any], into: Collected) -> None:
    """Add the rules of a schema; its table is called as the schema is, if at all."""
    name = content.get("name")
    table = name if isinstance(name, str) and name.strip() else None
    columns = content.get("columns")
    for column, about in columns.items() if isinstance(columns, dict) else ():
        if not isinstance(column, str) or not isinstance(about, dict):
            into.miss(brief(column), "a column", f"{brief(about)} was not understood")
            continue
        _read_column(column, about, table, into)
    if content.get("unique"):
        taken(
            ForeignTest(into, "unique", table, "unique"),
            lambda test: test.add(Key(names_of(content["unique"], "unique"))),
        )
    if content.get("checks"):
        into.miss("checks", "checks of the whole table", "their functions are not in the file")
    if content.get("index"):
        into.miss("index", "the index", "tables have columns only; write it as a column")


def _together(test: ForeignTest, columns: Any) -> None:
    test.add(Key(names_of(columns, "unique")))


def _read_column(column: str, about: Mapping[str, Any], table: str | None, into: Collected) -> None:
    if about.get("regex"):
        into.miss(column, "the column", "its name is a regular expression")
        return
    if about.get("required") is False:
        into.note(column, "the column may be missing there; rules here need it")
    if about.get("dtype") is not None:
        taken(ForeignTest(into, column, table, f"dtype {about['dtype']}"), _declare, column, about["dtype"])
    if about.get("nullable") is False:
        taken(ForeignTest(into, column, table, "not nullable"), lambda test: test.add(NotNull((column,))))
    if about.get("unique") is True:
        taken(ForeignTest(into, column, table, "unique"), lambda test: test.add(Key((column,))))
    for what, given in _checks(column, about.get("checks"), into):
        said = given.get("options")
        options: dict[str, Any] = said if isinstance(said, dict) else {}
        severity: Severity = "warn" if options.get("raise_warning") else "error"
        taken(ForeignTest(into, column, table, what, severity), _add, column, given, options)


def _declare(test: ForeignTest, column: str, dtype: Any) -> None:
    test.into.types[column if test.table is None else f"{test.table}.{column}"] = declared_of(dtype)


def _add(test: ForeignTest, column: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    if test.what not in CHECKS:
        raise UnmappedError("no rule here says this")
    if options.get("ignore_na") is False:
        raise UnmappedError("NULLs break it there, and pass here")
    test.add(*CHECKS[test.what](column, given))


def _checks(column: str, checks: Any, into: Collected) -> Iterator[tuple[str, dict[str, Any]]]:
    """Checks with their arguments, in the forms that versions of pandera write: a mapping by name, or a list."""
    listed: list[tuple[Any, Any]] = []
    if isinstance(checks, dict):
        listed = list(checks.items())
    elif isinstance(checks, list):
        for one in checks:
            options = one.get("options") if isinstance(one, dict) else None
            named = options.get("check_name") if isinstance(options, dict) else None
            if named is not None:
                listed.append((named, one))
            else:
                listed += one.items() if isinstance(one, dict) else [(one, {})]
    elif checks is not None:
        into.miss(column, "checks", f"{brief(checks)} was not understood")
    for what, given in listed:
        if not isinstance(what, str):
            into.miss(column, "a check", f"{brief(what)} was not understood")
        else:
            yield what, given if isinstance(given, dict) else {"value": given}
