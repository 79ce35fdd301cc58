"""Rules as SQL: hostile names and constants, what a dialect cannot say, the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from holdstrue import HoldstrueError, RuleSet, check, load_rules, to_sql
from holdstrue.report.sql import DIALECTS
from holdstrue.rules import FD, Comparison, Constant, Op, Rule
from unit.cli.runs import run, write

HOSTILE = ["it's", 'a"b', "`x`", "\\", "\\'; drop table x; --", "a\nb\r\n  c", "\0", "x\0y", "%s {} $1", "é日", "", " "]


def one(rules: Any, dialect: str = "duckdb", **options: Any) -> Any:
    [query] = to_sql(rules, dialect, **options)
    return query


def rows(sql: str | None, **tables: pa.Table) -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register("given", table)
            database.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
        return database.execute(sql).fetchall()


@pytest.mark.parametrize("text", HOSTILE)
def test_constants_stay_constants(text: str) -> None:
    table = pa.table({"id": [1, 2, 3], "c": [text, text + "x", None]})
    where = Comparison("c", Op.EQ, Constant(text))
    rules = RuleSet((Rule(load_rules("not null(id)").rules[0].body, "r"), Rule(_denial(text), "d", where=where)))
    for schemas in (None, table.schema):
        query = to_sql(rules, key="id", table="data", schemas=schemas)[1]
        assert rows(query.violations, data=table) == [(1, text)]
        assert rows(query.count, data=table) == [(1,)], "also where the constant has lines"


def _denial(text: str) -> Any:
    from holdstrue.rules import DC, Column, Predicate

    return DC((Predicate(Column("t", "c"), Op.EQ, Constant(text)),))


@pytest.mark.parametrize("name", [name for name in HOSTILE if name and "\0" not in name])
def test_names_stay_names(name: str) -> None:
    table = pa.table({"id": [1, 2], name: [5, 5], f"{name}2": ["a", "b"]})
    rules = RuleSet((Rule(FD((name,), (f"{name}2",)), f"r {name}"),))
    query = one(rules, key="id", table="data")
    assert [(row[0], row[3]) for row in rows(query.violations, data=table)] == [(1, 2)]


def test_comments_cannot_be_left(tmp_path: Path) -> None:
    rules = write(
        tmp_path / "r.yaml",
        'rules:\n- {name: "x\\n; select 1; --", rule: key(a), description: "y\\u2028select 2\\r\\nselect 3"}\n',
    )
    done = run("rules", rules, "--format", "sql", "--key", "id", "--table", "data")
    assert done.exit_code == 0
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith("--")]
    assert not any(line.startswith((";", "select", "y")) for line in lines)
    assert "-- rule: x\\n; select 1; --" in done.stdout


def test_a_table_of_another_place_and_without_a_key() -> None:
    table = pa.table({"a": [1, 1, 2]})
    query = one("key(a)", table='main."data"')
    assert "rowid" in query.notes[0]
    assert [row[:2] for row in rows(query.violations, data=table)] == [(0, 1)]
    assert '"main"."data"' in query.violations


def test_what_a_dialect_cannot_say_is_said() -> None:
    assert "give their --key" in one("key(a)", "spark").problem
    assert one("key(a)", "spark", key="id").problem is None
    assert "takes 'Zip' and 'zip' for one name" in one("Zip -> zip", key="id").problem
    assert one("Zip -> zip", "postgresql", key="id").problem is None
    assert "63 bytes" in one(f"key({'x' * 64})", "postgresql").problem
    assert "NUL" in one(RuleSet((Rule(_denial("a\0b"), "r"),)), "postgresql").problem
    assert "is not Unicode" in one(RuleSet((Rule(_denial("\ud800"), "r"),)), "duckdb").problem
    clock = pa.schema({"id": pa.int64(), "a": pa.time64("us")})
    assert "has no time" in one("not(t.a < '10:00')", "spark", schemas=clock).problem


def test_a_comparison_that_is_not_exact_says_so() -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.float64(), "c": pa.int32()})
    assert one("not(t.a = t.b)", schemas=schema).notes == one("not(t.c = t.b)", schemas=schema).notes == ()
    wide = pa.schema({"a": pa.decimal128(38, 0), "b": pa.decimal128(38, 18)})
    assert "38 digits" in one("not(t.a = t.b)", schemas=wide).notes[0]
    assert one("not(t.a = t.b)", "postgresql", schemas=wide).notes == ()
    text = one("not(t.a < s.a)", "postgresql", key="id")
    assert "--type a=text" in text.notes[0]
    assert one("not(t.a < s.a)", "postgresql", key="id", types={"a": "text"}).violations.count('COLLATE "C"') == 1


def test_numbers_that_no_value_of_a_column_is() -> None:
    doubles = [0.5, 2.0**53, float("nan"), 2.0**53 + 4]
    table = pa.table({"id": [1, 2, 3, 4], "a": pa.array([1, 2, None, 3], pa.int64()), "d": doubles})
    for text in ("not(t.a = 1.5)", "not(t.a != 1.5)", "not(t.a < 1.5)", "not(t.a > 99999999999999999999)",
                 "not(t.a < 99999999999999999999)", "not(t.d = 9007199254740993)", "not(t.d <= 9007199254740995)",
                 "not(t.d > 9007199254740995)", "not(t.d < 9007199254740993)",
                 "not(t.d > 9007199254740993)", "not(t.d >= float 'nan')", "not(t.a < float 'inf')"):  # fmt: skip
        found = sorted(violation.t for violation in check(table, text, key="id"))
        query = one(text, key="id", table="data", schemas=table.schema)
        assert sorted(row[0] for row in rows(query.violations, data=table)) == found, text


def test_wrong_questions() -> None:
    with pytest.raises(HoldstrueError, match="no SQL dialect 'oracle'"):
        to_sql("key(a)", "oracle")
    with pytest.raises(HoldstrueError, match="no rule speaks of table 'x'"):
        to_sql("key(a)", names={"x": "y"})
    with pytest.raises(HoldstrueError, match="has no column 'b'"):
        to_sql("a -> b", schemas=pa.schema({"a": pa.int64()}))


def test_the_command(tmp_path: Path) -> None:
    data = write(tmp_path / "t.csv", "id,zip,city\n1,10,Bonn\n2,10,Ulm\n3,11,Kiel\n")
    rules = write(
        tmp_path / "r.yaml",
        "key: id\nrules: [zip -> city, {rule: not(t.zip < 5.5), severity: warn, tolerance: 0.5%}]\n",
    )
    for dialect in DIALECTS:
        done = run("rules", rules, "--format", "sql", "--dialect", dialect, "--table", "t", "--data", data)
        assert done.exit_code == 0, done.output
        assert "severity warn; tolerates 0.5% of the rows" in done.stdout
        assert "zip" in done.stdout and "<= 5" in done.stdout
    sql = run("rules", rules, "--format", "sql", "--table", "t", "--data", data).stdout
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE t AS SELECT * FROM read_csv('{data}')")
        answers = [database.execute(part.query).fetchall() for part in database.extract_statements(sql)]
    assert [answer[0][0] if answer else None for answer in answers] == [1, 1, None, 0]
    wrong = run("rules", rules, "--dialect", "spark")
    assert wrong.exit_code == 2 and "add --format sql" in wrong.stderr
    idle = run("rules", rules, "--delimiter", ";")
    assert idle.exit_code == 2 and "are about DATA" in idle.stderr
    unsaid = run("rules", write(tmp_path / "k.txt", "key(a)\n"), "--format", "sql", "--dialect", "spark")
    assert unsaid.exit_code == 0 and "is not written" in unsaid.stderr and "NOT WRITTEN" in unsaid.stdout
