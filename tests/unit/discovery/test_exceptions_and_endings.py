"""Answers that discovery owes in full: rules with exceptions, how rules end, measures after changes, conditions."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Discovery, HoldstrueError, discover
from holdstrue.discovery.denials import way_choice
from unit.cli.runs import run, run_json, write

BITS = list(product((0, 1), repeat=4))
CODES = [0] * 11 + list(range(1, 90))
"""Of 100 rows 10 must go for the code to be unique; 110 of 9,900 ordered pairs break it."""


def texts(found: Discovery) -> set[str]:
    return {rule.text for rule in found}


# --- rules with exceptions ------------------------------------------------------------------------


def test_a_key_of_four_columns_is_found_with_an_error() -> None:
    wide = pa.table({name: [row[i] for row in BITS] for i, name in enumerate("abcd")})
    found = discover(wide, kinds="key", error=0.01, measure="rows")
    assert texts(found) == {"key(a, b, c, d)"}
    assert found.complete


def test_an_fd_of_five_columns_is_found_with_an_error() -> None:
    rows = list(product((0, 1), repeat=5))
    columns = {name: [row[i] for row in rows] for i, name in enumerate("abcde")}
    table = pa.table(columns | {"sum": [sum(row) % 2 for row in rows]})
    assert "a, b, c, d, e -> sum" in texts(discover(table, kinds="fd", error=0.01))


def test_what_time_did_not_allow_is_said_to_be_missing() -> None:
    rows = list(product((0, 1), repeat=9))
    table = pa.table({f"c{i}": [row[i] for row in rows] for i in range(9)} | {"odd": [sum(row) % 2 for row in rows]})
    found = discover(table, kinds=("fd", "key"), error=0.0001, budget=1e-9)
    assert not found.complete
    assert not found.to_dict()["complete"]


@pytest.mark.parametrize("error", [0.29, "0.29", Decimal("0.29"), Fraction(29, 100)])
@pytest.mark.parametrize("kind", ["key", "fd", "ind", "dc"])
def test_the_error_is_the_decimal_as_written(kind: str, error: Any) -> None:
    """29 of 100 rows, values or pairs are exceptions; as a float 0.29 * 100 is 28.999999999999996."""
    code = [0] * 30 + list(range(1, 71))
    table = pa.table({"code": code, "one": [1] * 30 + [0] * 70, "two": [1] + [0] * 99})
    match kind:
        case "key":
            found, wanted = discover(table, kinds="key", error=error, measure="rows"), "key(code)"
        case "fd":
            odd = pa.table({"a": [0] * 100, "b": [1] * 29 + [0] * 71})
            found, wanted = discover(odd, kinds="fd", error=error, measure="rows"), "a -> b"
            wanted = "not(t.b != s.b)"
        case "ind":
            sides = {"r": pa.table({"a": list(range(100))}), "q": pa.table({"b": list(range(29, 129))})}
            found, wanted = discover(sides, kinds="ind", error=error), "r.a in q.b"
        case _:
            # 25 rows have 600 ordered pairs: 174 of them are 29 in 100
            spread = pa.table({"a": [0] * 3 + [1] * 22})
            found, wanted = discover(spread, kinds="dc", error=Fraction(132, 600)), "not(t.a != s.a)"
    assert wanted in texts(found)


def test_rows_measure_inclusions_by_rows() -> None:
    """One value of five is missing, in one row of a hundred."""
    sides = {"r": pa.table({"a": [9, *(i % 4 for i in range(99))]}), "q": pa.table({"b": [0, 1, 2, 3]})}
    assert "r.a in q.b" in texts(discover(sides, kinds="ind", error="0.01", measure="rows"))
    assert "r.a in q.b" not in texts(discover(sides, kinds="ind", error="0.01"))


def test_one_exception_more_is_too_many() -> None:
    code = [0] * 31 + list(range(1, 70))
    assert texts(discover(pa.table({"code": code}), kinds="key", error=0.29, measure="rows")) == set()


def test_the_confidence_is_the_decimal_as_written() -> None:
    """93 of 100 rows with a = 'x' have b = 1; (1 - 0.93) * 100 is 6.999999999999995 as a float."""
    b = [1] * 93 + [0] * 7 + [i % 10 for i in range(400)]
    table = pa.table({"a": ["x"] * 100 + ["y"] * 400, "b": b})
    assert "[a='x'] -> [b=1]" in texts(discover(table, kinds="cfd", confidence=0.93))
    assert "[a='x'] -> [b=1]" not in texts(discover(table, kinds="cfd", confidence="0.9300000000001"))


def test_the_error_survives_a_state(tmp_path: Path) -> None:
    code = [0] * 30 + list(range(1, 71))
    table = pa.table({"id": range(100), "code": code})
    kept = discover(table, kinds="key", key="id", error=0.29, measure="rows", state=tmp_path / "s")
    assert "key(code)" in texts(kept)
    kept.close()
    with Discovery.open(tmp_path / "s") as again:
        assert again.options == kept.options
        again.apply(pa.table({"id": [100], "code": [100]}))
        assert "key(code)" in texts(again)


@pytest.mark.parametrize("error", ["a lot", "nan", "1e999999999", "1", "-0.1", float("inf"), None])
def test_an_error_that_is_no_share_is_refused(error: Any) -> None:
    with pytest.raises(HoldstrueError, match="error is"):
        discover(pa.table({"a": [1, 2]}), kinds="key", error=error)


def test_the_command_takes_the_decimal_as_written(tmp_path: Path) -> None:
    code = [0] * 30 + list(range(1, 71))
    data = write(tmp_path / "t.csv", "code\n" + "\n".join(map(str, code)) + "\n")
    answer = run_json("discover", data, "--kind", "key", "--error", "0.29", "--measure", "rows")
    assert [rule["text"] for rule in answer["rules"]] == ["key(code)"]
    assert answer["rules"][0]["error"] == 0.29
    result = run("discover", data, "--kind", "key", "--error", "1.5")
    assert (result.exit_code, "error is '1.5'" in result.stderr) == (2, True), result.stderr


# --- measures of denial constraints ---------------------------------------------------------------


def test_rows_do_not_measure_denial_constraints() -> None:
    table = pa.table({"code": CODES})
    assert texts(discover(table, kinds="key", error=0.01, measure="rows")) == set()
    assert "not(t.code = s.code)" not in texts(discover(table, kinds=("key", "fd"), error=0.01, measure="rows"))
    with pytest.raises(HoldstrueError, match="rows"):
        discover(table, kinds=("dc", "key"), error=0.01, measure="rows")
    assert "not(t.code = s.code)" in texts(discover(table, kinds="dc", error=0.02, measure="pairs"))


def test_the_command_refuses_it_too(tmp_path: Path) -> None:
    data = write(tmp_path / "t.csv", "code\n" + "\n".join(map(str, CODES)) + "\n")
    result = run("discover", data, "--error", "0.01", "--measure", "rows")
    assert (result.exit_code, "--measure pairs" in result.stderr) == (2, True), result.stderr


# --- how inclusions end ---------------------------------------------------------------------------

ORDERS = pa.table({"no": [1, 2, 3], "customer": [7, 7, 8]})
CUSTOMERS = pa.table({"id": [7, 8, 9], "name": ["Ann", "Bob", "Cid"]})


def followed() -> Discovery:
    return discover({"orders": ORDERS, "customers": CUSTOMERS}, kinds="ind", key={"orders": "no", "customers": "id"})


def test_an_inclusion_dies_of_a_value_that_comes() -> None:
    [ended] = followed().apply({"orders": pa.table({"no": [4], "customer": [77]})}).died
    assert (ended.text, ended.values, ended.rows) == ("orders.customer in customers.id", (77,), (4,))


def test_an_inclusion_dies_of_a_value_that_goes() -> None:
    gone = pa.table(
        {"id": [8], "name": [None], "op": ["delete"]},
        schema=pa.schema({"id": pa.int64(), "name": pa.string(), "op": pa.string()}),
    )
    [ended] = followed().apply({"customers": gone}, feed="ops", op_column="op").died
    assert (ended.text, ended.values, ended.rows) == ("orders.customer in customers.id", (8,), (3,))


def test_an_inclusion_of_two_columns_names_both_values() -> None:
    tables = {"r": pa.table({"k": [1, 2], "a": [1, 2], "b": [1, 2]}), "q": pa.table({"c": [1, 2], "d": [1, 2]})}
    found = discover(tables, kinds="ind", arity=2, key={"r": "k"})
    died = {ended.text: ended for ended in found.apply({"r": pa.table({"k": [3], "a": [1], "b": [2]})}).died}
    assert died["r.(a, b) in q.(c, d)"].values == ((1, 2),)


def test_an_inclusion_without_values_is_not_called_broken() -> None:
    empty = pa.table({"no": [1, 2, 3], "customer": pa.array([None] * 3, pa.int64()), "op": ["update"] * 3})
    [ended] = followed().apply({"orders": empty}, feed="ops", op_column="op").died
    assert (ended.values, ended.rows) == ((), ())
    assert "no value" in ended.why


def test_the_command_names_the_value(tmp_path: Path) -> None:
    orders = write(tmp_path / "o.csv", "no,customer\n1,7\n2,7\n3,8\n")
    customers = write(tmp_path / "c.csv", "id,name\n7,Ann\n8,Bob\n9,Cid\n")
    tables, state = (f"orders={orders}", f"customers={customers}"), tmp_path / "state"
    run("discover", "--kind", "ind", *tables, "--state", state)
    change = write(tmp_path / "n.csv", "no,customer\n5,77\n")
    said = run("discover", "--state", state, "--apply", f"orders={change}").stdout
    assert "broken by value 77" in said and "smaller rule" not in said


def test_an_fd_that_a_smaller_one_replaces_says_so() -> None:
    table = pa.table({"id": [1, 2, 3], "a": [1, 1, 2], "b": [1, 2, 2], "c": [1, 2, 1]})
    found = discover(table, kinds="fd", key="id", columns=("a", "b", "c"))
    what = found.apply(pa.table({"id": [3], "op": ["delete"]}), feed="ops", op_column="op")
    assert all(not ended.rows and ended.why == "a smaller rule holds" for ended in what.died)
    assert what.died


# --- measures after changes -----------------------------------------------------------------------


def test_measures_after_a_batch_are_those_from_scratch() -> None:
    table = pa.table({"id": range(100), "zip": [i % 10 for i in range(100)], "city": [i % 5 for i in range(100)]})
    found = discover(table, kinds="fd", key="id")
    more = pa.table({"id": [100, 101], "zip": [3, 11], "city": [3, 4]})
    gone = pa.table({"id": [5, 15, 25], "zip": [None] * 3, "city": [None] * 3}, schema=more.schema)
    ops = pa.concat_tables([more, gone]).append_column("op", pa.array(["insert"] * 2 + ["delete"] * 3))
    found.apply(ops, feed="ops", op_column="op")
    keep = [i not in (5, 15, 25) for i in range(100)]
    anew = discover(pa.concat_tables([table.filter(pa.array(keep)), more]), kinds="fd", key="id")
    assert [rule.to_dict() for rule in found] == [rule.to_dict() for rule in anew]


# --- conditional FDs ------------------------------------------------------------------------------


def conditions(order: tuple[str, ...]) -> Discovery:
    """a = 'a' exactly where b = 'b'; elsewhere neither says anything of the other."""
    rows = 40
    columns = {
        "a": ["a"] * rows + [f"a{i % 5}" for i in range(rows)],
        "b": ["b"] * rows + [f"b{i // 5 % 4}" for i in range(rows)],
        "c": [f"c{i % 3}" for i in range(2 * rows)],
    }
    return discover(pa.table({name: columns[name] for name in order}), kinds="cfd")


def test_conditions_on_the_same_rows_are_both_found() -> None:
    for order in permutations(("a", "b", "c")):
        found = conditions(order)
        assert {"[a='a'] -> [b='b']", "[b='b'] -> [a='a']"} <= texts(found), order
        assert found.complete
    assert len({frozenset((rule.text, rule.implied) for rule in conditions(o)) for o in permutations("abc")}) == 1


# --- near misses ----------------------------------------------------------------------------------


def test_near_misses_of_inclusions_keep_to_the_number() -> None:
    customers = pa.table({"id": list(range(1000, 1200)), "name": [f"n{i}" for i in range(200)]})
    orders = pa.table({"customer_id": [*range(1000, 1190), 1, 2, 3, 4]})
    found = discover({"orders": orders, "customers": customers}, kinds="ind")
    [miss] = [one for one in found.near_misses(4) if one.text == "orders.customer_id in customers.id"]
    assert (miss.violations, set(miss.values)) == (4, {1, 2, 3, 4})
    assert [one.text for one in found.near_misses(3) if "orders.customer_id in" in one.text] == []


def test_near_misses_that_were_not_looked_for_are_said() -> None:
    table = pa.table({"a": list(range(60)), "b": [i % 7 for i in range(60)], "c": [i % 5 for i in range(60)]})
    looked = discover(table, kinds="dc").near_misses()
    assert looked.unlooked == ()
    sampled = discover(table, kinds="dc", sample=10).near_misses()
    assert {one.text: one.rows for one in sampled} == {one.text: one.rows for one in looked} and not sampled.unlooked
    hurried = discover(table, kinds="dc", sample=10, budget=1e-9).near_misses()
    assert list(hurried) == [] and "all of up to 0 predicates" in hurried.unlooked[0]


def test_the_command_says_that_it_did_not_look(tmp_path: Path) -> None:
    data = write(tmp_path / "t.csv", "a,b\n" + "\n".join(f"{i},{i % 3}" for i in range(30)) + "\n")
    assert "not looked for" in run("discover", data, "--kind", "cfd").stdout
    assert run_json("discover", data, "--kind", "cfd")["near_misses_not_looked_for"]
    assert run_json("discover", data, "--kind", "dc")["near_misses_not_looked_for"] == []


def test_values_that_were_forgotten_are_not_called_complete() -> None:
    few = pa.table({"id": range(100), "a": [i % 4 for i in range(100)], "b": [i % 3 for i in range(100)]})
    many = pa.table({"id": range(100, 4300), "a": range(100, 4300), "b": [0] * 4200})
    found = discover(few, kinds="cfd", key="id")
    assert found.complete
    found.apply(many)
    found.apply(many.append_column("op", pa.array(["delete"] * 4200)), feed="ops", op_column="op")
    assert not found.complete


def test_the_support_of_a_key_counts_the_rows_that_know_all_of_it() -> None:
    table = pa.table({"a": [1, 1, 2, 2, None, None], "b": [None, None, 1, 2, 1, 2]})
    [found] = discover(table, ["key"])
    assert (found.text, found.measures["support"]) == ("key(a, b)", 2)


def test_exceptions_where_pairs_are_too_many_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"a": [i % 7 for i in range(300)], "b": [i % 5 for i in range(300)]})
    monkeypatch.setattr(way_choice, "SMALL", 10)
    assert texts(discover(rows, kinds="dc", error=0.2, measure="pairs"))
    counted = discover(rows, kinds="dc", error=0.2, measure="pairs")
    monkeypatch.setattr(way_choice, "COUNTED_PAIRS", 1000)
    monkeypatch.setattr(way_choice, "COUNTING_SECONDS", 0.0)
    swept = discover(rows, kinds="dc", error=0.2, measure="pairs")
    assert "44850 pairs would take" in str(swept.explain()) and swept.complete
    assert {one.text: one.measures["error"] for one in swept} == {one.text: one.measures["error"] for one in counted}
