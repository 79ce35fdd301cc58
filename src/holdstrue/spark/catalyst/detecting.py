"""The first pass: one scan of every table and one shuffle say which groups of which rules violate them.

Of a group of equal left sides the smallest and the largest right-hand values are kept: where they differ the group
violates an FD. Keys and references are counted to the end here; pairs of FDs are counted by `pairing`, and only where
groups violate them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, DecimalType, DoubleType, LongType

from holdstrue.data.exact import whole, words_of
from holdstrue.plan.checks import Check, GroupCheck, MeasureCheck, ReferenceCheck, RowCheck
from holdstrue.plan.compile import Plan
from holdstrue.plan.measures import Aggregate, Part
from holdstrue.spark.catalyst.conditions import Conditions
from holdstrue.spark.catalyst.elements import Element, Shape, long, spread
from holdstrue.spark.catalyst.lanes import Inexpressible, Lanes, Values, family

_PAIRS = "decimal(38,0)"
_MOST_SUMMED = 28
"""Digits of decimals whose sums Spark holds for ten thousand million rows."""


@dataclass(frozen=True)
class Found:
    """What a pass found of one check."""

    rows: int = 0
    pairs: int = 0
    groups: int = 0
    chosen: tuple[tuple[int, int, int, int | None], ...] = ()
    """Some violating groups: both lanes, how many rows they have, the smallest right-hand value."""
    partial: int = 0
    """Violating groups in which right sides are not wholly known."""
    both: int = 0
    """Rows in violating groups that break the rule alone as well."""


@dataclass
class Tables:
    """The data frames of a check with what is asked of their columns."""

    plan: Plan
    frames: Mapping[str, DataFrame]
    values: dict[str, Values] = field(init=False)
    conditions: dict[str, Conditions] = field(init=False)

    def __post_init__(self) -> None:
        self.values = {name: Values(frame.schema) for name, frame in self.frames.items()}
        self.conditions = {n: Conditions(self.values[n], self.plan.schemas[n]) for n in self.frames}

    def holds(self, check: Check, condition: Any) -> Column:
        """Whether a condition of a check is known to hold."""
        return self.conditions[check.table].holds(condition)


def right_side(tables: Tables, check: GroupCheck, at: int) -> Lanes:
    """The right-hand value of a member of a group; NULL where it is not known or not asked for."""
    values, name = tables.values[check.table], check.rhs[at]
    lanes = values.with_nulls(name) if check.nulls_equal else values.lanes(name)
    asked = check.asked[at]
    conditions = [condition for condition in (check.member, asked) if condition is not None]
    if not conditions:
        return lanes
    wanted = tables.holds(check, conditions[0])
    for condition in conditions[1:]:
        wanted = wanted & tables.holds(check, condition)
    a, b = lanes
    return F.when(wanted, a), None if b is None else F.when(wanted, b)


def member(tables: Tables, check: GroupCheck) -> Column:
    """Whether a row is in a group of a check, of an FD with some right-hand value that is known."""
    found = tables.holds(check, check.member)
    if not check.nulls_equal:
        found = found & tables.values[check.table].known(check.lhs)
    if check.rhs:
        known = right_side(tables, check, 0)[0].isNotNull()
        for at in range(1, len(check.rhs)):
            known = known | right_side(tables, check, at)[0].isNotNull()
        found = found & known
    return found


def left_side(tables: Tables, check: GroupCheck) -> Lanes:
    """The group of a row."""
    return tables.values[check.table].tuple_lanes(check.lhs, nulls_equal=check.nulls_equal)


def is_native(tables: Tables, check: Check) -> bool:
    """Whether Catalyst compares what a check compares, as the table of types says."""
    try:
        match check:
            case GroupCheck():
                left_side(tables, check)
                member(tables, check)
            case RowCheck():
                tables.holds(check, check.broken)
            case ReferenceCheck():
                _referring(tables, check)
                _providing(tables, check)
            case MeasureCheck():
                for measure in check.measures:
                    _measured(tables, measure)
            case _:
                return False
    except Inexpressible:
        return False
    return True


def _referring(tables: Tables, check: ReferenceCheck) -> Lanes:
    other = [tables.values[check.ref_table].type(name) for name in check.ref_columns]
    return tables.values[check.table].tuple_lanes(check.referring, beside=other)


def _providing(tables: Tables, check: ReferenceCheck) -> Lanes:
    own = [tables.values[check.table].type(name) for name in check.referring]
    return tables.values[check.ref_table].tuple_lanes(check.ref_columns, beside=own)


def reference_elements(tables: Tables, check: ReferenceCheck, side: int) -> tuple[Element, Element]:
    """The rows that refer to a value, and those that provide it."""
    known = tables.values[check.table].known(check.referring) & tables.holds(check, check.member)
    refers = Element(side, check.table, known, _referring(tables, check), [F.lit(True)])
    provided = tables.values[check.ref_table].known(check.ref_columns)
    provides = Element(side, check.ref_table, provided, _providing(tables, check), [F.lit(False), F.lit(True)])
    return refers, provides


# --- measures of whole tables ------------------------------------------------------------------------------------


def _measured(tables: Tables, measure: Aggregate) -> list[tuple[str, Column, DataType]]:
    """The columns a measure is made of, each with how it is aggregated."""
    wanted = tables.conditions[measure.table].holds(measure.member)
    if measure.column is None:
        return [("count", F.when(wanted, long(1)), LongType())]
    values = tables.values[measure.table]
    kind, value = values.type(measure.column), values.plain(measure.column)
    own = family(kind)
    value = F.when(wanted, value)
    known = ("count", F.when(value.isNotNull(), long(1)), LongType())
    if measure.function == "count":
        return [known]
    if own == "float":
        kind = DoubleType()
    elif own == "integer":
        kind = LongType()
    if measure.is_extreme:
        if own in ("text", "bytes", "bool"):
            raise Inexpressible(measure.text)
        return [known, ("min" if measure.function == "min" else "max", value, kind)]
    if own == "integer":
        # both halves of 64 bits, whose sums 64 bits hold for 2^31 rows and more
        low = value.bitwiseAND(long(0xFFFF_FFFF))
        return [known, ("sum", F.shiftright(value, 32), LongType()), ("sum", low, LongType())]
    if isinstance(kind, DecimalType) and kind.precision <= _MOST_SUMMED:
        return [known, ("sum", value, kind)]
    raise Inexpressible(measure.text)


def _part(measure: Aggregate, found: Sequence[pa.Array]) -> Part:
    """What kernels would have kept of the measure."""
    count = found[0][0].as_py() or 0
    if measure.function == "count":
        return (count,)
    numbers = [whole(words_of(array))[0] if array.null_count == 0 else None for array in found[1:]]
    if measure.is_extreme:
        return count, numbers[0]
    if len(numbers) == 2:
        return count, ((numbers[0] or 0) << 32) + (numbers[1] or 0)
    return count, numbers[0] or 0


# --- the pass ----------------------------------------------------------------------------------------------------


@dataclass
class Detection:
    """The aggregation that serves some checks, and the questions that are asked of its groups."""

    tables: Tables
    most: int
    """How many violating groups of a check are told."""
    elements: list[Element] = field(default_factory=list)
    asked: dict[str, Column] = field(default_factory=dict)
    wanted: list[Column] = field(default_factory=list)
    """Which groups are looked at at all."""
    kinds: dict[int, DataType] = field(default_factory=dict)
    measures: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    @staticmethod
    def of(tables: Tables, checks: Mapping[int, Check], keys: Mapping[str, Sequence[str]], most: int) -> Detection:
        """The aggregation for checks by their numbers; `keys` are columns of tables that should tell rows apart."""
        made = Detection(tables, most)
        rows = {name: made._element(name, F.lit(True), (long(0), None)) for name in tables.frames}
        for name, element in rows.items():
            made._total(f"table {name}", element, element.flag(F.lit(True)))
            made.wanted.append(F.col("side") == element.side)
        sides: dict[Any, list[tuple[int, GroupCheck]]] = {}
        for number, check in checks.items():
            match check:
                case RowCheck():
                    element = rows[check.table]
                    made._total(f"rows {number}", element, element.flag(tables.holds(check, check.broken)))
                case GroupCheck():
                    sides.setdefault((check.table, check.lhs, check.nulls_equal), []).append((number, check))
                case ReferenceCheck():
                    made._reference(number, check)
                case MeasureCheck():
                    made._measure(number, check, rows)
        for own in sides.values():
            made._groups(own)
        for name, columns in keys.items():
            lanes = tables.values[name].tuple_lanes(columns, nulls_equal=True)
            element = made._element(name, F.lit(True), lanes, [F.lit(True)])
            made._key(f"key {name}", element, 0)
        return made

    def _element(self, table: str, given: Column, group: Lanes, flags: Iterable[Column] = ()) -> Element:
        element = Element(len(self.elements), table, given, group, list(flags))
        self.elements.append(element)
        return element

    def _total(self, name: str, element: Element, at: int) -> None:
        self.asked[name] = F.sum(F.when(F.col("side") == element.side, F.col(f"f{at}")))

    def _violated(self, name: str, violates: Column, rows: Column) -> None:
        self.wanted.append(violates)
        self.asked[f"groups {name}"] = F.sum(F.when(violates, long(1)))
        group = F.struct(F.col("hi"), F.col("lo"), rows.alias("n"))
        self.asked[f"chosen {name}"] = F.max_by(group, F.when(violates, F.col("hi")), self.most)

    def _key(self, name: str, element: Element, at: int) -> None:
        n = F.col(f"f{at}")
        violates = (F.col("side") == element.side) & (n > 1)
        self._violated(name, violates, n)
        self.asked[f"rows {name}"] = F.sum(F.when(violates, n))
        each = n.cast("decimal(19,0)") * (n - 1).cast("decimal(19,0)")
        self.asked[f"pairs {name}"] = F.sum(F.when(violates, each)).cast(_PAIRS)

    def _reference(self, number: int, check: ReferenceCheck) -> None:
        refers, provides = reference_elements(self.tables, check, len(self.elements))
        self.elements.append(refers)
        self.elements.append(provides)
        provides.side = refers.side
        n = F.col("f0")
        violates = (F.col("side") == refers.side) & (n > 0) & (F.col("f1") == 0)
        self._violated(str(number), violates, n)
        self.asked[f"rows {number}"] = F.sum(F.when(violates, n))

    def _groups(self, checks: Sequence[tuple[int, GroupCheck]]) -> None:
        """One side for all checks with the same left side."""
        tables, first = self.tables, checks[0][1]
        given = F.lit(False)
        for _, check in checks:
            given = given | member(tables, check)
        element = self._element(first.table, given, left_side(tables, first))
        for number, check in checks:
            count = element.flag(member(tables, check))
            if not check.rhs:
                self._key(str(number), element, count)
                continue
            places = [element.value(right_side(tables, check, at)) for at in range(len(check.rhs))]
            violates = F.lit(False)
            for at in places:
                for lane in "ab" if element.values[at][1] is not None else "a":
                    violates = violates | (F.col(f"least {lane}{at}") != F.col(f"most {lane}{at}"))
            violates = (F.col("side") == element.side) & F.coalesce(violates, F.lit(False))
            self._violated(str(number), violates, F.col(f"f{count}"))
            if len(places) > 1:
                known = [element.flag(right_side(tables, check, at)[0].isNotNull()) for at in range(len(places))]
                unlike = F.lit(False)
                for at in known:
                    unlike = unlike | (F.col(f"f{at}") != F.col(f"f{count}"))
                self.asked[f"partial {number}"] = F.sum(F.when(violates & unlike, long(1)))

    def _measure(self, number: int, check: MeasureCheck, rows: Mapping[str, Element]) -> None:
        for at, measure in enumerate(check.measures):
            names = self.measures.setdefault((number, at), [])
            for how, value, kind in _measured(self.tables, measure):
                own = len(self.kinds)
                self.kinds[own] = kind
                rows[measure.table].measured[own] = value
                name = f"{how} {own}"
                names.append(name)
                merge = {"count": F.sum, "sum": F.sum, "min": F.min, "max": F.max}[how]
                self.asked[name] = merge(F.col(f"m{own}"))

    def grouped(self) -> DataFrame:
        """Every group with its counts and extremes."""
        shape = Shape.of(self.elements, self.kinds)
        rows = spread(self.tables.frames, self.elements, shape)
        kept = [F.count(f"f{at}").alias(f"f{at}") for at in range(shape.flags)]
        for at, lanes in enumerate(shape.values):
            for lane in lanes:
                kept += [F.min(f"{lane}{at}").alias(f"least {lane}{at}"), F.max(f"{lane}{at}").alias(f"most {lane}{at}")]
        for names in self.measures.values():
            for how, own in (name.split() for name in names):
                kept.append({"count": F.count, "sum": F.sum, "min": F.min, "max": F.max}[how](f"m{own}").alias(f"m{own}"))
        groups = rows.groupBy(*shape.group).agg(*kept)
        return groups if shape.wide else groups.withColumn("lo", long(0))

    def totals(self) -> DataFrame:
        """One row: the answers to all questions."""
        looked = self.wanted[0]
        for more in self.wanted[1:]:
            looked = looked | more
        return self.grouped().where(looked).agg(*(question.alias(name) for name, question in self.asked.items()))

    def run(self) -> Detected:
        """The one job."""
        return Detected(self, self.totals().toArrow())


@dataclass(frozen=True)
class Detected:
    """What the first pass found."""

    detection: Detection
    totals: pa.Table

    def _number(self, name: str) -> int:
        return int(self.totals.column(name)[0].as_py() or 0) if name in self.totals.column_names else 0

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        return self._number(f"table {table}")

    def found(self, name: int | str) -> Found:
        """What was found of a check, or of the key of a table."""
        chosen: list[Any] = []
        if f"chosen {name}" in self.totals.column_names:
            chosen = self.totals.column(f"chosen {name}")[0].as_py() or []
        return Found(
            self._number(f"rows {name}"),
            self._number(f"pairs {name}") // 2,
            self._number(f"groups {name}"),
            tuple((group["hi"], group["lo"], group["n"], None) for group in chosen),
            self._number(f"partial {name}"),
        )

    def parts(self, number: int) -> tuple[Part, ...]:
        """What is kept of the measures of a rule."""
        check = self.detection.tables.plan.checks[number]
        assert isinstance(check, MeasureCheck)
        return tuple(
            _part(measure, [self.totals.column(n).combine_chunks() for n in self.detection.measures[number, at]])
            for at, measure in enumerate(check.measures)
        )
