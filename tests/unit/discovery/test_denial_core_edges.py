"""Spaces, awkward tables, limits and messages of denial constraint discovery."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.discovery.denials.batch_costs import BatchCosts
from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.cover import Cover, CoverSearch
from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.discovery.options import DiscoveryOptions, Method
from holdstrue.discovery.work import Work
from holdstrue.errors import ChangeError, DataError, HoldstrueError
from holdstrue.index.checked import Checked
from holdstrue.rules.model import Rule
from holdstrue.rules.parser import parse_rule
from holdstrue.rules.text import text_of
from oracle_denial import breaking

ONE = Work(threads=1)
NONE = np.zeros(0, dtype=np.int64)
METHODS: tuple[Method, ...] = ("evidence", "index")


def texts(core: DenialCore) -> set[str]:
    return {text_of(rule.body) for rule in core.rules()}


def pairs_of(table: pa.Table, options: DiscoveryOptions | None = None, **choices: Any) -> list[str]:
    space = choose_space(table, options or DiscoveryOptions(), **choices)
    names = space.columns
    return [f"{names[c.left]} {names[c.right]} {'order' if c.ordered else 'equal'}" for c in space.comparisons]


TYPES = pa.table(
    {
        "i": pa.array([1, 2, 3], pa.int32()),
        "f": [1.0, 2.0, 3.0],
        "s": ["a", "b", "c"],
        "z": ["a", "b", "d"],
        "y": [True, False, True],
        "d": [dt.date(2020, 1, i) for i in (1, 2, 3)],
        "m": [Decimal("1.5"), Decimal("2.5"), Decimal("3.5")],
        "l": [[1], [2], [3]],
        "n": pa.nulls(3),
        "e": pa.array([None, None, None], pa.int64()),
    }
)


def test_the_space_follows_types_and_shared_values() -> None:
    own = ["i i order", "f f order", "s s equal", "z z equal", "y y equal", "d d order", "m m order"]
    assert pairs_of(TYPES) == [*own, "s z equal"]
    assert pairs_of(TYPES, DiscoveryOptions(shared=0.6)) == own
    assert pairs_of(TYPES, DiscoveryOptions(cross=False), order_text=True)[2] == "s s order"
    assert pairs_of(TYPES, columns=("z", "s"), both_ways=True) == ["z z equal", "s s equal", "z s equal", "s z equal"]


def test_messages_name_the_column() -> None:
    with pytest.raises(DataError, match="no column 'zz'"):
        choose_space(TYPES, DiscoveryOptions(), columns=("zz",))
    with pytest.raises(DataError, match="'l' holds list"):
        choose_space(TYPES, DiscoveryOptions(), columns=("l",))
    with pytest.raises(DataError, match="no column holds plain values"):
        choose_space(TYPES.select(["l", "n"]), DiscoveryOptions())
    with pytest.raises(DataError, match="several columns called 'a'"):
        choose_space(pa.table([[1], [2]], names=["a", "a"]), DiscoveryOptions())
    with pytest.raises(HoldstrueError, match="error is 2"):
        DiscoveryOptions(error=2)
    with pytest.raises(DataError, match="need the counts of all pairs"):
        DenialCore.load(TYPES, DiscoveryOptions(error=0.1, sample=10))


def test_rules_read_back_as_they_are() -> None:
    core = DenialCore.load(TYPES, work=ONE, space=choose_space(TYPES, DiscoveryOptions(shared=0.0), both_ways=True))
    assert core.rules()
    for rule in core.rules():
        assert rule.body.normal() == rule.body
        assert parse_rule(Rule(rule.body, "r").text).body == rule.body


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_give_no_rules_until_there_are_pairs(rows: int) -> None:
    table = pa.table({"a": pa.array([1] * rows, pa.int64()), "b": pa.array(["x"] * rows, pa.string())})
    for method in METHODS:
        core = DenialCore.load(table, work=ONE, method=method)
        assert core.rules() == () and core.complete
        turnover = core.apply(NONE, pa.table({"a": [1, 2], "b": ["x", "y"]}))
        assert {text_of(body) for body in turnover.born} == texts(core) != set()
        core.apply(np.arange(rows, rows + 2), table.slice(0, 0))
        assert core.rules() == ()


def test_constants_say_that_they_are() -> None:
    table = pa.table({"a": [7] * 5, "b": [1, 2, 3, 4, 5], "c": ["x"] * 5})
    assert texts(DenialCore.load(table, work=ONE)) == {"not(t.a != s.a)", "not(t.c != s.c)", "not(t.b = s.b)"}


def test_three_hundred_columns_end_in_time() -> None:
    chance = np.random.default_rng(0)
    table = pa.table({f"c{i}": chance.integers(0, 5, 200) for i in range(300)})
    options = DiscoveryOptions(cross=False)
    core = DenialCore.load(table, options, Work(deadline=time.monotonic() + 3))
    assert not core.complete
    few = DenialCore.load(table, options, ONE, most_rules=5)
    assert not few.complete and 0 < len(few.rules()) <= 5
    rows = table.to_pylist()
    for rule in few.rules():
        assert not breaking(frozenset((p.left.name, str(p.op), p.left.name) for p in rule.body.predicates), rows)


def test_a_passed_deadline_says_so() -> None:
    table = pa.table({"a": list(range(50)), "b": [i % 7 for i in range(50)]})
    core = DenialCore.load(table, work=Work(deadline=time.monotonic() - 1))
    assert not core.complete
    core.apply(NONE, table.slice(0, 1))
    assert core.complete and texts(core) == texts(
        DenialCore.load(pa.concat_tables([table, table.slice(0, 1)]), work=ONE)
    )


def test_progress_is_told() -> None:
    told: list[tuple[float, str]] = []
    table = pa.table({"a": list(range(200)), "b": [i % 7 for i in range(200)]})
    DenialCore.load(table, work=Work(progress=lambda share, what: told.append((share, what))))
    assert told and all(0 <= share <= 1 for share, _ in told)


def test_rows_that_are_not_there() -> None:
    core = DenialCore.load(pa.table({"a": [1, 2, 3]}), work=ONE)
    core.apply(np.array([1]), pa.table({"a": pa.array([], pa.int64())}))
    for slots in ([1], [9], [-1]):
        with pytest.raises(ChangeError, match="no row in slot"):
            core.apply(np.array(slots), pa.table({"a": pa.array([], pa.int64())}))
    with pytest.raises(DataError, match="no column 'a'"):
        core.apply(NONE, pa.table({"b": [1]}))
    assert texts(core) == {"not(t.a = s.a)"}


def test_text_by_order_under_changes_and_restored() -> None:
    table = pa.table({"a": ["b", "d", "f"], "n": [1, 2, 3]})
    options = DiscoveryOptions()
    core = DenialCore.load(table, options, ONE, space=choose_space(table, options, order_text=True))
    assert texts(core) == {"not(t.a = s.a)", "not(t.n = s.n)", "not(t.n <= s.n and t.a >= s.a)"}
    core = DenialCore.restore(table.schema, options, Checked(core.snapshot()))
    more = pa.table({"a": [f"c{i:03}" for i in range(80)], "n": [2] * 80})
    core.apply(np.array([1]), more)
    whole = pa.concat_tables([table.take([0, 2]), more])
    assert texts(core) == texts(DenialCore.load(whole, options, ONE, space=core.space))


def test_the_way_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdstrue.discovery.denials import batch_costs, denial_core

    table = pa.table({"a": list(range(60)), "b": [i // 2 for i in range(60)]})
    core = DenialCore.load(table, work=ONE)
    assert str(core.method) == "evidence" and "60" not in core.explain()[0]
    monkeypatch.setattr(denial_core, "NEW_PAIRS", 10)
    monkeypatch.setattr(batch_costs, "SWEEP_SECONDS", 1e-12)
    turnover = core.apply(NONE, pa.table({"a": [60, 5], "b": [30, 31]}))
    assert str(core.method) == "index"
    assert any("verifying rules" in line for line in core.explain())
    whole = pa.concat_tables([table, pa.table({"a": [60, 5], "b": [30, 31]})])
    assert texts(core) == texts(DenialCore.load(whole, work=ONE))
    assert turnover.died and all(len(died.rows) == 2 for died in turnover.died)
    core.apply(np.array([61, 3]), table.slice(0, 0))
    rest = pa.concat_tables([table.slice(0, 3), table.slice(4), pa.table({"a": [60], "b": [30]})])
    assert texts(core) == texts(DenialCore.load(rest, work=ONE))
    counted = DenialCore.load(rest, work=ONE, method="evidence")
    assert [one.text for one in core.near_misses(10, ONE)[0]] == [one.text for one in counted.near_misses(10, ONE)[0]]


@pytest.mark.parametrize("method", METHODS)
def test_a_search_cut_short_is_complete_up_to_a_length(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    table = taxes(400, wrong=5)
    space = choose_space(table, DiscoveryOptions())
    whole = DenialCore.load(table, space=space, method="evidence")
    assert whole.length is None

    def cut_short(self: CoverSearch, evidences: Any, work: Work, **inside: Any) -> Cover:
        cover = search(self, evidences, work, **inside)
        return cover if self.most <= 2 else replace(cover, complete=False, sets=cover.sets[:1])

    search = CoverSearch.search
    monkeypatch.setattr(CoverSearch, "search", cut_short)
    core = DenialCore.load(table, DiscoveryOptions(), Work.lasting(100), space=space, method=method)
    assert core.length == 2 and not core.complete
    short = {rule.body for rule in whole.rules() if len(rule.body.predicates) <= 2}
    assert short <= {rule.body for rule in core.rules()} <= {rule.body for rule in whole.rules()}
    core = DenialCore.restore(table.schema, core.options, Checked(core.snapshot()))
    core.apply(np.arange(0, 400, 7), taxes(450, wrong=9).slice(400))
    monkeypatch.undo()
    now = pa.concat_tables([table.take(np.setdiff1d(np.arange(400), np.arange(0, 400, 7))), taxes(450, 9).slice(400)])
    anew = {rule.body for rule in DenialCore.load(now, space=space).rules()}
    assert core.length == 2
    assert {body for body in anew if len(body.predicates) <= 2} <= set(core.bodies()) <= anew


def test_keys_on_measures_rank_below_real_ones() -> None:
    chance = np.random.default_rng(1)
    table = pa.table({"id": np.arange(300), "weight": chance.normal(size=300), "kind": chance.integers(0, 3, 300)})
    rules = {text_of(rule.body): rule for rule in DenialCore.load(table, work=ONE).rules()}
    assert rules["not(t.id = s.id)"].score > 0.5 > rules["not(t.weight = s.weight)"].score == 0


def taxes(rows: int, wrong: int) -> pa.Table:
    """Zip codes lie in cities, these in states, the rate follows the salary; some rows have an error in one column."""
    chance = np.random.default_rng(7)
    zips, salary = chance.integers(0, 600, rows), chance.integers(1, 100, rows) * 1000
    columns = {"zip": zips, "city": zips // 3, "state": zips // 15, "salary": salary, "rate": salary // 10_000}
    for row in chance.choice(rows, wrong, replace=False):
        name = chance.choice(["city", "state", "rate"])
        columns[name][row] = chance.choice(columns[name])
    names = {name: [f"{name} {value}" for value in columns[name]] for name in ("zip", "city", "state")}
    return pa.table(columns | names)


def test_what_a_sample_gives_is_verified_on_all_rows() -> None:
    table = taxes(3000, wrong=20)
    space = choose_space(table, DiscoveryOptions(), columns=tuple(table.column_names))
    counted = DenialCore.load(table, space=space, method="evidence")
    sampled = DenialCore.load(table, DiscoveryOptions(sample=100), space=space)
    assert texts(counted) == texts(sampled)


@pytest.mark.parametrize("missing", [False, True])
def test_batches_of_tables_that_have_classes(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # rows enough for classes, and for every way to settle rules; compared with counts of all pairs
    monkeypatch.setattr(BatchCosts, "cheapest", "verifying")
    rows, chance = 5500, np.random.default_rng(3)
    data = taxes(rows, wrong=30).drop_columns("city")
    state = np.array([int(name.split()[1]) for name in data["state"].to_pylist()])
    single = np.where(chance.random(rows) < 0.5, state % 7, 0)
    gone = chance.random(rows) < 0.03 if missing else np.zeros(rows, dtype=np.bool_)
    data = data.append_column("single", pa.array(single, mask=gone)).append_column("child", pa.array(state % 5))
    space = choose_space(data, DiscoveryOptions())
    core = DenialCore.load(data.slice(0, 4500), space=space, method="index")
    everything = [data.slice(0, 4500)]
    swapped = data.slice(0, 300).set_column(
        data.column_names.index("salary"), "salary", pa.array(chance.permutation(data["salary"].to_numpy()[:300]))
    )
    for removed, added in (
        (NONE, data.slice(4500, 500)),
        (np.sort(chance.choice(5000, 400, replace=False)), data.slice(0, 0)),
        (None, pa.concat_tables([swapped, data.slice(5000, 40)])),
    ):
        slots = core.living()[::9] if removed is None else removed
        core.apply(slots, added)
        everything.append(added)
        now = pa.concat_tables(everything).take(core.living())
        counted = DenialCore.load(now, space=space, method="evidence")
        assert set(core.bodies()) == set(counted.bodies())
        assert core.complete and counted.complete
