"""Tests of dbt's `schema.yml`: of models, seeds, snapshots and sources, and of their columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdstrue.errors import brief
from holdstrue.rules.bodies import Inclusion, Key, NotNull
from holdstrue.rules.imports.collected import (
    Collected,
    ForeignTest,
    UnmappedError,
    between,
    condition_of,
    demanded,
    names_of,
    need,
    one_of,
    taken,
    unread,
)
from holdstrue.rules.model import Tolerance

_REF = re.compile(r"\s*(?:\{\{)?\s*(ref|source)\s*\(([^()]*)\)\s*(?:\}\})?\s*")
_VERSION = re.compile(r"(?:v|version)\s*=\s*['\"]?(\w+)['\"]?")
_OVER = re.compile(r"\s*>\s*([0-9]+)\s*")
_SILENT = frozenset(("tags", "meta", "alias", "schema", "database", "store_failures", "store_failures_as", "limit",
                     "group", "docs", "sql_header"))  # fmt: skip
"""Settings of a test that do not change its verdict."""
_SETTINGS = ("name", "description", "where", "severity", "enabled", "error_if", "warn_if", "column_name")
_GROUPS_NULLS = "dbt takes NULLs for equal there, and a rule here does not compare them"

Add = Callable[[ForeignTest, "str | None", Mapping[str, Any]], None]


def _unique(test: ForeignTest, column: str | None, _: Mapping[str, Any]) -> None:
    test.add(Key((_own(column),)))


def _not_null(test: ForeignTest, column: str | None, _: Mapping[str, Any]) -> None:
    test.add(NotNull((_own(column),)))


def _accepted(test: ForeignTest, column: str | None, given: Mapping[str, Any]) -> None:
    test.add(one_of(_own(column), given.get("values")))


def _relationships(test: ForeignTest, column: str | None, given: Mapping[str, Any]) -> None:
    to = need(given.get("to"), str, "to")
    named = _referred(to)
    if named is None:
        raise UnmappedError(f"to is {brief(to)}, and neither ref(...) nor source(...)")
    field = need(given.get("field"), str, "field")
    test.add(Inclusion(test.table, (_own(column),), _table_name(*named, test.into), (field,)))


def _referred(text: str) -> tuple[str | None, str] | None:
    """The source (None for a model) and the table that a reference names.

    >>> _referred("ref('customers')"), _referred("{{ source('raw', 'orders') }}"), _referred("ref('c', v=2)")
    ((None, 'customers'), ('raw', 'orders'), (None, 'c_v2'))
    """
    found = _REF.fullmatch(text)
    parts = [] if found is None else [part.strip() for part in found[2].split(",")]
    versions = [match[1] for part in parts if (match := _VERSION.fullmatch(part))]
    names = [part.strip("'\"") for part in parts if "=" not in part]
    if found is None or not names or not all(names) or len(names) + len(versions) < len(parts):
        return None
    if found[1] == "source":
        return (names[0], names[1]) if len(names) == 2 and not versions else None
    # the relation of a version is called so, unless its alias says otherwise
    return None, names[-1] + "".join(f"_v{version}" for version in versions)


def _table_name(source: str | None, table: str, into: Collected) -> str:
    """What a table is called: with its source where a model or another source has one of the same name."""
    return f"{source}.{table}" if source is not None and table in into.qualified else table


def _names(content: Any) -> Iterator[tuple[str | None, str]]:
    """All tables that a file speaks of or refers to, with their sources."""
    if isinstance(content, str):
        named = _referred(content)
        if named is not None:
            yield named
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _names(part)


def _shared(content: Mapping[str, Any]) -> frozenset[str]:
    """Names that a model and a source have, or two sources."""
    found = set(_names(dict(content)))
    for section in ("models", "seeds", "snapshots", "sources"):
        nodes = content.get(section)
        for node in (one for one in nodes if isinstance(one, dict)) if isinstance(nodes, list) else ():
            tables = node.get("tables") if section == "sources" else [node]
            source = str(node.get("name")) if section == "sources" else None
            found |= {(source, str(one["name"])) for one in tables or () if isinstance(one, dict) and "name" in one}
    names = [table for _, table in found]
    return frozenset(name for name in names if names.count(name) > 1)


def _combination(test: ForeignTest, _: str | None, given: Mapping[str, Any]) -> None:
    test.add(Key(names_of(given.get("combination_of_columns"), "combination_of_columns")))
    test.into.note(test.place, f"{test.what}: {_GROUPS_NULLS}")


def _range(test: ForeignTest, column: str | None, given: Mapping[str, Any]) -> None:
    too = need(given.get("inclusive", True), bool, "inclusive")
    low, high = (_written(given.get(name), name) for name in ("min_value", "max_value"))
    test.add(*between(_own(column), low, high, low_too=too, high_too=too))


def _written(value: Any, name: str) -> Any:
    """A bound that stands in SQL as it is written: text in quotes is text, any other is a column or an expression.

    >>> _written("'a'", "min_value"), _written(3, "min_value")
    ('a', 3)
    """
    if not isinstance(value, str):
        return value
    if len(value) > 1 and value[0] == value[-1] == "'" and "'" not in value[1:-1].replace("''", ""):
        return value[1:-1].replace("''", "'")
    raise UnmappedError(f"{name} is {brief(value)}, a column or an expression")


def _expression(test: ForeignTest, column: str | None, given: Mapping[str, Any]) -> None:
    said = need(given.get("expression"), str, "expression")
    test.add(*demanded(condition_of(f"`{column}` {said}" if column is not None else said, "expression")))


def _recency(test: ForeignTest, column: str | None, given: Mapping[str, Any]) -> None:
    unit = need(given.get("datepart"), str, "datepart")
    if unit not in ("second", "minute", "hour", "day", "week"):
        raise UnmappedError(f"datepart is {brief(unit)}")
    test.add_fresh(_own(given.get("field") or column), "<=", need(given.get("interval"), int, "interval"), unit)


def _row_count(test: ForeignTest, _: str | None, given: Mapping[str, Any]) -> None:
    value = given.get("value")
    test.add_count(given.get("min_value", value), given.get("max_value", value))


TESTS: Mapping[str, tuple[Add, tuple[str, ...]]] = {
    "unique": (_unique, ()),
    "not_null": (_not_null, ()),
    "accepted_values": (_accepted, ("values", "quote")),
    "relationships": (_relationships, ("to", "field")),
    "dbt_utils.unique_combination_of_columns": (_combination, ("combination_of_columns", "quote_columns")),
    "dbt_utils.accepted_range": (_range, ("min_value", "max_value", "inclusive")),
    "dbt_utils.expression_is_true": (_expression, ("expression",)),
    "dbt_utils.recency": (_recency, ("datepart", "field", "interval")),
    "dbt_expectations.expect_table_row_count_to_be_between": (_row_count, ("min_value", "max_value")),
    "dbt_expectations.expect_table_row_count_to_equal": (_row_count, ("value",)),
}
"""By test what adds its rules, and the arguments that it reads. Another test is a function and a line."""

_BY_ROWS = ("not_null", "accepted_values", "relationships", "dbt_utils.accepted_range", "dbt_utils.expression_is_true")
"""Tests whose failures are rows, so that a number of them is a tolerance."""


def read_dbt(content: Mapping[str, Any], into: Collected) -> None:
    """Add the rules of every table that a file speaks of."""
    into.qualified = _shared(content)
    for name in sorted(into.qualified):
        into.note(name, "is the name of several tables, so that those of sources are called SOURCE.TABLE")
    for section in ("models", "seeds", "snapshots"):
        for node in _list(content, section, into, section):
            _read_table(node, section, into, None)
    for source in _list(content, "sources", into, "sources"):
        name = source.get("name", "?")
        for table in _list(source, "tables", into, f"sources.{name}"):
            _read_table(table, f"sources.{name}", into, str(name))
    if "unit_tests" in content:
        into.miss("unit_tests", "unit tests", "they test models, not data")


def _list(node: Mapping[str, Any], name: str, into: Collected, place: str) -> Iterator[dict[str, Any]]:
    """The mappings of a list; what else stands there is listed as not understood."""
    value = node.get(name) or []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            yield item
        else:
            into.miss(place, name, f"{brief(item)} was not understood")


def _read_table(node: Mapping[str, Any], section: str, into: Collected, source: str | None) -> None:
    table = node.get("name")
    if not isinstance(table, str) or not table.strip():
        into.miss(section, "a table", f"its name is {brief(table)}")
        return
    table = _table_name(source, table, into)
    for test in _tests(node):
        _read_test(test, table, None, into)
    for column in _list(node, "columns", into, table):
        name = column.get("name")
        if not isinstance(name, str) or not name.strip():
            into.miss(table, "a column", f"its name is {brief(name)}")
            continue
        for test in _tests(column):
            _read_test(test, table, name, into)


def _tests(node: Mapping[str, Any]) -> Iterator[Any]:
    for field in ("tests", "data_tests"):
        value = node.get(field) or []
        yield from value if isinstance(value, list) else [value]


def _read_test(test: Any, table: str, column: str | None, into: Collected) -> None:
    place = table if column is None else f"{table}.{column}"
    if isinstance(test, str):
        what, given = test, {}
    elif isinstance(test, dict) and isinstance(test.get("test_name"), str):
        what, given = test["test_name"], {k: v for k, v in test.items() if k != "test_name"}
    elif isinstance(test, dict) and len(test) == 1 and isinstance(next(iter(test)), str):
        what, given = next(iter(test.items()))
        given = {} if given is None else given
    else:
        into.miss(place, "a test", f"{brief(test)} was not understood")
        return
    if not isinstance(given, dict):
        into.miss(place, what, f"its arguments are {brief(given)}")
        return
    arguments = given.get("arguments")
    given = {**given, **(arguments if isinstance(arguments, dict) else {})}
    taken(ForeignTest(into, place, table, what), _add, column, given)


def _add(test: ForeignTest, column: str | None, given: Mapping[str, Any]) -> None:
    what = test.what
    if what not in TESTS:
        raise UnmappedError("no rule here says this")
    add, arguments = TESTS[what]
    settings = given.get("config") or {}
    if not isinstance(settings, dict):
        raise UnmappedError(f"config is {brief(settings)}")
    config = {**settings, **{name: value for name, value in given.items() if name not in ("config", "arguments")}}
    odd = unread(config, (*arguments, *_SETTINGS, *_SILENT))
    if odd is not None:
        raise UnmappedError(f"{odd} is no argument that is read here")
    if config.get("enabled", True) is not True:
        raise UnmappedError("it is not enabled")
    severity = str(config.get("severity", "error")).lower()
    if severity not in ("error", "warn"):
        raise UnmappedError(f"severity is {brief(config['severity'])}")
    add(
        ForeignTest(
            test.into,
            test.place,
            test.table,
            what,
            "warn" if severity == "warn" else "error",
            condition_of(config["where"]) if config.get("where") is not None else None,
            _tolerance(test, config, severity),
            need(config.get("description", ""), str, "description").strip(),
            need(config.get("name", ""), str, "name").strip() or None,
        ),
        column or config.get("column_name"),
        given,
    )


def _tolerance(test: ForeignTest, config: Mapping[str, Any], severity: str) -> Tolerance | None:
    """`error_if: ">10"` tolerates ten failures, where these are rows; what maps to nothing is said."""
    other = "warn_if" if severity == "error" else "error_if"
    if other in config:
        test.into.note(test.place, f"{test.what}: {other} is not taken over, as the severity is {severity}")
    limit = config.get(f"{severity}_if")
    if limit is None:
        return None
    over = _OVER.fullmatch(str(limit))
    if str(limit).replace(" ", "") in ("!=0", ">0"):
        return None
    if over is None or test.what not in _BY_ROWS:
        raise UnmappedError(f"{severity}_if is {brief(limit)}")
    return Tolerance(count=int(over[1]))


def _own(column: str | None) -> str:
    if not isinstance(column, str) or not column:
        raise UnmappedError("it names no column")
    return column
