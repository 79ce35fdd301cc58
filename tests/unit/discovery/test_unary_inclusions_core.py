"""Unary inclusions at the edges: nothing to look at, much to look at, wrong changes, a deadline."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.unary import StructureKind, UnaryInclusions, ValueLayout
from holdstrue.discovery.work import Work
from holdstrue.errors import ChangeError
from holdstrue.index.checked import Checked


def names(core: UnaryInclusions) -> set[str]:
    return {f"{r.body.table}.{r.body.columns[0]} in {r.body.ref_table}.{r.body.ref_columns[0]}" for r in core.rules()}


@pytest.mark.parametrize("structure", ["counters", "clusters"])
def test_columns_without_values_are_in_every_column_they_compare_with(structure: StructureKind) -> None:
    table = pa.table({"empty": pa.array([None, None], pa.int64()), "a": [1, 2], "s": ["x", "y"], "n": pa.nulls(2)})
    core = UnaryInclusions.load({"t": table}, ValueLayout(structure=structure))
    assert names(core) == {"t.empty in t.a", "t.empty in t.n"} | {f"t.n in t.{x}" for x in ("empty", "a", "s")}


def test_no_tables_no_columns_no_rows() -> None:
    assert UnaryInclusions.load({}).rules() == ()
    assert UnaryInclusions.load({"t": pa.table({})}).rules() == ()
    core = UnaryInclusions.load({"t": pa.table({"a": pa.array([], pa.int8()), "b": pa.array([], pa.int64())})})
    assert names(core) == {"t.a in t.b", "t.b in t.a"}
    core.apply({"t": RowChanges(added=pa.table({"a": pa.array([1], pa.int8()), "b": [2]}))})
    assert names(core) == set()
    core.apply({})
    core.apply({"t": RowChanges()})


def test_lists_are_not_compared() -> None:
    table = pa.table({"l": [[1], [2]], "a": [1, 2], "b": [2, 1]})
    assert names(UnaryInclusions.load({"t": table})) == {"t.a in t.b", "t.b in t.a"}


def test_as_text() -> None:
    tables = {"t": pa.table({"a": [1, 2]}), "s": pa.table({"b": ["1", "2", "3"]})}
    assert names(UnaryInclusions.load(tables)) == set()
    assert names(UnaryInclusions.load(tables, ValueLayout(compare="text"))) == {"t.a in s.b"}


@pytest.mark.parametrize("structure", ["counters", "clusters"])
def test_three_hundred_constant_columns(structure: StructureKind) -> None:
    table = pa.table({f"c{i}": pa.array([7] * 50) for i in range(300)})
    core = UnaryInclusions.load({"t": table}, ValueLayout(structure=structure))
    assert int(core.held().sum()) == 300 * 299
    row = pa.table({f"c{i}": [8 if i == 150 else 7] for i in range(300)})
    turnover = core.apply({"t": RowChanges(added=row)})
    assert len(turnover.died) == 299 and {died.body.columns for died in turnover.died} == {("c150",)}  # type: ignore[union-attr]


def test_a_passed_deadline_leaves_columns_out() -> None:
    said: list[tuple[float, str]] = []
    table = pa.table({"a": [1], "b": [1]})
    core = UnaryInclusions.load({"t": table}, work=Work(time.monotonic() - 1, lambda *x: said.append(x)))
    assert not core.complete and core.rules() == ()
    assert said == [(0.5, "t.a"), (1.0, "t.b")]
    core.apply({"t": RowChanges(added=table)})
    restored = UnaryInclusions.restore(core.schemas, core.layout, Checked(core.snapshot()))
    assert not restored.complete and restored.rules() == ()


def test_changes_that_do_not_fit() -> None:
    core = UnaryInclusions.load({"t": pa.table({"a": [1, 1], "b": ["x", "y"]})})
    before = core.structure.shared().copy()
    with pytest.raises(ChangeError, match="no table 'u'"):
        core.apply({"u": RowChanges(added=pa.table({"a": [1]}))})
    with pytest.raises(ChangeError, match="no column 'b'"):
        core.apply({"t": RowChanges(added=pa.table({"a": [1]}))})
    with pytest.raises(ChangeError, match="is string, the table has int64"):
        core.apply({"t": RowChanges(added=pa.table({"a": ["1"], "b": ["x"]}))})
    with pytest.raises(ChangeError, match=r"t\.b"):
        core.apply({"t": RowChanges(removed=pa.table({"a": [1], "b": ["z"]}))})
    with pytest.raises(ChangeError, match=r"t\.a"):
        core.apply({"t": RowChanges(removed=pa.table({"a": [1, 1, 1], "b": ["x", "y", None]}))})
    assert np.array_equal(core.structure.shared(), before)


def test_what_goes_and_comes_back_the_same_changes_nothing() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    core = UnaryInclusions.load({"t": table})
    assert core.tally({"t": RowChanges(table, table)}).changes == 0


def test_shards_are_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        UnaryInclusions.load({"t": pa.table({"a": [1]})}, ValueLayout(shards=3))
