"""Takes the pictures of the report and the live page for the documentation: `.venv/bin/python scripts/screenshots.py`.

A small shop is made, a week of changes with errors is applied, and Chromium shows what came of it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from playwright.sync_api import sync_playwright

import holdstrue
from holdstrue.report.forms import render
from holdstrue.report.overview import Overview
from holdstrue.rules import load_rules
from holdstrue.serve.server import LiveServer

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
CITIES = ["Bonn", "Ulm", "Kiel", "Jena", "Graz", "Bern", "Lille", "Turin", "Porto", "Ghent"]
RULES = [
    {"name": "a zip code lies in one city", "rule": "zip -> city"},
    {
        "name": "larger orders get no smaller discount",
        "rule": "not(t.city = s.city and t.total > s.total and t.discount < s.discount)",
        "severity": "warn",
    },
    {"name": "nothing is shipped before it is ordered", "rule": "not(t.shipped < t.ordered)"},
    {"name": "an order has one number", "rule": "key(order)"},
    {"name": "every order has a customer", "rule": "not null(customer)"},
]


def orders(random: Random, keys: list[int], wrong: float) -> pa.Table:
    """Orders of which about a share has an error."""
    rows = []
    for key in keys:
        at = random.randrange(len(CITIES))
        total = random.randrange(20, 900)
        day = random.randrange(1, 20)
        row: dict[str, Any] = {"order": key, "customer": f"C{random.randrange(900):03}", "zip": f"{10 + 7 * at}115"}
        row |= {"city": CITIES[at], "total": total, "discount": total // 100, "ordered": day, "shipped": day + 2}
        if random.random() < wrong:
            slip = random.randrange(4)
            row |= [{"city": CITIES[at - 1]}, {"discount": 9}, {"shipped": day - 1}, {"customer": None}][slip]
        rows.append(row)
    return pa.Table.from_pylist(rows)


def shop(place: Path) -> None:
    """The state of a shop after two weeks."""
    random = Random(7)
    rules = replace(load_rules(RULES), table="orders")
    with holdstrue.Monitor.create(
        place, rules, "order", data=orders(random, list(range(1000, 3000)), 0.002)
    ) as monitor:
        for day in range(1, 15):
            new = orders(random, list(range(3000 + 40 * day, 3040 + 40 * day)), 0.06 if day % 4 else 0.25)
            monitor.apply(new, f"day {day:02}")
            broken = [offender.key for offender in monitor.offenders(3)]
            if day % 3 == 0 and broken:
                monitor.apply(orders(random, broken, 0), f"mended {day:02}", on_conflict="upsert")


def main() -> int:
    """Take all pictures."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("no chromium: apt-get install chromium", file=sys.stderr)
        return 2
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        place = Path(folder) / "shop"
        shop(place)
        monitor = holdstrue.Monitor.open(place, read_only=True)
        history = monitor.history()
        monitor.close()
        page = Path(folder) / "report.html"
        page.write_text(render(Overview.of_state(monitor, history, "shop orders"), "html"), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])

        def picture(name: str, url: str, width: int, height: int, scheme: str, script: str = "") -> None:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            shown = context.new_page()
            shown.goto(url)
            shown.wait_for_selector("html[data-ready]")
            if script:
                shown.evaluate(script)
                shown.wait_for_selector(".answer table")
            shown.screenshot(path=IMAGES / f"{name}.png")
            context.close()

        picture("report-light", page.as_uri(), 1000, 1160, "light")
        picture("report-dark", page.as_uri(), 1000, 1160, "dark")
        picture("report-phone", page.as_uri(), 390, 1300, "light")
        server = LiveServer([str(place)], port=0, every=0.1)
        server.states["shop"].given = "shop"
        thread = threading.Thread(target=server.run)
        thread.start()
        asked = """() => {
          const panel = document.querySelector("#find");
          panel.open = true;
          panel.querySelector("[name=rule]").value = "larger orders get no smaller discount";
          panel.querySelector("form").requestSubmit();
        }"""
        while server.states["shop"].current is None:
            threading.Event().wait(0.05)
        picture("serve", f"{server.url}states/shop", 1000, 1160, "light", asked)
        server.stop()
        thread.join()
        browser.close()
    for path in sorted(IMAGES.glob("*.png")):
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
