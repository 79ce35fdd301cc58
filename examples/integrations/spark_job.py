"""Spark: check a table, or bring a state up to date, as one job file for spark-submit, Databricks and EMR.

    spark-submit spark_job.py --table warehouse.orders --rules rules.yaml
    spark-submit spark_job.py --state s3://bucket/states/orders --changes s3://bucket/changes/monday --batch monday

The session is the one that the platform made. Exit code 1: rules of severity error are violated.
Tested: `main` is run on a local session, with files.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession

import holdstrue.spark as hs


def frame(spark: SparkSession, name: str) -> DataFrame:
    """A table of the catalog, or Parquet files."""
    return spark.read.parquet(name) if "/" in name else spark.table(name)


def main(arguments: list[str]) -> int:
    """Check, or apply."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--table")
    parser.add_argument("--rules")
    parser.add_argument("--key")
    parser.add_argument("--state")
    parser.add_argument("--changes")
    parser.add_argument("--batch")
    given = parser.parse_args(arguments)
    spark = SparkSession.builder.getOrCreate()
    if given.table:
        report = hs.check(frame(spark, given.table), given.rules, key=given.key)
        for result in report.results:
            print(f"{result.status:9} {result.counts.open:10,}  {result.rule.name}")
        return 0 if report.ok else 1
    monitor = hs.Monitor(spark, given.state)
    delta = monitor.apply(frame(spark, given.changes), batch_id=given.batch)
    print(delta)
    severe = {rule.name for rule in monitor.rules if rule.severity == "error"}
    return int(any(step.added and name in severe for name, step in delta.counts.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
