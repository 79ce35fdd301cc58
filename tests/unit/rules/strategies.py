"""Random rules for hypothesis: any body with any names and constants, and small ones over columns a, b, c."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st

from holdstrue.rules import (
    CFD,
    DC,
    FD,
    All,
    Body,
    Column,
    Comparison,
    Condition,
    Constant,
    Inclusion,
    IsNull,
    Key,
    Measured,
    Not,
    NotNull,
    Op,
    Pattern,
    Predicate,
)
from holdstrue.rules import Any as AnyOf
from holdstrue.rules.measure import UNITS, Amount, Bound, Function, Measure

_WORDS = ["a", "zip", "home state", "a.b", "key", "NOT", "in", "_", "date", "it's", '"', "`", "\\", "x\ny"]
_WORDS += ["Straße", "ident(String)"]

names = st.sampled_from(_WORDS) | st.text(min_size=1, max_size=6)
ops = st.sampled_from(list(Op))
zones = st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))])
constants = st.builds(
    Constant,
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.decimals(allow_nan=False)
    | st.text(max_size=8)
    | st.dates()
    | st.datetimes(timezones=zones).map(lambda moment: moment.replace(fold=0)),
)
columns = st.builds(Column, st.sampled_from(["t", "s"]), names)
some_names = st.lists(names, min_size=1, max_size=3, unique=True).map(tuple)


def _pattern(lhs: int, rhs: int, cells: st.SearchStrategy[Any]) -> st.SearchStrategy[Pattern]:
    return st.builds(Pattern, st.tuples(*[cells] * lhs), st.tuples(*[cells] * rhs))


@st.composite
def cfds(draw: st.DrawFn, sides: Any = some_names, values: Any = constants) -> CFD:
    """A CFD with up to three patterns."""
    lhs, rhs = draw(sides), draw(sides)
    rows = draw(st.lists(_pattern(len(lhs), len(rhs), st.none() | values), min_size=1, max_size=3))
    return CFD(lhs, rhs, tuple(rows))


@st.composite
def inclusions(draw: st.DrawFn) -> Inclusion:
    """An inclusion of one to three columns."""
    pairs = draw(st.lists(st.tuples(names, names), min_size=1, max_size=3))
    return Inclusion(draw(st.none() | names), tuple(a for a, _ in pairs), draw(names), tuple(b for _, b in pairs))


def named_t(body: Body) -> bool:
    """Whether a rule is as the parser gives it: a rule of one row calls it t."""
    return not isinstance(body, DC) or any(
        c.var == "t" for p in body.predicates for c in (p.left, p.right) if isinstance(c, Column)
    )


@st.composite
def measured(draw: st.DrawFn) -> Measured:
    """A rule about a whole table, as the parser gives it."""
    table = draw(st.none() | names)
    functions: st.SearchStrategy[Function] = st.sampled_from(("sum", "min", "max"))
    rows = st.builds(Measure, st.just("count"), st.none() | names, st.just(table))
    left = draw(rows | st.builds(Measure, functions, names, st.just(table)))
    match draw(st.sampled_from(("fresh", "between", "constant", "measure"))):
        case "fresh":
            length = st.builds(Amount, st.builds(Constant, st.integers(0, 99)), st.sampled_from(sorted(UNITS)))
            order = st.sampled_from([op for op in Op if op.is_order])
            return Measured(Measure("fresh", draw(names), table), (Bound(draw(order), draw(length)),))
        case "between":
            low, high = sorted((draw(st.integers(1, 9)), draw(st.integers(1, 9))))
            return Measured(left, (Bound(Op.GE, Amount(Constant(low))), Bound(Op.LE, Amount(Constant(high)))))
        case "measure":
            other = draw(names if table is not None else st.none() | names)
            return Measured(left, (Bound(draw(ops), Measure(draw(functions), draw(names), other)),))
    return Measured(left, (Bound(draw(ops), Amount(draw(constants))),))


dcs = st.builds(
    DC, st.lists(st.builds(Predicate, columns, ops, columns | constants), min_size=1, max_size=4).map(tuple)
)
bodies: st.SearchStrategy[Body] = st.one_of(
    st.builds(Key, some_names),
    st.builds(FD, some_names, some_names),
    st.builds(NotNull, some_names),
    cfds(),
    inclusions(),
    measured(),
    dcs.filter(named_t),
)


def _groups(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.builds(Not, inner) | st.builds(All, several) | st.builds(AnyOf, several)


conditions: st.SearchStrategy[Condition] = st.recursive(
    st.builds(Comparison, names, ops, constants | names) | st.builds(IsNull, names, st.booleans()),
    _groups,
    max_leaves=6,
)

# Few columns and values, so that random rules meet each other and random rows violate them.
small_values = st.integers(0, 2)
small_constants = st.builds(Constant, small_values)
small_names = st.sampled_from(["a", "b", "c"])
small_sides = st.lists(small_names, min_size=1, max_size=2, unique=True).map(tuple)
small_columns = st.builds(Column, st.sampled_from(["t", "s"]), small_names)
small_predicates = st.builds(Predicate, small_columns, ops, small_columns | small_constants)
small_dcs = st.builds(DC, st.lists(small_predicates, min_size=1, max_size=4).map(tuple))
small_bodies: st.SearchStrategy[Body] = st.one_of(
    small_dcs,
    st.builds(Key, small_sides),
    st.builds(FD, small_sides, small_sides),
    st.builds(NotNull, small_sides),
    cfds(small_sides, small_constants),
)
cells = st.none() | st.integers(0, 3)
tables = st.lists(st.fixed_dictionaries({"a": cells, "b": cells, "c": cells}), min_size=1, max_size=4)
