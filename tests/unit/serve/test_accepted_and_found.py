"""What a server knows beside violations: what is accepted, and discoveries, which have a page of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue import HoldstrueError, Monitor, load_rules
from holdstrue.serve.openapi import DOCUMENT
from holdstrue.serve.server import LiveServer
from live import Live, misfits, serving, until

ROWS = pa.table({"id": [1, 2, 3, 4, 5], "zip": [1, 1, 2, 2, 2], "city": ["Bonn", "Ulm", "Kiel", "Rom", "Kiel"]})
KNOWN = "accepted:\n- rule: zips\n  reason: seen\n  conflicts:\n  - [{pair}]\n"


def make(path: Path) -> Path:
    Monitor.create(path, [{"name": "zips", "rule": "zip -> city"}], "id", data=ROWS).close()
    return path


def fits(live: Live, path: str, shape: str) -> None:
    shapes = live.get(DOCUMENT)["components"]["schemas"]
    assert not list(misfits(live.get(path), shapes[shape], shapes))


def test_accepted_violations_are_counted_apart(tmp_path: Path) -> None:
    file = tmp_path / "accepted.yaml"
    file.write_text(KNOWN.format(pair="1, 2"))
    with serving(make(tmp_path / "s"), accepted=[str(file)]) as live:
        api = "/api/states/s"
        brief = live.get(api)
        assert (brief["open"], brief["accepted"], brief["rules"][0]["open"]) == (2, 1, 2)
        found = live.get(f"{api}/violations")
        assert found["total"] == 2 and {(one["t"], one["s"]) for one in found["violations"]} == {(3, 4), (4, 5)}
        assert live.get(f"{api}/violations?key=1")["total"] == 0
        assert live.get(f"{api}/violations?key=4")["total"] == 2
        row = live.get(f"{api}/row?key=1")
        assert row["by_rule"] == {"zips": 1} and [one["accepted"] for one in row["violations"]] == [True]
        shown = live.get(f"{api}/overview")
        assert [entry["reason"] for entry in shown["accepted"]] == ["seen"] and shown["rules"][0]["accepted"] == 1
        assert live.ask(f"{api}/violations.csv").body.count(b"\n") == 3
        metrics = live.ask("/metrics").body.decode()
        assert 'violations_accepted{state="s",rule="zips",severity="error"} 1' in metrics
        assert 'violations_open{state="s",rule="zips",severity="error"} 2' in metrics
        for path, shape in ((api, "StateDetail"), (f"{api}/row?key=1", "Row"), (f"{api}/overview", "Overview")):
            fits(live, path, shape)
        with Monitor.open(tmp_path / "s") as writer:
            writer.apply(pa.table({"id": [6], "zip": [1], "city": ["Bonn"]}))
        until(lambda: live.get(api)["open"] == 3, "a new violation is open")
        assert live.get(f"{api}/violations?since=0")["total"] == 1
        # the file is read again, and one that names what is not there is told
        file.write_text(KNOWN.format(pair="3, 4, 5"))
        until(lambda: (live.get(api)["open"], live.get(api)["accepted"]) == (2, 2), "the file changed")
        file.write_text(KNOWN.replace("zips", "zaps").format(pair="1, 2"))
        until(lambda: live.get(api)["open"] == 4, "nothing counts as accepted")
        assert "there is no such rule" in live.get(api)["message"]
        assert "there is no such rule" in live.ask("/states/s").body.decode()
        assert "there is no such rule" in live.ask("/").body.decode()


def test_wrong_files_of_accepted_violations(tmp_path: Path) -> None:
    file = tmp_path / "accepted.yaml"
    file.write_text(KNOWN.format(pair="1, 2"))
    one, two = (str(make(tmp_path / name)) for name in ("one", "two"))
    wrong = {
        "cannot read": ([one], [f"{tmp_path}/nowhere.yaml"]),
        "names no state": ([one, two], [str(file)]),
        "names no state ": ([one, two], [f"three={file}"]),
        "two files": ([one], [str(file), f"one={file}"]),
    }
    for said, (states, accepted) in wrong.items():
        with pytest.raises(HoldstrueError, match=said.strip()):
            LiveServer(states, accepted=accepted, port=0)
    with serving(one, two, accepted=[f"two={file}"]) as live:
        assert [state["accepted"] for state in live.get("/api/states")["states"]] == [0, 1]


def test_a_discovery_has_its_page(tmp_path: Path) -> None:
    rows = pa.table({"id": range(40), "zip": [i // 4 for i in range(40)], "city": [str(i // 8) for i in range(40)]})
    path = tmp_path / "found"
    with holdstrue.discover(rows, key="id") as found:
        found.save(path)
    with serving(path) as live:
        brief = live.standing("found", "discovery")
        assert (brief["version"], brief["rows"], brief["last_batch"]) == (0, 40, None)
        assert "zip -&gt; city" not in live.ask("/").body.decode()
        shown = live.get("/api/states/found/overview")["discovered"]
        assert "zip -> city" in [rule["rule"] for rule in shown["rules"]] and not shown["ended"]
        with holdstrue.Discovery.open(path) as writer:
            writer.apply(pa.table({"id": [40], "zip": [0], "city": ["Rom"]}), batch_id="monday")
        until(lambda: live.get("/api/states/found")["last_batch"] == "monday", "the batch is shown")
        shown = live.get("/api/states/found/overview")["discovered"]
        assert "zip -> city" not in [rule["rule"] for rule in shown["rules"]]
        ended = next(one for one in shown["ended"] if one["rule"] == "zip -> city")
        assert ended["batch"] == "monday" and ended["why"] == "broken" and "40" in ended["by"]
        assert "zip -> city" in [miss["rule"] for miss in shown["near"]]
        [line] = shown["turnover"]
        assert line["batch"] == "monday" and line["died"] >= 1
        fits(live, "/api/states/found/overview", "Overview")
        page = live.ask("/states/found").body.decode()
        assert "monday" in page and 'id="ask"' not in page
        refused = live.ask("/api/states/found/violations")
        assert refused.status == 409 and "is a discovery" in refused.data["error"]["message"]
        assert live.ask("/api/states/found/overview?at=0").status == 400
        assert 'holdstrue_up{state="found"} 1' in live.ask("/metrics").body.decode()


def test_rules_of_every_table_can_be_tried(tmp_path: Path) -> None:
    orders = pa.table({"id": [1, 2], "customer": ["C1", "C9"], "total": [5, 7]})
    customers = pa.table({"no": ["C1", "C2"], "zip": ["1", "1"], "town": ["Bonn", "Ulm"]})
    rules: list[Any] = [
        "orders.customer in customers.no",
        "not(t.total < 0)",
        {"rule": "zip -> town", "table": "customers"},
    ]
    given = replace(load_rules(rules), table="orders")
    data = {"orders": orders, "customers": customers}
    with Monitor.create(tmp_path / "s", given, {"orders": "id", "customers": "no"}, data=data) as monitor:
        assert monitor.rows == {"orders": 2, "customers": 2}
    with serving(tmp_path / "s") as live:

        def tried(rule: str, **more: object) -> tuple[int, Any]:
            heard = live.ask("/api/states/s/try/rule", {"rule": rule, **more})
            return heard.status, heard.data

        status, found = tried("customers.no in orders.customer")
        assert status == 200 and found["table"] == "customers" and found["of"] == 2
        assert [one["t"] for one in found["violations"]] == ["C2"]
        status, found = tried("key(zip)", table="customers")
        [one] = found["violations"]
        assert status == 200 and (one["t"], one["s"]) == ("C1", "C2")
        status, found = tried("orders.sum(total) = customers.count()")
        assert found["measured"] and found["open"] == 1
        for rule, more, said in (
            ("key(zip)", {}, "table 'orders' has no column 'zip'"),
            ("key(zip)", {"table": "nowhere"}, "no table 'nowhere'"),
            ("key(zip)", {"tabel": "customers"}, "'tabel' is not asked here"),
            ("key(zip)", {"table": 3}, "there is no rule to try"),
            ("orders.customer in customers.street", {}, "no column 'street'"),
        ):
            status, found = tried(rule, **more)
            assert status == 400 and said in found["error"]["message"]
