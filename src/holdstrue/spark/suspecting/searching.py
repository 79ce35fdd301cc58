"""`suspects` of a data frame: from rows, and rules where there are some, to cells that are probably wrong.

A table that one task may hold goes to one task. A larger one is cut in parts of whole groups: every part has all rows
of the values of one column that it has, and is looked at as a table of its own. Nothing but counts, rules and notes
passes through the driver.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DoubleType, StringType, StructField, StructType

from holdstrue.data.values import family_of
from holdstrue.discovery.suspects.held import BUDGET
from holdstrue.discovery.suspects.votes import MOST
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.plan.bind import require_columns
from holdstrue.plan.compile import main_table
from holdstrue.rules.file import load_rules
from holdstrue.rules.model import Rule
from holdstrue.rules.types import checked_types, types_of_table
from holdstrue.shards.memory import free_bytes
from holdstrue.spark.named import named_frames
from holdstrue.spark.runner import SparkRunner, column, quoted, sendable
from holdstrue.spark.suspecting.frame_suspects import FrameSuspects, by_column
from holdstrue.spark.suspecting.stages import ROW, CutStage, SuspectQuestion, SuspectStage

TIMES = 10
"""So many bytes a worker needs for one of the table, by `_size`: 1M orders of ten columns, 130 MB, took 770."""

UNLIMITED = 128 << 20
"""Bytes of a table in a task where nobody limits workers, as Spark cuts files. Chosen, not tuned."""

SAMPLED = 200_000
"""Rows from which it is learned where to cut, at most. Chosen, not tuned."""

VALUES = 10
"""Values of a column that it is cut by, for each part. Chosen, not tuned."""

TRIED = 5
"""Columns that are asked whether they cut a table evenly, before rows are dealt at random. Chosen, not tuned."""

MOST_PARTS = 2000

PARTED = (
    "looked at in {} parts with all rows of each `{}`: groups of other columns, forms of columns and how rare a value "
    "is were judged by the rows of a part"
)
AT_RANDOM = (
    "looked at in {} parts of rows drawn at random, as no column would keep its groups whole: "
    "groups were judged by the rows of a part"
)


def suspects(
    data: DataFrame | str,
    rules: Any = None,
    *,
    key: str | Sequence[str] | None = None,
    discover: bool = True,
    columns: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    budget: float | None = BUDGET,
    whole: int | None = None,
) -> FrameSuspects:
    """Find the cells of a data frame that are probably wrong; see `holdstrue.suspects`.

    Parameters
    ----------
    data
        A data frame, the name of a table of Spark's catalog, or a query. It is read up to three times, and must give
        the same rows.
    key
        Columns that name rows; without it a row is named by where Spark read it: partition times 2^33 plus its place.
    budget
        Seconds that the search for rules may take in a task; None for no end.
    whole
        Tables of up to so many bytes (8 a value, and the length of text) go to one task, and give what one process
        gives. By default a tenth of what a worker may hold (`spark.executor.pyspark.memory`), or 128 MiB where that is
        not limited. Of larger ones each part has all rows of the values of one column, chosen so that most rules keep
        their groups whole; `notes` say what was judged within parts.
    """
    if rules is None and not discover:
        raise HoldstrueError("nothing to go by: no rules, and none are to be found", hint="rules, or discover=True")
    if budget is not None and budget <= 0:
        raise HoldstrueError(f"budget is {budget!r}", hint="seconds, more than 0")
    ruleset = None if rules is None else load_rules(rules)
    main = "data" if ruleset is None else main_table(ruleset, ())
    frame = named_frames(data)
    runner = SparkRunner(frame.sparkSession)
    declared = (*(() if ruleset is None else ruleset.types), *checked_types((types or {}).items()))
    own = types_of_table(declared, main, main, (main,))
    frame = runner.declared(frame, {name: d for name, d in own.items() if name in frame.columns}, None)
    keys = (key,) if isinstance(key, str) else tuple(key or (() if ruleset is None else ruleset.key))
    asked = SuspectQuestion(main, tuple(columns), ruleset, discover, budget)
    return suspects_of_frame(runner, frame, asked, keys, whole)


def suspects_of_frame(
    runner: SparkRunner, frame: DataFrame, asked: SuspectQuestion, key: tuple[str, ...], whole: int | None = None
) -> FrameSuspects:
    """The suspects of a data frame whose columns have the types that were declared."""
    table, asked = _prepared(runner, frame, asked, key)
    with runner.about("size of the table"):
        size = _sized(table)
    most = whole if whole is not None else _allowed(runner)
    parts = max(1, min(MOST_PARTS, math.ceil(size.bytes / max(1, most)), size.rows))
    numbered = runner.numbered(table, ROW)
    cut: str | None = None
    notes: tuple[str, ...] = ()
    if parts == 1:
        spread = numbered.repartition(1)
    else:
        # the numbers of rows must stay what they are in every job
        with runner.about("suspects: where to cut"):
            cut = _cut(runner, numbered, asked, size, parts)
        by = "rand(1)" if cut is None else f"coalesce(xxhash64({quoted(cut)}), {quoted(ROW)})"
        place = f"cast(floor({by} * {parts}) as int)" if cut is None else f"cast(pmod({by}, {parts}) as int)"
        placed = numbered.withColumn(":part", F.expr(place))
        spread = placed.repartitionById(parts, F.col(":part")).drop(":part")
        notes += (AT_RANDOM.format(parts) if cut is None else PARTED.format(parts, cut),)
    names = key or (ROW,)
    rows = runner.schema(spread)
    kinds = _kinds(spread.schema, names)
    stage = SuspectStage(asked, names, rows, to_arrow_schema(kinds, timezone="UTC"))
    with runner.about("suspects"):
        found = spread.mapInArrow(sendable(stage), kinds).localCheckpoint()
        said = [json.loads(line[0]) for line in found.where("said is not null").select("said").collect()]
        listed = found.where("said is null").drop("said")
        counts = by_column(listed)
    rules = tuple(dict.fromkeys(rule for one in said for rule in one["rules"]))
    notes += tuple(dict.fromkeys(note for one in said for note in one["notes"]))
    return FrameSuspects(listed, size.rows, counts, parts, cut, key, rules, notes, frame)


def _prepared(
    runner: SparkRunner, frame: DataFrame, asked: SuspectQuestion, key: tuple[str, ...]
) -> tuple[DataFrame, SuspectQuestion]:
    """The columns that are looked at or name rows; what does not fit is refused before a job is run."""
    for name in (*key, *asked.columns):
        if name not in frame.columns:
            what = "key column" if name in key else "column"
            raise DataError(f"no {what} {name!r}", hint=f"the columns are {', '.join(frame.columns)}")
    schema = runner.schema(frame)
    usable = [field.name for field in schema if family_of(field.type)]
    looked = tuple(name for name in usable if not asked.columns or name in asked.columns)
    if not looked:
        raise DataError(f"table {asked.table!r} has no column whose values compare", hint="lists and structs do not")
    if asked.ruleset is not None:
        own = tuple(r for r in asked.ruleset if (r.own_table or asked.table) == asked.table and _here(r))
        wanted = pa.schema([schema.field(name) for name in looked])
        require_columns(replace(asked.ruleset, rules=own), asked.table, {asked.table: wanted})
    table = runner.select(frame, list(dict.fromkeys((*key, *looked))))
    return table, replace(asked, columns=looked)


def _here(rule: Rule) -> bool:
    """Whether a rule speaks of rows of one table."""
    return not rule.body.references and rule.kind != "measure"


@dataclass(frozen=True)
class _Size:
    """Rows, bytes, and about how many values each column has."""

    rows: int
    bytes: int
    values: Mapping[str, int]


def _sized(table: DataFrame) -> _Size:
    long = [f.name for f in table.schema if f.dataType.typeName() in ("string", "varchar", "char", "binary")]
    lengths = " + ".join(f"coalesce(octet_length({quoted(name)}), 0)" for name in long) or "0"
    about = [f"approx_count_distinct({quoted(name)}) as d{at}" for at, name in enumerate(table.columns)]
    [row] = table.selectExpr("count(1) as n", f"sum({lengths}) as long", *about).collect()
    values = {name: row[f"d{at}"] for at, name in enumerate(table.columns)}
    return _Size(row["n"], 8 * row["n"] * len(table.columns) + (row["long"] or 0), values)


def _allowed(runner: SparkRunner) -> int:
    free = free_bytes(runner.worker_bytes())
    return UNLIMITED if free is None else min(UNLIMITED, free // TIMES)


def _cut(runner: SparkRunner, numbered: DataFrame, asked: SuspectQuestion, size: _Size, parts: int) -> str | None:
    """The column by whose values rows are put together: the one with which most rules keep whole or large groups."""
    sample = _groups(numbered, asked.columns, size)
    told = sample.repartition(1).mapInArrow(
        sendable(CutStage(asked, runner.schema(numbered))), StructType([StructField("told", StringType())])
    )
    found = [json.loads(line[0]) for line in told.collect()]
    if not found:
        return None
    if found[0]["thing"] is not None:
        thing: str = found[0]["thing"]
        return thing
    lefts = [tuple(left) for left in found[0]["lefts"]]

    def lost(by: str) -> float:
        """How much less a row's vote weighs in groups of which a part has some rows only, over all left sides."""
        sizes = [size.rows / max(1, *(size.values[name] for name in left)) for left in lefts if by not in left]
        return sum(_weight(rows) - _weight(rows / parts) for rows in sizes)

    # few values would give parts of very different sizes
    fit = {name for left in lefts for name in left if size.values[name] >= VALUES * parts}
    by_loss = sorted(fit, key=lambda name: (round(lost(name), 6), -size.values[name], name))
    return next((name for name in by_loss[:TRIED] if _even(numbered, name, size, parts)), None)


def _even(numbered: DataFrame, name: str, size: _Size, parts: int) -> bool:
    """Whether no value of a column has more rows than a part; NULLs are dealt by themselves."""
    counts = numbered.where(column(name).isNotNull()).groupBy(column(name)).count()
    [(most,)] = counts.agg(F.max("count")).collect()
    return (most or 0) <= size.rows / parts


def _weight(rows: float) -> float:
    """What a group of so many rows says of one of them that differs (`suspects/votes.py`).

    >>> [round(_weight(rows), 2) for rows in (1.0, 5.0, 20.0, 1e6)]
    [0.0, 1.1, 2.56, 3.0]
    """
    return min(MOST, max(0.0, math.log(max(0.5, rows - 0.5) / 1.5)))


def _groups(numbered: DataFrame, columns: Sequence[str], size: _Size) -> DataFrame:
    """A bounded sample: for each column some values with all their rows, chosen by their hash."""
    if size.rows <= SAMPLED:
        return numbered
    every = max(1, size.rows * len(columns) // SAMPLED)
    chosen = [
        f"pmod(xxhash64({quoted(name)}), {every}) = 0" for name in columns if size.values[name] > 2 * every
    ]  # fmt: skip
    random = f"pmod(xxhash64({quoted(ROW)}), {every}) = 0"
    return numbered.where(" or ".join([*chosen, random])).limit(2 * SAMPLED)


def _kinds(rows: StructType, names: tuple[str, ...]) -> StructType:
    """What comes out of the stage: suspects with rows named by their key, and what is said of all."""
    of = [StructField(name, rows[name].dataType) for name in names]
    named = of[0].dataType if len(of) == 1 else StructType(of)
    return StructType(
        [
            StructField("row", named),
            StructField("column", StringType()),
            StructField("value", StringType()),
            StructField("proposed", StringType()),
            StructField("confidence", DoubleType()),
            StructField("why", ArrayType(StringType())),
            StructField("rows", ArrayType(named)),
            StructField("said", StringType()),
        ]
    )
