"""Google's and Azure's stores: what is asked of them to create an object once, and what their answers become.

Both are played by a server that keeps objects with their metadata and knows the one condition.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from fault_proxy import Drop, FaultProxy, Repeat
from holdstrue.state.objects import ObjectStore
from holdstrue.state.store import Missing, Taken


@dataclass
class Played:
    """Objects by path: body and metadata; what a store answers when a name is taken."""

    taken: tuple[int, bytes]
    objects: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        lock = threading.Lock()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                condition = self.headers.get("x-goog-if-generation-match") or self.headers.get("If-None-Match") or ""
                kept = {name: value for name, value in self.headers.items() if "-meta-" in name.lower()}
                with lock:
                    store.conditions.append(condition)
                    free = self.path not in store.objects
                    if free:
                        store.objects[self.path] = (body, kept)
                self.answer(201, b"", {"x-goog-generation": "1"}) if free else self.answer(*store.taken, {})

            def do_GET(self) -> None:
                with lock:
                    body, kept = store.objects.get(self.path, (None, {}))
                if body is None:
                    self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", {})
                else:
                    self.answer(200, body, kept)

            do_HEAD = do_GET  # noqa: N815

            def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response_only(status)
                told = {"Content-Length": str(len(body)), "ETag": '"1"', "Last-Modified": formatdate(usegmt=True)}
                for name, value in (told | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


@pytest.fixture(params=["gs", "az"])
def played(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Played, FaultProxy]]:
    """A URL, its store, and the proxy before it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    exists = b"<Error><Code>BlobAlreadyExists</Code></Error>"
    store = Played((412, b"") if request.param == "gs" else (409, exists))
    with FaultProxy(store.server.server_address[1]) as proxy:
        if request.param == "gs":
            monkeypatch.setenv("GOOGLE_BASE_URL", proxy.url)
            monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "testing")
        else:
            monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", proxy.url)
            monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
            monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
        yield f"{request.param}://files/orders/state", store, proxy
    store.server.shutdown()
    store.server.server_close()


def test_an_object_is_created_once(played: tuple[str, Played, FaultProxy]) -> None:
    url, server, _ = played
    store = ObjectStore(url)
    store.create("log/1", b"mine")
    assert store.read("log/1") == b"mine"
    [(path, (body, kept))] = server.objects.items()
    assert unquote(path).endswith("/files/orders/state/log/1") and body == b"mine" and len(kept) == 1
    assert server.conditions == ["0" if url.startswith("gs") else "*"]
    with pytest.raises(Taken):
        ObjectStore(url).create("log/1", b"mine")
    with pytest.raises(Missing):
        store.read("log/2")


@pytest.mark.parametrize("fault", [Drop(), Repeat()], ids=str)
def test_a_lost_answer_does_not_show(played: tuple[str, Played, FaultProxy], fault: Drop | Repeat) -> None:
    url, server, proxy = played
    store = ObjectStore(url)
    proxy.plan({1: fault})
    store.create("log/1", b"mine")
    assert len(server.conditions) == 2 and len(server.objects) == 1
    proxy.plan({1: fault})
    with pytest.raises(Taken):
        store.create("log/1", b"mine")
