"""Expectation suites of Great Expectations, of versions 0.x (`expectation_type`) and 1.x (`type`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdstrue.errors import brief
from holdstrue.operators import Op
from holdstrue.rules.bodies import DC, Demand, Key, NotNull
from holdstrue.rules.imports.collected import (
    Collected,
    ForeignTest,
    UnmappedError,
    between,
    condition_of,
    declared_of,
    demanded_shape,
    names_of,
    need,
    none_of,
    one_of,
    share_of,
    taken,
    unread,
)
from holdstrue.rules.model import Severity
from holdstrue.rules.terms import All, Column, Length, Not, Predicate
from holdstrue.rules.tokens import name_text

Add = Callable[[ForeignTest, Mapping[str, Any]], None]

_ALWAYS = ("column", "mostly", "row_condition", "condition_parser", "result_format", "catch_exceptions", "meta",
           "include_config", "batch_id", "parse_strings_as_datetimes", "allow_cross_type_comparisons",
           "ignore_row_if")  # fmt: skip
_SEVERITIES: Mapping[str, Severity] = {"critical": "error", "error": "error", "warning": "warn", "info": "warn"}


def _column(given: Mapping[str, Any]) -> str:
    return need(given.get("column"), str, "column")


def _unique(test: ForeignTest, given: Mapping[str, Any]) -> None:
    test.add(Key((_column(given),)))


def _compound(test: ForeignTest, given: Mapping[str, Any]) -> None:
    test.add(Key(names_of(given.get("column_list"), "column_list")))
    test.into.note(test.place, f"{test.what}: rows with a NULL among these columns are not compared here")


def _not_null(test: ForeignTest, given: Mapping[str, Any]) -> None:
    test.add(NotNull((_column(given),)))


def _in_set(test: ForeignTest, given: Mapping[str, Any]) -> None:
    test.add(one_of(_column(given), given.get("value_set")))


def _not_in_set(test: ForeignTest, given: Mapping[str, Any]) -> None:
    test.add(*none_of(_column(given), given.get("value_set")))


def _between(test: ForeignTest, given: Mapping[str, Any]) -> None:
    strict = [need(given.get(name) or False, bool, name) for name in ("strict_min", "strict_max")]
    low, high = given.get("min_value"), given.get("max_value")
    test.add(*between(_column(given), low, high, low_too=not strict[0], high_too=not strict[1]))


def _pair(op: Op) -> Add:
    """Two columns of a row that never stand so to each other."""

    def add(test: ForeignTest, given: Mapping[str, Any]) -> None:
        left, right = (need(given.get(name), str, name) for name in ("column_A", "column_B"))
        forbidden = Op.LT if op is Op.LE and need(given.get("or_equal") or False, bool, "or_equal") else op
        test.add(DC((Predicate(Column("t", left), forbidden, Column("t", right)),)))

    return add


def _shape(test: ForeignTest, given: Mapping[str, Any]) -> None:
    test.add(Demand(demanded_shape(_column(given), given.get("regex"))))


def _no_shape(test: ForeignTest, given: Mapping[str, Any]) -> None:
    test.add(Demand(Not(demanded_shape(_column(given), given.get("regex")))))


def _length(test: ForeignTest, given: Mapping[str, Any]) -> None:
    value = given.get("value")
    low, high = given.get("min_value", value), given.get("max_value", value)
    strict = [need(given.get(name) or False, bool, name) for name in ("strict_min", "strict_max")]
    bounds = zip((low, high), ((Op.GE, Op.GT), (Op.LE, Op.LT)), strict, strict=True)
    parts = [
        Length(_column(given), ops[tight], need(size, int, "a length"))
        for size, ops, tight in bounds
        if size is not None
    ]
    if not parts:
        raise UnmappedError("it bounds no length")
    test.add(Demand(parts[0] if len(parts) == 1 else All(tuple(parts))))


def _type(test: ForeignTest, given: Mapping[str, Any]) -> None:
    column, declared = _column(given), declared_of(given.get("type_"))
    if test.tolerance is not None or test.where is not None:
        raise UnmappedError("a type is declared of a whole column")
    test.into.types[column if test.table is None else f"{test.table}.{column}"] = declared
    test.into.note(test.place, f"{test.what}: the column is declared as {declared}, and read as that or refused")


def _row_count(test: ForeignTest, given: Mapping[str, Any]) -> None:
    value = given.get("value")
    if any(given.get(name) for name in ("strict_min", "strict_max")):
        raise UnmappedError("its bounds are strict")
    test.add_count(given.get("min_value", value), given.get("max_value", value))


def _measure(measure: str) -> Add:
    """Bounds of the sum or of an extreme of a column."""

    def add(test: ForeignTest, given: Mapping[str, Any]) -> None:
        strict = [need(given.get(name) or False, bool, name) for name in ("strict_min", "strict_max")]
        bounds = zip(("min_value", "max_value"), ((">=", ">"), ("<=", "<")), strict, strict=True)
        texts = []
        for name, ops, tight in bounds:
            value = given.get(name)
            if value is not None:
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise UnmappedError(f"{name} is {brief(value)}")
                texts.append(f"{measure}({name_text(_column(given))}) {ops[tight]} {value!r}")
        if not texts:
            raise UnmappedError("it has no bound")
        test.add_text(*texts)

    return add


_BOUNDS = ("min_value", "max_value", "strict_min", "strict_max")
EXPECTATIONS: Mapping[str, tuple[Add, tuple[str, ...]]] = {
    "expect_column_values_to_be_unique": (_unique, ()),
    "expect_compound_columns_to_be_unique": (_compound, ("column_list",)),
    "expect_column_values_to_not_be_null": (_not_null, ()),
    "expect_column_values_to_be_in_set": (_in_set, ("value_set",)),
    "expect_column_values_to_not_be_in_set": (_not_in_set, ("value_set",)),
    "expect_column_values_to_be_between": (_between, _BOUNDS),
    "expect_column_pair_values_a_to_be_greater_than_b": (_pair(Op.LE), ("column_A", "column_B", "or_equal")),
    "expect_column_pair_values_to_be_equal": (_pair(Op.NE), ("column_A", "column_B")),
    "expect_column_values_to_be_of_type": (_type, ("type_",)),
    "expect_column_values_to_match_regex": (_shape, ("regex",)),
    "expect_column_values_to_not_match_regex": (_no_shape, ("regex",)),
    "expect_column_value_lengths_to_equal": (_length, ("value",)),
    "expect_column_value_lengths_to_be_between": (_length, _BOUNDS),
    "expect_table_row_count_to_be_between": (_row_count, _BOUNDS),
    "expect_table_row_count_to_equal": (_row_count, ("value",)),
    "expect_column_sum_to_be_between": (_measure("sum"), _BOUNDS),
    "expect_column_min_to_be_between": (_measure("min"), _BOUNDS),
    "expect_column_max_to_be_between": (_measure("max"), _BOUNDS),
}
"""By expectation what adds its rules, and the arguments that it reads. Another one is a function and a line."""

NOT_YET: Mapping[str, str] = {
    "expect_column_to_exist": "a column that a rule names must be there anyway",
}
"""Expectations that are often met and do not map, with the reason."""


def read_suite(content: Mapping[str, Any], into: Collected) -> None:
    """Add the rules of a suite; its tables have no name."""
    listed = content.get("expectations")
    for number, one in enumerate(listed if isinstance(listed, list) else [listed], start=1):
        what = one.get("expectation_type") or one.get("type") if isinstance(one, dict) else None
        given = one.get("kwargs", {}) if isinstance(one, dict) else None
        if not isinstance(what, str) or not isinstance(given, dict):
            into.miss(f"expectation {number}", "an expectation", f"{brief(one)} was not understood")
            continue
        column = given.get("column")
        place = f"expectation {number}" + (f" of {column}" if isinstance(column, str) else "")
        taken(ForeignTest(into, place, None, _snake(what)), _add, given, one)


def _snake(name: str) -> str:
    """The name of an expectation, also where it is that of its class: ExpectColumnToExist."""
    if not name.startswith("Expect"):
        return name
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _add(test: ForeignTest, given: Mapping[str, Any], one: Mapping[str, Any]) -> None:
    if test.what not in EXPECTATIONS:
        raise UnmappedError(NOT_YET.get(test.what, "no rule here says this"))
    add, arguments = EXPECTATIONS[test.what]
    odd = unread(given, (*_ALWAYS, *arguments))
    if odd is not None:
        raise UnmappedError(f"{odd} is no argument that is read here")
    said = need(one.get("severity") or "critical", str, "severity")
    if said not in _SEVERITIES:
        raise UnmappedError(f"severity is {brief(said)}")
    where, tolerance = given.get("row_condition"), share_of(given.get("mostly"))
    if tolerance is not None and test.what != "expect_column_values_to_not_be_null":
        test.into.note(test.place, f"{test.what}: mostly is a share of all rows here, NULLs among them")
    notes = one.get("notes")
    column = given.get("column")
    name = f"{column}: {test.what}" if isinstance(column, str) else test.what
    add(
        ForeignTest(
            test.into, test.place, test.table, test.what, _SEVERITIES[said],
            None if where is None else condition_of(where, "row_condition"),
            tolerance, notes.strip() if isinstance(notes, str) else "", name,
        ),
        given,
    )  # fmt: skip
