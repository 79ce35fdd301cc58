"""What the rows of tables contribute to an aggregation that serves many rules: (side, group, counts, values).

A side is what rows are grouped by for one or more checks. A row is written once for each side, with all of them in
one array, so that a table is read once and every side is aggregated in the same shuffle. Sides put their counts and
values at the same places, so that twenty rules need no more columns than the widest side has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdstrue.spark.catalyst.lanes import Lanes, Sql, written


@dataclass
class Element:
    """What a row of a table gives to one side."""

    side: int
    table: str
    given: Sql
    """Whether the row gives anything; false or NULL if not."""
    group: Lanes
    flags: list[Sql] = field(default_factory=list)
    """Conditions that are counted by group where they are true."""
    values: list[Lanes] = field(default_factory=list)
    """Values whose smallest and largest are kept by group."""
    measured: dict[int, Sql] = field(default_factory=dict)
    """By number the columns that measures of the table are made of."""

    def flag(self, condition: Sql) -> int:
        """Count a condition; returns its place."""
        self.flags.append(condition)
        return len(self.flags) - 1

    def value(self, lanes: Lanes) -> int:
        """Keep the extremes of a value; returns its place."""
        self.values.append(lanes)
        return len(self.values) - 1


@dataclass(frozen=True)
class ElementShape:
    """The columns that elements have in common."""

    flags: int
    values: tuple[str, ...]
    """By place the lanes that values have: `a` or `ab`."""
    measured: Mapping[int, str]
    wide: bool
    """Whether groups have two lanes."""

    @staticmethod
    def of(elements: Sequence[Element], measured: Mapping[int, str]) -> ElementShape:
        """As wide as the widest."""
        places = range(max((len(e.values) for e in elements), default=0))
        return ElementShape(
            max((len(e.flags) for e in elements), default=0),
            tuple(
                "ab" if any(e.values[at][1] is not None for e in elements if at < len(e.values)) else "a"
                for at in places
            ),
            measured,
            any(e.group[1] is not None for e in elements),
        )

    @property
    def group(self) -> tuple[str, ...]:
        """The columns that tell groups apart."""
        return ("side", "hi", "lo") if self.wide else ("side", "hi")

    def fields(self, element: Element) -> list[tuple[str, Sql]]:
        """An element as columns by name."""
        hi, lo = element.group
        found = [("side", str(element.side)), ("hi", hi)]
        if self.wide:
            found.append(("lo", lo or "0L"))
        for at in range(self.flags):
            flag = f"if({element.flags[at]}, 1, null)" if at < len(element.flags) else "cast(null as int)"
            found.append((f"f{at}", flag))
        for at, lanes in enumerate(self.values):
            a, b = element.values[at] if at < len(element.values) else (None, None)
            found.append((f"a{at}", a or "cast(null as bigint)"))
            if lanes == "ab":
                found.append((f"b{at}", b or "cast(null as bigint)"))
        for number, kind in self.measured.items():
            found.append((f"m{number}", f"cast({element.measured.get(number, 'null')} as {kind})"))
        return found

    def inlined(self, elements: Sequence[Element]) -> Sql:
        """What a row gives to several sides, as rows of which some are NULL."""
        structs = []
        for element in elements:
            pairs = ", ".join(f"'{name}', {value}" for name, value in self.fields(element))
            structs.append(f"if({element.given}, named_struct({pairs}), null)")
        return f"inline(array({', '.join(structs)}))"


def spread(sources: Mapping[str, Sql], elements: Sequence[Element], shape: ElementShape) -> Sql:
    """A query for the elements of all rows of all tables, each of which is read once from its source."""
    found = []
    for table in dict.fromkeys(element.table for element in elements):
        own = [element for element in elements if element.table == table]
        if len(own) == 1:
            columns = ", ".join(f"{written(value)} as {name}" for name, value in shape.fields(own[0]))
            given = "" if own[0].given == "true" else f" where {written(own[0].given)}"
            found.append(f"select {columns} from {sources[table]}{given}")
        else:
            found.append(_unpivoted(sources[table], own, shape))
    if not found:
        raise ValueError("no elements")
    return " union all ".join(found)


def _unpivoted(source: Sql, elements: Sequence[Element], shape: ElementShape) -> Sql:
    """What a row gives to several sides, as rows: Spark expands them in compiled code, without objects for them.

    On 10M rows and 20 rules it takes 12% less than the same rows as an array of structs. Every expression is written
    once, so that a digest which serves three sides is made once.
    """
    columns: dict[Sql, str] = {}
    names = [name for name, _ in shape.fields(elements[0])]
    sides = []
    for at, element in enumerate(elements):
        fields = dict(shape.fields(element))
        if element.given != "true":
            fields["side"] = f"if({element.given}, {element.side}, null)"
        own = [columns.setdefault(value, f"c{len(columns)}") for value in fields.values()]
        sides.append(f"({', '.join(own)}) as e{at}")
    rows = ", ".join(f"{written(value)} as {name}" for value, name in columns.items())
    told, those = ", ".join(names), ", ".join(sides)
    apart = f"(select {rows} from {source}) unpivot include nulls (({told}) for e in ({those}))"
    return f"select {told} from {apart} where side is not null"
