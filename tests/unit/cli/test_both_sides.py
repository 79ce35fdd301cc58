"""`apply` with changes of both sides of a reference in one batch: no false orphans in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.cli.runs import run_json, write

RULE = "orders.customer_id in customers.id"


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    orders = write(tmp_path / "orders.csv", "id,customer_id\n1,7\n2,7\n3,8\n")
    customers = write(tmp_path / "customers.csv", "id,name\n7,A\n8,B\n")
    run_json(
        "init", tmp_path / "s", "--rule", RULE, "--key", "id", "--data", orders, "--table", f"customers={customers}",
        "--table-key", "customers=id")  # fmt: skip
    return tmp_path


def test_customers_renumbered_with_their_orders(pair: Path) -> None:
    orders = write(pair / "o.csv", "op,id,customer_id\nupdate,1,70\nupdate,2,70\ninsert,4,90\n")
    customers = write(pair / "c.csv", "op,id,name\ndelete,7,\ninsert,70,A\ninsert,90,C\n")
    answer = run_json(
        "apply", pair / "s", orders, "--table", f"customers={customers}", "--feed", "ops", "--op-column", "op"
    )
    assert (answer["added"], answer["removed"]) == ([], [])
    assert answer["counts"][RULE] == {"added": 0, "removed": 0, "open": 0}


def test_one_side_after_the_other_shows_orphans_in_between(pair: Path) -> None:
    customers = write(pair / "c.csv", "op,id,name\ndelete,7,\ninsert,70,A\n")
    options = ("--feed", "ops", "--op-column", "op")
    half = run_json("apply", pair / "s", "--table", f"customers={customers}", *options, code=1)
    assert half["counts"][RULE]["added"] == 2
    orders = write(pair / "o.csv", "op,id,customer_id\nupdate,1,70\nupdate,2,70\n")
    whole = run_json("apply", pair / "s", orders, *options)
    assert whole["counts"][RULE] == {"added": 0, "removed": 2, "open": 0}


def test_an_array_of_records_on_standard_input_is_json() -> None:
    data = b'\n [\n  {"id": 1, "zip": "1", "city": "a"},\n  {"id": 2, "zip": "1", "city": "b"}\n]\n'
    answer = run_json("check", "-", "--rule", "zip -> city", "--key", "id", code=1, sent=data)
    assert [(found["t"], found["s"]) for found in answer["violations"]] == [(1, 2)]
