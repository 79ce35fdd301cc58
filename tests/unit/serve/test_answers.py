"""What the server answers: the same as the library, in the shapes that its document tells."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdstrue import Monitor
from holdstrue.report.typeset import json_text
from holdstrue.serve.endpoints import ENDPOINTS
from holdstrue.serve.metrics import metrics_text
from holdstrue.serve.openapi import DOCUMENT, EVENTS
from holdstrue.serve.watched import WatchedState
from live import Live, misfits, serving

RULES = [
    {"name": "zips", "rule": "zip -> city"},
    {"name": 'say "pay"\\', "rule": "not(t.zip = s.zip and t.pay > s.pay and t.rate < s.rate)", "severity": "warn"},
    {"name": "low", "rule": "not(t.pay < 2)"},
]
PAY = RULES[1]["name"]


def rows(start: int, cities: Sequence[str | None], op: str | None = None) -> pa.Table:
    count = len(cities)
    columns: dict[str, Any] = {
        "id": range(start, start + count),
        "zip": [1] * count,
        "city": pa.array(cities, pa.string()),
    }
    columns |= {"pay": range(count), "rate": range(count, 0, -1)}
    return pa.table(columns | ({"op": [op] * count} if op else {}))


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four versions: made, two rows changed, one deleted, one that breaks nothing."""
    path = tmp_path_factory.mktemp("served") / "people"
    with Monitor.create(path, RULES, "id", data=rows(0, ["Bonn"] * 4 + ["Ulm", None])) as monitor:
        journal = monitor._here().journal
        assert journal is not None
        journal.vacuum(86_400)
        monitor.apply(rows(4, ["Bonn", "Kiel"], "update"), "monday")
        monitor.apply(pa.table({"id": [0], "op": ["delete"]}), "tuesday")
        monitor.apply(pa.table({"id": [9], "zip": [7], "city": ["Rom"], "pay": [5], "rate": [1]}), "wednesday")
    return path


@pytest.fixture(scope="module")
def live(state: Path) -> Iterator[Live]:
    with serving(state) as found:
        yield found


QUESTIONS = {
    "/": "",
    "/states/{state}": "",
    "/static/{name}": "",
    "/api/states": "",
    "/api/states/{state}": "",
    "/api/states/{state}/overview": "",
    "/api/states/{state}/violations": "limit=3&offset=1&severity=error&column=city",
    "/api/states/{state}/violations.{format}": "rule=zips",
    "/api/states/{state}/row": "key=5",
    "/api/states/{state}/row/history": "key=5",
    "/api/states/{state}/history": "rule=zips&from=2020-01-01T00:00Z&until=2100-01-01",
    "/api/states/{state}/versions": "",
    "/api/states/{state}/compare": "from=1&to=3",
    "/api/states/{state}/try/row": {"row": {"id": 3, "zip": 1, "city": "Rom", "pay": 1, "rate": 1}},
    "/api/states/{state}/try/rule": {"rule": "key(zip)"},
    "/metrics": "",
    "/healthz": "",
}


def test_every_endpoint_is_in_the_document_and_answers_in_its_shape(live: Live) -> None:
    document = live.get(DOCUMENT)
    assert document["openapi"] == "3.1.0" and set(document["paths"]) == {*QUESTIONS, EVENTS, DOCUMENT}
    shapes = document["components"]["schemas"]
    for endpoint in ENDPOINTS:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        assert {one["name"] for one in operation["parameters"]} == {one.name for one in endpoint.parameters}
        asked = QUESTIONS[endpoint.path]
        path = endpoint.path.format(state="people", name="page.css", format="json")
        heard = live.ask(path, asked) if isinstance(asked, dict) else live.ask(f"{path}?{asked}")
        assert heard.status == 200, (path, heard.body)
        if isinstance(asked, dict):
            posted = operation["requestBody"]["content"]["application/json"]["schema"]
            assert not list(misfits(asked, posted, shapes))
        if endpoint.shape is not None:
            told = operation["responses"]["200"]["content"]["application/json"]["schema"]
            assert not list(misfits(heard.data, told, shapes)), path
        wrong = live.ask(f"{path}?nonsense=1", asked if isinstance(asked, dict) else None)
        assert wrong.status == 400 and not list(misfits(wrong.data, {"$ref": "x/Error"}, shapes))
        assert heard.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in heard.headers["content-security-policy"]


def test_the_shapes_can_fail() -> None:
    shapes: dict[str, Any] = {"A": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
    assert list(misfits({"n": "x"}, {"$ref": "#/A"}, shapes)) and list(misfits({}, {"$ref": "#/A"}, shapes))
    assert list(misfits({"x": 1}, {"type": "object", "additionalProperties": False}, shapes))
    assert list(misfits([1, "a"], {"type": "array", "items": {"type": "integer"}}, shapes))


def test_counts_and_lists_are_those_of_the_monitor(live: Live, state: Path) -> None:
    with Monitor.open(state, read_only=True) as monitor:
        listed = [violation.to_dict() for violation in monitor.violations()]
        counts = monitor.counts()
    told = live.get("/api/states/people")
    assert {rule["name"]: rule["open"] for rule in told["rules"]} == {name: c.open for name, c in counts.items()}
    assert told["rows"] == 6 and told["version"] == 4
    paged: list[Any] = []
    while True:
        found = live.get(f"/api/states/people/violations?limit=2&offset={len(paged)}")
        paged += found["violations"]
        assert found["total"] == len(listed)
        if not found["truncated"]:
            break
    assert [{name: one[name] for name in ("rule", "t", "s") if name in one} for one in paged] == listed
    for one in paged:
        assert [row["id"] for row in one["rows"]] == one["names"]


def test_filters(live: Live) -> None:
    def rules(asked: str) -> set[str]:
        return {one["rule"] for one in live.get(f"/api/states/people/violations?{asked}")["violations"]}

    assert rules("severity=warn") == {PAY} and rules("rule=zips") == {"zips"} and rules("column=rate") == {PAY}
    assert rules("key=1") <= {"zips", PAY, "low"} and rules("key=9") == set()
    found = live.get("/api/states/people/violations?key=5&rule=zips")
    assert found["total"] == len(found["violations"]) == 4 and all(5 in (v["t"], v["s"]) for v in found["violations"])
    before = live.get("/api/states/people/violations?at=0&rule=zips")
    assert before["version"] == 0 and before["total"] == 4
    new = live.get("/api/states/people/violations?since=0&rule=zips")
    assert new["total"] == 4 and [(v["t"], v["s"]) for v in new["violations"]] == [(1, 5), (2, 5), (3, 5), (4, 5)]
    assert live.get("/api/states/people/violations?since=3&rule=zips")["total"] == 0
    batches = live.get("/api/states/people/history?rule=zips")
    assert [line["batch"] for line in batches["batches"]] == ["#1", "monday", "tuesday", "wednesday"]
    assert live.get("/api/states/people/history?until=2020-01-01")["total"] == 0


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ("violations?rule=nobody", 400, "no rule called 'nobody'"),
        ("violations?severity=bad", 400, "severity is 'bad'"),
        ("violations?column=nothing", 400, "no rule reads a column 'nothing'"),
        ("violations?limit=1001", 400, "limit is '1001'"),
        ("violations?offset=-1", 400, "offset is '-1'"),
        ("violations?offset=1000001", 400, "offset is 1,000,001"),
        ("violations?at=77", 400, "no version 77 yet"),
        ("violations?at=soon", 400, "neither a version nor a time"),
        ("violations?key=x", 400, "'x' is no key"),
        ("violations?key=77", 400, "no row with key 77"),
        ("row?key=5&table=nothing", 400, "no table 'nothing'"),
        ("row", 400, "'key' is missing"),
        ("history?from=3", 400, "from is '3'"),
        ("violations.exe", 404, "no download as 'exe'"),
        ("nothing", 404, "nothing answers"),
    ],
)
def test_wrong_questions_say_why(live: Live, asked: str, status: int, said: str) -> None:
    heard = live.ask(f"/api/states/people/{asked}")
    assert heard.status == status and said in heard.data["error"]["message"], heard.body
    assert heard.data["error"]["hint"]


def test_one_row_and_its_history(live: Live) -> None:
    found = live.get("/api/states/people/row?key=5")
    assert found["values"] == {"id": "5", "zip": "1", "city": "Kiel", "pay": "1", "rate": "1"}
    assert found["by_rule"]["zips"] == 4 and not found["truncated"]
    told = live.get("/api/states/people/row/history?key=5")
    assert [(step["batch"], step["row"]) for step in told["steps"]] == [("tuesday", "unchanged"), ("monday", "updated")]
    assert told["steps"][0]["removed"]["zips"] == 1 and told["steps"][1]["added"]["zips"] == 5
    assert told["steps"][1]["columns"] == ["city", "pay"] and told["looked_back_to"] == 0
    assert told["unknown"] == ""
    gone = live.get("/api/states/people/row/history?key=0&at=1")
    assert gone["looked_back_to"] == 0


def test_versions_compared(live: Live) -> None:
    found = live.get("/api/states/people/compare?from=1&to=2")
    [zips] = [rule for rule in found["rules"] if rule["name"] == "zips"]
    assert zips["before"] + zips["added"] - zips["removed"] == zips["after"]
    assert zips["added"] == sum(one["rule"] == "zips" for one in found["added"])
    assert live.get("/api/states/people/compare?from=2&to=1") == found
    assert [one["version"] for one in live.get("/api/states/people/versions")["versions"]][-1] == 0


def test_trying_changes_nothing(live: Live, state: Path) -> None:
    before = sorted((path.name, path.stat().st_size) for path in state.rglob("*"))
    row = {"id": 5, "zip": 1, "city": "Bonn", "pay": 1, "rate": 1}
    tried = live.ask("/api/states/people/try/row", {"row": row}).data
    assert tried["counts"]["zips"] == {"added": 0, "removed": 4, "open": 0} and len(tried["removed"]) >= 4
    deleted = live.ask("/api/states/people/try/row", {"row": row, "op": "delete"}).data
    assert deleted["counts"]["zips"]["removed"] == 4
    refused = live.ask("/api/states/people/try/row", {"row": row, "op": "insert"})
    assert refused.status == 400 and "exists" in refused.data["error"]["message"]
    rule = live.ask("/api/states/people/try/rule", {"rule": "key(zip)"}).data
    assert rule["open"] == 10 and rule["of"] == 6 and rule["status"] == "violated"
    for body, said in (
        ({"rule": "zip ->"}, "rule"),
        ({"rule": ""}, "no rule to try"),
        ({"rule": "not(t.nothing > 1)"}, "nothing"),
    ):
        heard = live.ask("/api/states/people/try/rule", body)
        assert heard.status == 400 and said in heard.data["error"]["message"], heard.body
    for path in ("row", "rule"):
        for raw in (b"[1]", b"{", b"\xff", b"[" * 100_000, b'{"row": 3}'):
            assert live.ask(f"/api/states/people/try/{path}", raw).status == 400
    assert live.ask("/api/states/people/try/row", b" " * (1 << 21)).status == 400
    assert sorted((path.name, path.stat().st_size) for path in state.rglob("*")) == before


def test_downloads_have_all_of_it(live: Live, state: Path) -> None:
    with Monitor.open(state, read_only=True) as monitor:
        listed = [violation.to_dict() for violation in monitor.violations()]
    heard = live.ask("/api/states/people/violations.csv")
    assert heard.headers["content-disposition"].startswith('attachment; filename="people-violations-')
    told = list(csv.DictReader(io.StringIO(heard.body.decode())))
    assert [(one["rule"], one["t"], one["s"]) for one in told] == [
        (one["rule"], str(one["t"]), str(one.get("s", ""))) for one in listed
    ]
    table = pq.read_table(io.BytesIO(live.ask("/api/states/people/violations.parquet").body))
    assert table.schema.field("t").type == pa.int64()
    assert table.to_pylist() == [{"s": None, **one} for one in listed]
    assert live.get("/api/states/people/violations.json") == listed
    lines = live.ask("/api/states/people/violations.jsonl?rule=low").body.decode().splitlines()
    assert [json.loads(line) for line in lines] == [one for one in listed if one["rule"] == "low"]
    some = live.get("/api/states/people/violations.json?since=0&rule=zips")
    assert some == [one for one in listed if one["rule"] == "zips"]
    assert live.get("/api/states/people/violations.json?since=3") == []


def test_keys_of_several_columns_and_formulas(tmp_path: Path) -> None:
    names = ["=1+1", "+2", "-3", "@x", "\tx", "plain", "<b>"]
    data = pa.table({"n": names, "k": range(len(names)), "x": [1] * len(names)})
    with Monitor.create(tmp_path / "two", "not(t.x > 0)", ("n", "k"), data=data):
        pass
    with Monitor.create(tmp_path / "one", "not(t.x > 0)", "n", data=data):
        pass
    with serving(tmp_path / "two", tmp_path / "one") as live:
        key = quote(json_text(["=1+1", 0]))
        assert live.get(f"/api/states/two/row?key={key}")["values"]["n"] == "=1+1"
        assert live.ask("/api/states/two/row?key=%5B1%5D").status == 400
        assert live.ask("/api/states/two/row?key=x").status == 400
        two = list(csv.reader(io.StringIO(live.ask("/api/states/two/violations.csv").body.decode())))
        assert [json.loads(row[1])[0] for row in two[1:]] == names
        one = list(csv.reader(io.StringIO(live.ask("/api/states/one/violations.csv").body.decode())))
        assert sorted(row[1] for row in one[1:]) == sorted(["'=1+1", "+2", "-3", "'@x", "'\tx", "plain", "<b>"])
        table = pq.read_table(io.BytesIO(live.ask("/api/states/two/violations.parquet").body))
        assert [json.loads(text)[0] for text in table.column("t").to_pylist()] == names


def test_metrics(live: Live) -> None:
    heard = live.ask("/metrics")
    assert heard.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = heard.body.decode().splitlines()
    told = live.get("/api/states/people")
    zips, pay = told["rules"][0], told["rules"][1]
    assert f'holdstrue_violations_open{{state="people",rule="zips",severity="error"}} {zips["open"]}' in lines
    escaped = 'say \\"pay\\"\\\\'
    assert f'holdstrue_violations_open{{state="people",rule="{escaped}",severity="warn"}} {pay["open"]}' in lines
    assert 'holdstrue_rows{state="people",table="data"} 6' in lines and 'holdstrue_up{state="people"} 1' in lines
    added, removed = (
        next(int(line.rpartition(" ")[2]) for line in lines if line.startswith(f"holdstrue_violations_{what}_total{{")
             and 'rule="zips"' in line)
        for what in ("added", "removed")
    )  # fmt: skip
    assert added - removed == zips["open"]
    for name in {line.split()[2] for line in lines if line.startswith("# TYPE")}:
        assert sum(line.startswith(f"# HELP {name} ") for line in lines) == 1


def test_the_age_is_that_of_the_last_batch(tmp_path: Path) -> None:
    with Monitor.create(tmp_path / "s", RULES, "id", data=rows(0, ["Bonn"])) as monitor:
        made = dt.datetime.fromisoformat(monitor.history()[-1].time)
        journal = monitor._here().journal
        assert journal is not None
        journal.vacuum(60)  # makes a version, and no batch
    state = WatchedState("s", str(tmp_path / "s"))
    assert state.look() and state.current is not None and state.current.version == 1
    text = metrics_text([state], made + dt.timedelta(seconds=90))
    assert 'holdstrue_last_batch_age_seconds{state="s"} 90.0\n' in text
    with Monitor.create(tmp_path / "empty", RULES, "id"):
        pass
    empty = WatchedState("empty", str(tmp_path / "empty"))
    assert empty.look() and "age" not in metrics_text([empty])
