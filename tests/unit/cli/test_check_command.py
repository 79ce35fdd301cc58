"""`holdstrue check`: its forms, its options and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unit.cli.runs import PEOPLE, run, run_json, write


def test_json_is_the_contract(people: Path, rules: Path) -> None:
    answer = run_json("check", people, "--rules", rules, code=1)
    assert set(answer) == {"rules", "violations", "truncated"}
    zips = answer["rules"][0]
    assert zips == {
        "name": "zips", "kind": "fd", "text": "zip -> city", "severity": "error",
        "rows": 3, "pairs": 2, "groups": 1, "status": "violated", "key": ["id"],
    }  # fmt: skip
    assert {"rule": "zips", "t": 1, "s": 2} in answer["violations"]
    assert answer["truncated"] is False


def test_keys_are_scalars_lists_or_row_numbers(people: Path) -> None:
    one = run_json("check", people, "--rule", "not(t.rate < 3)", "--key", "id", code=1)
    assert one["violations"] == [{"rule": "not(t.rate < 3)", "t": 2}, {"rule": "not(t.rate < 3)", "t": 4}]
    two = run_json("check", people, "--rule", "zip -> city", "--key", "state,id", code=1)
    assert two["violations"][0] == {"rule": "zip -> city", "t": ["NY", 1], "s": ["NY", 2]}
    none = run_json("check", people, "--rule", "not(t.rate < 3)", code=1)
    assert [v["t"] for v in none["violations"]] == [1, 3]


def test_exit_code_follows_severity_and_tolerance(people: Path, tmp_path: Path) -> None:
    assert run("check", people, "--rule", "key(id)").exit_code == 0
    assert run("check", people, "--rule", "zip -> city").exit_code == 1
    warned = write(tmp_path / "w.yaml", "rules:\n  - {rule: 'zip -> city', severity: warn}\n")
    result = run("check", people, "--rules", warned)
    assert result.exit_code == 0
    assert "warning" in result.stdout
    tolerated = write(tmp_path / "t.yaml", "rules:\n  - {rule: 'zip -> city', tolerance: 3}\n")
    result = run("check", people, "--rules", tolerated)
    assert result.exit_code == 0
    assert "tolerated" in result.stdout


def test_limit_stops_lists_and_says_so(people: Path) -> None:
    answer = run_json("check", people, "--rule", "key(state)", "--limit", 1, code=1)
    assert len(answer["violations"]) == 1
    assert answer["truncated"] is True
    assert answer["rules"][0]["pairs"] == 3
    lines = run("check", people, "--rule", "key(state)", "--limit", 1, "--format", "jsonl")
    assert len(lines.stdout.splitlines()) == 1
    assert "… 2 more (--limit to see more)" in lines.stderr
    text = run("check", people, "--rule", "not(t.rate < 9)", "--limit", 1)
    assert "… 3 more (--limit to see more)" in text.stdout
    assert "--limit to see" not in run("check", people, "--rule", "not(t.rate < 9)", "--limit", 0).stdout


def test_default_limit_of_lists_is_1000(tmp_path: Path) -> None:
    many = write(tmp_path / "many.csv", "a\n" + "-1\n" * 1500)
    answer = run_json("check", many, "--rule", "not(t.a < 0)", code=1)
    assert (len(answer["violations"]), answer["truncated"]) == (1000, True)
    text = run("check", many, "--rule", "not(t.a < 0)").stdout
    assert "1,500 rows of data: 1 rule, 1 violated, 1,500 violations" in text
    assert "… 1,495 more (--limit to see more)" in text


def test_jsonl_and_csv_list_violations(people: Path) -> None:
    lines = run("check", people, "--rule", "zip -> city", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"rule": "zip -> city", "t": 0, "s": 1}, {"rule": "zip -> city", "t": 1, "s": 2},
    ]  # fmt: skip
    table = run("check", people, "--rule", "not(t.rate < 3)", "--key", "state,id", "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(table))) == [
        ["rule", "t", "s"], ["not(t.rate < 3)", '["NY", 2]', ""], ["not(t.rate < 3)", '["IL", 4]', ""],
    ]  # fmt: skip


def test_junit_is_xml_whatever_the_values(tmp_path: Path) -> None:
    table = pa.table({"id": ["a\x00b", "<&>", "é"], "v": ["\x1b[31m", "x", "y"], "k": [1, 1, 2]})
    odd = tmp_path / "odd.parquet"
    pq.write_table(table, odd)
    result = run("check", odd, "--rule", "k -> v", "--rule", "key(id)", "--key", "id", "-f", "junit")
    suite = ET.fromstring(result.stdout.encode()).find("testsuite")
    assert suite is not None
    assert suite.attrib["tests"] == "2"
    assert suite.attrib["failures"] == "1"
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.attrib["message"] == "1 violation in 2 rows"


def test_text_shows_rows_and_marks_differences(people: Path, rules: Path) -> None:
    text = run("check", people, "--rules", rules).stdout
    assert "4 rows of people: 3 rules, 2 violated, 3 violations" in text
    assert text.endswith(
        "        id   state   salary   rate\n"
        "    t   2    NY      6000     2\n"
        "    s   1    NY      5000     3\n"
        "                     ^^^^     ^\n"
    )
    assert "city NYC        2 rows: 1, 3" in text
    assert text.count("a denial constraint lists what must never hold together") == 1
    assert "\x1b" not in text


def test_output_is_written_whole_or_not_at_all(people: Path, tmp_path: Path) -> None:
    target = write(tmp_path / "out.json", "old")
    result = run("check", people, "--rule", "zip -> city", "-f", "json", "--output", target)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert json.loads(target.read_text())["rules"][0]["pairs"] == 2
    before = target.read_text()
    failed = run("check", people, "--rule", "nope -> city", "-f", "json", "--output", target)
    assert failed.exit_code == 2
    assert target.read_text() == before
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize("target", ["missing/out.json", "."])
def test_an_unwritable_output_is_bad_usage(people: Path, tmp_path: Path, target: str) -> None:
    result = run("check", people, "--rule", "zip -> city", "--output", tmp_path / target)
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


def test_several_files_and_patterns(tmp_path: Path) -> None:
    head, *lines = PEOPLE.splitlines(keepends=True)
    write(tmp_path / "a.csv", head + "".join(lines[:2]))
    write(tmp_path / "b.csv", head + "".join(lines[2:]))
    whole = run_json("check", tmp_path / "*.csv", "--rule", "zip -> city", code=1)
    both = run_json("check", tmp_path / "a.csv", tmp_path / "b.csv", "--rule", "zip -> city", code=1)
    assert whole == both
    assert whole["rules"][0]["pairs"] == 2


def test_reading_options(tmp_path: Path) -> None:
    odd = tmp_path / "odd.data"
    odd.write_bytes("id;town\n1;Köln\n1;NA\n".encode("latin-1"))
    common = ("--input-format", "csv", "--delimiter", ";", "--encoding", "latin-1")
    plain = run_json("check", odd, "--rule", "id -> town", *common, code=1)
    assert plain["rules"][0]["pairs"] == 1
    run_json("check", odd, "--rule", "id -> town", *common, "--null-value", "NA", code=0)
    tabs = write(tmp_path / "t.csv", "id\ttown\n1\ta\n")
    assert run("check", tabs, "--rule", "key(town)", "--delimiter", "tab").exit_code == 0


def test_further_tables(tmp_path: Path) -> None:
    orders = write(tmp_path / "orders.csv", "id,customer_id\n1,7\n2,8\n")
    customers = write(tmp_path / "customers.csv", "id\n7\n")
    rule = "orders.customer_id in customers.id"
    answer = run_json("check", orders, "--rule", rule, "--table", f"customers={customers}", "--key", "id", code=1)
    assert answer["violations"] == [{"rule": rule, "t": 2}]
    missing = run("check", orders, "--rule", rule)
    assert missing.exit_code == 2
    assert "--table customers=PATH" in missing.stderr
    twice = run("check", orders, "--rule", rule, "--table", f"customers={customers}", "--table", "orders")
    assert twice.exit_code == 2
    assert "NAME=VALUE" in twice.stderr


@pytest.mark.parametrize("index", ["blocks", "lt_tree", "chains"])
def test_every_index_gives_the_same_answer(people: Path, rules: Path, index: str) -> None:
    answer = run_json("check", people, "--rules", rules, "--index", index, code=1)
    counts = [(rule["name"], rule["rows"], rule["pairs"]) for rule in answer["rules"]]
    assert counts == [("zips", 3, 2), ("pay", 2, 1), ("ids", 0, 0)]
    assert run("check", people, "--rules", rules, "--index", index).exit_code == 1


def test_rules_of_a_file_and_of_texts_go_together(people: Path, rules: Path) -> None:
    answer = run_json("check", people, "--rules", rules, "--rule", "low := not(t.rate < 3)", code=1)
    assert [rule["name"] for rule in answer["rules"]] == ["zips", "pay", "ids", "low"]
    again = run("check", people, "--rules", rules, "--rule", "zips := not(t.rate < 3)")
    assert again.exit_code == 2


def test_weever_rules_take_their_columns_from_the_data(people: Path, tmp_path: Path) -> None:
    text = '{"keyColumns": [0], "constraints": [[{"colIdx1": 3, "colIdx2": 3, "op": "EQUAL"}]]}'
    weever = write(tmp_path / "weever.json", text)
    answer = run_json("check", people, "--rules", weever, code=1)
    assert answer["rules"][0]["text"] == "not(t.state = s.state)"


@pytest.mark.parametrize("delimiter", ["xx", "", "é"])
def test_a_delimiter_is_one_ascii_character(people: Path, delimiter: str) -> None:
    result = run("check", people, "--rule", "zip -> city", "--delimiter", delimiter)
    assert result.exit_code == 2
    assert "one ASCII character" in result.stderr


@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_table_no_rule_mentions_is_refused(people: Path, command: str) -> None:
    result = run(command, people, "--rule", "zip -> city", "--table", f"foo={people}")
    assert result.exit_code == 2
    assert "no rule speaks of table 'foo'" in result.stderr
    assert "hint: the rules speak of data" in result.stderr


def test_data_from_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    result = run("check", tmp_path / "pipe.csv", "--rule", "zip -> city")
    assert result.exit_code == 2
    assert "data cannot be read from" in result.stderr
    assert "write it to a file" in result.stderr


def test_a_format_that_the_name_does_not_tell(tmp_path: Path) -> None:
    result = run("check", write(tmp_path / "people.dat", PEOPLE), "--rule", "zip -> city")
    assert result.exit_code == 2
    assert "--input-format" in result.stderr


def test_an_unnamed_one_row_denial_is_explained(people: Path) -> None:
    result = run("check", people, "--rule", "not(t.rate < 3)")
    assert "(a denial constraint lists what must never hold together)" in result.stdout
