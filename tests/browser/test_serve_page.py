"""The live page in a real browser: new batches without a reload, questions, screens, and the token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from browser.looks import check_looks
from browser.test_report_page import HOSTILE, RULES, hostile_table
from holdstrue import Monitor
from live import serving
from unit.cli.runs import run


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "shop"
    with Monitor.create(path, RULES, "id", data=hostile_table()) as monitor:
        journal = monitor._here().journal
        assert journal is not None
        journal.vacuum(86_400)
        monitor.apply(pa.table({"id": [0], "op": ["delete"]}), "<b>monday")
    return path


def fill(page: Any, panel: str, **fields: str) -> None:
    """Ask something in a panel."""
    page.evaluate(f"document.querySelector('#{panel}').open = true")
    for name, text in fields.items():
        place = page.locator(f"#{panel} [name={name}]")
        place.select_option(text) if place.evaluate("(node) => node.tagName") == "SELECT" else place.fill(text)
    page.locator(f"#{panel} form button").click()


def test_new_batches_appear_and_nothing_is_lost(opened: Any, state: Path) -> None:
    with serving(state) as live, Monitor.open(state) as writer:
        page = opened(f"{live.server.url}states/shop")
        page.wait_for_selector("#pulse.live")
        page.evaluate("window.mark = 'not loaded again'")
        page.keyboard.press("/")
        page.keyboard.type("row")
        before = live.get("/api/states/shop")
        writer.apply(
            pa.table({"id": [900], "zip": ["new"], "city": ["Rom"], "pay": [11], "rate": [1]}).drop_columns("rate")
        )
        page.wait_for_selector(f"html[data-ready='{before['version'] + 1}']")
        assert f"{before['open'] + 1:,} violations" in page.locator("#head .lead").inner_text()
        assert page.evaluate("window.mark") == "not loaded again"
        assert page.evaluate("document.activeElement.value") == "row"
        assert page.locator("tbody tr[data-rule]:visible").count() == 1
        page.keyboard.press("Escape")
        assert "version" in page.locator("#head").inner_text()


def test_questions_are_answered(opened: Any, state: Path, tmp_path: Path) -> None:
    with serving(state) as live:
        page = opened(f"{live.server.url}states/shop")
        page.wait_for_selector("#ask")
        fill(page, "find", rule="order", key="6")
        page.wait_for_selector("#find .answer table")
        total = live.get("/api/states/shop/violations?rule=order&key=6")["total"]
        assert f"{total} violations of version" in page.locator("#find .answer").inner_text()
        with page.expect_download() as loading:
            page.locator("#find a", has_text="csv").click()
        loading.value.save_as(tmp_path / "found.csv")
        assert (tmp_path / "found.csv").read_text().count("\n") == total + 1
        page.locator("#find .key").first.click()
        page.wait_for_selector("#row dl.values")
        page.locator("#row button", has_text="its history").click()
        page.wait_for_selector("#row h3:text('History')")
        assert "<b>monday" in page.locator("#row .answer").inner_text()
        fill(page, "row", key="0")
        page.locator("#row button", has_text="its history").click()
        page.wait_for_selector("#row td:text('deleted')")
        fill(page, "compare", **{"from": "0"})
        page.wait_for_selector("#compare .answer table")
        assert "version 0 to" in page.locator("#compare .answer").inner_text()
        fill(page, "try-row", row='{"id": 5000, "zip": "q", "city": "<img src=x onerror=alert(1)>", "pay": 99}')
        page.wait_for_selector("#try-row .answer table")
        assert "row" in page.locator("#try-row .answer table").inner_text()
        fill(page, "try-rule", rule="key(city)")
        page.wait_for_selector("#try-rule .answer table")
        fill(page, "try-rule", rule="<b>nonsense")
        page.wait_for_selector("#try-rule .note")
        assert page.locator("img, iframe, #parts b, #ask b").count() == 0
        assert not set(page.locator("body").inner_text()) & set("\x1b\u202e\u2066")
        # parts are drawn anew whenever the state is read anew
        page.wait_for_function("text => document.querySelector('#parts').innerText.includes(text)", arg=HOSTILE[1])


@pytest.mark.parametrize(("width", "scheme"), [(1100, "dark"), (390, "light")])
def test_it_can_be_read(opened: Any, state: Path, tmp_path: Path, width: int, scheme: str) -> None:
    with serving(state, tmp_path / "nowhere") as live:
        page = opened(f"{live.server.url}states/shop", width=width, scheme=scheme)
        page.wait_for_selector("#pulse.live")
        fill(page, "find", rule="order")
        page.wait_for_selector("#find .answer table")
        check_looks(page)
        for path in ("", "states/nowhere"):
            page.goto(live.server.url + path)
            page.wait_for_selector("#pulse.live")
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            # nothing has to be pushed aside to be seen, in the list of states neither
            assert page.evaluate("[...document.querySelectorAll('.wide')].every((n) => n.scrollWidth <= n.clientWidth)")
        page.goto(live.server.url)
        seen = page.locator("table.states").inner_text()
        assert all(word in seen for word in ("shop", "<b>monday", "Nothing there yet"))
        assert page.locator("table.states thead").is_visible() == (width > 390)
        page.goto(f"{live.server.url}states/nowhere")
        page.wait_for_selector("#pulse.live")
        Monitor.create(tmp_path / "nowhere", "key(id)", "id", data=pa.table({"id": [1]})).close()
        page.wait_for_selector("#rules")
        assert "no violations" in page.locator("#head").inner_text()


def test_a_browser_shows_the_token_once(opened: Any, state: Path) -> None:
    with serving(state, host="0.0.0.0") as live:
        local = f"http://127.0.0.1:{live.server.port}/"
        page = opened(f"{local}states/shop?token={live.server.token}")
        page.wait_for_selector("#pulse.live")
        assert page.url == f"{local}states/shop" and page.evaluate("document.cookie") == ""


def test_rows_of_every_table_can_be_asked_for(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "two"
    rules = ["orders.customer in customers.id", {"rule": "zip -> town", "table": "customers"}]
    customers = pa.table({"id": ["C1", "C2"], "zip": ["1", "1"], "town": ["Bonn", "Ulm"]})
    orders = pa.table({"id": [1, 2], "customer": ["C1", "C9"]})
    with Monitor.create(
        path, rules, {"orders": "id", "customers": "id"}, data={"orders": orders, "customers": customers}
    ):
        pass
    with serving(path) as live:
        page = opened(f"{live.server.url}states/two")
        page.wait_for_selector("#ask")
        fill(page, "find", rule="zip -> town")
        page.locator("#find button.key", has_text="C2").click()
        page.wait_for_selector("#row dl.values")
        assert page.locator("#row [name=table]").input_value() == "customers"
        assert "Ulm" in page.locator("#row dl.values").inner_text()
        fill(page, "row", table="orders", key="2")
        page.locator("#row dl.values", has_text="C9").wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1100, "light")])
def test_a_discovery_and_accepted_violations(opened: Any, state: Path, tmp_path: Path, width: int, scheme: str) -> None:
    rows = pa.table({"id": range(40), "zip": [i // 4 for i in range(40)], "city": [f"<b>{i // 8}" for i in range(40)]})
    with holdstrue.discover(rows, key="id") as found:
        found.save(tmp_path / "found")
    known = tmp_path / "accepted.yaml"
    known.write_text("accepted:\n- rule: row\n  reason: <i>seen\n  rows: [1, 2]\n")
    with serving(state, tmp_path / "found", accepted=[f"shop={known}"]) as live:
        page = opened(f"{live.server.url}states/found", width=width, scheme=scheme)
        page.wait_for_selector("#discovered")
        with holdstrue.Discovery.open(tmp_path / "found") as writer:
            writer.apply(pa.table({"id": [40], "zip": [0], "city": ["<u>Rom"]}), batch_id="<b>monday")
        page.wait_for_selector("#ended")
        assert "zip -> city" in page.locator("#ended").inner_text() and page.locator("#ask").count() == 0
        assert "<b>monday" in page.locator("#turnover").inner_text() and page.locator("main b, main u").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        page.goto(f"{live.server.url}states/shop")
        page.wait_for_selector("#accepted")
        assert "2 accepted" in page.locator("tr[data-rule='2']").inner_text()
        check_looks(page)


def test_rows_of_every_table_are_found_by_key(opened: Any, tmp_path: Path) -> None:
    run("demo", "--data-only", tmp_path / "shop")
    data = tmp_path / "shop"
    more = ("--table", f"customers={data / 'customers.csv'}", "--table", f"products={data / 'products.csv'}")
    run("init", tmp_path / "state", "--rules", data / "rules.yaml", "--data", data / "orders.csv", *more)
    with serving(tmp_path / "state") as live:
        page = opened(f"{live.server.url}states/state")
        page.wait_for_selector("#ask")
        fill(page, "find", table="customers", key="C0041")
        page.wait_for_selector("#find .answer table")
        assert "C0041" in page.locator("#find .answer").inner_text()
