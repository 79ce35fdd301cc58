"""The same rows give the same report whichever way they come in, from scratch and into a state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import holdstrue
from unit.cli.runs import run_json, write
from ways import RULES, WAYS_IN, Tools, rows, tools

__all__ = ["tools"]

TYPES = {"zip": "text"}
"""What CSV does not say: 01 is no number here."""
NAMED = sorted(set(WAYS_IN) - {"pandas_frame", "polars_frame", "duckdb_relation", "arrow_stream"})


def told(report: Any) -> Any:
    """All of a report but the numbers of rows and the words about it."""
    found = report.to_dict()
    return found["rules"], found["violations"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the rows in a file give."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(rows(), path)
    report = holdstrue.check(path, RULES, types=TYPES)
    assert all(result["status"] == "violated" for result in report.to_dict()["rules"] if result["name"] != "ids")
    return told(report)


@pytest.mark.parametrize("kind", sorted(WAYS_IN))
def test_a_check_gives_the_same_report(kind: str, tools: Tools, expected: Any) -> None:
    source = WAYS_IN[kind](tools, rows())
    assert told(holdstrue.check(source, RULES, types=TYPES)) == expected


@pytest.mark.parametrize("kind", sorted(WAYS_IN))
def test_a_monitor_starts_and_goes_on_with_it(kind: str, tools: Tools, expected: Any) -> None:
    first = rows().slice(0, 25)
    with holdstrue.Monitor(RULES, data=first, types=TYPES) as monitor:
        monitor.apply(WAYS_IN[kind](tools, rows().slice(25)))
        assert told(monitor.report()) == expected


@pytest.mark.parametrize("kind", NAMED)
def test_every_command_takes_it(kind: str, tools: Tools, tmp_path: Path, expected: Any) -> None:
    rules = write(tmp_path / "rules.yaml", RULES)
    source = WAYS_IN[kind](tools, rows())
    sent = sys.stdin.buffer.read() if source == "-" else None
    typed = ("--type", "zip=text")
    found = run_json("check", source, "--rules", rules, *typed, code=1, sent=sent)
    assert [rule["rows"] for rule in found["rules"]] == [rule["rows"] for rule in expected[0]]
    state = tmp_path / "state"
    made = run_json("init", state, "--rules", rules, *typed, "--data", source, sent=sent)
    assert made["tables"]["data"]["rows"] == 60
    assert run_json("discover", source, "--kind", "key", *typed, sent=sent)["rules"]
