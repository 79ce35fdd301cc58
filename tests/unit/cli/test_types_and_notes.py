"""Files as people have them on the command line: `--type`, `types:`, and what is said on standard error."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unit.cli.runs import run, run_json, write

GERMAN = "\ufeffid;born;price;note\n1;31.01.1990;1,50;a\n2;01.02.1980;10,25;b\n3;;2;\n"
RULE = "not(t.price > s.price and t.born < s.born)"
TYPES = ("--type", "price=decimal(comma)", "--type", "born=date(%d.%m.%Y)")
YAML = f"key: id\ntypes:\n  price: decimal(comma)\n  born: date(%d.%m.%Y)\nrules:\n- {RULE}\n"


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    return write(tmp_path / "sales.csv", GERMAN)


def test_types_by_option_and_by_rule_file(sales: Path, tmp_path: Path) -> None:
    option = run("check", sales, "--rule", RULE, "--key", "id", *TYPES, "--format", "json")
    file = run("check", sales, "--rules", write(tmp_path / "r.yaml", YAML), "--format", "json")
    for result in (option, file):
        answer = json.loads(result.stdout)
        assert result.exit_code == 1
        assert answer["violations"] == [{"rule": RULE, "t": 2, "s": 1}]
        [note] = answer["notes"]
        assert "separated by ';'" in note
        assert f"note: {note}\n" in result.stderr
    both = run("check", sales, "--rules", tmp_path / "r.yaml", *TYPES)
    assert both.exit_code == 1, "declared twice in the same way"
    other = run("check", sales, "--rules", tmp_path / "r.yaml", "--type", "price=number(comma)")
    assert other.exit_code == 2
    assert "declared as decimal(comma) and as number(comma)" in other.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--type", "price"), "does not say what a column holds"),
        (("--type", "price=decmal"), "did you mean 'decimal'"),
        (("--type", "prise=text"), "did you mean 'price'"),
        (("--type", "price=decimal"), "row 1 of"),
        (("--type", "price=text", "--type", "price=number"), "declared as text and as number"),
        ((), "--type 'price=decimal(comma)'"),
    ],
)
def test_slips_end_with_2_and_what_to_write(sales: Path, options: tuple[str, ...], said: str) -> None:
    result = run("check", sales, "--rule", RULE, *options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_monitor_remembers_types_and_formats(sales: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    made = run("init", state, "--rule", RULE, "--key", "id", "--data", sales, *TYPES)
    assert made.exit_code == 0, made.output
    assert "note: " in made.stderr
    batch = write(tmp_path / "b.csv", "id;born;price;extra\n4;03.03.2003;7,5;x\n")
    result = run("apply", state, batch)
    assert result.exit_code == 1, result.output
    assert "has column 'extra', which the table did not have" in result.stderr
    assert "does not have column 'note'" in result.stderr
    lines = write(tmp_path / "c.jsonl", '{"id": 5, "born": "04.03.2003", "price": "8,25"}\n')
    assert run("apply", state, lines, *TYPES).exit_code == 1
    parquet = tmp_path / "d.parquet"
    pq.write_table(pa.table({"id": [6], "born": ["05.05.2005"], "price": ["9,75"], "more": [1]}), parquet)
    assert run("apply", state, parquet).exit_code == 1
    answer = run_json("violations", state)
    assert {(v["t"], v["s"]) for v in answer["violations"]} == {(2, 1), (2, 4), (2, 5), (2, 6)}
    refused = run("apply", state, batch, "--type", "born=text")
    assert refused.exit_code == 2
    assert "the monitor remembers date(%d.%m.%Y)" in refused.stderr
    wide = run("apply", state, write(tmp_path / "e.csv", "id;born;price\n7;03.03.2003;7,555\n"))
    assert wide.exit_code == 2
    assert "decimal(19,3,comma)" in wide.stderr


def test_types_given_with_the_first_rows_of_an_empty_state_are_remembered(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert run("init", state, "--rule", RULE, "--key", "id").exit_code == 0
    first = write(tmp_path / "a.csv", "id;born;price\n1;31.01.1990;1,50\n2;01.02.1980;10,25\n")
    bare = run("apply", state, first)
    assert bare.exit_code == 2
    assert "holds text, whose values look like" in bare.stderr
    assert run("apply", state, first, *TYPES).exit_code == 1
    again = write(tmp_path / "b.csv", "id;born;price\n3;31.01.1991;1,75\n")
    assert run("apply", state, again).exit_code == 1
    assert run("apply", state, again, "--type", "price=decimal(comma)", "--on-conflict", "upsert").exit_code == 0


def test_types_of_a_further_table(tmp_path: Path) -> None:
    orders = write(tmp_path / "orders.csv", "id,day\n1,31.01.2024\n2,01.02.2024\n")
    days = write(tmp_path / "days.csv", "day\n2024-01-31\n")
    rule = "orders.day in days.day"
    result = run_json(
        "check", orders, "--rule", rule, "--table", f"days={days}", "--type", "orders.day=date(%d.%m.%Y)",
        "--key", "id", code=1,
    )  # fmt: skip
    assert result["violations"] == [{"rule": rule, "t": 2}]
    swapped = run("check", days, "--rule", "days.day in orders.day", "--table", f"orders={orders}",
                  "--type", "orders.day=date(%d.%m.%Y)")  # fmt: skip
    assert swapped.exit_code == 0, swapped.output
    misspelt = run("check", orders, "--rule", rule, "--table", f"days={days}", "--type", "order.day=text")
    assert misspelt.exit_code == 2
    assert "no such column" in misspelt.stderr


def test_against_compares_what_both_have(sales: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    run("init", state, "--rule", RULE, "--key", "id", "--data", sales, *TYPES)
    new = write(tmp_path / "new.csv", "id;born;price\n1;31.01.1990;1,50\n2;01.02.1980;0,25\n3;;2\n")
    result = run("apply", state, new, "--against", sales)
    assert result.exit_code == 0, result.output
    assert "left out, since no rule reads it" in result.stderr
    assert run_json("status", state)["rules"][0]["open"] == 0


def test_null_values_add_and_a_single_cell_is_named(tmp_path: Path) -> None:
    data = write(tmp_path / "a.csv", "id,qty\n1,5\n2,n/a\n3,\n4,7\n5,9\n")
    result = run("check", data, "--rule", "key(qty)")
    assert "because of 'n/a' in row 2 of" in result.stderr
    assert "--null-value n/a" in result.stderr
    clean = run("check", data, "--rule", "not(t.qty > s.qty and t.id < s.id)", "--null-value", "n/a")
    assert clean.exit_code == 0
    assert clean.stderr == ""
    typed = run("check", data, "--rule", "key(qty)", "--type", "qty=text")
    assert typed.stderr == ""
    made = run("init", tmp_path / "state", "--rule", "key(qty)", "--key", "id", "--data", data)
    assert "because of 'n/a' in row 2 of" in made.stderr
    found = run("discover", data, "--kind", "key")
    assert "because of 'n/a' in row 2 of" in found.stderr


def test_a_key_on_wide_numbers_holds(tmp_path: Path) -> None:
    data = write(tmp_path / "a.csv", "x\n12345678901234567\n12345678901234568\n0.5\n")
    assert run("check", data, "--rule", "key(x)").exit_code == 0


def test_discovered_rules_carry_the_types(sales: Path, tmp_path: Path) -> None:
    state = tmp_path / "found"
    found = run("discover", sales, "--kind", "key,dc", "--key", "id", "--format", "rules", *TYPES, "--state", state)
    assert found.exit_code == 0, found.output
    assert "born: date(%d.%m.%Y)" in found.stdout
    rules = write(tmp_path / "rules.yaml", found.stdout)
    assert run("check", sales, "--rules", rules).exit_code == 0
    more = write(tmp_path / "more.csv", "id;born;price;note\n4;31.01.1990;0,75;c\n")
    applied = run("discover", "--state", state, "--apply", more)
    assert applied.exit_code in (0, 1), applied.output
    wrong = run("discover", "--state", state, "--apply", more, "--type", "born=text")
    assert wrong.exit_code == 2
    assert "remembers date(%d.%m.%Y)" in wrong.stderr


def test_explain_takes_types(sales: Path) -> None:
    assert run("explain", sales, "--rule", RULE, *TYPES).exit_code == 0
    assert run("explain", "--rule", RULE, *TYPES).exit_code == 0
    wrong = run("explain", "--rule", "not(t.id > t.born)", "--type", "id=integer", *TYPES)
    assert wrong.exit_code == 2
    assert "does not compare" in wrong.stderr
