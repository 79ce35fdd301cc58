"""States as others write, damage and remove them: each has its screen, and none takes the others down."""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue import Monitor
from holdstrue.serve import downloads
from holdstrue.serve.screens import TITLES
from holdstrue.state.journal import Journal
from live import PATIENCE, Live, serving, until
from places import Places

ROWS = pa.table({"id": [1, 2], "zip": [1, 1], "city": ["Bonn", "Ulm"]})


def make(path: object, data: pa.Table | None = ROWS) -> Monitor:
    return Monitor.create(str(path), [{"name": "zips", "rule": "zip -> city"}], "id", data=data)


def row(key: int, city: str = "Rom") -> pa.Table:
    return pa.table({"id": [key], "zip": [1], "city": [city]})


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A state that must be shown whatever happens to another."""
    make(tmp_path / "beside").close()
    return tmp_path / "beside"


def events(live: Live) -> Iterator[dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", live.server.port, timeout=PATIENCE)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    try:
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
    finally:
        connection.close()


def test_every_batch_is_told_while_another_writes(places: Places) -> None:
    place = places.fresh()
    with make(place) as writer, serving(place) as live:
        name = next(iter(live.server.states))
        heard = events(live)
        first = next(heard)
        assert first["name"] == name and first["open"] == 1 and first["standing"] == "ready"
        for number in range(3):
            writer.apply(row(10 + number))
            while True:
                told = next(heard)
                if told["batches"] == 2 + number:
                    break
            assert told["open"] == live.get(f"/api/states/{name}")["open"] == 1 + 2 * (number + 1)
        heard.close()  # type: ignore[attr-defined]


def test_serving_takes_no_lock_and_writes_nothing(tmp_path: Path) -> None:
    make(tmp_path / "s").close()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with serving(tmp_path / "s") as live:
        live.standing("s", "ready")
        assert live.ask("/states/s").status == 200
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        with Monitor.open(tmp_path / "s") as writer:
            writer.apply(row(3))
        until(lambda: live.get("/api/states/s")["rows"] == 3, "the third row is shown")


def screen(live: Live, name: str, wanted: str) -> str:
    live.standing(name, wanted)
    html = live.ask(f"/states/{name}").body.decode()
    assert f"<h2>{TITLES[wanted]}</h2>" in html and 'class="hint"' in html
    heard = live.ask(f"/api/states/{name}/violations")
    assert heard.status == (200 if wanted == "empty" else 409), heard.body
    assert live.ask("/states/beside").status == 200 and live.get("/api/states/beside/violations")["total"] == 1
    return html


def test_a_state_from_nothing_to_its_end(tmp_path: Path, beside: Path) -> None:
    path = tmp_path / "<new> & 'old'"
    with serving(path, beside) as live:
        name = next(iter(live.server.states))
        assert "holdstrue init" in screen(live, name, "missing") and "<new>" not in screen(live, name, "missing")
        path.mkdir()
        screen(live, name, "no state")
        shutil.rmtree(path)
        with Journal.create(path, "monitor"):
            assert "being created" in screen(live, name, "being created")
        with make(path, None) as writer:
            assert "holdstrue apply" in screen(live, name, "empty")
            writer.apply(ROWS)
            live.standing(name, "ready")
        shutil.rmtree(path)
        assert "was there and is gone" in screen(live, name, "vanished")
        make(path, row(1)).close()
        assert live.standing(name, "ready")["open"] == 0
        assert "no violations" in live.ask(f"/states/{name}").body.decode()


def test_damage_has_its_screen_and_can_be_mended(tmp_path: Path, beside: Path) -> None:
    path = tmp_path / "s"
    make(path).close()
    kept = tmp_path / "copy"
    shutil.copytree(path, kept)
    for file in (path / "runs").iterdir():
        file.write_bytes(b"\0" * file.stat().st_size)
    (tmp_path / "file").write_text("no state")
    with serving(path, tmp_path / "file", beside) as live:
        assert "is damaged" in screen(live, "s", "damaged")
        assert "no state directory" in live.standing("file", "missing")["message"]
        assert 'holdstrue_up{state="s"} 0' in live.ask("/metrics").body.decode()
        shutil.rmtree(path)
        shutil.copytree(kept, path)
        for file in (path / "log").iterdir():
            file.touch()
        assert live.standing("s", "ready")["open"] == 1


def test_other_kinds_of_state_say_what_shows_them(tmp_path: Path, beside: Path) -> None:
    for kind in ("inclusions", "discovery"):
        with Journal.create(tmp_path / kind, kind) as journal:
            journal.commit(journal.write_checkpoint({}, journal.line("first"), {}))
    with serving(tmp_path / "inclusions", tmp_path / "discovery", beside) as live:
        assert "holdstrue.spark.Inclusions" in screen(live, "inclusions", "other kind")
        assert "discovery is missing" in screen(live, "discovery", "damaged")


def test_many_violations_are_counted_and_listed_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MOST", 1000)
    count = 700
    data = pa.table({"id": range(count), "zip": [1] * count, "city": [str(i) for i in range(count)]})
    make(tmp_path / "s", data).close()
    with serving(tmp_path / "s") as live:
        total = count * (count - 1) // 2
        found = live.get("/api/states/s/violations?offset=199999&limit=2")
        assert found["total"] == total and len(found["violations"]) == 2 and found["truncated"]
        heard = live.ask("/api/states/s/violations.csv")
        assert heard.headers["x-truncated"] == f"the first 1000 of {total} violations"
        assert heard.body.count(b"\n") == 1001
        compared = live.get("/api/states/s/compare?from=0")
        assert compared["rules"][0]["added"] is None and compared["truncated"]
        assert live.ask("/api/states/s/violations?since=0").status == 400
        assert live.ask("/api/states/s/violations.csv?since=0").status == 400
        assert len(live.ask("/states/s").body) < 1_000_000
