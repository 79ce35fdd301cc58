"""Plans: when fragments need not agree, where filters are answered, and what declarations are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdstrue import load_rules
from holdstrue.errors import HoldstrueError
from holdstrue.fragments import Relation, Site, integer_plan, planning
from holdstrue.fragments.exact_search import exact_plan
from holdstrue.fragments.fragment_layout import layout_of
from holdstrue.fragments.hev_plan import PlanningProblem
from holdstrue.fragments.normal_cfds import contradicts, normal_cfds, participants
from holdstrue.fragments.opt_ver import chain_plan, opt_ver
from holdstrue.fragments.planning import PlanOptions, plan_of
from holdstrue.fragments.shipping_plan import ShippingPlan

COLUMNS = ("a", "b", "c", "g")


def taking(rule: str, *filters: str, where: str | None = None) -> tuple[int, ...]:
    layout = layout_of([Site(f"s{i}", COLUMNS, where=text) for i, text in enumerate(filters)], ["id"])
    rules = load_rules([{"rule": rule, "name": "r"} | ({} if where is None else {"where": where})])
    [cfd] = normal_cfds(rules, layout)
    return participants(cfd, layout.fragments)


@pytest.mark.parametrize(
    ("rule", "filters", "found"),
    [
        ("a -> b", ["g = 1", "g = 2"], (0, 1)),
        # the filter reads the left side only: rows that agree there are in one fragment
        ("a, g -> b", ["g = 1", "g = 2"], ()),
        ("a, g -> b", ["g = 1 and c = 1", "g = 1 and c != 1 or g != 1"], (0, 1)),
        # the filter contradicts the pattern
        ("[a, c=1] -> [b]", ["c = 1", "c = 2", "c > 2"], ()),
        ("[a, c=1] -> [b]", ["c < 2 and g = 1", "c = 1 and g = 2", "c > 1"], (0, 1)),
        ("[a, c=1] -> [b]", ["not (c = 1 or g = 1)", "c = 1", "c != 1 and g = 1"], ()),
        ("[a, c=1] -> [b]", ["c is null", "c = 1 and g = 1", "c = 1 and g = 2", "c != 1"], (1, 2)),
        # constant CFDs are about single rows
        ("[a=1] -> [b=2]", ["g = 1", "g = 2"], ()),
    ],
)
def test_fragments_that_must_agree(rule: str, filters: list[str], found: tuple[int, ...]) -> None:
    assert taking(rule, *filters) == found


def test_the_rules_own_filter_contradicts_too() -> None:
    assert taking("a -> b", "g = 1", "g = 2", "g = 3", where="g < 3") == (0, 1)


def test_too_many_cases_are_not_proved() -> None:
    layout = layout_of([Site("s", COLUMNS)], ["id"])
    many = " and ".join(f"(a = {i} or b = {i})" for i in range(12))
    [cfd] = normal_cfds(load_rules([{"rule": "[a=1] -> [b]", "name": "r"}]), layout)
    where = Site("x", COLUMNS, where=many).condition
    assert where is not None and not contradicts(where, cfd)


def plan(sites: dict[str, str], *rules: str, where: str | None = None, how: Any = "auto") -> ShippingPlan:
    layout = layout_of([Site(name, tuple(columns)) for name, columns in sites.items()], ["id"])
    texts = [
        {"rule": rule, "name": f"r{i}"} | ({} if where is None else {"where": where}) for i, rule in enumerate(rules)
    ]
    read = load_rules(texts)
    return plan_of(layout, read, normal_cfds(read, layout), PlanOptions(how))


def test_a_cfd_of_one_site_ships_nothing() -> None:
    found = plan({"s1": "ab", "s2": "cg"}, "a -> b", "c -> g", "[c=1] -> [g=2]")
    assert found.ids == 0 and not found.fragments[0].shipments


def test_a_filter_is_answered_where_its_columns_are() -> None:
    [part] = plan({"s1": "a", "s2": "b", "s3": "cg"}, "a -> b", where="c > g").fragments
    assert part.ids == 1 and part.bits and not any("?c > g" in shipment.attrs for shipment in part.shipments)
    [early, ids] = sorted(part.shipments, key=lambda shipment: shipment.level)
    # the bits go where rows would be shipped in vain, before these are
    assert (early.source, early.attrs, early.target) == ("s3", (), ids.source) and ids.level == 1
    [part] = plan({"s1": "a", "s2": "b", "s3": "cg"}, "a -> b", where="c > g", how="optVer").fragments
    assert part.ids == 2 and any("?c > g" in shipment.attrs for shipment in part.shipments)
    assert all(shipment.source == "s3" for shipment in part.shipments if "?c > g" in shipment.own)


def test_rules_that_differ_in_their_pattern_share_shipments() -> None:
    rules = ("[a=1, b] -> [c]", "[a=2, b] -> [c]", "a, b -> c")
    found = plan({"s1": "a", "s2": "bc"}, *rules, how="optVer")
    assert found.ids == 1 and found.fragments[0].shipments[0].cfds == (0, 1, 2)
    # constants are no part of ids: what is asked of a goes as bits beside the id that the last rule needs
    [part] = plan({"s1": "a", "s2": "bc"}, *rules).fragments
    assert [(s.attrs, s.cfds) for s in part.shipments] == [(("a",), (2,)), ((), (0, 1))] and part.bits == 2


def test_constant_cfds_start_at_the_right_side() -> None:
    found = plan({"s1": "a", "s2": "b", "s3": "c"}, "[a=1, b=2] -> [c=3]")
    hops = [(s.source, s.target, s.level, s.attrs) for s in found.fragments[0].shipments]
    assert hops == [("s3", "s1", 0, ()), ("s1", "s2", 1, ())] and found.fragments[0].homes[0].site == "s2"


def test_plans_are_data() -> None:
    found = plan({"s1": "a", "s2": "bc", "s3": "g"}, "a, b -> g", "[a=1] -> [g=2]")
    [part] = found.to_dict()["fragments"]
    assert part["indexes"][0] == {"cfd": "r0: [a, b] -> [g]", "site": "s1", "agrees_with": []}
    assert {(s["source"], s["target"], *s["attributes"]) for s in part["shipments"]} >= {("s3", "s1", "g")}
    assert "s3 -> s1: id of (g)" in str(found)


def test_exact_is_never_worse() -> None:
    problem = PlanningProblem.of({"1": "ab", "2": "bc", "3": "cd", "4": "e"}, [("ac", "e"), ("bd", "e"), ("acd", "b")])
    best = exact_plan(problem, chain_plan(problem))
    assert best is not None and best.cost <= opt_ver(problem).cost <= chain_plan(problem).cost


def test_exact_gives_up_on_many_rules() -> None:
    rules = [f"{x} -> {y}" for x in "abcg" for y in "abcg" if x != y]
    with pytest.raises(HoldstrueError, match="too many for the exact search"):
        plan({"s1": "a", "s2": "b", "s3": "c", "s4": "g"}, *rules, how="exact")


def test_without_a_solver_the_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (planning, integer_plan):
        monkeypatch.setattr(module, "available", lambda: False)
    [part] = plan({"s1": "a", "s2": "bc"}, "[a=1, b] -> [c]", "a, b -> c").fragments
    assert part.ids == 1 and part.bound is None and "pip install 'holdstrue[sites]'" in part.judged
    with pytest.raises(HoldstrueError, match="needs scipy"):
        plan({"s1": "a", "s2": "bc"}, "a, b -> c", how="integer")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"shares": {"z": 0.5}}, "column 'z'"), ({"shares": {"a": 0}}, "share of column 'a'"), ({"seconds": 0}, "0 sec")],
)
def test_refused_plan_options(options: Any, said: str) -> None:
    with pytest.raises(HoldstrueError, match=said):
        Relation([Site("s", source=table(id=[1], a=[1], b=[1]))], ["a -> b"], key="id", **options)


def test_shares_decide_what_is_shipped() -> None:
    """Where few rows match, their ids are cheaper than another column of all rows."""
    sites = {"s1": "a", "s2": "bc", "s3": "g"}
    layout = layout_of([Site(name, tuple(columns)) for name, columns in sites.items()], ["id"])
    rules = load_rules(["[a=1, b] -> [g]"])
    costs = [
        plan_of(layout, rules, normal_cfds(rules, layout), PlanOptions(shares={"a": share})).fragments[0].cost
        for share in (0.01, 0.5, 1.0)
    ]
    assert costs == sorted(costs) and costs[0] < 1 and costs[2] > 16


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize(
    ("sites", "said"),
    [
        ([], "no sites"),
        ([Site("s", source=table(a=[1], b=[1]))], "no column 'id'"),
        ([Site("s", ("a",))], "types of the columns"),
        (
            [Site("s", source=table(id=[1], a=[1])), Site("t", where="a = 2", source=table(id=[1], a=[2]))],
            "holds all rows",
        ),
        (
            [
                Site("s", where="a = 1", source=table(id=[1], a=[1])),
                Site("t", where="a = 2", source=table(id=[2], b=[1])),
            ],
            "no site of the fragment",
        ),
        ([Site("s", source=table(id=[1], a=[1])), Site("t", source=table(id=[1], b=[["x"]]))], "do not compare"),
    ],
)
def test_refused_declarations(sites: list[Site], said: str) -> None:
    with pytest.raises(HoldstrueError, match=said):
        Relation(sites, ["a -> b"], key="id")


@pytest.mark.parametrize(
    ("sites", "said"),
    [
        ([Site("s", source=table(id=[1, 1], a=[1, 2])), Site("t", source=table(id=[1, 1], b=[1, 2]))], "two rows with"),
        ([Site("s", source=table(id=[1, 2], a=[1, 2])), Site("t", source=table(id=[1, 3], b=[1, 2]))], "the same rows"),
        ([Site("s", source=table(id=[1, None], a=[1, 2])), Site("t", source=table(id=[1, 2], b=[1, 2]))], "without"),
        ([Site("s", where="a = 1", source=table(id=[1], a=[2], b=[1])),
          Site("t", where="a = 2", source=table(id=[2], a=[2], b=[1]))], "not in its fragment"),
    ],
)  # fmt: skip
def test_refused_sources(sites: list[Site], said: str) -> None:
    with pytest.raises(HoldstrueError, match=said):
        Relation(sites, ["a -> b"], key="id").load()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (table(op=["i"], id=[1], a=[1], b=[1]), "row 1 of the table: insert of id=1, which exists already"),
        (table(op=["u"], id=[9], a=[1], b=[1]), "update of id=9, which does not exist"),
        (table(op=["d", "d"], id=[1, 1]), "row 2 of the table: delete of id=1, which does not exist"),
        (table(op=["i"], id=[9], a=[1]), "no column 'b'"),
        (table(op=["i"], id=[9], a=[7], b=[1]), "belongs to no fragment"),
    ],
)
def test_refused_changes(changes: pa.Table, said: str) -> None:
    sites = [Site(f"s{n}", where=f"a = {n}", source=table(id=[n], a=[n], b=[1])) for n in (1, 2)]
    relation = Relation(sites, ["b -> a"], key="id")
    relation.load()
    with pytest.raises(HoldstrueError, match=said):
        relation.apply(changes)
    assert relation.counts() == {"b -> a": 2}


def test_a_row_that_moves_between_fragments_is_neither_new_nor_gone() -> None:
    sites = [Site(f"s{n}", where=f"g = {n}", source=table(id=[n], a=[1], b=[n], g=[n])) for n in (1, 2)]
    relation = Relation(sites, ["a -> b"], key="id")
    relation.load()
    delta = relation.apply(table(op=["u"], id=[1], a=[1], b=[1], g=[2]))
    assert not delta.added and not delta.removed and relation.counts() == {"a -> b": 2}
    assert relation.sizes()["s1"]["rows"] == 0 and relation.share("s2")
    with pytest.raises(HoldstrueError, match="no site is called 's9'"):
        relation.share("s9")


def test_rules_and_filters_must_fit_the_types() -> None:
    rows = table(id=[1], a=[1], b=["x"])
    with pytest.raises(HoldstrueError, match="do not compare with 'x'"):
        Relation([Site("s", source=rows)], ["[a='x'] -> [b]"], key="id")
    with pytest.raises(HoldstrueError, match="cannot be compared"):
        Relation(
            [Site("s", where="a = 'x'", source=rows), Site("t", where="a != 'x'", source=rows)], ["a -> b"], key="id"
        )


def test_sites_may_hold_a_column_in_different_types() -> None:
    narrow = pa.table({"id": pa.array([1], pa.int32()), "a": pa.array([5], pa.int8()), "b": pa.array(["x"])})
    wide = pa.table(
        {"id": pa.array([2], pa.int64()), "a": pa.array([5], pa.int64()), "b": pa.array(["y"], pa.large_string())}
    )
    relation = Relation(
        [Site("n", where="id = 1 or id > 9", source=narrow), Site("w", where="id > 1 and id < 10", source=wide)],
        ["a -> b"],
        key="id",
    )
    assert relation.load().added_keys("a -> b") == {1, 2}
    delta = relation.apply(table(op=["i"], id=[2**40], a=[2**40], b=["z"]))
    assert not delta.added and relation.apply(table(op=["d"], id=[2])).removed_keys("a -> b") == {1, 2}
