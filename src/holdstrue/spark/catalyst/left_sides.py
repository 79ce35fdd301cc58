"""FDs with one left side in one grouping by it: which groups violate them, and pairs where few values are on the right.

Of a right side that a sample says is always the same in a group, the smallest and the largest value are kept. One that
differs and has few values is counted value by value, each in a column of its own, so that rows are not grouped by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdstrue.plan.checks import GroupCheck
from holdstrue.spark.catalyst.detecting import Found, Tables, halves, left_side, right_side, told_apart, whole_of
from holdstrue.spark.catalyst.lanes import Lanes, Sql, written
from holdstrue.spark.catalyst.sampling import SampledLanes

VALUES = 16
"""So many right-hand values are counted one by one. 10M rows, 500,000 groups and four right sides, of which one has two
values and differs: 6.6 s of CPU so, 15.6 s as four queries by hand. The bound itself was chosen, as is the next."""
COUNTS = 32
"""Values in all that are counted in one grouping: 8 bytes each for every group, in memory."""

Value = tuple[int, int | None]
"""The lanes of a right-hand value."""


@dataclass(frozen=True)
class SharedLeftSide:
    """The FDs of a table with one left side."""

    tables: Tables
    table: str
    steady: Mapping[int, GroupCheck]
    """Those that a sample does not refute."""
    valued: Mapping[int, tuple[GroupCheck, tuple[Value, ...]]]
    """The others, with the values that their right sides have."""
    most: int
    """How many violating groups are told of those that are counted to the end."""
    looked_up: int
    """And of those that are not."""

    @staticmethod
    def all_of(
        tables: Tables, table: str, checks: Mapping[int, GroupCheck], sample: SampledLanes, most: int, looked_up: int
    ) -> list[SharedLeftSide]:
        """Plain FDs by left side; left out are those of which too many values violate.

        Complexity: O(s log s) an FD, for s sampled rows.
        """
        sides: dict[Lanes, dict[int, GroupCheck]] = {}
        for number, check in checks.items():
            sides.setdefault(left_side(tables, check), {})[number] = check
        found = []
        for side, own in sides.items():
            rights = {n: right_side(tables, check, 0) for n, check in own.items()}
            steady = {n: check for n, check in own.items() if not sample.is_refuted(side, rights[n])}
            valued: dict[int, tuple[GroupCheck, tuple[Value, ...]]] = {}
            left = COUNTS
            for n in own:
                values = () if n in steady else sample.values_of(rights[n])
                if values and len(values) <= min(VALUES, left):
                    valued[n] = own[n], values
                    left -= len(values)
            if steady or valued:
                found.append(SharedLeftSide(tables, table, steady, valued, most, looked_up))
        return found

    @property
    def shuffles(self) -> int:
        """By group, and what partitions found to one of them."""
        return 2

    def _rows(self) -> tuple[Sql, tuple[Sql, ...]]:
        """A query for what is grouped, and the names of the group's lanes."""
        checks = [*self.steady.values(), *(check for check, _ in self.valued.values())]
        lanes = [lane for lane in left_side(self.tables, checks[0]) if lane is not None]
        key = ("hi", "lo")[: len(lanes)]
        columns = dict(zip(key, lanes, strict=True))
        for n, check in self.steady.items():
            columns |= _named(told_apart(self.tables, check, 0), n)
        for n, (check, _) in self.valued.items():
            columns |= _named(right_side(self.tables, check, 0), n)
        told = ", ".join(f"{written(lane)} as {name}" for name, lane in columns.items())
        known = " and ".join(f"{name} is not null" for name in key)
        return f"select * from (select {told} from {self.tables.sources[self.table]}) where {known}", key

    def query(self) -> Sql:
        """One row."""
        rows, key = self._rows()
        kept, made, told = list(key), ["*"], []
        lo = "lo" if len(key) == 2 else "0L"
        for n, check in self.steady.items():
            a, b = told_apart(self.tables, check, 0)
            sides = [side for side, lane in (("a", a), ("b", b)) if lane is not None]
            kept += [f"{how}({side}{n}) as {how}_{side}{n}" for side in sides for how in ("min", "max")]
            unlike = " or ".join(f"coalesce(min_{side}{n} != max_{side}{n}, false)" for side in sides)
            told.append(f"sum(if({unlike}, 1L, 0L)) as groups{n}")
            group = f"named_struct('hi', hi, 'lo', {lo}, 'n', 0L, 'least', cast(null as bigint))"
            told.append(f"max_by({group}, hi, {self.looked_up}) filter (where {unlike}) as chosen{n}")
        for n, (_, values) in self.valued.items():
            counts = [f"c{n}_{at}" for at in range(len(values))]
            kept.append(f"count(a{n}) as n{n}")
            for name, (one, other) in zip(counts, values, strict=True):
                same = f"a{n} = {_literal(one)}" + ("" if other is None else f" and b{n} = {_literal(other)}")
                kept.append(f"count(if({same}, 1, null)) as {name}")
            made.append(f"{' + '.join(f'if({name} > 0, 1, 0)' for name in counts)} as kinds{n}")
            made.append(f"n{n} * n{n} - ({' + '.join(f'{name} * {name}' for name in counts)}) as unlike{n}")
            many = f"filter (where kinds{n} > 1)"
            told += [f"sum(n{n} - ({' + '.join(counts)})) as other{n}", f"count(1) {many} as groups{n}"]
            told.append(f"sum(n{n}) {many} as rows{n}")
            told += [f"sum({half}) {many} as {name}{n}" for name, half in halves(f"unlike{n}")]
            if self.most:
                there = zip(counts, values, strict=True)
                each = ", ".join(f"if({name} > 0, {_literal(one)}, null)" for name, (one, _) in there)
                least = f"least({each})" if len(values) > 1 else each
                group = f"named_struct('hi', hi, 'lo', {lo}, 'n', n{n}, 'least', {least})"
                told.append(f"max_by({group}, hi, {self.most}) {many} as chosen{n}")
        groups = f"select {', '.join(kept)} from ({rows}) group by {', '.join(key)}"
        return f"select {', '.join(told)} from (select {', '.join(made)} from ({groups}))"

    def run(self) -> tuple[dict[int, Found], dict[int, Found]]:
        """What was found of FDs that are counted, and of others which groups violate them; none of undecided ones."""
        [row] = self.tables.ask(self.query()).toArrow().to_pylist()
        counted, seen = {}, {}
        for n in self.steady:
            seen[n] = Found(groups=row[f"groups{n}"] or 0, chosen=_chosen(row, n))
        for n in self.valued:
            if not row[f"other{n}"]:
                pairs = whole_of(row[f"upper{n}"] or 0, row[f"lower{n}"] or 0) // 2
                counted[n] = Found(row[f"rows{n}"] or 0, pairs, row[f"groups{n}"], _chosen(row, n))
        return counted, seen


def _named(lanes: Lanes, number: int) -> dict[str, Sql]:
    return {f"{side}{number}": lane for side, lane in zip("ab", lanes, strict=True) if lane is not None}


def _literal(value: int) -> Sql:
    # the smallest number has no literal of its own: it would be read as a sign before one that is too large
    return f"{value}L" if value > -(2**63) else f"(-{2**63 - 1}L - 1L)"


def _chosen(row: Mapping[str, list[dict[str, int]] | None], n: int) -> tuple[tuple[int, int, int, int | None], ...]:
    return tuple((g["hi"], g["lo"], g["n"], g["least"]) for g in row.get(f"chosen{n}") or ())
