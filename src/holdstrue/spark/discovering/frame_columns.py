"""The counts of columns whose rows stay on Spark: what `discovery/columns/profile.py` counts, by Catalyst.

One job says how many values of each kind there are about; others bring those of which there are few.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.data.values import family_of
from holdstrue.discovery.columns.few_values import MOST, FewValues
from holdstrue.discovery.columns.profile import CLASSES, LONGEST, LONGEST_VALUE, RUNS, ColumnProfile
from holdstrue.discovery.work import Work
from holdstrue.spark.discovering.bounded_jobs import collected
from holdstrue.spark.runner import SparkRunner, quoted

ABOUT = 2
"""So many times the most values that are counted may be estimated: the estimate errs by a twentieth."""
TOGETHER = 8
"""Kinds of values that one job brings to the driver: up to some megabyte."""

NUMERIC = ("integer", "float", "decimal")


def column_profiles(runner: SparkRunner, frame: DataFrame, schema: pa.Schema, work: Work) -> dict[str, ColumnProfile]:
    """Count the columns of a data frame. Complexity: a scan, and one for every few kinds of values there are few of."""
    families = {field.name: family_of(field.type) for field in schema}
    # how often a fact of a column is asked for, by place: names may hold anything
    facts = [(name, what, fact) for name in schema.names for what, fact in _facts(name, families[name])]
    asked = [F.count(F.lit(1)).alias("rows")]
    for at, (name, family) in enumerate(families.items()):
        own = F.col(quoted(name))
        asked.append(F.count(own).alias(f"known{at}"))
        if family in NUMERIC:
            asked.append(F.count(F.when(own < 0, 1)).alias(f"negative{at}"))
    asked += [F.approx_count_distinct(fact).alias(f"about{at}") for at, (_, _, fact) in enumerate(facts)]
    [said] = collected(runner, frame.agg(*asked), "columns counted", work).to_pylist()
    profiles = {
        name: ColumnProfile(family, said["rows"], said[f"known{at}"], said.get(f"negative{at}", 0))
        for at, (name, family) in enumerate(families.items())
    }
    for name, what, _ in facts:
        profiles[name].tallies[what] = FewValues()
    few = [at for at in range(len(facts)) if said[f"about{at}"] <= ABOUT * MOST]
    for at in set(range(len(facts))) - set(few):
        profiles[facts[at][0]].tallies[facts[at][1]].give_up(said[f"about{at}"])
    for first in range(0, len(few), TOGETHER):
        some = few[first : first + TOGETHER]
        parts = [F.struct(F.lit(at).alias("at"), facts[at][2].cast("string").alias("fact")) for at in some]
        told = (
            frame.select(F.explode(F.array(*parts)).alias("one")).select("one.at", "one.fact").where("fact is not null")
        )
        counted = collected(runner, told.groupBy("at", "fact").count(), "values, shapes and lengths counted", work)
        for at in some:
            own = counted.filter(pa.compute.equal(counted.column("at"), at))
            name, what, _ = facts[at]
            number = families[name] == "integer" or what == "lengths"
            keys = own.column("fact").cast(pa.int64() if number else pa.large_string()).combine_chunks()
            counts = own.column("count").to_numpy().astype(np.int64)
            profiles[name].tallies[what].change((keys, counts))
    return profiles


def _facts(name: str, family: str | None) -> Iterator[tuple[str, Column]]:
    """What is counted of a column beside NULLs and negative numbers."""
    own = F.col(quoted(name))
    if family == "integer":
        yield "values", own
    if family != "text":
        return
    yield "values", F.substring(own, 1, LONGEST_VALUE + 1)
    shape = F.when(F.char_length(own) > LONGEST, F.lit("")).otherwise(own)
    for pattern, sign in CLASSES:
        shape = F.regexp_replace(shape, pattern, sign)
    yield "shapes", shape
    form = shape
    for pattern, sign in RUNS:
        form = F.regexp_replace(form, pattern, sign)
    yield "forms", form
    yield "lengths", F.char_length(own)
