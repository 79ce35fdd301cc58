"""Rules as SQL that PostgreSQL answers: the same violations as `check` finds, for every kind of rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from database import Postgres
from holdstrue.report.sql import to_sql
from sql_cases import OTHER, SCHEMA, TABLE, expected, measured

DDL = """
create table data (id bigint, a int, b bigint, c text collate "de-x-icu", d float8, e text collate "de-x-icu", g date,
  h numeric(10, 2), z timestamptz);
create table other (x bigint, y text);
"""


@pytest.fixture(scope="module")
def server(postgres: Postgres) -> Postgres:
    """The two tables; text is ordered as in a dictionary, so that the order must be said."""
    rows = "".join(inserts("data", TABLE.to_pylist())) + "".join(inserts("other", OTHER.to_pylist()))
    postgres.sql("drop table if exists data, other;" + DDL + rows)
    return postgres


def inserts(table: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Statements that insert rows."""
    for row in rows:
        cells = ("null" if cell is None else "'" + str(cell).replace("'", "''") + "'" for cell in row.values())
        yield f"insert into {table} values ({', '.join(cells)});\n"


@pytest.mark.parametrize("nulls", ["unknown", "equal"])
def test_postgresql_answers_what_check_finds(server: Postgres, nulls: Literal["unknown", "equal"]) -> None:
    rules, truth = expected(nulls)
    queries = to_sql(rules, "postgresql", key="id", schemas={"data": SCHEMA, "other": OTHER.schema})
    wrong = {}
    for query in queries:
        assert query.violations is not None, query.problem
        names = ["id"] if '"t.id"' not in query.violations else ["t.id", "s.id"]
        cells = " || '-' || ".join(f"coalesce(\"{name}\"::text, '')" for name in names)
        lines = server.sql(f"select {cells} from (\n{query.violations}\n) as v;").splitlines()
        answer = {tuple(int(part) for part in line.split("-") if part) for line in lines}
        count = int(server.sql(f"{query.count};"))
        if answer != truth[query.rule.name] or not len(answer) == len(lines) == count:
            wrong[query.rule.text] = (answer, truth[query.rule.name])
    assert not wrong


def test_rows_without_a_key_are_told_apart(server: Postgres) -> None:
    [query] = to_sql("key(c)", "postgresql", table="public.data")
    assert server.sql(f"{query.count};").strip() == "1"


def test_rules_about_whole_tables(server: Postgres) -> None:
    rules, truth = measured()
    queries = to_sql(rules, "postgresql", key="id", schemas={"data": SCHEMA, "other": OTHER.schema})
    each = (f"SELECT {i} AS rule, violations FROM (\n{query.count}\n) AS c" for i, query in enumerate(queries))
    lines = server.sql("\nUNION ALL\n".join(each) + "\nORDER BY 1;").splitlines()
    found = [int(line.replace("|", " ").split()[-1]) for line in lines]
    assert dict(zip(truth, found, strict=True)) == truth
