"""A browser of the system, and pages in it that tell what they should not have done."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, driven by playwright."""
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


Opened = Callable[..., Any]


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """Opens pages; none of them may ask a question, complain, or load what is not of its own place."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_page(url: str, *, width: int = 1100, height: int = 900, scheme: str = "light") -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        own = url.partition("?")[0] if url.startswith("file:") else "/".join(url.split("/")[:3]) + "/"

        def dialog(shown: Any) -> None:
            wrong.append(f"a dialog: {shown.message}")
            shown.dismiss()

        def request(asked: Any) -> None:
            if not asked.url.startswith((own, "data:,")):
                wrong.append(f"a request for {asked.url}")

        def console(said: Any) -> None:
            # questions that are refused are told in the page, and by the browser here; so is a server that has ended,
            # and what is asked of others than it is told by its address
            if said.type == "error" and "status of 400" not in said.text and "net::ERR_" not in said.text:
                wrong.append(f"the console: {said.text}")

        page.on("dialog", dialog)
        page.on("request", request)
        page.on("pageerror", lambda error: wrong.append(f"an error: {error}"))
        page.on("console", console)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong, wrong
