"""A smoke run of the scenarios at tiny sizes: every competitor answers, and the answers are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs import Job, run_job
from rules import RULES
from scenarios import delta, memory, pairs, scratch, single
from scenarios.setting import Setting, Table

COMPETITORS = ("holdstrue", "duckdb", "duckdb_recompute", "polars", "lt_tree", "chains")


def setting(folder: Path, rules: str, *, sweep: bool = False) -> Setting:
    return Setting(folder, (2000,), rules, COMPETITORS, batches=2, batch=50, warm=1, sweep=sweep, quick=True)


@pytest.mark.parametrize("rules", ["phi7-10", "phi11", "phi12"])
def test_all_competitors_agree_on_the_delta(tmp_path: Path, rules: str) -> None:
    pytest.importorskip("duckdb")
    outcome = delta.run(setting(tmp_path, rules))
    assert [record["competitor"] for record in outcome.records if record.get("agrees")] == list(COMPETITORS)


def test_scenarios_give_tables(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    for run in (scratch.run, single.run, memory.run):
        outcome = run(setting(tmp_path, "phi8"))
        assert outcome.records
        assert not any(record.get("agrees") is False or "failure" in record for record in outcome.records)
        assert "phi8" in outcome.tables[0].markdown()


def test_many_pairs_are_counted_as_a_self_join_counts_them(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    outcome = pairs.run(setting(tmp_path, "phi12"))
    assert outcome.records[0]["self_join"].startswith("equal")


def test_a_failing_worker_is_an_answer(tmp_path: Path) -> None:
    answer = run_job(Job("changes", "holdstrue", ("phi7",), str(tmp_path / "absent")), timeout=60)
    assert not answer.figures
    assert answer.failure


def test_rules_name_their_columns() -> None:
    assert RULES["phi10"].columns == ("state", "salary", "rate")
    assert [name for name, rule in RULES.items() if rule.grouped] == ["phi7", "phi8", "phi9"]


def test_markdown_is_aligned() -> None:
    lines = Table("t", ("a", "bb"), [(1, 2.5), ("long", 1000)]).markdown().splitlines()
    assert lines[0] == "### t"
    assert len({len(line) for line in lines[2:]}) == 1
