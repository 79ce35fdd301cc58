"""The report in a real browser: its looks, its keys, and data that would like to be more than data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from browser.looks import check_looks
from holdstrue.detect.delta import Batched
from holdstrue.report.forms import render
from holdstrue.report.overview import Overview, worst_of

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<iframe src='https://evil.example/'></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "<style>*{display:none}</style><!--",
    "=cmd|' /C calc'!A0",
    "\x1b[31mred\x07\x1b]8;;https://evil.example\x07",
    "\u202egnp.exe\u2066",
    "'\"`${1+1}{{7*7}}&lt;",
    "a\u200bb\ufeff",
    "x" * 5000,
]
RULES = [
    {"name": "<b>bold</b> \u202ename", "rule": "zip -> city", "description": "<i>one</i>"},
    {"name": "order", "rule": "not(t.zip = s.zip and t.id < s.id and t.pay > s.pay)", "severity": "warn"},
    {"name": "row", "rule": "not(t.pay > 10)"},
    {"name": "held", "rule": "key(id)"},
]


def hostile_table(times: int = 6) -> pa.Table:
    count = len(HOSTILE) * times
    return pa.table(
        {
            "id": range(count),
            "zip": [f"<u>{i % times}</u>" for i in range(count)],
            "city": [HOSTILE[i % len(HOSTILE)] for i in range(count)],
            "pay": range(count, 0, -1),
        }
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    lines = [
        Batched(f"<b>{i}", "2026-01-01T00:00:00+00:00", str(rule["name"]), i, 1, 2 * i)
        for i in range(9)
        for rule in RULES
    ]
    report = holdstrue.check(hostile_table(), RULES, key="id")
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    plan = report.explain().splitlines()
    path.write_text(render(Overview("<u>shop</u>", report, lines, worst_of(report), plan), "html"), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (390, "light"), (390, "dark")])
def test_it_can_be_read(opened: Any, address: str, width: int, scheme: str) -> None:
    page = opened(address, width=width, scheme=scheme)
    page.wait_for_selector("html[data-ready]")
    check_looks(page)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"
    assert dark == (scheme == "dark")


def test_nothing_of_the_data_is_more_than_text(opened: Any, address: str) -> None:
    page = opened(address)
    page.wait_for_selector("html[data-ready]")
    made = "img, iframe, b, i:not(.legend i), u, style:not(head style), script:not(body > script), a:not(#rules a)"
    assert page.locator(made).count() == 0
    text = page.locator("#parts").inner_text()
    for seen in (
        "<img src=x onerror=alert(1)>",
        "</script><script>",
        "\\u202egnp.exe\\u2066",
        "\\u001b[31mred",
        "a\\u200bb",
    ):
        assert seen in text, seen
    assert not set(text) & set("\x1b\x07\u202e\u2066\u200b\ufeff")
    assert "x" * 299 + "…" in text and "x" * 301 not in text
    assert page.title() == "<u>shop</u> · holdstrue"


def test_by_keyboard_alone(opened: Any, address: str) -> None:
    page = opened(address)
    page.wait_for_selector("html[data-ready]")
    page.keyboard.press("/")
    page.keyboard.type("order")
    assert page.locator("tbody tr[data-rule]:visible").count() == 1
    assert page.locator("main > section[id^=rule-]:visible").count() == 1
    page.keyboard.press("Escape")
    assert page.locator("tbody tr[data-rule]:visible").count() == len(RULES)
    for key, part in (("j", "rules"), ("j", "over-time"), ("j", "rule-0"), ("k", "over-time")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == part
    page.keyboard.press("?")
    assert "next part" in page.locator("#keys").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#keys").is_hidden()
    page.evaluate("document.activeElement.blur()")
    shown = page.locator("#rule-1 tbody tr").count()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('#rule-1 button')"):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.locator("#rule-1 tbody tr").count() > shown


def test_printed_it_has_all_parts_and_no_buttons(opened: Any, address: str) -> None:
    page = opened(address)
    page.wait_for_selector("html[data-ready]")
    page.emulate_media(media="print")
    assert page.locator("button:visible").count() == 0 and page.locator("#tools").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("main > section:visible").count() >= 5
    # a sheet of A4 has room for all columns, and says what it leaves out
    page.set_viewport_size({"width": 718, "height": 1000})
    assert page.locator("#rules th", has_text="share of rows").is_visible()
    assert "are in the page and not printed" in page.locator("#rule-1").inner_text()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#plan pre").is_visible() and page.locator("#memory").is_visible()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("#plan pre").is_hidden()
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.querySelector('h2')).color") == "rgb(0, 0, 0)"
    assert page.pdf().startswith(b"%PDF")
