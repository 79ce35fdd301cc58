"""The third pass: the rows of some violating groups, as many as the violations that are listed need.

Of each violating group that is chosen at most so many rows are fetched with the smallest right-hand value and so many
with others, so that one huge group is as cheap as many small ones. The violations themselves are then found among
these rows in this process, by the detectors that define what a violation is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from holdstrue.detect.delta import Violation
from holdstrue.monitor.check import check as check_here
from holdstrue.monitor.sharded_check import ROW
from holdstrue.plan.checks import Check, GroupCheck, ReferenceCheck, RowCheck
from holdstrue.plan.compile import Plan
from holdstrue.rules.model import Rule
from holdstrue.sources.fit import is_text
from holdstrue.spark.catalyst.detecting import Found, Tables, left_side, member, reference_elements
from holdstrue.spark.catalyst.elements import Element, ElementShape
from holdstrue.spark.catalyst.pairing import pair_elements
from holdstrue.spark.runner import quoted

MOST_NAMED = 100_000
"""Rows of a group, and groups of a check, that Spark's aggregations hold at once: the most that they take."""
SHOWN = 100
"""Violations of each rule that are named in any case, for examples of it, when other rules fill the list."""

_CHOSEN = StructType(
    [
        StructField("side", IntegerType(), nullable=False),
        StructField("hi", LongType(), nullable=False),
        StructField("lo", LongType(), nullable=False),
        StructField("least", LongType()),
        StructField("share", IntegerType(), nullable=False),
    ]
)


def shares_of(counts: Mapping[int, int], limit: int) -> dict[int, int]:
    """By rule how many of its violations are named: what the list has of it, and some in any case.

    >>> shares_of({0: 5, 1: 3000, 2: 700, 3: 0}, 1000)
    {0: 5, 1: 995, 2: 100}
    """
    found, left = {}, limit
    for rule, count in counts.items():
        share = min(count, max(left, min(limit, SHOWN)))
        left = max(0, left - count)
        if share:
            found[rule] = share
    return found


def groups_for(check: Check, found: Found, share: int) -> list[tuple[int, int, int | None]] | None:
    """Violating groups with so many violations, or all of them; None where more are needed than are known."""
    picked: list[tuple[int, int, int | None]] = []
    violations = 0
    for hi, lo, n, least in found.chosen:
        if violations >= share:
            break
        picked.append((hi, lo, least))
        if isinstance(check, ReferenceCheck):
            violations += n
        else:
            violations += n - 1 if check.rhs else n * (n - 1) // 2
    return None if violations < share and found.groups > len(found.chosen) else picked


@dataclass(frozen=True)
class Naming:
    """The rows of one table that the violations of some rules are found among."""

    tables: Tables
    table: str
    key: Sequence[str]
    chosen: Sequence[tuple[int, int, int, int | None, int]]
    """Check, both lanes of the group, smallest right-hand value, rows to fetch of each sort."""

    def _elements(self) -> list[Element]:
        checks = {side: self.tables.plan.checks[side] for side, *_ in self.chosen}
        found: list[Element] = []
        for number, check in checks.items():
            match check:
                case RowCheck():
                    given = self.tables.holds(check, check.broken)
                    found.append(Element(number, check.table, given, ("0L", None)))
                case GroupCheck(rhs=()):
                    found.append(
                        Element(number, check.table, member(self.tables, check), left_side(self.tables, check))
                    )
                case GroupCheck():
                    found += pair_elements(self.tables, {number: check}, {})
                case ReferenceCheck():
                    found.append(reference_elements(self.tables, check, number)[0])
        return found

    @property
    def columns(self) -> list[str]:
        """Key and what the rules read."""
        plan = self.tables.plan
        rules = dict.fromkeys(plan.rules.rules[plan.checks[side].rule] for side, *_ in self.chosen)
        names = dict.fromkeys((*self.key, *(name for rule in rules for name in rule.columns)))
        return [name for name in names if name != ROW]

    def frame(self) -> DataFrame:
        """By check and chosen group the rows."""
        elements = self._elements()
        shape = ElementShape.of(elements, {})
        source = self.tables.frames[self.table].withColumn(ROW, F.monotonically_increasing_id())
        row = f"struct({', '.join(map(quoted, (ROW, *self.columns)))}) as row"
        rows = source.selectExpr(row, shape.inlined(elements)).where("side is not null")
        groups = rows.sparkSession.createDataFrame(list(self.chosen), _CHOSEN)
        if not shape.wide:
            groups = groups.drop("lo")
        joined = rows.join(F.broadcast(groups), list(shape.group))
        like = "coalesce(a0 = least, false)" if shape.values else "false"
        most = max(share for *_, share in self.chosen)
        kept = F.expr(f"min_by(row, row.{quoted(ROW)}, {most}) as rows")
        sorts = joined.groupBy(*shape.group, F.expr(f"{like} as like_least")).agg(kept, F.expr("first(share) as share"))
        return sorts.selectExpr("side", "slice(rows, 1, share) as rows")

    def rows(self) -> dict[int, pa.Table]:
        """By check the rows, each once. One job."""
        found = self.frame().toArrow().combine_chunks()
        schema = pa.schema(
            [pa.field(ROW, pa.int64()), *(self.tables.plan.schemas[self.table].field(n) for n in self.columns)]
        )
        tables: dict[int, pa.Table] = {}
        for side in dict.fromkeys(found.column("side").to_pylist()):
            own = found.filter(pc.equal(found.column("side"), side)).column("rows").combine_chunks().flatten()
            parts = [own.field(i) for i in range(own.type.num_fields)]
            tables[side] = pa.Table.from_arrays(parts, [f.name for f in own.type]).cast(schema)
        return tables


def violations_among(
    plan: Plan, rule: Rule, key: Sequence[str], parts: Sequence[pa.Table], alone: bool, share: int
) -> Iterator[Violation]:
    """The violations of a rule among some rows, of which some may be there twice; `alone`: each row is one."""
    rows = pa.concat_tables(parts)
    numbers = rows.column(ROW).combine_chunks()
    unlike = pc.dictionary_encode(numbers)
    unlike = unlike.combine_chunks() if isinstance(unlike, pa.ChunkedArray) else unlike
    if len(unlike.dictionary) < len(numbers):
        first: dict[Any, int] = {}
        for at, number in enumerate(numbers.to_pylist()):
            first.setdefault(number, at)
        rows = rows.take(list(first.values()))
    rows = rows.sort_by(ROW)
    if alone:
        for row in rows.select(list(dict.fromkeys(key))).slice(0, share).to_pylist():
            name = tuple(row[part] for part in key)
            yield Violation(rule.name, name[0] if len(name) == 1 else name)
        return
    # some rows say nothing about what all of them look like: text that was ordered is ordered here too
    text = {f.name: "text" for f in rows.schema if is_text(f.type)}
    own = replace(plan.rules, rules=(rule,), types=(), key=())
    yield from check_here(rows, own, key=tuple(key), types=text, limit=share).listed()
