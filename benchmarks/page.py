"""The report and the live page: `python benchmarks/page.py` needs Chromium and prints what `results/` keeps.

| part | what is measured |
|---|---|
| report | making the page, its size, and in a fresh browser the first paint and the time until all is drawn |
| serve | a look at a state where nothing is new, opening a new version, and from a commit until a browser shows it |

Goals: first paint under a second with 10,000 violations, a file under 3 MB with a million.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

import holdstrue
from holdstrue.detect.delta import Batched
from holdstrue.report.forms import render
from holdstrue.report.overview import LISTED, Overview, worst_of
from holdstrue.serve.server import LiveServer
from measure import machine
from scenarios.setting import Table

RESULTS = Path(__file__).parent / "results"
RUNS = 5
PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
  const found = list.getEntriesByName("first-contentful-paint");
  if (found.length) done(found[0].startTime);
}).observe({ type: "paint", buffered: true }))"""
BATCHES = 2000
Line: TypeAlias = dict[str, Any]


def as_table(title: str, lines: list[Line]) -> Table:
    """Lines of the same figures as a table."""
    return Table(title, tuple(lines[0]), [tuple(line.values()) for line in lines])


def people(rows: int, wrong: int, seed: int = 14) -> pa.Table:
    """Rows of which about so many break each rule."""
    random = np.random.default_rng(seed)
    zips = random.integers(0, max(1, rows // 5), rows)
    city = [f"City {zip_}" for zip_ in zips]
    for at in random.choice(rows, min(rows, wrong), replace=False).tolist():
        city[at] += " (old name)"
    pay = random.integers(2000, 9000, rows)
    pay[: min(rows, wrong)] = -1
    columns = {"id": np.arange(rows), "zip": zips, "city": city, "pay": pay, "note": random.integers(0, 9, rows)}
    return pa.table(columns)


def rules(count: int) -> list[dict[str, str]]:
    """An FD, and rules of one row, so many in all."""
    found = [{"name": "a zip lies in one city", "rule": "zip -> city"}]
    return found + [{"name": f"pay {at}", "rule": f"not(t.pay < {at})"} for at in range(1, count)]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came out."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def report_page(rows: int, wrong: int, count: int, limit: int) -> tuple[int, float, str]:
    """Violations, seconds for the page without the check, and the page."""
    report = holdstrue.check(people(rows, wrong), rules(count), key="id")
    names = [str(rule["name"]) for rule in rules(count)]
    batches = [(f"#{at}", "2026-11-16T00:00:00+00:00", at) for at in range(BATCHES // count)]
    history = [Batched(batch, when, name, at % 7, at % 5, at) for batch, when, at in batches for name in names]

    def made() -> str:
        plan = report.explain().splitlines()
        return render(Overview("people", report, history, worst_of(report), plan, limit=limit), "html")

    seconds, html = timed(made)
    return report.total, seconds, html


def shown(browser: Any, path: Path) -> tuple[float, float]:
    """Milliseconds to the first paint, and until all is drawn, in a fresh page."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    paint = page.evaluate(PAINT)
    drawn = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    context.close()
    return paint, drawn


def reports(browser: Any, folder: Path, quick: bool) -> tuple[Table, list[Line]]:
    """The report at several sizes."""
    sizes = [(30_000, 8_000, 2, 20_000), (200_000, 4_000, 200, LISTED), (1_500_000, 500_000, 3, LISTED)]
    lines = []
    for rows, wrong, count, limit in [(2_000, 300, 3, LISTED)] if quick else sizes:
        total, seconds, html = report_page(rows, wrong, count, limit)
        path = folder / f"{rows}.html"
        path.write_text(html, encoding="utf-8")
        paints, drawns = zip(*(shown(browser, path) for _ in range(RUNS)), strict=True)
        lines.append(
            {
                "rows": f"{rows:,}",
                "rules": count,
                "violations": f"{total:,}",
                "listed": f"{html.count(chr(34) + 'marked' + chr(34)) + html.count(chr(34) + 'sides' + chr(34)):,}",
                "made in s": round(seconds, 2),
                "file MB": round(len(html.encode()) / 1e6, 2),
                "first paint ms, median": round(statistics.median(paints)),
                "worst": round(max(paints)),
                "all drawn ms, median": round(statistics.median(drawns)),
            }
        )
        print(lines[-1], flush=True)
    return as_table("the report in Chromium", lines), lines


def served(browser: Any, folder: Path, quick: bool) -> tuple[Table, list[Line]]:
    """How soon a commit is seen."""
    lines = []
    for rows in (2_000,) if quick else (10_000, 1_000_000):
        place = folder / f"state-{rows}"
        with holdstrue.Monitor.create(place, rules(3), "id", data=people(rows, rows // 100)) as writer:
            server = LiveServer([str(place)], port=0, every=0.1)
            gc.collect()
            gc.freeze()  # as the command does
            thread = threading.Thread(target=server.run)
            thread.start()
            [state] = server.states.values()
            while state.current is None:
                time.sleep(0.01)
            page = browser.new_context().new_page()
            page.goto(f"{server.url}states/{state.name}")
            page.wait_for_selector("#pulse.live")
            waits = []
            for at in range(RUNS):
                writer.apply(pa.table({"id": [rows + at], "zip": [1], "city": ["new"], "pay": [-1], "note": [1]}))
                began = time.perf_counter()
                version = writer._here().journal.version  # type: ignore[union-attr]
                page.wait_for_selector(f"html[data-ready='{version}']")
                waits.append(time.perf_counter() - began)
            page.context.close()
            server.stop()
            thread.join()
            looks = [timed(state.look)[0] for _ in range(20)]
            state._seen = None
            opened, _ = timed(state.look)
        lines.append(
            {
                "rows": f"{rows:,}",
                "a look, nothing new, ms": round(1000 * statistics.median(looks[1:]), 3),
                "opening a version, ms": round(1000 * opened, 1),
                "from commit to page, median ms": round(1000 * statistics.median(waits)),
                "worst": round(1000 * max(waits)),
            }
        )
        print(lines[-1], flush=True)
    return as_table("the live page (looks every 100 ms)", lines), lines


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python benchmarks/page.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--into", default=f"{dt.datetime.now(dt.UTC):%Y-%m-%d}-page", help="name of the result file")
    parser.add_argument("--no-save", action="store_true", help="print only")
    args = parser.parse_args(arguments)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("no chromium: apt-get install chromium", file=sys.stderr)
        return 2
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        (first, pages), (second, live) = (part(browser, Path(folder), args.quick) for part in (reports, served))
        about = {**machine(), "browser": browser.version}
        browser.close()
    text = "\n\n".join(["# page", ", ".join(f"{name} {value}" for name, value in about.items())])
    text += "\n\n" + f"{first.markdown()}\n\n{second.markdown()}\n"
    print(text)
    if not args.no_save:
        (RESULTS / f"{args.into}.md").write_text(text, encoding="utf-8")
        kept = {"machine": about, "report": pages, "serve": live}
        (RESULTS / f"{args.into}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return int(pages[0]["worst"] >= 1000 or any(line["file MB"] >= 3 for line in pages))


if __name__ == "__main__":
    sys.exit(main())
