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

from holdstrue.operators import Op
from holdstrue.plan.checks import Check, GroupCheck, MeasureCheck, ReferenceCheck, RowCheck
from holdstrue.plan.compile import Plan
from holdstrue.plan.measures import Aggregate, Part
from holdstrue.rules.model import All, Comparison, Condition, Constant
from holdstrue.spark.catalyst.conditions import Conditions
from holdstrue.spark.catalyst.elements import Element, ElementShape, spread
from holdstrue.spark.catalyst.lanes import ColumnValues, Inexpressible, Lanes, Sql, written
from holdstrue.spark.catalyst.measuring import measured, part_of
from holdstrue.spark.runner import quoted

_MASKED = 8
"""Rules about single rows whose rows are grouped together by which of them they break, in up to 255 groups."""


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
    _open: dict[tuple[str, tuple[str, ...]], frozenset[str]] = field(init=False)
    """By left side the columns that some check of the plan leaves open."""

    def __post_init__(self) -> None:
        self.values = {name: ColumnValues(frame.schema) for name, frame in self.frames.items()}
        self.conditions = {n: Conditions(self.values[n], self.plan.schemas[n]) for n in self.frames}
        self._open = {}
        for check in self.plan.checks:
            if isinstance(check, GroupCheck):
                side = check.table, check.lhs
                self._open[side] = self._open.get(side, frozenset()) | _open(check)

    @property
    def sources(self) -> dict[str, Sql]:
        """By table what stands for it in the text of a query.

        It has an alias, since Spark takes `where (flag)` for one where it may.
        """
        return {name: f"{{t{at}}} as t{at}" for at, name in enumerate(self.frames)}

    def ask(self, query: Sql) -> DataFrame:
        """What a query over `sources` gives.

        One text is parsed and analysed once: of an FD the same built call by call took 41 ms before it ran, and 15 so.
        """
        named: dict[str, Any] = {f"t{at}": frame for at, frame in enumerate(self.frames.values())}
        return next(iter(self.frames.values())).sparkSession.sql(query, **named)

    def grouping(self, check: GroupCheck) -> tuple[str, ...]:
        """The columns that rows are grouped by: of a left side those that the condition of the check leaves open.

        `[region, half] -> manager` with (7, _) is a grouping by `half`. Where another check has the same left side and
        leaves more of it open, both are served by one grouping.
        """
        open_ = self._open.get((check.table, check.lhs), frozenset()) | _open(check)
        return tuple(name for name in check.lhs if name in open_) or check.lhs[:1]

    def holds(self, check: Check, condition: Any) -> Sql:
        """Whether a condition of a check is known to hold."""
        return self.conditions[check.table].holds(condition)

    def truth(self, check: Check, condition: Any) -> Sql:
        """The same with NULL where it is not known, which Spark pushes into scans where it filters rows."""
        return self.conditions[check.table].truth(condition)


def _open(check: GroupCheck) -> frozenset[str]:
    """The columns of a left side of which the condition of a check allows several values."""
    return frozenset(check.lhs) - _fixed(check.member)


def _fixed(condition: Condition | None) -> frozenset[str]:
    """The columns that have one value wherever a condition holds.

    >>> from holdstrue.rules.condition import parse_condition
    >>> sorted(_fixed(parse_condition("a = 1 and b > 2 and c = 'x'")))
    ['a', 'c']
    >>> _fixed(parse_condition("a = 1 or b = 2"))
    frozenset()
    """
    match condition:
        case Comparison(name, Op.EQ, Constant()):
            return frozenset([name])
        case All(operands):
            return frozenset().union(*map(_fixed, operands))
    return frozenset()


def right_side(tables: Tables, check: GroupCheck, at: int, *, of_members: bool = False) -> Lanes:
    """The right-hand value of a member of a group; NULL where it is not known or not asked for.

    `of_members` says that no other rows are asked: Spark then sees that the value is never NULL.
    """
    values, name = tables.values[check.table], check.rhs[at]
    lanes = values.with_nulls(name) if check.nulls_equal else values.lanes(name)
    asked = check.asked[at]
    conditions = [c for c in (None if of_members else check.member, asked) if c is not None]
    if not conditions:
        return lanes
    wanted = " and ".join(tables.holds(check, condition) for condition in conditions)
    a, b = lanes
    return f"if({wanted}, {a}, null)", None if b is None else f"if({wanted}, {b}, null)"


def is_known(tables: Tables, check: GroupCheck, at: int) -> Sql:
    """Whether a right-hand value is known and asked for, in rows where the condition of the check holds."""
    wanted = [] if check.nulls_equal else [f"{quoted(check.rhs[at])} is not null"]
    asked = check.asked[at]
    if asked is not None:
        wanted.append(tables.holds(check, asked))
    return f"({' and '.join(wanted) or 'true'})"


def member(tables: Tables, check: GroupCheck) -> Sql:
    """Whether a row is in a group of a check, of an FD with some right-hand value that is known.

    False or NULL if not: a filter that is never NULL is one that Spark does not push into a scan.
    """
    found = [] if check.member is None else [tables.truth(check, check.member)]
    if not check.nulls_equal:
        found.append(tables.values[check.table].known(check.lhs))
    if check.rhs:
        found.append(f"({' or '.join(is_known(tables, check, at) for at in range(len(check.rhs)))})")
    return f"({' and '.join(found) or 'true'})"


def told_apart(tables: Tables, check: GroupCheck, at: int) -> Lanes:
    """What tells whether the right-hand values of a group are all the same.

    Of two digests one will do: a group is missed only if all its values have the same 64 bits under a secret, which
    one group in 2^64 has. Where values are counted, pair by pair, it takes both.
    """
    a, b = right_side(tables, check, at)
    return (a, b) if tables.values[check.table].is_one(check.rhs[at]) else (a, None)


def left_side(tables: Tables, check: GroupCheck) -> Lanes:
    """The group of a row."""
    return tables.values[check.table].tuple_lanes(tables.grouping(check), nulls_equal=check.nulls_equal)


def is_native(tables: Tables, check: Check) -> bool:
    """Whether Catalyst compares what a check compares, as the table of types says."""
    try:
        match check:
            case GroupCheck():
                left_side(tables, check)
                member(tables, check)
                for at in range(len(check.rhs)):
                    right_side(tables, check, at)
            case RowCheck():
                tables.holds(check, check.broken)
            case ReferenceCheck():
                _referring(tables, check)
                _providing(tables, check)
            case MeasureCheck():
                for measure in check.measures:
                    measured(tables, measure)
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


def halves(number: Sql) -> tuple[tuple[str, Sql], tuple[str, Sql]]:
    """Both halves of 64 bits, whose sums 64 bits hold for 2^31 numbers: sums of decimals cost ten times as much."""
    return ("upper", f"shiftright({number}, 32)"), ("lower", f"({number} & {0xFFFF_FFFF}L)")


def whole_of(upper: int, lower: int) -> int:
    """The sum, from the sums of both halves.

    >>> whole_of(1, 7) == 2**32 + 7
    True
    """
    return (upper << 32) + lower


# --- the pass ----------------------------------------------------------------------------------------------------


@dataclass
class Detection:
    """The aggregation that serves some checks, and the questions that are asked of its groups."""

    tables: Tables
    most: int
    """How many violating groups of a check are told."""
    elements: list[Element] = field(default_factory=list)
    asked: dict[str, Sql] = field(default_factory=dict)
    totalled: dict[str, int] = field(default_factory=dict)
    """By question about all rows of a table the place of what is counted."""
    wanted: list[Sql] = field(default_factory=list)
    """Which groups are looked at at all."""
    kinds: dict[int, str] = field(default_factory=dict)
    measures: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    is_ungrouped: bool = False
    """Whether only single rows are looked at, of one table, so that there is one group and nothing to shuffle."""

    @staticmethod
    def of(
        tables: Tables,
        checks: Mapping[int, Check],
        keys: Mapping[str, Sequence[str]],
        most: int,
        known: Mapping[str, int] | None = None,
    ) -> Detection:
        """The aggregation for checks by their numbers; `keys` are columns of tables that should tell rows apart.

        Of tables whose rows are `known` no row is read for its own sake.
        """
        made = Detection(tables, most)
        sides: dict[Any, list[tuple[int, GroupCheck]]] = {}
        for number, check in checks.items():
            match check:
                case GroupCheck():
                    side = check.table, tables.grouping(check), check.nulls_equal
                    sides.setdefault(side, []).append((number, check))
                case ReferenceCheck():
                    made._reference(number, check)
        for own in sides.values():
            made._groups(own)
        for name, columns in keys.items():
            lanes = tables.values[name].tuple_lanes(columns, nulls_equal=True)
            element = made._element(name, "true", lanes, ["true"])
            made._key(f"key {name}", element, 0)
        for name in tables.frames:
            single = {n: c for n, c in checks.items() if isinstance(c, RowCheck) and c.table == name}
            measures = {
                (n, at): measure
                for n, c in checks.items()
                if isinstance(c, MeasureCheck)
                for at, measure in enumerate(c.measures)
                if measure.table == name
            }
            made._rows(name, single, measures, name not in (known or {}))
        return made

    def _rows(
        self, table: str, checks: Mapping[int, RowCheck], measures: Mapping[tuple[int, int], Aggregate], counted: bool
    ) -> None:
        """What is asked of the single rows of a table: which of them break a rule, measures, how many there are.

        They are grouped by which rules they break, so that a row that breaks none gives nothing unless it is to be
        counted. Where there is one other side, or none, that would be one row more for each row: there they are
        counted in the groups of that side, and those that are in none of them in the group NULL.
        """
        if not (checks or measures or counted):
            return
        every = counted or bool(measures)
        broken = {number: self.tables.holds(check, check.broken) for number, check in checks.items()}
        if len(self.tables.frames) == 1 and len(self.elements) <= 1:
            if self.elements:
                [element] = self.elements
                hi, lo = element.group
                given = element.given
                if given != "true":
                    element.group = f"if({given}, {hi}, null)", None if lo is None else f"if({given}, {lo}, null)"
                    element.given = "true"
            else:
                truths = (self.tables.truth(check, check.broken) for check in checks.values())
                element = self._element(table, "true" if every else " or ".join(truths), ("0L", None))
                self.is_ungrouped = True
            for number, condition in broken.items():
                self._total(f"rows {number}", element, element.flag(condition))
            self._total(f"table {table}", element, element.flag("true"))
        else:
            chunks = [list(broken)[at : at + _MASKED] for at in range(0, len(broken), _MASKED)] or [[]]
            for number_of_chunk, chunk in enumerate(chunks):
                bits = [f"if({broken[number]}, {1 << bit}L, 0L)" for bit, number in enumerate(chunk)]
                given = "true" if every and not number_of_chunk else " or ".join(broken[number] for number in chunk)
                own = self._element(table, given, (" + ".join(bits) or "0L", None), ["true"])
                if not number_of_chunk:
                    element = own
                    self.asked[f"table {table}"] = f"sum(if(side = {own.side}, f0, null))"
                for bit, number in enumerate(chunk):
                    self.asked[f"rows {number}"] = f"sum(if(side = {own.side} and (hi & {1 << bit}L) != 0, f0, null))"
                self.wanted.append(f"side = {own.side}")
        self._measure(element, measures)

    def _element(self, table: str, given: Sql, group: Lanes, flags: Iterable[Sql] = ()) -> Element:
        element = Element(len(self.elements), table, given, group, list(flags))
        self.elements.append(element)
        return element

    def _total(self, name: str, element: Element, at: int) -> None:
        self.asked[name] = f"sum(if(side = {element.side}, f{at}, null))"
        self.totalled[name] = at
        self.wanted.append(f"side = {element.side}")

    def _violated(self, name: str, violates: Sql, rows: Sql) -> None:
        self.wanted.append(violates)
        self.asked[f"groups {name}"] = f"sum(if({violates}, 1L, null))"
        if self.most:
            group = f"named_struct('hi', hi, 'lo', lo, 'n', {rows})"
            self.asked[f"chosen {name}"] = f"max_by({group}, hi, {self.most}) filter (where {violates})"

    def _key(self, name: str, element: Element, at: int) -> None:
        violates = f"(side = {element.side} and f{at} > 1)"
        self._violated(name, violates, f"f{at}")
        self.asked[f"rows {name}"] = f"sum(if({violates}, f{at}, null))"
        for half, pairs in halves(f"(f{at} * (f{at} - 1))"):
            self.asked[f"{half} pairs {name}"] = f"sum(if({violates}, {pairs}, null))"

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
            if not check.rhs:
                self._key(str(number), element, element.flag(member(tables, check)))
                continue
            places = [element.value(told_apart(tables, check, at)) for at in range(len(check.rhs))]
            unlike = " or ".join(
                f"coalesce(least_{lane}{at} != most_{lane}{at}, false)"
                for at in places
                for lane in ("ab" if element.values[at][1] is not None else "a")
            )
            violates = f"(side = {element.side} and ({unlike}))"
            self._violated(str(number), violates, "0L")
            if len(places) > 1:
                count = element.flag(member(tables, check))
                known = [
                    element.flag(f"({member(tables, check)} and {is_known(tables, check, at)})")
                    for at in range(len(places))
                ]
                partly = " or ".join(f"f{at} != f{count}" for at in known)
                self.asked[f"partial {number}"] = f"sum(if({violates} and ({partly}), 1L, null))"

    def _measure(self, rows: Element, measures: Mapping[tuple[int, int], Aggregate]) -> None:
        for place, measure in measures.items():
            names = self.measures.setdefault(place, [])
            for how, value, kind in measured(self.tables, measure):
                own = len(self.kinds)
                self.kinds[own] = kind
                rows.measured[own] = value
                name = f"{how} {own}"
                names.append(name)
                self.asked[name] = f"{'sum' if how == 'count' else how}(m{own})"

    def grouped(self) -> Sql:
        """Every group with its counts and extremes."""
        shape = ElementShape.of(self.elements, self.kinds)
        rows = spread(self.tables.sources, self.elements, shape)
        kept = [f"count(f{at}) as f{at}" for at in range(shape.flags)]
        for at, lanes in enumerate(shape.values):
            kept += [
                f"{how}({x}{at}) as {name}_{x}{at}" for x in lanes for how, name in (("min", "least"), ("max", "most"))
            ]
        for names in self.measures.values():
            kept += [f"{how}(m{own}) as m{own}" for how, own in (name.split() for name in names)]
        group = ", ".join(shape.group)
        told = ", ".join((group, *([] if shape.wide else ["0L as lo"]), *kept))
        return f"select {told} from ({rows}) group by {group}"

    @property
    def shuffles(self) -> int:
        """How often rows are shuffled: by group, and what partitions found to one of them."""
        return 1 if self.is_ungrouped else 2

    def totals(self) -> DataFrame:
        """One row: the answers to all questions."""
        if self.is_ungrouped:
            [only] = self.elements
            found = [f"count(if({only.flags[at]}, 1, null)) as {quoted(name)}" for name, at in self.totalled.items()]
            for name in (name for names in self.measures.values() for name in names):
                how, own = name.split()
                found.append(f"{how}(cast({only.measured[int(own)]} as {self.kinds[int(own)]})) as {quoted(name)}")
            frame = self.tables.frames[only.table]
            # two calls, 6 ms less than a view that a text names
            return (frame if only.given == "true" else frame.where(only.given)).selectExpr(*found)
        asked = ", ".join(f"{question} as {quoted(name)}" for name, question in self.asked.items())
        wanted = " or ".join(dict.fromkeys(self.wanted))
        return self.tables.ask(f"select {written(asked)} from ({self.grouped()}) where {wanted}")

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
            whole_of(self._number(f"upper pairs {name}"), self._number(f"lower pairs {name}")) // 2,
            self._number(f"groups {name}"),
            tuple((group["hi"], group["lo"], group["n"], None) for group in chosen),
            self._number(f"partial {name}"),
        )

    def parts(self, number: int) -> tuple[Part, ...]:
        """What is kept of the measures of a rule."""
        check = self.detection.tables.plan.checks[number]
        assert isinstance(check, MeasureCheck)
        return tuple(
            part_of(measure, [self.totals.column(n).combine_chunks() for n in self.detection.measures[number, at]])
            for at, measure in enumerate(check.measures)
        )
