"""`init`, `apply`, `violations` and `status`: a state directory from the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdstrue.monitor.monitor import Monitor
from unit.cli.runs import PEOPLE, run, run_json, write

HEAD = "op,id,zip,city,state,salary,rate\n"


def changes(tmp_path: Path, *lines: str) -> Path:
    """A batch with an operation column."""
    return write(tmp_path / "changes.csv", HEAD + "".join(f"{line}\n" for line in lines))


def test_init_says_how_the_state_stands(tmp_path: Path, people: Path, rules: Path) -> None:
    answer = run_json("init", tmp_path / "s", "--rules", rules, "--data", people)
    assert answer["tables"] == {"people": {"rows": 4, "key": ["id"]}}
    assert {rule["name"]: rule["open"] for rule in answer["rules"]} == {"zips": 2, "pay": 1, "ids": 0}
    again = run("init", tmp_path / "s", "--rules", rules)
    assert again.exit_code == 2
    assert "not an empty directory" in again.stderr


def test_init_needs_a_key(tmp_path: Path) -> None:
    result = run("init", tmp_path / "s", "--rule", "zip -> city")
    assert result.exit_code == 2
    assert "--key" in result.stderr
    assert not (tmp_path / "s").exists()
    wrong = run("init", tmp_path / "s", "--rule", "zip -> city", "--key", "id,,x")
    assert wrong.exit_code == 2


def test_apply_json_is_the_contract(state: Path, tmp_path: Path) -> None:
    batch = changes(tmp_path, "delete,2,,,,,", "insert,5,60601,Chikago,IL,4500,2")
    answer = run_json("apply", state, batch, "--batch-id", "b1", code=1)
    assert answer["batch"] == "b1"
    assert answer["added"] == [{"rule": "zips", "t": 4, "s": 5}]
    assert {"rule": "zips", "t": 1, "s": 2} in answer["removed"]
    assert answer["counts"]["zips"] == {"added": 1, "removed": 2, "open": 1}
    again = run_json("apply", state, batch, "--batch-id", "b1", code=0)
    assert again["duplicate"] is True
    assert again["counts"]["zips"] == {"added": 0, "removed": 0, "open": 1}


def test_apply_exits_1_only_for_added_errors(state: Path, tmp_path: Path) -> None:
    assert run("apply", state, changes(tmp_path, "insert,9,99999,X,XX,1,1")).exit_code == 0
    # a warning only: more pay, less tax
    assert run("apply", state, changes(tmp_path, "insert,10,99999,X,XX,2,0")).exit_code == 0
    assert run("apply", state, changes(tmp_path, "insert,11,99999,Y,YY,2,0")).exit_code == 1


def test_apply_text_and_lines(state: Path, tmp_path: Path) -> None:
    batch = changes(tmp_path, "delete,2,,,,,", "insert,5,60601,Chikago,IL,4500,2")
    result = run("apply", state, batch, "--batch-id", 7)
    assert result.stdout.startswith("batch 7: +1 new, -3 resolved, 1 open\n")
    assert "+ zips: 1 new violation" in result.stdout
    assert "Chikago\n" in result.stdout
    assert "  ^^^^^^^\n" in result.stdout
    assert "- pay: 1 resolved violation" in result.stdout
    undo = changes(tmp_path, "insert,2,10001,New York,NY,6000,2", "delete,5,,,,,")
    lines = run("apply", state, undo, "--format", "jsonl").stdout.splitlines()
    assert {json.loads(line)["change"] for line in lines} == {"added", "removed"}
    batch = changes(tmp_path, "delete,2,,,,,", "insert,5,60601,Chikago,IL,4500,2")
    redo = run("apply", state, batch, "--format", "csv").stdout
    rows = list(csv.reader(io.StringIO(redo)))
    assert rows[0] == ["change", "rule", "t", "s"]
    assert ["added", "zips", "4", "5"] in rows
    assert "applied before, nothing was done; 1 open" in run("apply", state, batch, "--batch-id", 7).stdout


def test_apply_limit_stops_lists_not_counts(state: Path, tmp_path: Path) -> None:
    batch = changes(tmp_path, *(f"insert,{i},60601,City {i},IL,4000,2" for i in range(10, 30)))
    answer = run_json("apply", state, batch, "--limit", 3, code=1)
    assert (len(answer["added"]), answer["truncated"]) == (3, True)
    assert answer["counts"]["zips"]["added"] == 20 + 190


def test_a_batch_that_does_not_fit_changes_nothing(state: Path, tmp_path: Path) -> None:
    before = run_json("status", state)
    batch = changes(tmp_path, "insert,8,1,A,NY,1,1", "insert,1,1,A,NY,1,1")
    result = run("apply", state, batch)
    assert result.exit_code == 2
    assert "row 2 of" in result.stderr
    assert "--on-conflict" in result.stderr
    assert run_json("status", state) == before
    assert run("apply", state, batch, "--on-conflict", "ignore").exit_code in (0, 1)
    assert run_json("status", state)["tables"]["people"]["rows"] == 5


def test_apply_what_differs_from_an_older_file(state: Path, people: Path, tmp_path: Path) -> None:
    new = write(tmp_path / "new.csv", PEOPLE.replace("New York", "NYC"))
    answer = run_json("apply", state, new, "--against", people)
    assert answer["counts"]["zips"] == {"added": 0, "removed": 2, "open": 0}
    wrong = run("apply", state, new, "--against", people, "--feed", "ops")
    assert wrong.exit_code == 2


@pytest.mark.parametrize("feed", ["ops", "auto"])
def test_feeds(state: Path, tmp_path: Path, feed: str) -> None:
    batch = write(tmp_path / "b.jsonl", '{"what": "delete", "id": 2}\n')
    answer = run_json("apply", state, batch, "--feed", feed, "--op-column", "what")
    assert answer["counts"]["zips"]["removed"] == 2


def test_several_tables(tmp_path: Path) -> None:
    orders = write(tmp_path / "orders.csv", "id,customer_id\n1,7\n2,8\n")
    customers = write(tmp_path / "customers.csv", "id,name\n7,A\n")
    rule = "orders.customer_id in customers.id"
    made = run_json(
        "init", tmp_path / "s", "--rule", rule, "--key", "id", "--data", orders, "--table", f"customers={customers}",
        "--table-key", "customers=id")  # fmt: skip
    assert {name: table["rows"] for name, table in made["tables"].items()} == {"orders": 2, "customers": 1}
    more = write(tmp_path / "more.csv", "id,name\n8,B\n")
    answer = run_json("apply", tmp_path / "s", "--table", f"customers={more}")
    assert answer["removed"] == [{"rule": rule, "t": 2}]
    assert run("apply", tmp_path / "s").exit_code == 2
    assert run("apply", tmp_path / "s", more, "--table", f"orders={more}").exit_code == 2
    unknown = run("init", tmp_path / "u", "--rule", rule, "--key", "id", "--table", f"clients={customers}")
    assert unknown.exit_code == 2
    assert "no rule speaks of table 'clients'" in unknown.stderr


def test_init_tells_of_tables_without_rows(tmp_path: Path) -> None:
    orders = write(tmp_path / "orders.csv", "id,customer\n1,7\n")
    options = ("--rule", "orders.customer in customers.id", "--key", "id")
    some = run_json("init", tmp_path / "some", *options, "--data", orders)
    assert some["notes"] == ["table 'customers' starts without rows: give some with --table customers=PATH"]
    assert "notes" not in run_json("init", tmp_path / "none", *options)


def test_violations(state: Path) -> None:
    answer = run_json("violations", state)
    assert answer["open"] == {"zips": 2, "pay": 1, "ids": 0}
    assert len(answer["violations"]) == 3
    assert answer["truncated"] is False
    one = run_json("violations", state, "--rule", "zips", "--limit", 1)
    assert one == {"violations": [{"rule": "zips", "t": 1, "s": 2}], "truncated": True, "open": {"zips": 2}}
    text = run("violations", state, "--rule", "zips").stdout
    assert "zip 10001: 3 rows, 2 different" in text
    assert "pay" not in text
    lines = run("violations", state, "--limit", 1, "--format", "csv")
    assert lines.stdout == "rule,t,s\nzips,1,2\n"
    assert "… 2 more" in lines.stderr
    unknown = run("violations", state, "--rule", "zip")
    assert unknown.exit_code == 2
    assert "zips, pay, ids" in unknown.stderr


def test_groups_and_worst_rows(state: Path) -> None:
    answer = run_json("violations", state, "--groups")
    assert answer["groups"] == [
        {
            "rule": "zips", "values": {"zip": 10001}, "rows": 3,
            "sides": [
                {"values": {"city": "NYC"}, "rows": 2, "keys": [1, 3]},
                {"values": {"city": "New York"}, "rows": 1, "keys": [2]},
            ],
        }
    ]  # fmt: skip
    assert run("violations", state, "--groups", "--format", "csv").stdout.startswith("rule,values,rows,sides\nzips,")
    assert "city New York" in run("violations", state, "--groups").stdout
    worst = run_json("violations", state, "--worst", 1)
    assert worst["worst"] == [{"key": 2, "total": 3, "by_rule": {"zips": 2, "pay": 1}}]
    assert "zips 2, pay 1" in run("violations", state, "--worst", 1).stdout
    assert run("violations", state, "--worst", 1, "--groups").exit_code == 2


def test_a_state_without_data(tmp_path: Path, rules: Path, people: Path) -> None:
    assert run("init", tmp_path / "s", "--rules", rules).exit_code == 0
    assert "no data yet" in run("violations", tmp_path / "s").stdout
    assert run_json("violations", tmp_path / "s")["open"] == {"zips": 0, "pay": 0, "ids": 0}
    assert run_json("violations", tmp_path / "s", "--groups")["groups"] == []
    assert run("violations", tmp_path / "s", "--worst", 3).stdout == "no row is in a violation\n"
    assert run_json("apply", tmp_path / "s", people, code=1)["counts"]["zips"]["added"] == 2


def test_status_and_history(state: Path, tmp_path: Path) -> None:
    run("apply", state, changes(tmp_path, "delete,2,,,,,"), "--batch-id", "fix")
    answer = run_json("status", state, "--history")
    assert answer["last_batch"] == "fix"
    assert answer["rules"][0]["status"] == "ok"
    last = [line for line in answer["history"] if line["batch"] == "fix" and line["rule"] == "zips"]
    assert [(line["added"], line["removed"], line["open"]) for line in last] == [(0, 2, 0)]
    assert "history" not in run_json("status", state)
    assert "the last is fix" in run("status", state).stdout
    assert "-2" in run("status", state, "--history").stdout
    table = list(csv.DictReader(io.StringIO(run("status", state, "--format", "csv").stdout)))
    assert [row["name"] for row in table] == ["zips", "pay", "ids"]
    assert len(run("status", state, "--history", "-f", "jsonl").stdout.splitlines()) == len(answer["history"])


def test_a_second_writer_is_refused(state: Path, people: Path) -> None:
    with Monitor.open(state):
        result = run("apply", state, people)
        assert result.exit_code == 2
        assert "another process" in result.stderr
        assert run("violations", state).exit_code == 0


@pytest.mark.parametrize("kind", ["arrays", "values", "log"])
def test_a_damaged_state_is_named(state: Path, kind: str) -> None:
    file = next(iter((*state.glob(f"runs/{kind}-*"), *state.glob(f"{kind}/*"))))
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 0xFF
    file.write_bytes(body)
    result = run("violations", state)
    assert result.exit_code == 2
    assert file.name in result.stderr
    assert result.stdout == ""
    file.unlink()
    assert run("violations", state).exit_code == 2


def test_init_hints_at_its_own_options(tmp_path: Path, people: Path) -> None:
    twice = run("init", tmp_path / "s", "--rule", "zip -> city", "--key", "zip", "--data", people)
    assert twice.exit_code == 2
    assert "the key must be unique in the data" in twice.stderr
    assert "conflict" not in twice.stderr
    text = "table: people\nkey: id\nrules:\n  - zip -> city\n  - {rule: 'a -> b', table: orders}\n"
    two = run("init", tmp_path / "s", "--rules", write(tmp_path / "two.yaml", text))
    assert two.exit_code == 2
    assert "--table-key orders=COLS" in two.stderr


def test_a_second_writer_is_told_to_wait(state: Path, tmp_path: Path) -> None:
    with Monitor.open(state):
        result = run("apply", state, changes(tmp_path, "delete,2,,,,,"))
    assert result.exit_code == 2
    assert "wait for that to finish, or close the monitor" in result.stderr


def test_apply_refuses_what_names_nothing(state: Path, tmp_path: Path, people: Path) -> None:
    batch = changes(tmp_path, "delete,2,,,,,")
    nameless = run("apply", state, batch, "--batch-id", "")
    assert nameless.exit_code == 2
    assert "--batch-id is empty" in nameless.stderr
    unknown = run("apply", state, "--table", f"foo={batch}")
    assert unknown.exit_code == 2
    assert "no rule speaks of table 'foo'" in unknown.stderr
    plain = run("apply", state, people, "--feed", "debezium")
    assert plain.exit_code == 2
    assert "not a feed of Debezium" in plain.stderr


def test_resolved_single_rows_stand_under_their_key(tmp_path: Path, people: Path) -> None:
    state = tmp_path / "s"
    for key, head in (("id", "    id\n    2\n"), ("id,zip", "    (id, zip)\n    (2, 10001)\n")):
        state = tmp_path / key
        assert run("init", state, "--rule", "not(t.rate < 3)", "--key", key, "--data", people).exit_code == 0
        result = run("apply", state, changes(tmp_path, "delete,2,10001,,,,"))
        assert head in result.stdout


def test_units_of_times_in_debezium_events(tmp_path: Path) -> None:
    state, path = str(tmp_path / "state"), tmp_path / "events.jsonl"
    pq.write_table(pa.table({"id": [1], "at": pa.array([0], pa.timestamp("us"))}), tmp_path / "t.parquet")
    rule = "not(t.id < s.id and t.at > s.at)"
    assert run("init", state, "--rule", rule, "--key", "id", "--data", str(tmp_path / "t.parquet")).exit_code == 0
    path.write_text('{"op": "c", "before": null, "after": {"id": 2, "at": -1}}\n')
    refused = run("apply", state, str(path))
    assert refused.exit_code == 2
    assert f"line 1 of {path}: column 'at' holds -1: milliseconds, microseconds or nanoseconds?" in refused.stderr
    assert "--unit at=us" in refused.stderr
    for unit, said in (("at", "--unit 'at' names no column and unit"), ("at=h", "unknown unit 'h' of column 'at'")):
        wrong = run("apply", state, str(path), "--unit", unit)
        assert wrong.exit_code == 2
        assert said in wrong.stderr
    applied = run("apply", state, str(path), "--unit", "at=us")
    assert applied.exit_code == 1
    assert "+1 new" in applied.stdout


def test_every_rule_shows_as_many_as_are_asked_for(tmp_path: Path) -> None:
    rules = ("--rule", "a := key(x)", "--rule", "b := key(y)", "--rule", "c := not(t.x > 0)")
    run("init", tmp_path / "s", *rules, "--key", "id")
    (tmp_path / "c.csv").write_text("id,x,y\n" + "".join(f"{n},1,1\n" for n in range(30)))
    said = run("apply", tmp_path / "s", tmp_path / "c.csv", "--limit", 2).stdout
    assert said.count("… 433 more") == 2 and said.count("… 28 more") == 1, said


def test_every_rule_shows_examples_however_many_an_earlier_one_has(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,zip,city,pay\n0,1,A,10\n")
    broken = "".join(f"{i},1,C{i},{i}\n" for i in range(1, 80))
    (tmp_path / "b.csv").write_text(f"id,zip,city,pay\n{broken}100,2,X,-5\n")
    state = str(tmp_path / "state")
    rules = ("--rule", "zip -> city", "--rule", "pay >= 0")
    run("init", state, "--data", str(tmp_path / "a.csv"), "--key", "id", *rules)
    said = run("apply", state, tmp_path / "b.csv").stdout
    first, second = said.split("+ pay >= 0: 1 new violation")
    assert "more (--limit to see more)" in first and "100   -5" in second
