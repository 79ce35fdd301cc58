"""Left sides tested and weighed on Spark: rows are written once for each of them, and aggregated in one shuffle.

Of a group of equal left sides the smallest and the largest right-hand values are kept: where they differ the
dependency is broken. Right sides lie at places that left sides share, so that a job is as wide as the left side
that is asked for the most. What reaches the driver are counts, a few groups that break a dependency, and two rows
of each of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from holdstrue.discovery.work import Work
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.spark.catalyst.lanes import Sql
from holdstrue.spark.discovering.bounded_jobs import ANSWER, collected, most_bytes
from holdstrue.spark.discovering.lane_table import LaneTable
from holdstrue.typing import I64

BUCKETS = 4
"""Parts into which the groups of a left side are dealt; each tells two that break a dependency. Chosen, not tuned."""

SIDES = 64
"""Left sides of one job: every row is written so many times. Chosen, not tuned."""

COUNTED = "sum(c) as n", "max(c) as most", "sum(c * (c - 1) div 2) as equal"
"""Of a group with rows c a right-hand value: its rows, those of the commonest value, pairs that agree."""

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
class _Slots:
    """At which places the right sides of each left side lie, and which of these have two lanes."""

    targets: list[list[int]]
    wide: list[bool]

    @staticmethod
    def of(table: LaneTable, asked: Sequence[SideQuestion]) -> _Slots:
        many = len(table.names)
        # those with two lanes first, so that few places have two
        columns = ([target for target in one.targets if target < many] for one in asked)
        targets = [sorted(own, key=lambda target: table.lanes[target][1] is None) for own in columns]
        places = range(max(map(len, targets), default=0))
        return _Slots(
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


def test(table: LaneTable, asked: Sequence[SideQuestion], work: Work) -> list[SideAnswer]:
    """Which targets each left side does not determine. One job for every `SIDES` left sides."""
    # left sides that ask for many targets make all others of their job as wide
    order = sorted(range(len(asked)), key=lambda i: len(asked[i].targets))
    found = [SideAnswer() for _ in asked]
    for start in range(0, len(order), SIDES):
        part = order[start : start + SIDES]
        for number, answer in zip(part, _tested(table, [asked[i] for i in part], work), strict=True):
            found[number] = answer
    return found


def _tested(table: LaneTable, asked: Sequence[SideQuestion], work: Work) -> list[SideAnswer]:
    slots, many = _Slots.of(table, asked), len(table.names)
    written = written_sides(table, [(one.columns, list(slots.fields(table, i))) for i, one in enumerate(asked)])
    rows = table.frame.selectExpr(written).where("side is not null")
    kept = [f"{how}({x}) as {name}_{x}" for x in slots.names for how, name in (("min", "least"), ("max", "most"))]
    groups = rows.groupBy("side", "a", "b").agg(F.count(F.lit(1)).alias("n"), *map(F.expr, kept)).where("n > 1")
    questions = {"support": "sum(n)", "groups": "count(1)"}
    for at in range(len(slots.wide)):
        questions |= _some(f"{at}", slots.unlike(at))
    if any(many in one.targets for one in asked):
        questions |= _some("key", "true")
    said = [f"{question} as {name}" for name, question in questions.items()]
    told = groups.groupBy("side", F.expr(f"pmod(a, {BUCKETS})").alias("bucket")).agg(*map(F.expr, said))
    found = [SideAnswer() for _ in asked]
    for row in collected(table.runner, told, f"{len(asked)} left sides tested", work).to_pylist():
        answer = found[row["side"]]
        answer.support += row["support"]
        answer.groups += row["groups"]
        places: list[tuple[int, str]] = [(t, str(at)) for at, t in enumerate(slots.targets[row["side"]])]
        if many in asked[row["side"]].targets:
            places.append((many, "key"))
        for target, place in places:
            if row[f"first_{place}"] is not None:
                ends = {(row[f"first_{place}"], row[f"b_{place}"]), (row[f"last_{place}"], row[f"c_{place}"])}
                answer.broken.setdefault(target, []).extend(sorted(ends))
    return found


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
    many, lanes = len(table.names), table.columns
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
    cases = " ".join(f"when {target} then {table.lanes[target][0]}" for target in range(many))
    rows = rows.withColumn("by", F.expr(f"case target {cases} else place end"))
    ends = [f"{how}_by({lane}, by) as {how}_{lane}" for how in ("min", "max") for lane in lanes]
    told = collected(table.runner, rows.groupBy("g").agg(*map(F.expr, ends)), "rows that break rules", work)
    one, other = (told.select([f"{how}_{lane}" for lane in lanes]).rename_columns(lanes) for how in ("min", "max"))
    return [chosen[g][:2] for g in told.column("g").to_pylist()], one, other


def weigh(table: LaneTable, sides: Sequence[tuple[int, ...]], targets: Sequence[int], work: Work) -> I64:
    """What breaks each dependency, counted as `kernels.partitions.weigh` does. One job."""
    many, written = len(table.names), []
    for columns, target in zip(sides, targets, strict=True):
        a, b = table.lanes[target] if target < many else ("0L", None)
        written.append((columns, [("v", a), ("w", b or "0L")]))
    rows = table.frame.selectExpr(written_sides(table, written)).where("side is not null and v is not null")
    values = rows.groupBy("side", "a", "b", "v", "w").agg(F.count(F.lit(1)).alias("c"))
    keys = ", ".join(str(at) for at, target in enumerate(targets) if target == many)
    key = f"side in ({keys})" if keys else "false"
    groups = values.groupBy("side", "a", "b").agg(*map(F.expr, COUNTED)).where("n > 1")
    asked = (
        f"sum(n * (n - 1) div 2 - if({key}, 0L, equal)) as pairs", f"sum(n - if({key}, 1L, most)) as rows",
        "sum(n) as support", "count(1) as groups",
    )  # fmt: skip
    told = collected(table.runner, groups.groupBy("side").agg(*map(F.expr, asked)), f"{len(sides)} FDs counted", work)
    counts = np.zeros((len(sides), 4), dtype=np.int64)
    for row in told.to_pylist():
        line = counts[row["side"]]
        line[OFFENDING], line[SURPLUS] = row["pairs"], row["rows"]
        line[SUPPORT], line[GATHERED] = row["support"], row["groups"]
    return counts


def known_rows(table: LaneTable, sides: Sequence[tuple[int, ...]], work: Work) -> list[int]:
    """How many rows have a value in all columns of each left side. One job."""
    asked = [f"count_if({table.known(columns)}) as k{at}" for at, columns in enumerate(sides)]
    if not asked:
        return []
    [row] = collected(table.runner, table.frame.selectExpr(*asked), "rows with values counted", work).to_pylist()
    return list(row.values())
