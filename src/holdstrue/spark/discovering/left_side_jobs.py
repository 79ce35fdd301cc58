"""Left sides followed through a batch by Catalyst: rows are written once for each of them.

Of a group of equal left sides the smallest and the largest right-hand values are kept: where they differ the
dependency is broken. Right sides lie at places that left sides share, so that a job is as wide as the left side
that is asked for the most. What reaches the driver are counts, a few groups that break a dependency, and two rows
of each of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from holdstrue.discovery.work import Work
from holdstrue.spark.catalyst.lanes import Sql
from holdstrue.spark.discovering.bounded_jobs import ANSWER, collected, most_bytes
from holdstrue.spark.discovering.lane_table import LaneTable

BUCKETS = 4
"""Parts into which the groups of a left side are dealt; each tells two that break a dependency. Chosen, not tuned."""

SCOUTED = 1 << 17
"""Rows of a left side's groups that are looked at before all rows are. Chosen, not tuned."""

SIDES = 64
"""Left sides of one job: every row is written so many times. Chosen, not tuned."""

MOST_GROUPS = 4096
"""Groups of which two rows are fetched, at most. Chosen, not tuned."""


@dataclass(frozen=True)
class SideQuestion:
    """Columns of a left side and the targets that may depend on them; that behind the last column asks for a key."""

    columns: tuple[int, ...]
    targets: tuple[int, ...]


@dataclass
class SideAnswer:
    """What a job found of a left side: rows with a partner, groups they form, targets that are broken, and where."""

    support: int = 0
    groups: int = 0
    broken: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By target some groups, by their two lanes, that break it."""


@dataclass(frozen=True)
class Slots:
    """At which places the right sides of each left side lie, and which of these have two lanes."""

    targets: list[list[int]]
    wide: list[bool]

    @staticmethod
    def of(table: LaneTable, asked: Sequence[SideQuestion]) -> Slots:
        many = len(table.names)
        # those with two lanes first, so that few places have two
        columns = ([target for target in one.targets if target < many] for one in asked)
        targets = [sorted(own, key=lambda target: table.lanes[target][1] is None) for own in columns]
        places = range(max(map(len, targets), default=0))
        return Slots(
            targets, [any(at < len(own) and table.lanes[own[at]][1] is not None for own in targets) for at in places]
        )

    def fields(self, table: LaneTable, side: int) -> Iterator[tuple[str, Sql]]:
        own = self.targets[side]
        for at, wide in enumerate(self.wide):
            a, b = table.lanes[own[at]] if at < len(own) else (None, None)
            yield f"v{at}", a or "cast(null as bigint)"
            if wide:
                yield f"w{at}", b or "cast(null as bigint)"

    @property
    def names(self) -> list[str]:
        return [name for at, wide in enumerate(self.wide) for name in ([f"v{at}", f"w{at}"] if wide else [f"v{at}"])]

    def unlike(self, at: int) -> Sql:
        lanes = "vw" if self.wide[at] else "v"
        return "(" + " or ".join(f"coalesce(least_{x}{at} != most_{x}{at}, false)" for x in lanes) + ")"


def written_sides(table: LaneTable, sides: Sequence[tuple[tuple[int, ...], list[tuple[str, Sql]]]]) -> Sql:
    """Rows written once for each left side, with further fields: SQL of a generator."""
    parts = []
    for number, (columns, fields) in enumerate(sides):
        a, b = table.group(columns)
        pairs = ", ".join(f"'{name}', {value}" for name, value in [("side", str(number)), ("a", a), ("b", b), *fields])
        parts.append(f"if({table.known(columns)}, named_struct({pairs}), null)")
    return f"inline(array({', '.join(parts)}))"


@dataclass
class SideShift(SideAnswer):
    """What a batch did to a left side: rows with a partner and groups that it made; targets broken where it was."""

    distinct: int = 0
    known: int = 0
    most: int = 0
    """Rows of the largest group that it touched, after it."""
    shrunk: int = 0
    """Rows, before it, of the largest group that lost some."""
    alive: int = 0
    """Groups that it touched and that have rows."""


SENT = 48
"""Bytes that a touched group is taken for where it is sent to every task: a side, two lanes, and a place in a hash
table. Chosen, not tuned."""

FEWEST = 8
"""Left sides of one job below which all groups are counted, instead of scanning the table once more. Chosen."""


def shifted(
    table: LaneTable, changes: DataFrame, rows: int, asked: Sequence[SideQuestion], work: Work
) -> list[SideShift]:
    """What changes (lanes, and +1 or -1 as `d`) did to each left side; `table` is that after them.

    Only rows in groups that the batch touches are shuffled, as long as these groups can be sent to every task; else
    all groups are counted. Complexity: one scan a job, one job for up to `SIDES` left sides.
    """
    room = most_bytes(table.runner, ANSWER) // (SENT * max(1, rows))
    narrow = room >= min(FEWEST, len(asked))
    size = min(SIDES, room) if narrow else SIDES
    order = sorted(range(len(asked)), key=lambda i: len(asked[i].targets))
    found = [SideShift() for _ in asked]
    for start in range(0, len(order), max(1, size)):
        part = order[start : start + max(1, size)]
        for number, answer in zip(part, _shifted(table, changes, [asked[i] for i in part], narrow, work), strict=True):
            found[number] = answer
    return found


def _shifted(
    table: LaneTable, changes: DataFrame, asked: Sequence[SideQuestion], narrow: bool, work: Work
) -> list[SideShift]:
    slots, group = Slots.of(table, asked), ["side", "a", "b"]
    written = written_sides(table, [(one.columns, list(slots.fields(table, i))) for i, one in enumerate(asked)])
    rows = table.frame.selectExpr(written).where("side is not null")
    moved = changes.selectExpr(written_sides(table, [(one.columns, [("d", "d")]) for one in asked]))
    touched = moved.where("side is not null").groupBy(*group).agg(F.sum("d").alias("d"))
    if narrow:
        rows = rows.join(F.broadcast(touched.select(*group)), group, "left_semi")
    kept = [f"{how}({x}) as {name}_{x}" for x in slots.names for how, name in (("min", "least"), ("max", "most"))]
    after = rows.groupBy(*group).agg(F.count(F.lit(1)).alias("n"), *map(F.expr, kept))
    groups = (
        touched.join(after, group, "left").withColumn("n", F.expr("coalesce(n, 0L)")).withColumn("o", F.expr("n - d"))
    )
    questions = {
        "support": "sum(if(n > 1, n, 0L) - if(o > 1, o, 0L))",
        "groups": "sum(if(n > 1, 1L, 0L) - if(o > 1, 1L, 0L))",
        "distinct": "sum(if(n > 0, 1L, 0L) - if(o > 0, 1L, 0L))",
        "known": "sum(d)", "most": "max(n)", "shrunk": "coalesce(max(if(n < o, o, null)), 0L)",
        "alive": "sum(if(n > 0, 1L, 0L))",
    }  # fmt: skip
    summed, greatest = ("support", "groups", "distinct", "known", "alive"), ("most", "shrunk")
    for at in range(len(slots.wide)):
        questions |= _some(f"{at}", slots.unlike(at))
    many = len(table.names)
    if any(many in one.targets for one in asked):
        questions |= _some("key", "n > 1")
    said = [f"{question} as `{name}`" for name, question in questions.items()]
    told = groups.groupBy("side", F.expr(f"pmod(a, {BUCKETS})").alias("bucket")).agg(*map(F.expr, said))
    found = [SideShift() for _ in asked]
    for row in collected(table.runner, told, f"{len(asked)} left sides followed", work).to_pylist():
        answer = found[row["side"]]
        for name in summed:
            setattr(answer, name, getattr(answer, name) + row[name])
        for name in greatest:
            setattr(answer, name, max(getattr(answer, name), row[name]))
        _note_broken(answer, row, slots.targets[row["side"]], many if many in asked[row["side"]].targets else None)
    return found


def _note_broken(answer: SideAnswer, row: dict[str, int | None], targets: Sequence[int], key: int | None) -> None:
    places: list[tuple[int, str]] = [(t, str(at)) for at, t in enumerate(targets)]
    if key is not None:
        places.append((key, "key"))
    for target, place in places:
        if row[f"first_{place}"] is not None:
            ends: set[Any] = {(row[f"first_{place}"], row[f"b_{place}"]), (row[f"last_{place}"], row[f"c_{place}"])}
            answer.broken.setdefault(target, []).extend(sorted(ends))


def _some(place: str, broken: Sql) -> dict[str, Sql]:
    """Two groups for which a condition holds: those with the least and the greatest first lane."""
    a = f"if({broken}, a, null)"
    return {
        f"first_{place}": f"min({a})",
        f"b_{place}": f"min_by(b, {a})",
        f"last_{place}": f"max({a})",
        f"c_{place}": f"max_by(b, {a})",
    }


def breaking_rows(
    table: LaneTable, asked: Sequence[SideQuestion], found: Sequence[SideAnswer], work: Work
) -> tuple[list[tuple[int, int]], pa.Table, pa.Table]:
    """Some groups that break dependencies, as (left side, target), and two rows, as lanes, of each. One job."""
    lanes = [*table.columns, "ra", "rb"]
    most = min(MOST_GROUPS, max(16, most_bytes(table.runner, ANSWER) // (2 * table.row_bytes)))
    # in turn, so that every broken dependency is shown by some
    named = [
        [(side, target, a, b) for a, b in groups]
        for side, answer in enumerate(found)
        for target, groups in answer.broken.items()
    ]
    turns = chain.from_iterable(zip_longest(*named))
    chosen = [one for one in turns if one is not None][:most]
    sides = sorted({one[0] for one in chosen})
    numbers = {side: at for at, side in enumerate(sides)}
    lines = [(at, numbers[side], target, a, b) for at, (side, target, a, b) in enumerate(chosen)]
    fields = [StructField(name, IntegerType()) for name in ("g", "gs", "target")]
    fields += [StructField(name, LongType()) for name in ("ga", "gb")]
    wanted = F.broadcast(table.runner.spark.createDataFrame(lines, StructType(fields)))
    # rows of a key's group may be equal, so that they are told apart by their places
    numbered = table.frame.withColumn("place", F.monotonically_increasing_id())
    written = written_sides(table, [(asked[side].columns, []) for side in sides])
    rows = numbered.selectExpr("*", written).where("side is not null")
    rows = rows.join(wanted, F.expr("side = gs and a = ga and b = gb"))
    # values that differ may do so in the second lane alone; of NULLs none is asked for
    values = " ".join(
        f"when {target} then if({a} is null, null, named_struct('a', {a}, 'b', {b or '0L'}))"
        for target, (a, b) in enumerate(table.lanes)
    )
    by = f"case target {values} else named_struct('a', place, 'b', 0L) end"
    rows = table.identified(rows).withColumn("by", F.expr(by))
    ends = [f"{how}_by({lane}, by) as {how}_{lane}" for how in ("min", "max") for lane in lanes]
    told = collected(table.runner, rows.groupBy("g").agg(*map(F.expr, ends)), "rows that break rules", work)
    one, other = (told.select([f"{how}_{lane}" for lane in lanes]).rename_columns(lanes) for how in ("min", "max"))
    return [chosen[g][:2] for g in told.column("g").to_pylist()], one, other


def known_rows(table: LaneTable, sides: Sequence[tuple[int, ...]], work: Work) -> list[int]:
    """How many rows have a value in all columns of each left side. One job."""
    asked = [f"count_if({table.known(columns)}) as k{at}" for at, columns in enumerate(sides)]
    if not asked:
        return []
    [row] = collected(table.runner, table.frame.selectExpr(*asked), "rows with values counted", work).to_pylist()
    return list(row.values())
