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
