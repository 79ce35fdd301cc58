"""Two small tables whose rows keep changing places: few values, many updates, rules of every kind of route."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from holdstrue import RuleSet, load_rules
from holdstrue.rules import CFD, FD, Key, Rule
from translate import expected

Row = dict[str, Any]
Truth = dict[str, set[tuple[Any, ...]]]
Batch = dict[str, list[tuple[str, Row]]]

SCHEMAS = {
    "emp": pa.schema(
        {
            **dict.fromkeys(("id", "part", "a", "b", "c", "d"), pa.int64()),
            **dict.fromkeys(("p", "q"), pa.string()),
        }
    ),
    "dep": pa.schema(dict.fromkeys(("k", "v", "w"), pa.int64())),
}
FIXED = {"emp": ("id", "part"), "dep": ("k",)}
"""Columns that are keys, or parts of one, and so never change."""

SELF_INCLUSIONS = [
    "emp.a in emp.id",
    "emp.a in emp.b",
    "emp.p in emp.q",
    "emp.(a, b) in emp.(c, d)",
    "emp.(a, b) in emp.(b, c)",
    "dep.v in dep.k",
]
INCLUSIONS = ["emp.a in dep.k", "emp.(a, b) in dep.(v, w)", "dep.v in emp.a", "emp.b in dep.v"]
ACROSS = [
    "not(t.a = s.b)",
    "not(t.a = s.id)",
    "not(t.a = s.b and t.c < s.d)",
    "not(t.a = s.b and t.b = s.a)",
    "not(t.a = s.b and t.c = s.d)",
    "not(t.a = s.b and t.c != s.c)",
    "not(t.a = s.b and s.c = 1)",
    "not(t.p = s.q)",
    "not(t.p = s.q and t.a <= s.a)",
]
WIDE = [
    "a -> d",
    "a, b -> c",
    "a, b -> c, d",
    "a, b, c -> d",
    "key(a)",
    "key(a, b)",
    "key(a, p)",
    "p -> q",
    "p, a -> q, d",
    "[a, b] -> [c] with (1, _ || _), (_, 2 || 0)",
    "[a, b] -> [c, d] with (1, _ || _, _), (_, 2 || _, 1)",
    "not(t.a = s.a and t.b = s.b and t.c != s.c)",
]
OTHERS = [
    "not(t.a = s.a and t.b < s.b)",
    "not(t.a = s.a and t.b = s.c and t.d > s.d)",
    "not(t.a < s.a and t.b > s.b)",
    "not(t.p < s.p and t.a = s.a)",
    "not(t.a != s.a and t.b != s.b)",
    "not null(a)",
    "not(t.a > t.b)",
]
WHERE = ["c = 1", "c > 0 or d is null", "p != 'x'", "a != b"]

STEPS = ["shift", "swap", "rewrite", "shift", "insert", "delete"]
KINDS = {
    "within a table": SELF_INCLUSIONS,
    "between tables": INCLUSIONS,
    "across columns": ACROSS,
    "wider than a route": WIDE,
    "others": OTHERS,
}


@st.composite
def rules(draw: st.DrawFn, kind: str) -> RuleSet:
    """Rules of one kind, which share routes, or one of each; some of them on some rows only."""
    if kind == "mixed":
        texts = [draw(st.sampled_from(some)) for some in KINDS.values()]
    else:
        texts = draw(st.lists(st.sampled_from(KINDS[kind]), min_size=1, max_size=4, unique=True))
    found: list[Rule] = []
    for number, text in enumerate(texts):
        entry = {"name": f"r{number}", "rule": text}
        if not text.startswith("dep.") and draw(st.integers(0, 3)) == 3:
            entry["where"] = draw(st.sampled_from(WHERE))
        found += load_rules([entry]).rules
    return RuleSet(tuple(found), table="emp", nulls=draw(st.sampled_from(["unknown", "equal"])))


sizes = st.sampled_from([8, 12, 4, 16, 2, 6, 1, 0])
"""How many rows a table starts with."""

# few values make groups of many rows, many make rows that move alone
numbers = st.sampled_from([(0, 1), (0,), (0, 1, 2), (0, 1, None), (0, 1, 2, 3, 7, None)])
texts = st.sampled_from([("x", "y"), ("x",), ("x", "y", "zz", None)])
Values = dict[str, st.SearchStrategy[Any]]


@st.composite
def values(draw: st.DrawFn) -> Values:
    """Of each column that may change the values it takes."""
    columns = {column for schema in SCHEMAS.values() for column in schema}
    return {
        column.name: st.sampled_from(draw(numbers if column.type == pa.int64() else texts))
        for column in sorted(columns, key=lambda column: str(column.name))
    }


@dataclass
class World:
    """The rows of both tables by key, and what is wrong with them."""

    rules: RuleSet
    values: Values
    key: tuple[str, ...] = ("id",)
    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {"emp": {}, "dep": {}})

    def row(self, table: str, key: int) -> st.SearchStrategy[Row]:
        """A row with this key."""
        fixed: Row = {"id": key, "part": key % 2} if table == "emp" else {"k": key}
        changing = {f.name: self.values[f.name] for f in SCHEMAS[table] if f.name not in FIXED[table]}
        return st.fixed_dictionaries({name: st.just(value) for name, value in fixed.items()} | changing)

    @property
    def used(self) -> list[str]:
        """The tables that the rules speak of."""
        inclusions = [rule.text for rule in self.rules]
        return ["emp", *(["dep"] if any("dep." in text for text in inclusions) else [])]

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """By table the columns that tell rows apart."""
        return {name: self.key if name == "emp" else ("k",) for name in self.used}

    def name(self, table: str, key: int) -> Any:
        """How violations name a row."""
        return key if len(self.keys[table]) == 1 else (key, key % 2)

    def truth(self, names: Mapping[str, list[Any]] | None = None) -> Truth:
        """The oracle's violations by rule; rows are named by their keys unless other names are given."""
        rows = {table: list(held.values()) for table, held in self.tables.items()}
        found: Truth = {}
        for rule in self.rules:
            table = rule.own_table or "emp"
            own = names[table] if names else [self.name(table, key) for key in self.tables[table]]
            found |= expected(RuleSet((rule,), nulls=self.rules.nulls), rows[table], own, others=rows)
        return found

    def groups(self) -> dict[str, int]:
        """Of keys, FDs and CFDs the number of left sides that rows in violating pairs have."""
        found = {}
        by_name = {self.name("emp", key): held for key, held in self.tables["emp"].items()}
        truth = self.truth()
        for rule in self.rules:
            if isinstance(rule.body, Key | FD | CFD):
                lhs = rule.body.columns if isinstance(rule.body, Key) else rule.body.lhs
                rows = (by_name[name] for pair in truth[rule.name] if len(pair) == 2 for name in pair)
                found[rule.name] = len({tuple(held[column] for column in lhs) for held in rows})
        return found

    def apply(self, batch: Batch) -> None:
        """Take in a batch."""
        for table, changes in batch.items():
            self.tables[table] = applied(table, self.tables[table], changes)


@st.composite
def batches(draw: st.DrawFn, world: World) -> Batch:
    """Changes of both tables: one value for another in all rows, rows rewritten, rows that come and go."""
    return {table: draw(_changes(world, table)) for table in draw(st.permutations(world.used))}


@st.composite
def _changes(draw: st.DrawFn, world: World, table: str) -> list[tuple[str, Row]]:
    now = dict(world.tables[table])
    changes: list[tuple[str, Row]] = []
    for kind in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4)):
        some = [key for key in sorted(now) if draw(st.integers(0, 3))]
        step: list[tuple[str, Row]]
        if kind == "shift":
            shifted = draw(_shift(table))
            step = [("update", now[key] | {n: f(now[key][n]) for n, f in shifted.items()}) for key in some]
        elif kind == "swap":
            # columns change places, and so do the rows that meet by them
            one, two = draw(st.permutations(_numbers(table)))[:2]
            step = [("update", now[key] | {one: now[key][two], two: now[key][one]}) for key in some]
        elif kind == "rewrite":
            step = [("update", draw(world.row(table, key))) for key in some[:4]]
        elif kind == "delete":
            step = [("delete", now[key]) for key in some[:2]]
        else:
            vacant = [key for key in range(20) if key not in now]
            step = [("insert", draw(world.row(table, key))) for key in vacant[: draw(st.integers(1, 4))]]
        now = applied(table, now, step)
        changes += step
    return changes


@st.composite
def _shift(draw: st.DrawFn, table: str) -> dict[str, Callable[[int | None], int | None]]:
    """Columns in which each value gives way to another: rows that share one go on sharing one."""
    by = draw(st.integers(1, 2))
    names = draw(st.sets(st.sampled_from(_numbers(table)), min_size=1))
    return dict.fromkeys(names, lambda value: None if value is None else (value + by) % 4)


def _numbers(table: str) -> list[str]:
    """The columns of numbers that may change."""
    return [f.name for f in SCHEMAS[table] if f.type == pa.int64() and f.name not in FIXED[table]]


def applied(table: str, held: dict[int, Row], changes: list[tuple[str, Row]]) -> dict[int, Row]:
    """The rows after some changes."""
    after = dict(held)
    for op, image in changes:
        key = image[FIXED[table][0]]
        if op == "delete":
            del after[key]
        else:
            after[key] = image
    return after


def as_table(table: str, changes: list[tuple[str, Row]]) -> pa.Table:
    """Changes as rows with an operation column."""
    rows = pa.Table.from_pylist([image for _, image in changes], schema=SCHEMAS[table])
    return rows.append_column("_op", pa.array([op for op, _ in changes], pa.string()))
