"""Lanes of a data frame kept current: its profile by the groups that a batch touches, and the sample's rows that went.

The driver takes counts, and which rows of the sample it has to forget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.discovery.work import Work
from holdstrue.spark.discovering.bounded_jobs import collected
from holdstrue.spark.discovering.frame_batches import FrameBatch
from holdstrue.spark.discovering.lane_table import NOTHING, LaneTable, Profiled
from holdstrue.spark.discovering.left_side_jobs import SideQuestion, SideShift, shifted
from holdstrue.spark.discovering.side_jobs import profile
from holdstrue.spark.runner import SparkRunner
from holdstrue.typing import Mask


@dataclass(frozen=True)
class Followed:
    """What a batch did to lanes: the sample's rows that went, by place, and how left sides moved."""

    gone: Mask
    shifts: list[SideShift]


def follow(
    table: LaneTable, runner: SparkRunner, batch: FrameBatch, asked: Sequence[SideQuestion], work: Work
) -> Followed:
    """Bring lanes, profile and sample to the table after a batch, and look at left sides in the groups it touches."""
    names = [field.name for field in table.schema]
    lanes = [table.lanes_of(runner.select(part, names)) for part in (batch.removed, batch.added, batch.after)]
    changes = lanes[0].selectExpr("*", "-1L as d").unionByName(lanes[1].selectExpr("*", "1L as d"))
    table.release()
    table.frame = lanes[2]
    gone = _gone(table, lanes[0], work) if batch.gone else np.zeros(table.codes.used, dtype=np.bool_)
    many = len(table.names)
    singles = [SideQuestion((number,), ()) for number in range(many)]
    shifts = shifted(table, changes, batch.gone + batch.come, [*singles, *asked], work)
    table.rows += batch.come - batch.gone
    table.all_here = False
    known = [_profile(one, by, table.nulls_equal) for one, by in zip(table.profiled, shifts[:many], strict=True)]
    if any(one is None for one in known):
        profile(table, work)
    else:
        table.profiled = [one for one in known if one is not None]
    return Followed(gone, shifts[many:])


def _profile(one: Profiled, by: SideShift, nulls_equal: bool) -> Profiled | None:
    """The profile of a column after a batch; None where the touched groups do not tell it."""
    distinct = one.distinct + by.distinct
    if not distinct:
        return NOTHING
    if nulls_equal and distinct == 1:
        # it may be NULL that is left
        return None
    if by.most >= one.commonest or by.alive == distinct:
        commonest = by.most
    elif by.shrunk < one.commonest:
        commonest = one.commonest
    else:
        return None
    return Profiled(
        distinct, one.known + by.known, commonest, one.support + by.support, one.groups + by.groups, valued=True
    )


def _gone(table: LaneTable, removed: DataFrame, work: Work) -> Mask:
    """Places of the sample that hold a row which went, or one equal to it: such a pair is no witness for sure."""
    held = table.identities[: table.codes.used]
    ids = pa.table({"ia": held[:, 0], "ib": held[:, 1], "place": np.arange(len(held), dtype=np.int64)})
    if not len(held):
        return np.zeros(0, dtype=np.bool_)
    known = F.broadcast(table.runner.spark.createDataFrame(ids))
    went = table.identified(removed).select("ra", "rb").distinct()
    found = went.join(known, F.expr("ra = ia and rb = ib")).select("place")
    gone = np.zeros(len(held), dtype=np.bool_)
    gone[collected(table.runner, found, "rows of the sample that went", work).column("place").to_numpy()] = True
    return gone
