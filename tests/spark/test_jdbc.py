"""A database as the source of a table and as the place where its violations go, over JDBC."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from database import Postgres
from holdstrue import check as check_here
from holdstrue import load_rules
from holdstrue.fragments import Site
from holdstrue.spark import Monitor
from holdstrue.spark.checking import check
from holdstrue.spark.fragments import relation
from laws.test_detection import found, nonempty
from spark.frames import Truth, added
from translate import expected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RULES = load_rules(
    """
    table: houses
    rules:
      - {name: fd, rule: zip -> city}
      - {name: pairs, rule: not(t.zip = s.zip and t.price > s.price and t.sold < s.sold)}
      - {name: row, rule: not null(city)}
      - {name: known, rule: houses.zip in places.zip}
    """
)
DDL = """
create table houses (id bigint primary key, zip text, city text, price numeric(10, 2), sold timestamptz);
insert into houses
  select i, 'z' || i % 7, case when i % 13 = 5 then null when i % 11 = 3 then 'Ulm' else 'Köln ' || i % 7 end,
         i * 1.25 - case when i % 17 = 4 then 30 else 0 end,
         timestamptz '2024-01-01 00:00:00+02' + i * interval '1 hour'
  from generate_series(1, 60) as i;
create table places (zip text primary key);
insert into places select 'z' || i from generate_series(0, 5) as i;
"""


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> Postgres:
    """The server with two tables."""
    postgres.sql(DDL)
    return postgres


def read(spark: SparkSession, database: Postgres, table: str, **more: Any) -> DataFrame:
    """A table of the database as a data frame."""
    options = {"url": database.url, "dbtable": table, "user": database.user, "driver": database.driver}
    return spark.read.format("jdbc").options(**options, **more).load()


def write(frame: DataFrame, database: Postgres, table: str, mode: str) -> None:
    """A data frame as a table of the database."""
    options = {"url": database.url, "dbtable": table, "user": database.user, "driver": database.driver}
    frame.write.format("jdbc").options(**options).mode(mode).save()


def truth(spark: SparkSession, database: Postgres) -> Truth:
    """What the oracle finds in the database as it is now."""
    houses, places = (read(spark, database, name).toArrow().to_pylist() for name in ("houses", "places"))
    return expected(RULES, houses, [row["id"] for row in houses], others={"places": places})


def stored(database: Postgres, table: str, where: str = "true") -> Truth:
    """Violations in a table of the database, read by the database's own client."""
    by_rule: Truth = {}
    for line in database.sql(f"select rule, t, s from {table} where {where}").splitlines():
        rule, *keys = line.split("|")
        by_rule.setdefault(rule, set()).add(tuple(int(key) for key in keys if key))
    return by_rule


def test_from_a_database_and_back(spark: SparkSession, database: Postgres, tmp_path: Path) -> None:
    # read in three parts, as large tables are
    parts = {"partitionColumn": "id", "lowerBound": "1", "upperBound": "60", "numPartitions": "3"}
    tables = {"houses": read(spark, database, "houses", **parts), "places": read(spark, database, "places")}
    before = truth(spark, database)
    assert all(before.values())
    report = check(tables, RULES, key="id", limit=None)
    assert found(report.listed()) == nonempty(before)
    monitor = Monitor(spark, tmp_path / "state", RULES, {"houses": "id", "places": "zip"}, data=tables)
    write(monitor.violations("known").unionAll(monitor.violations("fd")), database, "violations", "overwrite")
    assert stored(database, "violations") == {rule: before[rule] for rule in ("known", "fd")}

    database.sql(
        """
        create table changes as select 'update' as op, id, zip, 'Bonn' as city, price, sold from houses where id < 9;
        insert into changes select 'delete', id, zip, city, price, sold from houses where id between 20 and 25;
        insert into changes values ('insert', 99, 'z9', 'Hof', 1e8 - 0.01, timestamptz '2030-01-01 00:00:00+00');
        update houses set city = 'Bonn' where id < 9;
        delete from houses where id between 20 and 25;
        insert into houses select id, zip, city, price, sold from changes where op = 'insert';
        """
    )
    delta = monitor.apply({"houses": read(spark, database, "changes")}, "monday")
    after = truth(spark, database)
    assert found(delta.added) == added(before, after) and found(delta.removed) == added(after, before)
    write(monitor.delta(), database, "changed", "append")
    assert stored(database, "changed", "change = 1") == added(before, after)
    assert stored(database, "changed", "change = -1") == added(after, before)
    write(monitor.violations(), database, "violations", "overwrite")
    assert stored(database, "violations") == nonempty(after)


def test_sites_of_a_split_relation_are_tables_of_a_database(
    spark: SparkSession, database: Postgres, tmp_path: Path
) -> None:
    whole = read(spark, database, "houses").select("id", "zip", "city").toArrow()
    sites = [
        Site("a", source=read(spark, database, "(select id, zip from houses) as a"), state=tmp_path / "a"),
        Site("b", source=read(spark, database, "(select id, city from houses) as b"), state=tmp_path / "b"),
    ]
    split = relation(spark, sites, ["zip -> city"], key="id")
    loaded = split.load()
    rows = {key for v in check_here(whole, "zip -> city", key="id") for key in (v.t, v.s)}
    assert loaded.added_keys("zip -> city") == rows != set()
    split.close()
