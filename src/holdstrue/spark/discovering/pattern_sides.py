"""Left sides looked at once for all their targets: under which conditions none of their groups breaks a dependency.

Each row is written once for every left side. Its groups tell of each target whether two values meet there; sums over
the groups under each choice of columns with constants tell what holds. The driver sees what holds, or is refuted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.discovery.dependencies.patterns import Columns
from holdstrue.spark.catalyst.lanes import Sql
from holdstrue.spark.discovering.bounded_jobs import ANSWER, most_bytes
from holdstrue.spark.discovering.left_side_jobs import SIDES, SideQuestion, Slots, written_sides
from holdstrue.spark.discovering.pattern_jobs import Condition, PatternCounts, PatternJobs
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


def holding(jobs: PatternJobs, asked: Sequence[SideQuestion]) -> Iterator[tuple[SideQuestion, Holding]]:
    """What holds of each left side, on all rows and under conditions. One job for every `SIDES` left sides."""
    order = sorted(asked, key=lambda one: len(one.targets))
    least = max(2, jobs.options.support)
    for start in range(0, len(order), SIDES):
        part = order[start : start + SIDES]
        slots = Slots.of(jobs.table, part)
        some = [f"not x{at} and s{at} >= {least}" for at in range(len(slots.wide))]
        wanted = _under_conditions(jobs, part, slots, 1).where(" or ".join(["mask = 0", *some]))
        found: list[Holding] = [
            {target: {((), ()): PatternCounts(0, 0, 0, None)} for target in one.targets} for one in part
        ]
        for row in jobs.told(wanted, f"{len(part)} left sides tested under conditions").to_pylist():
            left = part[row["side"]].columns
            condition = _condition(left, row)
            for at, target in enumerate(slots.targets[row["side"]]):
                if row["mask"] and (row[f"x{at}"] or row[f"s{at}"] < least):
                    continue
                commonest = (row[f"v{at}"], row[f"w{at}"]) if condition[0] == left else None
                one = PatternCounts(int(row[f"x{at}"]), row[f"s{at}"], row[f"g{at}"], commonest)
                found[row["side"]][target][condition] = one
        yield from zip(part, found, strict=True)


def scouted(jobs: PatternJobs, asked: Sequence[SideQuestion], part: int) -> Iterator[RefutedConditions]:
    """What one of so many parts of all groups refutes. One job for as many left sides as the driver may be told of."""
    most, start = most_bytes(jobs.table.runner, ANSWER), 0
    while start < len(asked):
        end, size = start, 0
        while end < len(asked) and end - start < SIDES and (end == start or size < most):
            size += LINE * int(np.prod([len(jobs.named.get(column, ())) + 1 for column in asked[end].columns]))
            end += 1
        yield from _scouted(jobs, asked[start:end], part)
        start = end


def _scouted(jobs: PatternJobs, asked: Sequence[SideQuestion], part: int) -> Iterator[RefutedConditions]:
    slots = Slots.of(jobs.table, asked)
    longest = max(len(one.columns) for one in asked)
    broken = [f"if(x{at}, {1 << at}L, 0L)" for at in range(len(slots.wide))]
    lines = _under_conditions(jobs, asked, slots, part)
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
        for at, target in enumerate(slots.targets[side]):
            chosen = here & (bits >> at & 1).astype(np.bool_)
            if chosen.any():
                yield RefutedConditions(left, target, fixed, [one[chosen] for one in own])


def _condition(left: Columns, row: dict[str, int]) -> Condition:
    named = [at for at in range(len(left)) if row["mask"] >> at & 1]
    return tuple(left[at] for at in named), tuple(row[f"k{at}"] for at in named)


def _under_conditions(jobs: PatternJobs, asked: Sequence[SideQuestion], slots: Slots, part: int) -> DataFrame:
    """By left side, columns with constants (`mask`) and their values (`k0`, ...) of each target: whether it is broken
    (`x0`, ...), rows with a partner (`s0`), their groups (`g0`) and the least value in the lanes (`v0`, `w0`)."""
    table, longest = jobs.table, max(len(one.columns) for one in asked)
    places = [f"k{at}" for at in range(longest)]
    sides = [
        (one.columns, [*slots.fields(table, number), *jobs.places(one.columns, longest)])
        for number, one in enumerate(asked)
    ]
    rows = jobs.placed().selectExpr(written_sides(table, sides, part)).where("side is not null")
    kept = [f"{how}({x}) as {name}_{x}" for x in slots.names for how, name in (("min", "least"), ("max", "most"))]
    many = range(len(slots.wide))
    kept += [f"count(v{at}) as n{at}" for at in many]
    groups = rows.groupBy("side", "a", "b", *places).agg(*map(F.expr, kept))
    groups = groups.where(" or ".join(f"n{at} > 1" for at in many))
    every = groups.selectExpr("*", f"explode(array({', '.join(map(str, range(1 << longest)))})) as mask")
    every = every.where(" and ".join(f"((mask & {1 << at}) = 0 or k{at} >= 0)" for at in range(longest)) or "true")
    chosen = [f"if((mask & {1 << at}) = 0, -1, k{at}) as k{at}" for at in range(longest)]
    said: list[Sql] = []
    for at in many:
        least = f"if(n{at} > 1, least_{{}}, null)"
        said += [
            f"bool_or(n{at} > 1 and {slots.unlike(at)}) as x{at}",
            f"sum(if(n{at} > 1, n{at}, 0L)) as s{at}",
            f"sum(if(n{at} > 1, 1L, 0L)) as g{at}",
            f"min({least.format(f'v{at}')}) as v{at}",
            f"coalesce(min({least.format(f'w{at}')}), 0L) as w{at}" if slots.wide[at] else f"0L as w{at}",
        ]
    kept_names = [f"{name}_{x}" for x in slots.names for name in ("least", "most")] + [f"n{at}" for at in many]
    every = every.selectExpr("side", "mask", *chosen, *kept_names)
    return every.groupBy("side", "mask", *places).agg(*map(F.expr, said))
