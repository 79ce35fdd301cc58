"""The report page: everything counted, lists cut and said so, every value shown harmlessly."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.detect.delta import Batched
from holdstrue.report import overview as overviews
from holdstrue.report.forms import render
from holdstrue.report.overview import POINTS, Overview, over_time

HOSTILE = [
    "</script><script>document.title='taken'</script>",
    "<img src=x onerror=document.title='taken'>",
    "<!-- ]]> &amp; &lt;",
    "=cmd|' /C calc'!A0",
    "\x1b[31mred\x07",
    "a\u2028b\u2029c",
    "'\"`${1+1}{{7*7}}",
    "\u202egnp.exe",
]


def table(extra: int = 0) -> pa.Table:
    cities = [*HOSTILE, *HOSTILE, *(["Bonn"] * extra)]
    count = len(cities)
    zips = [f"z{i % len(HOSTILE)}" for i in range(2 * len(HOSTILE))] + ["z0"] * extra
    return pa.table({"id": range(count), "zip": zips, "city": cities[1:] + cities[:1], "pay": range(count, 0, -1)})


RULES = [
    {"name": "<b>bold</b>", "rule": "zip -> city", "description": "<i>one city</i>"},
    {"name": "order", "rule": "not(t.zip = s.zip and t.id < s.id and t.pay > s.pay)", "severity": "warn"},
    {"name": "row", "rule": "not(t.pay > 10)"},
    {"name": "held", "rule": "key(id)"},
]


def page(**options: Any) -> str:
    report = holdstrue.check(table(4), RULES, key="id")
    return render(Overview(options.pop("title", "<u>title</u>"), report, **options), "html")


def data_of(html: str) -> Any:
    [found] = re.findall(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)
    return json.loads(found)


def test_counts_are_those_of_the_report_and_lists_are_cut() -> None:
    report = holdstrue.check(table(4), RULES, key="id")
    whole, cut = data_of(page()), data_of(page(limit=2))
    for result, all_of_it, some in zip(report.results, whole["rules"], cut["rules"], strict=True):
        assert all_of_it["open"] == some["open"] == result.counts.open
        assert len(all_of_it["listed"]) == all_of_it["of_list"]
        assert len(some["listed"]) == min(2, some["of_list"])
    assert whole["open"] == report.total and whole["tables"] == {"data": 20}
    groups = {group["values"]["zip"]: group for group in whole["rules"][0]["listed"]}
    assert groups["z0"]["rows"] == 6
    assert [side["likely"] for side in groups["z0"]["sides"]] == [False, *[True] * (len(groups["z0"]["sides"]) - 1)]
    [pair, *_] = whole["rules"][1]["listed"]
    assert sorted(pair["marked"]) == ["id", "pay"] and len(pair["rows"]) == 2
    assert {row["column"]: row["rows"] for row in whole["columns"]}["city"] == report.results[0].counts.rows


def test_room_is_for_all_lists_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overviews, "MOST_CHARACTERS", 600)
    found = data_of(page())
    listed = [len(rule["listed"]) for rule in found["rules"]]
    assert 0 < sum(listed) < sum(rule["of_list"] for rule in found["rules"])
    assert all(rule["open"] for rule in found["rules"][:3])


def test_nothing_of_the_data_is_markup() -> None:
    html = page()
    outside = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", html, flags=re.S)
    assert "<b>bold" not in outside and "&lt;b&gt;bold" in outside and "<u>" not in outside and "<i>" not in outside
    assert html.count("<script") == 2 and html.count("</script>") == 2
    assert "http" not in re.sub(r"http://www.w3.org/2000/svg|http-equiv", "", html), "it loads nothing"


def test_lines_over_time_have_few_points() -> None:
    history = [
        Batched(f"b{i}", f"t{i}", rule, 2, 1, i) for i in range(1000) for rule in ("a", "b") if rule == "a" or i % 9
    ]
    found = over_time(history)
    assert found is not None
    assert found["batches"] == 1000 and found["each"] == 5 and len(found["names"]) == 200 <= POINTS
    assert sum(found["rules"]["a"]["added"]) == 2000 and found["rules"]["a"]["open"][-1] == 999
    assert found["names"][-1] == "b999" and over_time([]) is None


def test_no_data_yet(tmp_path: Path) -> None:
    with holdstrue.Monitor.create(tmp_path / "s", "key(id)", key="id"):
        pass
    assert "no data yet" in render(Overview("new", None), "html")


def test_rows_of_every_table_memory_and_the_likely_wrong_row() -> None:
    towns = pa.table({"no": range(5), "zip": ["1"] * 5, "town": ["Bonn"] * 4 + ["Ulm"]})
    people = pa.table({"id": range(6), "age": [1, 2, 3, 4, 5, 0], "pay": [10, 20, 30, 40, 50, 99]})
    rules = [
        {"rule": "not(t.age < s.age and t.pay > s.pay)", "name": "pay"},
        {"rule": "zip -> town", "table": "towns", "severity": "warn"},
    ]
    report = holdstrue.check(
        {"people": people, "towns": towns}, replace(holdstrue.load_rules(rules), table="people"), key="id"
    )
    data = Overview("t", report, worst=overviews.worst_of(report), plan=report.explain().splitlines()).to_dict()
    assert [(one["table"], one["key"], one["total"]) for one in data["worst"]][:2] == [
        ("people", "5", 5),
        ("towns", "4", 4),
    ]
    assert {one["table"] for one in data["columns"]} == {"people", "towns"}
    [pay, _] = data["rules"]
    # the row that all others contradict, whichever side of the pair it is on
    assert len(pay["listed"]) == 5 and all(one["names"][one["likely"]] == "5" for one in pay["listed"])
    assert sum(part["bytes"] for part in data["memory"]) == sum(report._engine.size_bytes().values())
    assert any(part["what"] == "check of pay" for part in data["memory"])
    assert data["plan"][:2] == ["table people: reads age, pay", "table towns: reads zip, town"]
    html = render(Overview("t", report), "html")
    assert "error: 5 violations, 1 of 1 rule · warn: 4 violations, 1 of 1 rule" in html and ">warn</span>" in html
