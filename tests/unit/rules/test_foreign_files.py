"""Files of dbt, Great Expectations, Soda and pandera: the rules mean what the tests meant, and the rest is listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from holdstrue import HoldstrueError, check, load_rules
from holdstrue.rules import dump_rules
from holdstrue.rules.bodies import Inclusion
from holdstrue.rules.imports import TOOLS, import_rules
from unit.cli.runs import run, write

Rows = list[dict[str, Any]]
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))

DBT = """
version: 2
models:
  - name: orders
    columns:
      - name: id
        tests: [unique, not_null]
      - name: status
        data_tests:
          - accepted_values: {arguments: {values: [a, "it's"]}, config: {severity: warn, where: total > 0}}
      - name: customer
        tests:
          - relationships: {to: "ref('customers')", field: id}
          - {not_null: {config: {error_if: ">1"}}}
      - name: total
        tests:
          - dbt_utils.accepted_range: {min_value: 0, max_value: 3, inclusive: false}
          - dbt_utils.expression_is_true: {expression: "!= 2"}
    tests:
      - dbt_utils.expression_is_true: {expression: "total >= paid or status = 'a'"}
"""

SUITE = {
    "expectation_suite_name": "orders",
    "expectations": [
        {"expectation_type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}},
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "customer", "mostly": 0.75}},
        {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "status", "value_set": ["a", "it's"]},
         "severity": "warning"},
        {"type": "expect_column_values_to_be_between",
         "kwargs": {"column": "total", "min_value": 0, "max_value": 3, "strict_max": True}},
        {"type": "expect_column_pair_values_a_to_be_greater_than_b",
         "kwargs": {"column_A": "total", "column_B": "paid", "or_equal": True}},
        {"type": "expect_column_values_to_not_be_in_set", "kwargs": {"column": "total", "value_set": [2]}},
    ],
}  # fmt: skip

SODA = """
filter orders [some]:
  where: total > 0
checks for orders:
  - missing_count(customer) < 2
  - missing_percent(customer) <= 25
  - duplicate_count(id) = 0
  - invalid_count(status) = 0: {valid values: [a, "it's"], name: known status}
  - invalid_count(total): {valid min: 0, warn: when > 0, fail: when > 1}
  - values in (customer) must exist in customers (id)
checks for orders [some]:
  - invalid_count(total) = 0: {valid max: 2}
"""

PANDERA = """
schema_type: dataframe
version: 0.20.4
columns:
  id: {dtype: int64, nullable: false, unique: true, checks: null, coerce: false, required: true, regex: false}
  status: {dtype: str, nullable: true, checks: {isin: [a, "it's"]}}
  total:
    dtype: int64
    nullable: true
    checks:
      in_range: {min_value: 0, max_value: 3, include_max: false}
      not_equal_to: {value: 2, options: {raise_warning: true, ignore_na: true}}
  paid:
    nullable: true
    checks:
    - {value: 5, options: {check_name: less_than, ignore_na: true}}
unique: [customer, status]
index: null
name: orders
"""


def known(rows: Rows, column: str) -> Rows:
    return [row for row in rows if row[column] is not None]


def unique(rows: Rows, *columns: str) -> bool:
    values = [tuple(row[c] for c in columns) for row in rows if all(row[c] is not None for c in columns)]
    return len(set(values)) == len(values)


def bad(rows: Rows, holds: Callable[[dict[str, Any]], bool], *columns: str) -> int:
    """Rows with all these values for which something does not hold."""
    return sum(not holds(row) for row in rows if all(row[c] is not None for c in columns))


def expression(row: dict[str, Any]) -> bool:
    """`total >= paid or status = 'a'` is known to be false."""
    over = None if row["total"] is None or row["paid"] is None else row["total"] >= row["paid"]
    named = None if row["status"] is None else row["status"] == "a"
    return not (over is False and named is False)


STATUS = ("a", "it's")
Meaning = dict[str, Callable[[Rows, set[Any]], bool]]

MEANINGS: dict[str, tuple[str, Meaning]] = {
    "dbt": (DBT, {
        "orders.id: unique": lambda r, _: unique(r, "id"),
        "orders.id: not_null": lambda r, _: bad(r, lambda row: row["id"] is not None) == 0,
        "orders.status: accepted_values": lambda r, _: (
            bad([row for row in known(r, "total") if row["total"] > 0], lambda row: row["status"] in STATUS, "status")
            == 0),
        "orders.customer: relationships": lambda r, c: bad(r, lambda row: row["customer"] in c, "customer") == 0,
        "orders.customer: not_null": lambda r, _: bad(r, lambda row: row["customer"] is not None) <= 1,
        "orders.total: dbt_utils.accepted_range (1 of 2)": lambda r, _: bad(r, lambda o: o["total"] > 0, "total") == 0,
        "orders.total: dbt_utils.accepted_range (2 of 2)":
            lambda r, _: bad(r, lambda o: o["total"] < 3, "total") == 0,
        "orders.total: dbt_utils.expression_is_true": lambda r, _: bad(r, lambda o: o["total"] != 2, "total") == 0,
        "orders: dbt_utils.expression_is_true": lambda r, _: bad(r, expression) == 0,
    }),
    "gx": (json.dumps(SUITE), {
        "id: expect_column_values_to_be_unique": lambda r, _: unique(r, "id"),
        "customer: expect_column_values_to_not_be_null": lambda r, _: 4 * len(known(r, "customer")) >= 3 * len(r),
        "status: expect_column_values_to_be_in_set":
            lambda r, _: bad(r, lambda o: o["status"] in STATUS, "status") == 0,
        "total: expect_column_values_to_be_between (1 of 2)":
            lambda r, _: bad(r, lambda o: o["total"] >= 0, "total") == 0,
        "total: expect_column_values_to_be_between (2 of 2)":
            lambda r, _: bad(r, lambda o: o["total"] < 3, "total") == 0,
        "expect_column_pair_values_a_to_be_greater_than_b": lambda r, _: (
            bad(r, lambda o: o["total"] >= o["paid"], "total", "paid") == 0),
        "total: expect_column_values_to_not_be_in_set": lambda r, _: bad(r, lambda o: o["total"] != 2, "total") == 0,
    }),
    "soda": (SODA, {
        "orders: missing_count(customer) < 2": lambda r, _: len(r) - len(known(r, "customer")) < 2,
        "orders: missing_percent(customer) <= 25": lambda r, _: 4 * (len(r) - len(known(r, "customer"))) <= len(r),
        "orders: duplicate_count(id) = 0": lambda r, _: unique(r, "id"),
        "known status":
            lambda r, _: bad(r, lambda o: o["status"] in STATUS, "status") == 0,
        "orders: invalid_count(total)":
            lambda r, _: bad(r, lambda o: o["total"] >= 0, "total") == 0,
        "orders: invalid_count(total) #2": lambda r, _: bad(r, lambda o: o["total"] >= 0, "total") <= 1,
        "orders: values in (customer) must exist in customers (id)":
            lambda r, c: bad(r, lambda o: o["customer"] in c, "customer") == 0,
        "orders: invalid_count(total) = 0": lambda r, _: bad(r, lambda o: o["total"] <= 2, "total") == 0,
    }),
    "pandera": (PANDERA, {
        "id: not nullable": lambda r, _: bad(r, lambda o: o["id"] is not None) == 0,
        "id: unique": lambda r, _: unique(r, "id"),
        "status: isin":
            lambda r, _: bad(r, lambda o: o["status"] in STATUS, "status") == 0,
        "total: in_range (1 of 2)":
            lambda r, _: bad(r, lambda o: o["total"] >= 0, "total") == 0,
        "total: in_range (2 of 2)":
            lambda r, _: bad(r, lambda o: o["total"] < 3, "total") == 0,
        "total: not_equal_to": lambda r, _: bad(r, lambda o: o["total"] != 2, "total") == 0,
        "paid: less_than": lambda r, _: bad(r, lambda o: o["paid"] < 5, "paid") == 0,
        "unique: unique": lambda r, _: unique(r, "customer", "status"),
    }),
}  # fmt: skip

small = st.one_of(st.none(), st.integers(-1, 5))
row = st.fixed_dictionaries(
    {"id": small, "status": st.sampled_from([None, "a", "it's", "z"]), "customer": small, "total": small, "paid": small}
)


@pytest.mark.parametrize("tool", MEANINGS)
@SETTINGS
@given(rows=st.lists(row, min_size=1, max_size=5), customers=st.lists(st.integers(0, 4), max_size=3))
def test_rules_mean_what_the_tests_meant(tool: str, rows: Rows, customers: list[int]) -> None:
    text, meanings = MEANINGS[tool]
    found = import_rules(text)
    assert found.tool == tool and not found.unmapped
    rules = replace(load_rules(dump_rules(found.ruleset())), table="orders")
    assert {rule.name for rule in rules} == set(meanings)
    schema = pa.schema([(name, pa.string() if name == "status" else pa.int64()) for name in rows[0]])
    orders = pa.Table.from_pylist(rows, schema=schema)
    report = check({"orders": orders, "customers": pa.table({"id": pa.array(customers, pa.int64())})}, rules)
    for result in report.results:
        note(f"{result.rule.name}: {rows}")
        assert (result.status != "violated") == meanings[result.rule.name](rows, set(customers)), result.rule.name


def test_severities_are_kept() -> None:
    def warned(tool: str) -> set[str]:
        return {rule.name for rule in import_rules(MEANINGS[tool][0]).ruleset() if rule.severity == "warn"}

    assert warned("dbt") == {"orders.status: accepted_values"}
    assert warned("gx") == {"status: expect_column_values_to_be_in_set"}
    assert warned("soda") == {"orders: invalid_count(total)"}
    assert warned("pandera") == {"total: not_equal_to"}


MISSES = [
    ("models: [{name: m, tests: [fancy]}]", "m: fancy: no rule here says this"),
    ("models: [{name: m, columns: [{name: c, tests: [{unique: {error_if: '>3'}}]}]}]", "error_if is '>3'"),
    ("models: [{name: m, columns: [{name: c, tests: [{unique: {where: \"day > '{{ var(1) }}'\"}}]}]}]", "a template"),
    ("models: [{name: m, columns: [{name: c, tests: [{unique: {where: 'a + b > 2'}}]}]}]", "is no filter here"),
    ("models: [{name: m, columns: [{name: c, tests: [{unique: {enabled: false}}]}]}]", "not enabled"),
    ("models: [{name: m, columns: [{name: c, tests: [{unique: {odd: 1}}]}]}]", "odd is no argument"),
    ("models: [{name: m, columns: [{name: c, tests: [{accepted_values: {values: [1, null]}}]}]}]", "None is no value"),
    ("models: [{name: m, columns: [{name: c, tests: [{relationships: {to: x, field: y}}]}]}]", "neither ref"),
    ("models: [{name: m, columns: [{name: c, tests: [{dbt_utils.recency: {}}]}]}]", "datepart is None"),
    ("models: [{name: m, columns: [3, {name: ''}], tests: 7}]", "was not understood"),
    ("models: [{name: m, columns: [{name: c, tests: [{unique: {config: 3}}]}]}]", "config is 3"),
    ("models: [{name: m, tests: [unique]}]", "names no column"),
    ("sources: [{name: s, tables: [{name: m, tests: [fancy]}]}]", "m: fancy"),
    ('{"expectations": [{"type": "expect_column_values_to_match_regex", "kwargs": {"column": "a", "regex": "(?i)"}}]}',
     "is not read"),
    ('{"expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": {"column": "a", "mostly": 2}}]}',
     "mostly is 2"),
    ('{"expectations": [{"type": "expect_column_values_to_be_between", "kwargs": {"column": "a"}}]}', "no bound"),
    ('{"expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": {"column": ["a"]}}]}', "column is"),
    ('{"expectations": [3, {"type": 3}]}', "was not understood"),
    ("checks for t: [row_count > 0%]", "the threshold is"),
    ("checks for t: [row_count]", "it has no threshold"),
    ("checks for t: [freshness(d) < soon]", "the threshold is"),
    ('{"expectations": [{"type": "expect_table_row_count_to_equal", "kwargs": {"value": "x"}}]}', "of rows is 'x'"),
    ("checks for t: [duplicate_count(a) < 5]", "counts the values that occur twice"),
    ("checks for t: [missing_count(a) > 5]", "the threshold is"),
    ("checks for t: [{missing_count(a) = 0: {missing values: [x]}}]", "--null-value"),
    ("checks for t: [{invalid_count(a) = 0: {valid format: email}}]", "valid format is no setting"),
    ("checks for t [x]: [missing_count(a) = 0]", "the filter [x] is None"),
    ("checks for t: [{schema: {fail: {}}}]", "must be there anyway"),
    ("models: [{name: t, columns: [{name: a, tests: [{dbt_utils.accepted_range: {min_value: b}}]}]}]", "is 'b'"),
    ("columns: {a: {regex: true}}", "regular expression"),
    ("columns: {a: {checks: {str_length: 3}}}", "no rule here says this"),
    ("columns: {a: {dtype: 'category'}}", "no type here is called 'category'"),
    ("columns: {a: {checks: {isin: {value: []}}}}", "the values are []"),
    ("columns: {a: {checks: {lt: {value: 1, options: {ignore_na: false}}}}}", "NULLs break it"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), MISSES)
def test_what_does_not_map_is_listed_with_its_reason(text: str, reason: str) -> None:
    found = import_rules(text)
    assert not found.rules
    assert any(reason in str(miss) for miss in found.unmapped), [str(miss) for miss in found.unmapped]


MEASURES = [
    ("checks for t: [row_count > 0]", ["count() > 0"]),
    ("checks for t: [row_count between 10 and 20]", ["count() >= 10", "count() <= 20"]),
    ("checks for t: [{row_count: {warn: when < 10, fail: when = 0}}]", ["count() >= 10", "count() != 0"]),
    ("checks for t: [freshness(made at) < 1d6h]", ["fresh(`made at`) < 30 hours"]),
    ("checks for t: [freshness(d) < 2d]", ["fresh(d) < 2 days"]),
    ('{"expectations": [{"type": "expect_table_row_count_to_equal", "kwargs": {"value": 3}}]}', ["count() = 3"]),
    ('{"expectations": [{"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 3}}]}',
     ["count() >= 3"]),
    ("models: [{name: m, tests: [{dbt_utils.recency: {datepart: hour, field: d, interval: 6}}]}]",
     ["fresh(d) <= 6 hours"]),
    ("models: [{name: m, tests: [{dbt_expectations.expect_table_row_count_to_equal: {value: 5}}]}]", ["count() = 5"]),
]  # fmt: skip


def has_measures() -> bool:
    """Whether the language has rules about whole tables."""
    try:
        return len(load_rules(["count() > 1"])) == 1
    except HoldstrueError:
        return False


@pytest.mark.parametrize(("text", "rules"), MEASURES)
def test_counts_and_freshness(text: str, rules: list[str]) -> None:
    found = import_rules(text)
    if has_measures():
        assert [rule.body.text for rule in found.rules] == rules and not found.unmapped
    else:
        assert not found.rules and f"{rules[0]} is no rule here" in str(found.unmapped[0])


@pytest.mark.parametrize(
    "text",
    ["", "[]", "3", "rules: [key(a)]", "{", "a: &a [*a]", "!!python/object/apply:os.system [ls]", "{" * 5000,
     '{"a":' * 100_000, "models: [" + "[" * 50 + "]" * 50 + "]"],
)  # fmt: skip
def test_files_of_nobody_are_refused(text: str) -> None:
    with pytest.raises(HoldstrueError):
        import_rules(text)


def test_another_tool_than_said_is_refused() -> None:
    with pytest.raises(HoldstrueError, match="no file of Soda"):
        import_rules(DBT, "soda")
    with pytest.raises(HoldstrueError, match="no tool 'deequ'"):
        import_rules(DBT, "deequ")


WORDS = [
    "models", "sources", "tables", "name", "columns", "tests", "unique", "not_null", "accepted_values", "values",
    "config", "where", "severity", "expectations", "type", "kwargs", "column", "expect_column_values_to_be_between",
    "min_value", "mostly", "checks for t", "missing_count(a) = 0", "valid min", "checks", "in_range", "options", "a b",
    "it's", "", " ", "`", "\n", "#", "[x]", "relationships", "to", "ref('x')", "field", "dtype", "nullable", "regex",
]  # fmt: skip
value = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.sampled_from(WORDS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)  # fmt: skip
CASES = [yaml.safe_load(DBT), SUITE, yaml.safe_load(SODA), yaml.safe_load(PANDERA)]


def grafted(draw: st.DrawFn, tree: Any) -> Any:
    """A real file in which parts are replaced by anything."""
    if draw(st.integers(0, 14)) == 0:
        return draw(value)
    if isinstance(tree, dict):
        return {key: grafted(draw, part) for key, part in tree.items()}
    return [grafted(draw, part) for part in tree] if isinstance(tree, list) else tree


@SETTINGS
@given(data=st.data())
def test_any_file_gives_rules_that_load_or_an_error_of_ours(data: st.DataObject) -> None:
    content = st.composite(lambda draw: grafted(draw, draw(st.sampled_from(CASES))))()
    text = json.dumps(data.draw(st.one_of(content, value)))
    note(text)
    try:
        found = import_rules(text)
    except HoldstrueError:
        return
    if found.rules:
        again = load_rules(dump_rules(found.ruleset()))
        assert [rule.body for rule in again] == [rule.body for rule in found.rules]


def test_the_command(tmp_path: Path) -> None:
    file = write(tmp_path / "schema.yml", DBT.replace("[unique, not_null]", '[unique, "fan\\ncy"]'))
    done = run("import-rules", file)
    assert done.exit_code == 0
    assert "# 8 rules from dbt; 1 test did not map\n" in done.stdout
    assert "not mapped: orders.id: fan\\ncy: no rule here says this" in done.stderr
    assert run("import-rules", file, "--strict").exit_code == 1
    rules = write(tmp_path / "rules.yaml", done.stdout)
    assert run("rules", rules).exit_code == 0
    nothing = run("import-rules", write(tmp_path / "s.yml", "checks for t: [{schema: {}}]"))
    assert nothing.exit_code == 2 and "nothing of 1 test of Soda maps" in nothing.stderr
    assert run("import-rules", file, "--from", "gx").exit_code == 2
    assert run("import-rules", tmp_path / "none.yml").exit_code == 2
    assert set(TOOLS) == {"dbt", "gx", "soda", "pandera"}


def test_a_source_beside_a_model_of_the_same_name() -> None:
    text = """
    models:
      - name: orders
        columns:
          - name: customer
            tests:
              - relationships: {to: "ref('customers')", field: id}
              - relationships: {to: "source('raw', 'customers')", field: id}
              - relationships: {to: "source('raw', 'shops')", field: id}
              - relationships: {to: "ref('people', v=2)", field: id}
              - relationships: {to: "ref('crm', 'people')", field: id}
              - relationships: {to: "source('raw')", field: id}
    sources:
      - name: raw
        tables: [{name: customers, columns: [{name: id, tests: [unique]}]}, {name: shops}]
    """
    found = import_rules(text, "dbt")
    bodies = [rule.body for rule in found.rules]
    assert [body.ref_table for body in bodies if isinstance(body, Inclusion)] == [
        "customers",
        "raw.customers",
        "shops",
        "people_v2",
        "people",
    ]
    assert [rule.own_table for rule in found.rules][5:] == ["raw.customers"]
    assert [one.reason for one in found.unmapped] == ["to is \"source('raw')\", and neither ref(...) nor source(...)"]
    assert "customers: is the name of several tables" in found.notes[0]
    again = load_rules(dump_rules(found.ruleset()))
    assert [rule.body for rule in again] == bodies


def test_sums_and_extremes_are_measures() -> None:
    soda = "checks for orders: ['sum(size) > 3', 'max(size) <= 9', 'min(size) between -1 and 4.5', 'avg(size) > 2']"
    found = import_rules(soda, "soda")
    assert [rule.text for rule in found.rules] == ["sum(size) > 3", "max(size) <= 9", "min(size) between -1 and 4.5"]
    assert [str(one) for one in found.unmapped] == ["orders: avg(size) > 2: no rule here says this"]
    suite = {
        "expectations": [
            {
                "expectation_type": "expect_column_sum_to_be_between",
                "kwargs": {"column": "a b", "min_value": 0, "strict_min": True, "max_value": 9.5},
            },
            {"expectation_type": "expect_column_max_to_be_between", "kwargs": {"column": "a", "max_value": "x"}},
        ]
    }
    found = import_rules(json.dumps(suite), "gx")
    assert [rule.text for rule in found.rules] == ["sum(`a b`) > 0", "sum(`a b`) <= 9.5"]
    assert "max_value is 'x'" in str(found.unmapped[0])
