"""`holdstrue fragments plan|init|apply|check`: answers, exit codes, and what is said of bad files."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from unit.cli.runs import run, run_json, write

SITES = {
    "s1": "id,grade\n1,A\n2,A\n3,B\n4,B\n5,C\n",
    "s2": "id,street,city,zip\n1,Mayfield,NYC,E1\n2,Preston,EDI,E2\n3,Mayfield,EDI,E1\n4,Mayfield,EDI,E1\n"
    "5,Crichton,EDI,E1\n",
    "s3": "id,CC,AC\n5,44,131\n4,44,131\n3,44,131\n2,44,131\n1,44,131\n",
}
DECLARED = """key: id
state: state
rules:
  - {name: phi1, rule: "[CC=44, zip] -> [street]"}
  - {name: phi2, rule: "[CC=44, AC=131] -> [city='EDI']"}
sites:
  - {name: S1, source: s1.csv}
  - {name: S2, source: s2.csv}
  - {name: S3, source: s3.csv}
"""


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    for name, text in SITES.items():
        write(tmp_path / f"{name}.csv", text)
    return write(tmp_path / "employees.yaml", DECLARED)


def test_plan(declared: Path) -> None:
    result = run("fragments", "plan", declared)
    assert result.exit_code == 0
    assert "at S2: index of phi1" in result.output and "S3 -> S2: bits of rows" in result.output
    data = json.loads(run("fragments", "plan", declared, "--format", "json").output)
    [part] = data["fragments"]
    assert (part["ids"], part["bits"], part["bytes"], part["at_least"]) == (0, 1, 0.125, 0.125)
    write(declared, declared.read_text() + "plan: optVer\n")
    data = json.loads(run("fragments", "plan", declared, "--format", "json").output)
    assert data["ids"] == 1 and data["fragments"][0]["shipments"][0]["attributes"] == ["CC"]
    assert not (declared.parent / "state").exists()


def test_plan_as_a_drawing(declared: Path) -> None:
    out = declared.parent / "plan.svg"
    assert run("fragments", "plan", declared, "--format", "svg", "--output", out).exit_code == 0
    texts = [node.text for node in ET.parse(out).iter("{http://www.w3.org/2000/svg}title")]
    assert {"S1", "S2", "S3", "rows (round 1)", "phi1: [CC=44, zip] -> [street]"} <= set(texts)


def test_init_and_apply(declared: Path) -> None:
    first = run("fragments", "init", declared)
    assert first.exit_code == 1 and "phi1: +4 -0, 4 rows violate it now\n  + 1, 3, 4, 5\n" in first.output
    changes = write(declared.parent / "new.csv", "op,id,street,city,zip,CC,AC,grade\ni,6,Mayfield,EDI,E1,44,131,C\n")
    result = run("fragments", "apply", declared, changes, "--batch-id", "b1", "--format", "json")
    data = json.loads(result.output)
    assert result.exit_code == 1 and data["added"] == {"phi1": [6]} and data["removed"] == {}
    assert data["shipments"] == [{"source": "S3", "target": "S2", "messages": 1, "ids": 1, "bytes": 59}]
    assert data["violations"] == {"phi1": 5, "phi2": 1}
    again = run("fragments", "apply", declared, changes, "--batch-id", "b1")
    assert again.exit_code == 0 and "was applied before" in again.output
    gone = write(declared.parent / "gone.csv", "op,id\nd,4\n")
    result = run("fragments", "apply", declared, gone)
    assert result.exit_code == 0 and "phi1: +0 -1" in result.output and "S3" in result.output
    checked = run("fragments", "check", declared, "--format", "json")
    assert checked.exit_code == 1 and json.loads(checked.output)["added"] == {"phi1": [1, 3, 5, 6], "phi2": [1]}


def test_a_slip_in_an_operation_is_no_insert(declared: Path) -> None:
    assert run("fragments", "init", declared).exit_code == 1
    changes = write(declared.parent / "slip.csv", "op,id,grade,street,city,zip,CC,AC\ndelet,9,A,x,EDI,E1,44,131\n")
    refused = run("fragments", "apply", declared, changes)
    assert refused.exit_code == 2 and "slip.csv: unknown operation 'delet'" in refused.stderr
    assert "the feed append if the column is data" in refused.stderr
    assert run("fragments", "apply", declared, changes, "--feed", "append").exit_code == 1
    lost = run("fragments", "apply", declared, write(declared.parent / "lost.csv", "op,id\ndelete,99\n"))
    assert lost.exit_code == 2 and "updated and deleted ones must be there" in lost.stderr


def test_apply_needs_init(declared: Path) -> None:
    changes = write(declared.parent / "new.csv", "op,id\nd,4\n")
    result = run("fragments", "apply", declared, changes)
    assert result.exit_code == 2 and "not loaded" in result.output
    assert f"hint: load it first: holdstrue fragments init {declared}" in result.output


def test_the_folder_of_the_states_is_known_for_what_it_is(declared: Path) -> None:
    assert run("fragments", "init", declared).exit_code == 1
    folder = declared.parent / "state"
    for command in (("status",), ("violations",), ("verify",), ("vacuum",), ("discover", "--state")):
        result = run(*command, folder)
        assert result.exit_code == 2
        assert f"{folder} is no state itself: it holds the states of the sites S1, S2, S3\n" in result.stderr
        assert "hint: holdstrue fragments check FILE" in result.stderr
    assert run_json("verify", folder / "S1")["kind"] == "site"
    rows = write(declared.parent / "rows.csv", "id,zip\n1,2\n")
    assert run("init", folder / "watched", "--rule", "key(zip)", "--key", "id", "--data", rows).exit_code == 0
    (folder / "other" / "log").mkdir(parents=True)
    write(folder / "other" / "log" / "today.txt", "no state")
    said = run("status", folder).stderr
    assert "it holds the states S1, S2, S3, watched\n" in said
    assert f"hint: name one of them: {folder}/S1" in said


@pytest.mark.parametrize("run_file", ["arrays", "values", "batch"])
def test_a_damaged_site_is_not_made_anew_by_init_of_a_monitor(declared: Path, run_file: str) -> None:
    assert run("fragments", "init", declared).exit_code == 1
    [file] = (declared.parent / "state" / "S1" / "runs").glob(f"{run_file}-*")
    file.write_bytes(file.read_bytes()[:-8])
    result = run("fragments", "check", declared)
    assert result.exit_code == 2 and f"{file} is damaged" in result.output
    assert "holdstrue init" not in result.output and "restore the state from a copy" in result.output


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("key: id\n", "", "no key"),
        ("key: id\n", "key: id\nkey: id\n", "line 2: field 'key' is given twice"),
        ("key: id\n", "key: [id, 3]\n", "key ['id', 3]"),
        ("sites:", "site:", "unknown field 'site'"),
        ("{name: S1,", "{nam: S1,", "site 1: expected a site with a name"),
        ("source: s1.csv", "where: 'grade =', source: s1.csv", "site 1 (S1)"),
        ("source: s1.csv", "column: [a], source: s1.csv", "site 1 (S1): unknown field 'column'"),
        ("source: s1.csv", "columns: [nope], source: s1.csv", "'S1' has no column 'nope'"),
        ("source: s1.csv", "source: nowhere.csv", "nowhere.csv"),
        ("name: S2", "name: S1", "2 sites are called 'S1'"),
        ("[CC=44, zip] -> [street]", "key(id)", "is a key rule"),
        ("[CC=44, zip] -> [street]", "zipp -> street", "column 'zipp', which no site holds"),
        ('street]"}', 'street]", table: other}', "speak of several tables: 'other', None"),
        ("state: state\n", "state: state\nplan: best\n", "plan 'best'"),
        ("state: state\n", "state: state\nk: 0\n", "k 0"),
        ("rules:\n", "rules: [\n", "this is not YAML"),
    ],
)
def test_bad_files(declared: Path, old: str, new: str, said: str) -> None:
    declared.write_text(DECLARED.replace(old, new, 1))
    result = run("fragments", "plan", declared)
    assert result.exit_code == 2 and said in result.output, result.output


def test_no_file_and_no_state(declared: Path) -> None:
    assert "no file" in run("fragments", "plan", declared.parent / "none.yaml").output
    declared.write_text(DECLARED.replace("state: state\n", ""))
    result = run("fragments", "init", declared)
    assert result.exit_code == 2 and "site 'S1' has no state directory" in result.output
