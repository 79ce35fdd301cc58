"""Random rule sets, tables and change sequences for the law tests."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = dict[str, Any]

TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "a": pa.int64(),
    "b": pa.int64(),
    "c": pa.string(),
    "d": pa.float64(),
    "e": pa.string(),
    "f": pa.bool_(),
    "g": pa.date32(),
    "h": pa.decimal128(10, 2),
    "i": pa.int64(),
    "z": pa.timestamp("us", "UTC"),
}
SCHEMA = pa.schema(list(TYPES.items()))

_BIG = 2**63 - 1
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.integers(0, 2),
    "b": st.one_of(st.integers(0, 4), st.sampled_from([_BIG, -_BIG - 1, _BIG - 1])),
    "c": st.sampled_from(["x", "y", "", "é", "zebra-zebra", "zebra-zebrb"]),
    "d": st.sampled_from([0.0, -0.0, 1.5, -2.0, float("inf"), float("nan"), 3.25]),
    "e": st.sampled_from(["x", "y", "B", "ä", "日本"]),
    "f": st.booleans(),
    "g": st.sampled_from([dt.date(2024, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 6, 1)]),
    "h": st.sampled_from([Decimal("1.50"), Decimal("-3.25"), Decimal("0.00"), Decimal("99999999.99")]),
    "i": st.integers(0, 3),
    "z": st.sampled_from([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=dt.UTC)]),
}

ORDERED = ["a", "b", "d", "e", "f", "g", "h", "z"]
OPS = ["=", "!=", "<", "<=", ">", ">="]
COMPARABLE = [("a", "b"), ("b", "i"), ("a", "i"), ("c", "e")]


def literal(value: Any) -> str:
    """A value as rule text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"timestamp '{value.isoformat()}'"
    if isinstance(value, dt.date):
        return f"date '{value.isoformat()}'"
    if isinstance(value, Decimal):
        return f"decimal '{value}'"
    if isinstance(value, float):
        return f"float '{value}'"
    return str(value)


@st.composite
def predicate(draw: st.DrawFn, *, two_rows: bool) -> str:
    """One comparison of a denial constraint."""
    column = draw(st.sampled_from([*VALUES]))
    shape = draw(
        st.sampled_from(["self", "self", "self", "cross", "const"] if two_rows else ["const", "const", "cross"])
    )
    if shape == "const":
        var = draw(st.sampled_from(["t", "s"])) if two_rows else "t"
        op = draw(st.sampled_from(OPS))
        return f"{var}.{column} {op} {literal(draw(VALUES[column]))}"
    other = column
    if shape == "cross":
        column, other = draw(st.sampled_from(COMPARABLE))
        if draw(st.booleans()):
            column, other = other, column
    op = draw(st.sampled_from(OPS))
    if not two_rows:
        return f"t.{column} {op} t.{other}"
    left, right = draw(st.sampled_from([("t", "s"), ("s", "t")]))
    return f"{left}.{column} {op} {right}.{other}"


@st.composite
def symmetric_denial(draw: st.DrawFn) -> str:
    """A rule that asks the same of both rows, each time in another order and another way round."""
    own = draw(st.lists(predicate(two_rows=False), min_size=1, max_size=3, unique=True))
    compared = st.tuples(st.sampled_from("abci"), st.sampled_from(["=", "!="]))
    terms = [f"t.{name} {op} s.{name}" for name, op in draw(st.lists(compared, min_size=1, max_size=3))]
    turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    for text in own:
        left, op, right = text.split(" ", 2)
        other = f"{right} {turned.get(op, op)} {left}" if right.startswith("t.") and draw(st.booleans()) else text
        terms += [text, other.replace("t.", "s.")]
    return f"not({' and '.join(draw(st.permutations(terms)))})"


columns = st.lists(st.sampled_from([*VALUES]), min_size=1, max_size=2, unique=True)


@st.composite
def cfd(draw: st.DrawFn) -> str:
    """A conditional FD with a small tableau."""
    lhs = draw(columns)
    rhs = draw(st.lists(st.sampled_from([c for c in VALUES if c not in lhs]), min_size=1, max_size=2, unique=True))
    rows = []
    for _ in range(draw(st.integers(1, 2))):
        cells = [
            ["_" if draw(st.booleans()) else literal(draw(VALUES[column])) for column in side] for side in (lhs, rhs)
        ]
        rows.append(f"({', '.join(cells[0])} || {', '.join(cells[1])})")
    return f"[{', '.join(lhs)}] -> [{', '.join(rhs)}] with {', '.join(rows)}"


@st.composite
def fd(draw: st.DrawFn) -> str:
    """An FD with one or two right-hand columns."""
    lhs = draw(columns)
    rhs = draw(st.lists(st.sampled_from([c for c in VALUES if c not in lhs]), min_size=1, max_size=3, unique=True))
    return f"{', '.join(lhs)} -> {', '.join(rhs)}"


@st.composite
def measure(draw: st.DrawFn) -> str:
    """A rule about a whole table."""
    op = draw(st.sampled_from(OPS))
    function = draw(st.sampled_from(["count", "count", "rows", "sum", "min", "max", "both"]))
    if function == "rows":
        return f"count() {op} {draw(st.integers(0, 9))}"
    if function == "both":
        left, right = (
            draw(st.sampled_from(["count()", "count(a)", "sum(a)", "sum(i)", "max(b)", "min(d)"])) for _ in "lr"
        )
        return f"{left} {op} {right}"
    column = draw(st.sampled_from([*VALUES] if function == "count" else ["a", "b", "d", "h"] if function == "sum" else
                                  ["a", "b", "d", "g", "h", "z"]))  # fmt: skip
    if draw(st.integers(0, 3)) == 0 and function == "count":
        return f"count({column}) between {draw(st.integers(0, 3))} and {draw(st.integers(3, 7))}"
    value = str(draw(st.integers(0, 8))) if function == "count" else literal(draw(VALUES[column]))
    return f"{function}({column}) {op} {value}"


SHAPES = ["^z", "^[a-z]+$", "a$", "^.$", r"^\w*$", "(x|y)", "[^b]b?$", "^(zebra-?){2}$", "é|日", r"\-", "^[A-Zä]$"]


@st.composite
def demand(draw: st.DrawFn) -> str:
    """A condition of every row."""
    text = draw(st.sampled_from("ce"))
    column = draw(st.sampled_from([*VALUES]))
    low, high = (literal(draw(VALUES[column])) for _ in "lh")
    return draw(
        st.sampled_from(
            [
                f"{column} {draw(st.sampled_from(OPS))} {low}", f"{column} in ({low}, {high})",
                f"{column} between {low} and {high}", f"{column} not in ({low}, {high})",
                f"{text} {draw(st.sampled_from(['', 'not ']))}matches {literal(draw(st.sampled_from(SHAPES)))}",
                f"len({text}) {draw(st.sampled_from(OPS))} {draw(st.integers(0, 11))}",
                f"len(c) between 1 and 5 or e matches '^[a-z]' and {column} != {low}",
                f"({column} = {low} or not len({text}) = 1)",
            ]
        )
    )  # fmt: skip


rule_text = st.one_of(
    measure(),
    demand(),
    columns.map(lambda names: f"key({', '.join(names)})"),
    fd(),
    cfd(),
    columns.map(lambda names: f"not null({', '.join(names)})"),
    st.lists(predicate(two_rows=False), min_size=1, max_size=3).map(lambda ps: f"not({' and '.join(ps)})"),
    st.lists(predicate(two_rows=True), min_size=1, max_size=4).map(lambda ps: f"not({' and '.join(ps)})"),
    st.lists(predicate(two_rows=True), min_size=2, max_size=4).map(lambda ps: f"not({' and '.join(ps)})"),
    symmetric_denial(),
)

where_text = st.one_of(
    st.none(),
    st.none(),
    st.sampled_from(
        [
            "a = 1",
            "a > 0 and f = true",
            "c is null",
            "not (b >= 2)",
            "a in (0, 2) or d < 1",
            "b != i",
            "len(c) > 0 and not c matches '^z'",
        ]
    ),
)


@st.composite
def row(draw: st.DrawFn, key: int) -> Row:
    """A row with NULLs here and there."""
    values = {name: draw(st.one_of(strategy, strategy, strategy, st.none())) for name, strategy in VALUES.items()}
    return {"id": key} | values


@st.composite
def changes(draw: st.DrawFn, present: set[int]) -> list[tuple[str, Row]]:
    """A batch that fits the keys that are present: several changes of one key may follow each other."""
    alive = set(present)
    batch: list[tuple[str, Row]] = []
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["insert", "update", "delete"]))
        if kind == "insert" or not alive:
            key = draw(st.integers(0, 14))
            if key in alive:
                continue
            alive.add(key)
            batch.append(("insert", draw(row(key))))
        else:
            key = draw(st.sampled_from(sorted(alive)))
            if kind == "delete":
                alive.discard(key)
            batch.append((kind, draw(row(key))))
    return batch


def as_table(batch: list[tuple[str, Row]]) -> pa.Table:
    """A batch as rows with an operation column."""
    table = pa.Table.from_pylist([image for _, image in batch], schema=SCHEMA)
    return table.append_column("_op", pa.array([op for op, _ in batch], pa.string()))


def applied(rows: dict[int, Row], batch: list[tuple[str, Row]]) -> dict[int, Row]:
    """The rows after a batch."""
    after = dict(rows)
    for op, image in batch:
        if op == "delete":
            del after[image["id"]]
        else:
            after[image["id"]] = image
    return after
