"""Questions beside each other: slow ones hold up nobody, and what fails inside fails alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor
from holdstrue.serve import questions, watched
from holdstrue.serve.endpoints import brief
from holdstrue.serve.screens import state_page
from holdstrue.serve.watched import OpenVersion, WatchedState
from holdstrue.state.local import LocalStore
from live import PATIENCE, serving, until


def make(path: Path) -> Path:
    rows = pa.table({"id": [1, 2], "zip": [1, 1], "city": ["Bonn", "Ulm"]})
    Monitor.create(path, "zip -> city", "id", data=rows).close()
    return path


def stands(state: WatchedState) -> str:
    return state.said.standing


def test_a_slow_question_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = threading.Event(), threading.Event()
    answer = questions.try_rule

    def slow(opened: OpenVersion, text: str, table: str | None) -> Any:
        began.set()
        assert go_on.wait(PATIENCE)
        return answer(opened, text, table)

    monkeypatch.setattr(questions, "try_rule", slow)
    with serving(make(tmp_path / "s")) as live, ThreadPoolExecutor(1) as pool:
        body = {"rule": "key(zip)"}
        asked = pool.submit(live.ask, "/api/states/s/try/rule", body)
        assert began.wait(PATIENCE)
        assert live.ask("/healthz").status == 200 and live.get("/api/states/s/violations")["total"] == 1
        busy = live.ask("/api/states/s/try/rule", body)
        assert busy.status == 429 and "being tried" in busy.data["error"]["message"]
        with Monitor.open(tmp_path / "s") as writer:
            writer.apply(pa.table({"id": [3], "zip": [1], "city": ["Rom"]}))
        until(lambda: live.get("/api/states/s")["open"] == 3, "the new version is shown meanwhile")
        go_on.set()
        assert asked.result(PATIENCE).data["open"] == 1, "of the version that was asked"
        assert live.ask("/api/states/s/try/rule", body).data["open"] == 3


def test_a_fault_inside_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = make(tmp_path / "bad"), make(tmp_path / "good")
    opening = watched.OpenVersion

    def faulty(place: str, at: Any = None, accepted: Any = None) -> OpenVersion:
        if place.endswith("bad"):
            raise RuntimeError("a fault of ours")
        return opening(place, at, accepted)

    def broken(*_: Any) -> Any:
        raise RuntimeError("another fault")

    monkeypatch.setattr(watched, "OpenVersion", faulty)
    monkeypatch.setattr(questions, "row", broken)
    told: list[str] = []
    with serving(bad, good, told=told) as live:
        assert "RuntimeError" in live.standing("bad", "damaged")["message"]
        assert live.get("/api/states/good/violations")["total"] == 1
        heard = live.ask("/api/states/good/row?key=1")
        assert heard.status == 500 and "another fault" not in heard.body.decode()
        assert live.ask("/healthz").status == 200
    assert any("a fault of ours" in text for text in told) and any("another fault" in text for text in told)


def test_a_place_that_is_not_reached_shows_what_was_read_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = WatchedState("s", str(make(tmp_path / "s")))
    assert state.look() and stands(state) == "ready" and not state.look()

    def away(_: LocalStore) -> Any:
        raise TimeoutError(110, "Connection timed out")

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "glance", away)
        assert state.look() and stands(state) == "unreachable" and state.current is not None
        html = "".join(state_page(brief(state), state.current.overview("s"), several=False))
        assert (
            "Connection timed out" in html and "version 0, the last that was read" in html and "zip -&gt; city" in html
        )
        assert not state.look()
    assert state.look() and stands(state) == "ready"
