"""Keys and FDs of known tables, of every type, of no rows, of too many columns."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import holdstrue
import lookalikes
import oracle_covers
from holdstrue.discovery.dependencies.dependency_core import DependencyCore
from holdstrue.discovery.dependencies.ranking import columns_of
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.errors import ChangeError, DataError, HoldstrueError
from holdstrue.rules.model import DC, FD, Key
from holdstrue.rules.text import text_of
from oracle_dependencies import Dependency, breaking_pairs, minimal_dependencies

NONE = np.empty(0, dtype=np.int64)


def texts(core: DependencyCore) -> set[str]:
    return {text_of(body) for body in core.bodies()}


def test_a_small_table() -> None:
    table = pa.table({"id": [1, 2, 3, 4], "zip": ["x", "x", "y", "z"], "city": ["A", "A", "B", "B"], "land": ["U"] * 4})
    core = DependencyCore.load(table)
    assert texts(core) == {
        "key(id)", "not(t.land != s.land)", "zip -> city", "id -> zip", "id -> city",
    }  # fmt: skip
    assert core.complete
    assert core.searched == 4


def test_nulls_are_unknown_or_values() -> None:
    table = pa.table({"a": [1, 1, None, None], "b": [1, None, 2, 3]})
    assert texts(DependencyCore.load(table)) == {"key(b)", "a -> b", "not(t.a != s.a)"}
    assert texts(DependencyCore.load(table, DiscoveryOptions(nulls="equal"))) == {"key(b)", "b -> a"}


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True],
        [1.5, float("nan"), 1.5],
        [0.0, 1.0, -0.0],
        [Decimal("1.10"), Decimal("2.00"), Decimal("1.10")],
        pa.array([Decimal(10**30), Decimal(1), Decimal(10**30)], type=pa.decimal256(60, 2)),
        [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 1)],
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 1)],
        [b"x", b"", b"x"],
        ["ä", "", "ä"],
        pa.array(["x", "y", "x"]).dictionary_encode(),
    ],
)
def test_every_type_of_value(values: object) -> None:
    table = pa.table({"v": values, "w": [1, 2, 1], "n": pa.nulls(3)})
    core = DependencyCore.load(table)
    assert {"v -> w", "w -> v", "not(t.n != s.n)"} <= texts(core)
    core.apply(NONE, table.slice(1, 1))
    assert {"v -> w", "w -> v"} <= texts(core)


def test_columns_that_do_not_compare_are_left_out() -> None:
    core = DependencyCore.load(pa.table({"a": [[1], [2]], "b": [1, 2]}))
    assert core.codes.skipped == ("a",)
    assert texts(core) == {"key(b)"}


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows(rows: int) -> None:
    table = pa.table({"a": pa.array([1] * rows, type=pa.int64()), "b": pa.array(["x"] * rows, type=pa.string())})
    core = DependencyCore.load(table)
    assert core.complete
    assert all(isinstance(body, DC) for body in core.bodies())
    grown = pa.table({"a": [1, 2], "b": ["x", "x"]})
    turnover = core.apply(NONE, grown)
    assert "not(t.b != s.b)" in texts(core)
    assert core.complete
    assert (Key(("a",)) in turnover.born) == (rows == 0)


def test_a_table_without_columns() -> None:
    core = DependencyCore.load(pa.table({}))
    assert core.bodies() == ()
    assert core.apply(NONE, pa.table({})).died == ()


def test_duplicate_rows_have_no_key() -> None:
    core = DependencyCore.load(pa.table({"a": [1, 1], "b": [2, 2]}), DiscoveryOptions(kinds=("key",)))
    assert core.bodies() == ()
    assert core.apply(np.array([1]), pa.table({"a": [1], "b": [3]})).born == (Key(("b",)),)


def wide() -> pa.Table:
    """Many columns of which no few determine another, but for a copy and an id."""
    rng = np.random.default_rng(1)
    columns = {f"c{i}": rng.integers(0, 3, 100) for i in range(100)}
    return pa.table({**columns, "copy": columns["c7"], "id": np.arange(100)})


def test_wide_tables_end_without_room_with_the_short_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdstrue.discovery.dependencies.search.MOST_WORDS", 5_000)
    table = wide()
    core = DependencyCore.load(table)
    assert not core.complete
    assert 1 <= core.searched <= 3
    ids = {FD(("id",), (name,)) for name in table.column_names[:-1]}
    assert {body for body in core.bodies() if not isinstance(body, FD) or len(body.lhs) == 1} == {
        Key(("id",)), FD(("c7",), ("copy",)), FD(("copy",), ("c7",)), *ids,
    }  # fmt: skip
    searched = core.searched
    turnover = core.apply(np.array([0]), table.slice(0, 1))
    assert (core.complete, core.searched) == (False, searched)
    assert {Key(("id",)), *ids} <= set(core.bodies())
    assert (turnover.died, turnover.born) == ((), ())
    broken = core.apply(NONE, table.slice(5, 1).set_column(100, "copy", [[9]]))
    assert {Key(("id",)), FD(("c7",), ("copy",))} <= {died.body for died in broken.died if died.rows}
    assert not any(died.rows for died in core.apply(np.array([101]), table.slice(0, 0)).died)
    assert {Key(("id",)), FD(("c7",), ("copy",)), *ids} <= set(core.bodies())


def test_a_deadline_in_the_past_ends_at_once() -> None:
    core = DependencyCore.load(wide(), work=Work.lasting(-1))
    assert not core.complete
    # columns that are keys by themselves take no search
    assert core.bodies() == (Key(("id",)),)
    table = pa.table({"a": [1, 2, 2], "b": [1, 1, 1]})
    core = DependencyCore.load(table, work=Work.lasting(-1))
    core.apply(np.array([2]), table.slice(0, 0))
    assert core.complete
    assert texts(core) == {"key(a)", "not(t.b != s.b)"}


def test_rules_found_by_many_threads_are_the_same() -> None:
    rng = np.random.default_rng(2)
    table = pa.table({f"c{i}": rng.integers(0, 2 + 3 * i, 3000) for i in range(9)})
    one = DependencyCore.load(table, DiscoveryOptions(threads=1))
    assert set(one.bodies()) == set(DependencyCore.load(table, DiscoveryOptions(threads=3)).bodies())
    assert len(one.bodies()) > 10


def test_places_of_removed_rows_are_given_up() -> None:
    rng = np.random.default_rng(3)
    table = pa.table({f"c{i}": rng.integers(0, 40, 3000) for i in range(4)})
    core = DependencyCore.load(table)
    core.apply(np.arange(100, 2800), table.slice(0, 10))
    assert core.codes.used == 310
    core.apply(np.array([2999, 3000]), table.slice(10, 1))
    kept = [*range(100), *range(2800, 2999), *range(1, 10), 10]
    assert set(core.bodies()) == set(DependencyCore.load(table.take(kept)).bodies())


def test_mistakes_are_named() -> None:
    core = DependencyCore.load(pa.table({"a": [1, 2]}))
    with pytest.raises(ChangeError, match="row 7"):
        core.apply(np.array([7]), pa.table({"a": [1]}))
    with pytest.raises(ChangeError, match="no column 'a'"):
        core.apply(np.array([0]), pa.table({"b": [1]}))
    with pytest.raises(ChangeError, match="string values"):
        core.apply(np.array([0]), pa.table({"a": ["x"]}))
    with pytest.raises(ChangeError, match="twice"):
        core.apply(np.array([0, 0]), pa.table({"a": [1]}))
    # nothing of a refused batch was applied
    assert texts(core) == {"key(a)"}
    assert core.codes.members().tolist() == [0, 1]
    assert core.searched == 1
    with pytest.raises(HoldstrueError, match="max_predicates"):
        DependencyCore.load(pa.table({"a": [1]}), DiscoveryOptions(max_predicates=0))
    with pytest.raises(DataError, match="several columns"):
        DependencyCore.load(pa.table([[1], [2]], names=["a", "a"]))


def dependencies(table: pa.Table, options: DiscoveryOptions) -> set[Dependency]:
    """What is found, as the oracles write it."""
    number = {name: place for place, name in enumerate([*table.column_names, None])}
    found = map(columns_of, DependencyCore.load(table, options).bodies())
    return {(frozenset(number[name] for name in left), number[right]) for left, right in found}


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_fifteen_columns_as_the_oracle_says() -> None:
    adult = lookalikes.adult()
    found = dependencies(adult, DiscoveryOptions(nulls="equal"))
    assert found == oracle_covers.dependencies(tuples(adult), 15)
    # school and years at school; two rows are equal, so there is no key
    assert {(frozenset({3}), 4), (frozenset({4}), 3)} < found
    assert 15 not in {target for _, target in found}
    assert len(found) > 50


def test_both_oracles_say_the_same() -> None:
    adult = lookalikes.adult().select([1, 3, 4, 5, 10]).slice(0, 60)
    assert oracle_covers.dependencies(tuples(adult), 5) == minimal_dependencies(tuples(adult), 5, equal=True)


def test_short_rules_of_spoiled_text_as_the_oracle_says() -> None:
    table = lookalikes.hospital().dirty
    some = table.slice(0, 60)
    options = DiscoveryOptions(max_predicates=2)
    right = minimal_dependencies(tuples(some), 19, equal=False, longest=2)
    assert dependencies(some, options) == right
    assert len(right) > 20
    for one in sorted(dependencies(table, options), key=str)[::7]:
        assert not breaking_pairs(tuples(table), one, equal=False)


def test_known_numbers_of_rules(whole_data: Path) -> None:
    adult = pa.csv.read_csv(whole_data / "adult" / "adult.csv")
    core = DependencyCore.load(adult, DiscoveryOptions(nulls="equal"))
    # 78 FDs as HyFD finds them; two rows are equal, so there is no key
    assert len(core.bodies()) == 78
    assert all(isinstance(body, FD) for body in core.bodies())


def test_what_is_found_holds(whole_data: Path) -> None:
    hospital = pa.csv.read_csv(whole_data / "hospital" / "hospital.csv")
    core = DependencyCore.load(hospital, DiscoveryOptions(max_predicates=2))
    bodies = sorted(map(text_of, core.bodies()))[::7]
    report = holdstrue.check(hospital, bodies)
    assert len(bodies) > 20
    assert report.ok


def test_a_column_that_is_a_key_takes_no_search() -> None:
    import time

    table = pa.table({"id": range(50)} | {f"c{i}": [(row * (i + 3)) % 7 for row in range(50)] for i in range(20)})
    core = DependencyCore.load(table, DiscoveryOptions(), Work(deadline=time.monotonic() - 1))
    assert not core.complete and core.length == 0
    assert Key(("id",)) in core.bodies()
    assert not any(isinstance(body, Key) and body.columns != ("id",) for body in core.bodies())
