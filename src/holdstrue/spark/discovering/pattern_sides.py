"""Left sides looked at once for all their targets: under which conditions none of their groups breaks a dependency.

The groups of a left side tell of each target whether two values meet there; sums over the groups under each choice of
columns with constants tell what holds. The driver sees what holds, or is refuted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.discovery.dependencies.patterns import Columns
from holdstrue.kernels.side_rows import APART
from holdstrue.spark.discovering.bounded_jobs import ANSWER, most_bytes
from holdstrue.spark.discovering.left_side_jobs import SIDES, SideQuestion
from holdstrue.spark.discovering.pattern_jobs import Condition, PatternCounts, PatternJobs
from holdstrue.spark.discovering.refutations import Refutations
from holdstrue.spark.discovering.side_jobs import Shaped
from holdstrue.spark.discovering.side_stages import SideShape
from holdstrue.typing import I64

LINE = 64
"""Bytes of a condition under which something is broken, on its way to the driver. Chosen, not tuned."""

Holding = dict[int, dict[Condition, PatternCounts]]
"""By target the conditions under which it depends on a left side, and what breaks it under none."""


@dataclass(frozen=True)
class RefutedConditions:
    """Conditions on some columns of a left side, by the places of their values, under which a target is broken."""

    left: Columns
    target: int
    fixed: Columns
    places: list[I64]


def holding(
    jobs: PatternJobs, refutations: Refutations, asked: Sequence[SideQuestion]
) -> Iterator[tuple[SideQuestion, Holding]]:
    """What holds of each left side, on all rows and under conditions that are open.

    One job for every `SIDES` left sides, in which rows travel that some open condition selects.
    """
    order = sorted(asked, key=lambda one: len(one.targets))
    least = max(2, jobs.options.support)
    for start in range(0, len(order), SIDES):
        part = order[start : start + SIDES]
        shaped, wide = _shaped(jobs, part), max(len(one.targets) for one in part)
        some = [f"x{at} = 0 and s{at} >= {least}" for at in range(wide)]
        wanted = _summed(jobs, refutations, part, 1).where(" or ".join(["mask = 0", *some]))
        found: list[Holding] = [
            {target: {((), ()): PatternCounts(0, 0, 0, None)} for target in one.targets} for one in part
        ]
        digests = [
            [jobs.lanes_by_digest(shape, target, APART + at) for at, target in enumerate(one.targets)]
            for one, (_, shape) in zip(part, shaped, strict=True)
        ]
        for row in jobs.told(wanted, f"{len(part)} left sides tested under conditions").to_pylist():
            left = part[row["side"]].columns
            condition = _condition(left, row)
            for at, target in enumerate(part[row["side"]].targets):
                if row["mask"] and (row[f"x{at}"] or row[f"s{at}"] < least):
                    continue
                if row["mask"] and not refutations.is_open(left, target, *condition):
                    # not all of its rows were sent
                    continue
                lanes = digests[row["side"]][at].get(row[f"v{at}"]) if condition[0] == left else None
                one = PatternCounts(int(row[f"x{at}"] > 0), row[f"s{at}"], row[f"g{at}"], lanes)
                found[row["side"]][target][condition] = one
        for own, question in zip(found, part, strict=True):
            for target in question.targets:
                if refutations.is_broken(question.columns, target):
                    own[target][(), ()] = PatternCounts(1, 0, 0, None)
        yield from zip(part, found, strict=True)


def _shaped(jobs: PatternJobs, asked: Sequence[SideQuestion]) -> list[Shaped]:
    table, shaped = jobs.table, []
    for one in asked:
        shape = SideShape.of(table.blocks.reader, one.columns, [], one.targets, key=False)
        counters = not all(table.never_null(target) for target in one.targets)
        shaped.append((one.columns, replace(shape, counters=counters)))
    return shaped


def _summed(jobs: PatternJobs, refutations: Refutations, asked: Sequence[SideQuestion], part: int) -> DataFrame:
    """By left side, columns with constants (`mask`) and their values (`k0`, ...) of each target: groups that break it
    (`x0`, ...), rows with a partner (`s0`), their groups (`g0`), and a digest of the value (`v0`)."""
    opened = [refutations.open_rows(one.columns, one.targets) for one in asked]
    lines = jobs.under_conditions(_shaped(jobs, asked), opened, part)
    places = [f"k{at}" for at in range(max(len(one.columns) for one in asked))]
    wide = max(len(one.targets) for one in asked)
    sums = [f"sum({x}{at}) as {x}{at}" for at in range(wide) for x in "xsg"]
    # of all tasks one at most has a digest
    best = [f"max_by(v{at}, v{at} != 0) as v{at}" for at in range(wide)]
    return lines.groupBy("side", "mask", *places).agg(*map(F.expr, [*sums, *best]))


def scouted(
    jobs: PatternJobs, refutations: Refutations, asked: Sequence[SideQuestion], part: int
) -> Iterator[RefutedConditions]:
    """What one of so many parts of all groups refutes. One job for as many left sides as the driver may be told of."""
    most, start = most_bytes(jobs.table.runner, ANSWER), 0
    while start < len(asked):
        end, size = start, 0
        while end < len(asked) and end - start < SIDES and (end == start or size < most):
            size += LINE * int(np.prod([len(jobs.named.get(column, ())) + 1 for column in asked[end].columns]))
            end += 1
        yield from _scouted(jobs, refutations, asked[start:end], part)
        start = end


def _scouted(
    jobs: PatternJobs, refutations: Refutations, asked: Sequence[SideQuestion], part: int
) -> Iterator[RefutedConditions]:
    longest, wide = max(len(one.columns) for one in asked), max(len(one.targets) for one in asked)
    broken = [f"if(x{at} > 0, {1 << at}L, 0L)" for at in range(wide)]
    lines = _summed(jobs, refutations, asked, part)
    lines = lines.selectExpr("side", "mask", *(f"k{at}" for at in range(longest)), f"{' | '.join(broken)} as broken")
    told = jobs.told(lines.where("broken != 0"), f"{len(asked)} left sides tried in a part of their groups")
    sides, masks, bits, *places = (
        told.column(name).to_numpy() for name in ("side", "mask", "broken", *(f"k{at}" for at in range(longest)))
    )
    for side, mask in np.unique(np.stack([sides, masks], axis=1), axis=0).tolist():
        left = asked[side].columns
        here = (sides == side) & (masks == mask)
        fixed = tuple(column for at, column in enumerate(left) if mask >> at & 1)
        own = [places[at].astype(np.int64) for at in range(len(left)) if mask >> at & 1]
        for at, target in enumerate(asked[side].targets):
            chosen = here & (bits >> at & 1).astype(np.bool_)
            if chosen.any():
                yield RefutedConditions(left, target, fixed, [one[chosen] for one in own])


def _condition(left: Columns, row: dict[str, int]) -> Condition:
    named = [at for at in range(len(left)) if row["mask"] >> at & 1]
    return tuple(left[at] for at in named), tuple(row[f"k{at}"] for at in named)
