"""Rules about whole tables at the command line."""

from __future__ import annotations

import datetime as dt
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

import holdstrue
from holdstrue.monitor.sharded import Sharded
from holdstrue.shards.facts import HISTORY, Facts
from holdstrue.state.journal import Journal
from laws.shards import Loops
from unit.cli.runs import run, run_json, write

ORDERS = "id,total,placed\n1,4.50,2025-11-14 10:00:00\n2,,2025-11-15 10:00:00\n3,7.25,2025-11-16 22:00:00\n"
LINES = "id,amount\n1,4.50\n2,7.00\n"
RULES = """\
table: orders
key: id
rules:
- {name: arrive, rule: count() > 1000}
- {name: lines, rule: orders.sum(total) = lines.sum(amount)}
- {name: giant, rule: max(total) <= 100}
- {name: newest, rule: fresh(placed) < 2 days, severity: warn}
"""
NEWEST = dt.datetime(2025, 11, 16, 22, tzinfo=dt.UTC)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tables and rules, an hour after the newest order."""
    at_hour(monkeypatch, 1)
    for name, text in (("orders.csv", ORDERS), ("lines.csv", LINES), ("rules.yaml", RULES)):
        write(tmp_path / name, text)
    return tmp_path


def at_hour(monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    moment = int((NEWEST + dt.timedelta(hours=hours)).timestamp()) * 10**9
    for place in ("detect.clock", "cli.state_status", "shards.status"):
        monkeypatch.setattr(f"holdstrue.{place}.wall", lambda: moment)


def asked(shop: Path) -> list[object]:
    return [shop / "orders.csv", "--rules", shop / "rules.yaml", "--table", f"lines={shop / 'lines.csv'}"]


def made(shop: Path) -> Path:
    data = ["--data", shop / "orders.csv", "--table", f"lines={shop / 'lines.csv'}", "--table-key", "lines=id"]
    assert run("init", shop / "state", "--rules", shop / "rules.yaml", *data).exit_code == 0
    return shop / "state"


def test_a_check_shows_what_was_measured(shop: Path) -> None:
    result = run("check", *asked(shop))
    assert result.exit_code == 1
    assert "✗ arrive: count() is 3, expected > 1000\n" in result.stdout
    assert "orders.sum(total) is 11.75, lines.sum(amount) is 11.5, expected = lines.sum(amount)" in result.stdout
    newest = "the newest placed is 2025-11-16 22:00:00, 1 hour old, expected < 2 days"
    assert newest in result.stdout
    answer = run_json("check", *asked(shop), code=1)
    assert [rule["measured"] for rule in answer["rules"]][3] == newest
    assert answer["violations"] == [{"rule": "arrive", "t": None}, {"rule": "lines", "t": None}]
    lines = run("check", *asked(shop), "--format", "csv").stdout
    assert lines == "rule,t,s\narrive,,\nlines,,\n"


def test_build_servers_see_what_was_measured(shop: Path) -> None:
    suites = ET.fromstring(run("check", *asked(shop), "--format", "junit").stdout.encode())
    failures = [case.find("failure") for case in suites.iter("testcase")]
    assert [None if failure is None else failure.get("message") for failure in failures] == [
        "count() is 3, expected > 1000",
        "orders.sum(total) is 11.75, lines.sum(amount) is 11.5, expected = lines.sum(amount)",
        None,
        None,
    ]


def test_a_batch_breaks_and_mends(shop: Path) -> None:
    state = made(shop)
    more = write(shop / "more.csv", "op,id,amount\ninsert,3,0.25\n")
    mended = run("apply", state, "--table", f"lines={more}")
    assert mended.exit_code == 0
    assert "- lines: orders.sum(total) is 11.75, lines.sum(amount) is 11.75, expected" in mended.stdout
    giant = write(shop / "giant.csv", "op,id,total,placed\nupdate,1,500,2025-11-14 10:00:00\n")
    broken = run("apply", state, giant)
    assert broken.exit_code == 1
    assert "+ giant: max(total) is 500.0, expected <= 100" in broken.stdout
    again = run_json("apply", state, write(shop / "back.csv", "op,id\ndelete,1\n"), code=0)
    assert [violation["rule"] for violation in again["removed"]] == ["giant"]
    assert again["measured"]["giant"] == "max(total) is 7.25, expected <= 100"
    assert run("verify", state).exit_code == 0


def test_status_tells_the_time(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = made(shop)
    assert status(state)["newest"] == ("ok", "the newest placed is 2025-11-16 22:00:00, 1 hour old, expected < 2 days")
    at_hour(monkeypatch, 49)
    stale = "the newest placed is 2025-11-16 22:00:00, 2 days 1 hour old, expected < 2 days"
    assert status(state)["newest"] == ("violated", stale)
    assert run_json("violations", state, "--rule", "newest")["violations"] == [{"rule": "newest", "t": None}]


def status(state: Path) -> dict[str, tuple[str, str]]:
    return {rule["name"]: (rule["status"], rule["measured"]) for rule in run_json("status", state)["rules"]}


def test_what_is_accepted_are_rows(shop: Path) -> None:
    state, known = made(shop), shop / "accepted.yaml"
    said = run("accept", state, "--all", "--reason", "known", "--file", known)
    assert (said.exit_code, said.stdout) == (0, "nothing new to accept\n")
    assert "'arrive' is about a whole table, and is left out" in said.stderr
    refused = run("accept", state, "--rule", "arrive", "--reason", "known", "--file", known)
    assert refused.exit_code == 2
    assert "what is accepted are rows" in refused.stderr
    report = write(shop / "report.json", json.dumps(run_json("check", *asked(shop), code=1)))
    assert run("accept", report, "--rule", "arrive", "--reason", "known", "--file", known).exit_code == 2
    assert run("accept", report, "--all", "--reason", "known", "--file", known).exit_code == 0
    assert not known.exists()


def test_the_page_shows_what_was_measured(shop: Path) -> None:
    page = shop / "page.html"
    assert run("report", made(shop), "-o", page).exit_code == 0
    assert "count() is 3, expected" in page.read_text()


def test_fragments_are_refused(shop: Path) -> None:
    sites = "sites:\n- {name: A, source: orders.csv}\n"
    write(shop / "sites.yaml", f"key: id\nstate: s\nrules: ['count() > 3']\n{sites}")
    result = run("fragments", "plan", shop / "sites.yaml")
    assert result.exit_code == 2
    assert "is a measure rule" in result.stderr


def test_a_state_in_shards_is_told_alike(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status, verify and the counts of one process; and numbers that are not those of the rows are found."""
    one, place = made(shop), shop / "sharded"
    with holdstrue.Monitor.open(one, read_only=True) as monitor:
        tables = {name: piece.rows.values() for name, piece in monitor._shard().engine.tables.items()}
    sharded = Sharded(Loops(2), place, holdstrue.load_rules(shop / "rules.yaml"), {"orders": "id", "lines": "id"})
    sharded.apply({name: [rows.slice(0, 1), rows.slice(1)] for name, rows in tables.items()})
    assert status(place) == status(one)
    assert run("verify", place).exit_code == 0
    at_hour(monkeypatch, 49)
    assert status(place) == status(one)
    lie = {rule: (*parts[:-1], (9, 9, 9, 9, 9)[: len(parts[-1])]) for rule, parts in sharded.facts.measures.items()}
    with Journal.open(place, "monitor", HISTORY) as journal:
        facts = replace(journal.read(Facts.of), measures=lie).to_dict()
        journal.commit(journal.written(journal.runs, {**journal.facts, **facts}))
    found = run_json("verify", place, code=1)
    assert "rule 'arrive' is kept with [['9']], and its rows make [['3']]" in [p["problem"] for p in found["problems"]]
