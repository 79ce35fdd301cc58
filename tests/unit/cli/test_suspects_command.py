"""`holdstrue suspects`: cells that are probably wrong, as text, records, Parquet and patches."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from unit.cli.runs import run, run_json, write

TOWNS = "id,zip,town\n1,10,Bonn\n2,10,Bonn\n3,10,Bonn\n4,10,Bomn\n5,12,Ulm\n6,12,Ulm\n"


def test_a_patch_of_a_state_is_applied_by_apply(tmp_path: Path) -> None:
    towns, state, patch = write(tmp_path / "towns.csv", TOWNS), tmp_path / "state", tmp_path / "patch.csv"
    given = ("--rule", "zip -> town", "--key", "id")
    [found] = run_json("suspects", towns, *given)["suspects"]
    assert (found["row"], found["column"], found["proposed"], found["why"]) == (4, "town", "Bonn", ["zip -> town"])
    run("init", state, "--data", towns, *given)
    run("suspects", state, "--format", "patch", "-o", patch)
    assert "-3 resolved" in run("apply", state, patch).stdout
    assert "no cell looks wrong" in run("suspects", state).stdout


def test_parquet_and_bad_usage(tmp_path: Path) -> None:
    towns, listed = write(tmp_path / "towns.csv", TOWNS), tmp_path / "found.parquet"
    run("suspects", towns, "--rule", "zip -> town", "-o", listed)
    assert pq.read_table(listed).column("proposed").to_pylist() == ["Bonn"]
    assert run("suspects", towns, "--only-rules").exit_code == 2


def test_every_table_of_a_state_is_held_against_its_own_rules(tmp_path: Path) -> None:
    """Also on the page of a report, and of data with rules and types of further tables."""
    rows = "".join(f"{i},C{i % 4},{i}\n" for i in range(40))
    orders = write(tmp_path / "orders.csv", "id,customer,total\n" + rows)
    towns = [f"C{i},0{i % 5}000,{['Bonn', 'Ulm', 'Köln', 'Trier', 'Mainz'][i % 5]}\n" for i in range(60)]
    towns[7] = towns[7].replace("Köln", "Kölm")
    customers = write(tmp_path / "customers.csv", "no,zip,town\n" + "".join(towns))
    rules = write(
        tmp_path / "rules.yaml",
        "table: orders\nkey: id\ntypes: {customers.zip: text}\nrules:\n- not(t.total < 0)\n"
        "- orders.customer in customers.no\n- {rule: zip -> town, table: customers}\n",
    )
    state = tmp_path / "state"
    made = run("init", state, "--rules", rules, "--data", orders, "--table", f"customers={customers}")
    assert made.exit_code == 0, made.stderr
    text = run("report", state, "--suspects", "--format", "text")
    assert text.exit_code == 0, text.stderr
    assert "suspects of orders\n40 rows: no cell looks wrong" in text.stdout
    assert "Kölm" in text.stdout and "zip -> town" in text.stdout
    [found] = run_json("report", state, "--suspects")["suspects"]["cells"]
    assert (found["table"], found["column"], found["value"], found["proposed"]) == ("customers", "town", "Kölm", "Köln")
    data = run_json("report", orders, "--rules", rules, "--table", f"customers={customers}", "--suspects")
    assert data["suspects"]["of"] == 0
    assert run_json("report", state)["suspects"] is None
