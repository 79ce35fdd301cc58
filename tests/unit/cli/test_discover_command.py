"""`holdstrue discover`: rules from tables, kept and followed."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from unit.cli.runs import run, run_json, write

CITIES = "id,zip,city\n1,10,Bonn\n2,10,Bonn\n3,11,Kiel\n4,11,Kiel\n5,12,Ulm\n"
ORDERS = "no,customer\n1,7\n2,7\n3,8\n4,8\n"
CUSTOMERS = "id,name\n7,Ann\n8,Bob\n9,Cid\n"


@pytest.fixture
def cities(tmp_path: Path) -> Path:
    return write(tmp_path / "cities.csv", CITIES)


def texts(answer: dict[str, list[dict[str, str]]]) -> set[str]:
    return {rule["text"] for rule in answer["rules"]}


def test_json_lists_rules_of_all_kinds_once(cities: Path) -> None:
    answer = run_json("discover", cities)
    assert answer["complete"] is True
    assert all({"kind", "text", "score"} <= set(rule) for rule in answer["rules"])
    assert {"key(id)", "zip -> city", "city -> zip"} <= texts(answer)
    # the key is not said again as a denial constraint
    assert not texts(answer) & {"not(t.id = s.id)", "not(t.zip = s.zip and t.city != s.city)"}
    assert "id -> zip" in {rule["text"] for rule in answer["rules"] if rule["implied"]}
    assert "id -> zip" not in run("discover", cities).stdout


def test_found_rules_hold(cities: Path, tmp_path: Path) -> None:
    result = run("discover", cities, "--format", "rules")
    rules = write(tmp_path / "found.yaml", result.stdout)
    answer = run_json("check", cities, "--rules", rules)
    assert {rule["status"] for rule in answer["rules"]} == {"ok"}
    assert len(answer["rules"]) == sum(not rule["implied"] for rule in run_json("discover", cities)["rules"])


def test_top_and_text(cities: Path) -> None:
    assert len(run_json("discover", cities, "--top", 1)["rules"]) == 1
    said = run("discover", cities, "--kind", "fd").stdout
    assert "rows with the same zip have the same city" in said


def test_a_state_is_followed(cities: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    run_json("discover", cities, "--kind", "fd,key", "--key", "id", "--state", state)
    change = write(tmp_path / "c.csv", "id,zip,city\n6,10,Köln\n")
    answer = run_json("discover", "--state", state, "--apply", change, "--batch-id", "a", code=1)
    assert [died["text"] for died in answer["died"]] == ["zip -> city"]
    assert set(answer["died"][0]["witness"]) <= {1, 2, 6}
    assert run_json("discover", "--state", state, "--apply", change, "--batch-id", "a")["duplicate"] is True
    back = write(tmp_path / "d.csv", "id,op\n6,delete\n")
    assert [born["text"] for born in run_json("discover", "--state", state, "--apply", back)["born"]] == ["zip -> city"]
    assert texts(run_json("discover", "--state", state)) == texts(run_json("discover", cities, "--kind", "fd,key"))


def test_rows_without_a_key_go_by_value(cities: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    run("discover", cities, "--kind", "key", "--state", state)
    change = write(tmp_path / "c.csv", "op,id,zip,city\ninsert,5,12,Ulm\n")
    answer = run_json("discover", "--state", state, "--apply", change, code=1)
    assert (answer["died"][0]["text"], answer["died"][0]["witness"]) == ("key(id)", [4, 5])
    back = write(tmp_path / "d.csv", "op,id,zip,city\ndelete,5,12,Ulm\n")
    assert [b["text"] for b in run_json("discover", "--state", state, "--apply", back)["born"]] == ["key(id)"]


def test_inclusions_between_tables(tmp_path: Path) -> None:
    orders, customers = write(tmp_path / "o.csv", ORDERS), write(tmp_path / "c.csv", CUSTOMERS)
    tables = (f"orders={orders}", f"customers={customers}")
    state = tmp_path / "state"
    answer = run_json("discover", "--kind", "ind", *tables, "--state", state)
    assert "orders.customer in customers.id" in texts(answer)
    assert {rule["kind"] for rule in answer["rules"]} == {"ind"}
    picture = ET.fromstring(run("discover", "--kind", "ind", *tables, "--format", "svg").stdout)
    assert picture.tag.endswith("svg")
    change = write(tmp_path / "n.csv", "no,customer\n5,77\n")
    died = run_json("discover", "--state", state, "--apply", f"orders={change}", code=1)["died"]
    assert "orders.customer in customers.id" in [rule["text"] for rule in died]
    assert "does not say which table" in run("discover", "--state", state, "--apply", change).stderr


def test_empty_one_row_constant_and_null_columns(tmp_path: Path) -> None:
    for body in ("", "1,x,\n", "1,x,\n2,x,\n"):
        table = write(tmp_path / "t.csv", "id,same,nothing\n" + body)
        answer = run_json("discover", table, "--kind", "dc,fd,key,cfd")
        assert answer["complete"] is True
        assert not any("nothing" in text for text in texts(answer))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--kind", "fdx"), "no kind of rule called 'fdx'"),
        (("--key", "nix"), "no key column 'nix'"),
        (("--columns", "nix"), "no column 'nix'"),
        (("--nulls", "maybe"), "nulls is 'maybe'"),
        (("--measure", "cats"), "measure is 'cats'"),
        (("--budget", "soon"), "--budget 'soon' is not a time"),
        (("--apply", "x.csv"), "--apply follows a discovery that is kept"),
        (("--master", "local[2]"), "--master is about Spark"),
        (("--batch-id", "monday"), "--batch-id is about changes"),
        (("--op-column", "what"), "--op-column is about changes"),
        (("--feed", "ops"), "--feed is about changes"),
        (("--on-conflict", "ignore"), "--on-conflict is about changes"),
        (("--arity", "2"), "--arity is about rules of kind ind"),
        (("--support", "5"), "--support is about rules of kind cfd"),
        (("--confidence", "0.9"), "--confidence is about rules of kind cfd"),
        (("--format", "svg"), "--format svg is about rules of kind ind"),
        (("--key", "city"), "row 2 of table 'data': city='Bonn', which exists already"),
    ],
)
def test_bad_arguments_are_named(cities: Path, args: tuple[str, ...], says: str) -> None:
    result = run("discover", cities, *args)
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr


def test_no_data() -> None:
    assert run("discover").exit_code == 2


@pytest.mark.parametrize("option", [("--kind", "dc"), ("--key", "zip"), ("--columns", "id"), ("--error", "0.1")])
def test_what_a_kept_discovery_was_started_with_is_not_asked_for_again(
    cities: Path, tmp_path: Path, option: tuple[str, str]
) -> None:
    state = tmp_path / "state"
    run_json("discover", cities, "--kind", "fd,key", "--key", "id", "--state", state)
    change = write(tmp_path / "c.csv", "id,zip,city\n6,13,Köln\n")
    for more in ((), ("--apply", change)):
        result = run("discover", "--state", state, *more, *option)
        assert (result.exit_code, f"leave out {option[0]}" in result.stderr) == (2, True), result.stderr
    assert run("discover", "--state", state, "--apply", change).exit_code in (0, 1)


def test_a_table_without_rules_gives_a_rule_file_that_says_so(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", "a,b\n")
    rules = write(tmp_path / "found.yaml", run("discover", table, "--format", "rules").stdout)
    result = run("check", table, "--rules", rules)
    assert (result.exit_code, "found.yaml: no rules" in result.stderr) == (2, True), result.stderr
