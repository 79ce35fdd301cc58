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
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DecimalType

from holdstrue.data.exact import whole, words_of
from holdstrue.plan.checks import Check, GroupCheck, MeasureCheck, ReferenceCheck, RowCheck
from holdstrue.plan.compile import Plan
from holdstrue.plan.measures import Aggregate, Part
from holdstrue.spark.catalyst.conditions import Conditions
from holdstrue.spark.catalyst.elements import Element, ElementShape, spread
from holdstrue.spark.catalyst.lanes import ColumnValues, Inexpressible, Lanes, Sql, family
from holdstrue.spark.runner import quoted

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
    values: dict[str, ColumnValues] = field(init=False)
    conditions: dict[str, Conditions] = field(init=False)

    def __post_init__(self) -> None:
        self.values = {name: ColumnValues(frame.schema) for name, frame in self.frames.items()}
        self.conditions = {n: Conditions(self.values[n], self.plan.schemas[n]) for n in self.frames}

    def holds(self, check: Check, condition: Any) -> Sql:
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
    wanted = " and ".join(tables.holds(check, condition) for condition in conditions)
    a, b = lanes
    return f"if({wanted}, {a}, null)", None if b is None else f"if({wanted}, {b}, null)"


def member(tables: Tables, check: GroupCheck) -> Sql:
    """Whether a row is in a group of a check, of an FD with some right-hand value that is known; never NULL."""
    found = [tables.holds(check, check.member)]
    if not check.nulls_equal:
        found.append(tables.values[check.table].known(check.lhs))
    if check.rhs:
        known = (f"{right_side(tables, check, at)[0]} is not null" for at in range(len(check.rhs)))
        found.append(f"({' or '.join(known)})")
    return f"({' and '.join(found)})"


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
    known = f"({tables.values[check.table].known(check.referring)} and {tables.holds(check, check.member)})"
    refers = Element(side, check.table, known, _referring(tables, check), ["true"])
    provided = tables.values[check.ref_table].known(check.ref_columns)
    provides = Element(side, check.ref_table, provided, _providing(tables, check), ["false", "true"])
    return refers, provides


# --- measures of whole tables ------------------------------------------------------------------------------------


def _measured(tables: Tables, measure: Aggregate) -> list[tuple[str, Sql, str]]:
    """The columns a measure is made of, each with how it is aggregated and its type."""
    wanted = tables.conditions[measure.table].holds(measure.member)
    if measure.column is None:
        return [("count", f"if({wanted}, 1L, null)", "bigint")]
    values = tables.values[measure.table]
    kind, own = values.type(measure.column), family(values.type(measure.column))
    value = f"if({wanted}, {values.plain(measure.column)}, null)"
    known = ("count", f"if({value} is null, null, 1L)", "bigint")
    if measure.function == "count":
        return [known]
    type_ = {"float": "double", "integer": "bigint"}.get(own, kind.simpleString())
    if measure.is_extreme:
        if own in ("text", "bytes", "bool"):
            raise Inexpressible(measure.text)
        return [known, ("min" if measure.function == "min" else "max", value, type_)]
    if own == "integer":
        # both halves of 64 bits, whose sums 64 bits hold for 2^31 rows and more
        return [known, ("sum", f"shiftright({value}, 32)", "bigint"), ("sum", f"({value} & {0xFFFF_FFFF}L)", "bigint")]
    if isinstance(kind, DecimalType) and kind.precision <= _MOST_SUMMED:
        return [known, ("sum", value, type_)]
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
    asked: dict[str, Sql] = field(default_factory=dict)
    wanted: list[Sql] = field(default_factory=list)
    """Which groups are looked at at all."""
    kinds: dict[int, str] = field(default_factory=dict)
    measures: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    @staticmethod
    def of(tables: Tables, checks: Mapping[int, Check], keys: Mapping[str, Sequence[str]], most: int) -> Detection:
        """The aggregation for checks by their numbers; `keys` are columns of tables that should tell rows apart."""
        made = Detection(tables, most)
        rows = {name: made._element(name, "true", ("0L", None)) for name in tables.frames}
        for name, element in rows.items():
            made._total(f"table {name}", element, element.flag("true"))
            made.wanted.append(f"side = {element.side}")
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
            element = made._element(name, "true", lanes, ["true"])
            made._key(f"key {name}", element, 0)
        return made

    def _element(self, table: str, given: Sql, group: Lanes, flags: Iterable[Sql] = ()) -> Element:
        element = Element(len(self.elements), table, given, group, list(flags))
        self.elements.append(element)
        return element

    def _total(self, name: str, element: Element, at: int) -> None:
        self.asked[name] = f"sum(if(side = {element.side}, f{at}, null))"

    def _violated(self, name: str, violates: Sql, rows: Sql) -> None:
        self.wanted.append(violates)
        self.asked[f"groups {name}"] = f"sum(if({violates}, 1L, null))"
        group = f"named_struct('hi', hi, 'lo', lo, 'n', {rows})"
        self.asked[f"chosen {name}"] = f"max_by({group}, if({violates}, hi, null), {self.most})"

    def _key(self, name: str, element: Element, at: int) -> None:
        violates = f"(side = {element.side} and f{at} > 1)"
        self._violated(name, violates, f"f{at}")
        self.asked[f"rows {name}"] = f"sum(if({violates}, f{at}, null))"
        each = f"cast(f{at} as decimal(19,0)) * cast(f{at} - 1 as decimal(19,0))"
        self.asked[f"pairs {name}"] = f"cast(sum(if({violates}, {each}, null)) as decimal(38,0))"

    def _reference(self, number: int, check: ReferenceCheck) -> None:
        refers, provides = reference_elements(self.tables, check, len(self.elements))
        self.elements.append(refers)
        self.elements.append(provides)
        provides.side = refers.side
        violates = f"(side = {refers.side} and f0 > 0 and f1 = 0)"
        self._violated(str(number), violates, "f0")
        self.asked[f"rows {number}"] = f"sum(if({violates}, f0, null))"

    def _groups(self, checks: Sequence[tuple[int, GroupCheck]]) -> None:
        """One side for all checks with the same left side."""
        tables, first = self.tables, checks[0][1]
        given = " or ".join(dict.fromkeys(member(tables, check) for _, check in checks))
        element = self._element(first.table, f"({given})", left_side(tables, first))
        for number, check in checks:
            count = element.flag(member(tables, check))
            if not check.rhs:
                self._key(str(number), element, count)
                continue
            places = [element.value(right_side(tables, check, at)) for at in range(len(check.rhs))]
            unlike = " or ".join(
                f"coalesce(least_{lane}{at} != most_{lane}{at}, false)"
                for at in places
                for lane in ("ab" if element.values[at][1] is not None else "a")
            )
            violates = f"(side = {element.side} and ({unlike}))"
            self._violated(str(number), violates, f"f{count}")
            if len(places) > 1:
                known = [element.flag(f"({right_side(tables, check, at)[0]} is not null)") for at in range(len(places))]
                partly = " or ".join(f"f{at} != f{count}" for at in known)
                self.asked[f"partial {number}"] = f"sum(if({violates} and ({partly}), 1L, null))"

    def _measure(self, number: int, check: MeasureCheck, rows: Mapping[str, Element]) -> None:
        for at, measure in enumerate(check.measures):
            names = self.measures.setdefault((number, at), [])
            for how, value, kind in _measured(self.tables, measure):
                own = len(self.kinds)
                self.kinds[own] = kind
                rows[measure.table].measured[own] = value
                name = f"{how} {own}"
                names.append(name)
                self.asked[name] = f"{'sum' if how == 'count' else how}(m{own})"

    def grouped(self) -> DataFrame:
        """Every group with its counts and extremes."""
        shape = ElementShape.of(self.elements, self.kinds)
        rows = spread(self.tables.frames, self.elements, shape)
        kept = [f"count(f{at}) as f{at}" for at in range(shape.flags)]
        for at, lanes in enumerate(shape.values):
            kept += [
                f"{how}({x}{at}) as {name}_{x}{at}" for x in lanes for how, name in (("min", "least"), ("max", "most"))
            ]
        for names in self.measures.values():
            kept += [f"{how}(m{own}) as m{own}" for how, own in (name.split() for name in names)]
        groups = rows.groupBy(*shape.group).agg(*map(F.expr, kept))
        return groups if shape.wide else groups.selectExpr("*", "0L as lo")

    def totals(self) -> DataFrame:
        """One row: the answers to all questions."""
        asked = [f"{question} as {quoted(name)}" for name, question in self.asked.items()]
        return self.grouped().where(" or ".join(self.wanted)).selectExpr(*asked)

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
