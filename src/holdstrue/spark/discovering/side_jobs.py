"""Left sides looked at on all rows, or on a part of their groups, many in one job.

What reaches the driver are counts of groups, and the places of a few rows that break something; the rows themselves
come when they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.discovery.work import Work
from holdstrue.kernels.partitions import GATHERED, OFFENDING, SUPPORT, SURPLUS
from holdstrue.spark.discovering.bounded_jobs import ANSWER, collected, most_bytes
from holdstrue.spark.discovering.lane_table import LaneTable, Profiled
from holdstrue.spark.discovering.left_side_jobs import MOST_GROUPS, SideQuestion
from holdstrue.spark.discovering.side_stages import (
    BREAKS,
    FACTS,
    TOLD,
    WEIGHED,
    SideShape,
    TalliedSides,
    WeighedSides,
    WrittenSides,
)
from holdstrue.spark.runner import sendable
from holdstrue.typing import I32, I64

SIDES = 256
"""Left sides of one job: each is written to buffers of its own. Chosen, not tuned."""

APART = 60
"""Right sides with unknown values of one left side in a job: which are unknown is a word of bits."""

PART_BYTES = 48 << 20
"""Bytes of words that a task groups at a time, so that it fits a worker of 512 MB twice. Chosen."""

MOST_PARTS = 2000
"""Tasks at most. Chosen, not tuned."""

SPARE = 64
"""Of the rows of a left side that is tested one in so many may differ from the others of its group. Chosen."""

LISTED = 4
"""Tasks of a job that tell pairs of rows of one left side. Chosen, not tuned."""


@dataclass
class SideFound:
    """What was counted of a left side, and the places of some pairs of rows that break it."""

    profile: Profiled
    pairs: I64


def looked_at(
    table: LaneTable, asked: Sequence[SideQuestion], work: Work, part: int = 1, *, what: str | None = None
) -> list[SideFound]:
    """Count the groups of left sides, and find rows that break them. One job for every `SIDES` of them."""
    found: list[SideFound] = []
    for start in range(0, len(asked), SIDES):
        found += _looked_at(table, asked[start : start + SIDES], work, part, what)
    return found


def _looked_at(
    table: LaneTable, asked: Sequence[SideQuestion], work: Work, part: int, what: str | None
) -> list[SideFound]:
    many, blocks = len(table.names), table.blocks
    reader = blocks.reader
    shapes: list[SideShape] = []
    owners: list[int] = []
    for number, one in enumerate(asked):
        never = [t for t in one.targets if t < many and table.never_null(t)]
        maybe = [t for t in one.targets if t < many and not table.never_null(t)]
        for start in range(0, max(1, len(maybe)), APART):
            shapes.append(SideShape.of(reader, one.columns, never, maybe[start : start + APART], many in one.targets))
            owners.append(number)
    # what no sample refutes differs in few rows of its groups, as a rule
    spare = table.rows // (part if part > 1 else SPARE)
    columns = [asked[own].columns for own in owners]
    spares = [0 if not one.targets else spare for one in (asked[own] for own in owners)]
    parts = parts_for(table, list(zip(columns, shapes, strict=True)), part, spares)
    stage = WrittenSides(reader, tuple(shapes), table.codes.seed.keys, part, parts)
    sent = table.runner.messages([(blocks.frame, stage)], parts)
    lines = sent.mapInArrow(sendable(TalliedSides(tuple(shapes))), TOLD)
    counted = [F.sum(name).alias(name) for name in FACTS if name != "most"]
    pairs = F.slice(F.collect_list(F.when(F.length("pairs") > 0, F.col("pairs"))), 1, LISTED).alias("pairs")
    told = lines.groupBy("side").agg(*counted, F.max("most").alias("most"), pairs)
    said = f"{len(asked)} left sides " + ("tested" if part == 1 else f"tried in 1 of {part} of their groups")
    answers = [SideFound(Profiled(0, 0, 0, 0, 0, valued=False), np.empty((0, 2), np.int64)) for _ in asked]
    for row in collected(table.runner, told, what or said, work).to_pylist():
        one = answers[owners[row["side"]]]
        places = np.frombuffer(b"".join(row["pairs"]), dtype=np.int64).reshape(-1, 3)
        # in turns, so that every broken right side is shown by some
        turns = np.argsort(_turns(places[:, 0]), kind="stable")
        one.pairs = np.concatenate([one.pairs, places[turns, 1:]])
        valued = bool(row["valued"]) if table.nulls_equal else row["distinct"] > 0
        one.profile = Profiled(row["distinct"], row["known"], row["most"], row["support"], row["groups"], valued)
    return answers


def profile(table: LaneTable, work: Work) -> None:
    """Look what each column is like. One job."""
    asked = [SideQuestion((number,), ()) for number in range(len(table.names))]
    table.profiled = [one.profile for one in looked_at(table, asked, work, what="columns profiled")]


def _turns(words: I64) -> I64:
    """How many equal words come before each.

    >>> _turns(np.array([4, 4, 7, 4, 7])).tolist()
    [0, 1, 0, 2, 1]
    """
    seen: dict[int, int] = {}
    turns = np.empty(words.size, dtype=np.int64)
    for at, word in enumerate(words.tolist()):
        turns[at] = seen.get(word, 0)
        seen[word] = int(turns[at]) + 1
    return turns


Shaped = tuple[tuple[int, ...], SideShape]
"""The columns of a left side, and how its rows are written."""


def parts_for(table: LaneTable, asked: Sequence[Shaped], part: int, spares: Sequence[int]) -> int:
    """Tasks that groups are dealt to, so that what one of them holds is bounded.

    `spares` are rows of each left side beside one for each of its groups and tasks.
    """
    size = 0
    for (columns, shape), spare in zip(asked, spares, strict=True):
        rows = table.rows // part
        if table.profiled and not shape.key:
            groups = math.prod(min(table.profiled[column].distinct, table.rows) for column in columns)
            # equal rows of a task are one
            rows = min(rows, groups * table.runner.tasks() + spare)
        size += 8 * shape.words * rows
    return max(table.runner.tasks(), min(MOST_PARTS, -(-size // PART_BYTES)))


def shaped_for(table: LaneTable, left: tuple[int, ...], target: int) -> Shaped:
    """Rows of a left side that know a target, whose value is the one right side; of a key all, without one."""
    if target == len(table.names):
        return left, SideShape.of(table.blocks.reader, left, [], [], key=False)
    lanes, columns, together, apart = SideShape.of(table.blocks.reader, left, [target], [], key=False).shape
    return left, SideShape((lanes, np.append(columns, target), together, apart), key=False)


def values_of_groups(table: LaneTable, left: tuple[int, ...], target: int) -> int:
    """Rows that tasks send of a left side and target at most: one for each value of a group."""
    columns = left if target == len(table.names) else (*left, target)
    values = math.prod(table.profiled[column].distinct for column in columns)
    return min(table.rows, values * table.runner.tasks())


def weigh(table: LaneTable, sides: Sequence[tuple[int, ...]], targets: Sequence[int], work: Work) -> I64:
    """What breaks each dependency, counted as `kernels.partitions.weigh` does. One job."""
    cases = list(zip(sides, targets, strict=True))
    shaped = [shaped_for(table, left, target) for left, target in cases]
    parts = parts_for(table, shaped, 1, [values_of_groups(table, left, target) for left, target in cases])
    shapes = tuple(shape for _, shape in shaped)
    written = WrittenSides(table.blocks.reader, shapes, table.codes.seed.keys, 1, parts)
    counted = WeighedSides(tuple(target == len(table.names) for target in targets))
    sent = table.runner.messages([(table.blocks.frame, written)], parts)
    lines = sent.mapInArrow(sendable(counted), WEIGHED)
    told = lines.groupBy("side").agg(*(F.sum(name).alias(name) for name in BREAKS))
    counts = np.zeros((len(sides), 4), dtype=np.int64)
    for row in collected(table.runner, told, f"{len(sides)} FDs counted", work).to_pylist():
        line = counts[row["side"]]
        line[OFFENDING], line[SURPLUS] = row["pairs"], row["rows"]
        line[SUPPORT], line[GATHERED] = row["support"], row["groups"]
    return counts


def rows_that_break(table: LaneTable, found: Sequence[SideFound], work: Work) -> tuple[list[int], I32, I32]:
    """Pairs of rows that break left sides, as many as the driver may take; the rows are held as codes from now on.

    By pair the left side, and the places of both rows among the codes. One job.
    """
    most = min(MOST_GROUPS, max(16, most_bytes(table.runner, ANSWER) // (2 * table.row_bytes)))
    named = ([(side, t, s) for t, s in one.pairs.tolist()] for side, one in enumerate(found))
    turns = chain.from_iterable(zip_longest(*named))
    chosen = [one for one in turns if one is not None][:most]
    pairs = np.array([one[1:] for one in chosen], dtype=np.int64).reshape(-1, 2)
    rows = table.identified(table.blocks.rows_at(pairs.reshape(-1)))
    told = collected(table.runner, rows, "rows that break rules", work)
    places = table.take(told.drop_columns(["place"]))
    order = told.column("place").to_numpy()
    by_place = dict(zip(order.tolist(), places.tolist(), strict=True))
    numbers = np.array([[by_place.get(t, -1), by_place.get(s, -1)] for t, s in pairs.tolist()], np.int32).reshape(-1, 2)
    return [one[0] for one in chosen], np.ascontiguousarray(numbers[:, 0]), np.ascontiguousarray(numbers[:, 1])
