"""Who may ask: this machine by its own names, and elsewhere who knows the token."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue import HoldstrueError, Monitor
from holdstrue.serve.server import LiveServer
from live import Live, serving

TOKEN = "a secret of some length"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gate") / "s"
    Monitor.create(path, "key(zip)", "id", data=pa.table({"id": [1], "zip": [1]})).close()
    return path


@pytest.fixture(scope="module")
def live(state: Path) -> Iterator[Live]:
    with serving(state) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(state: Path) -> Iterator[Live]:
    with serving(state, host="0.0.0.0", token=TOKEN) as found:
        yield found


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("LOCALHOST", 200), ("evil.example", 421),
     ("127.0.0.1.evil.example", 421), ("", 421)],
)  # fmt: skip
def test_only_names_of_this_machine(live: Live, host: str, status: int) -> None:
    assert live.ask("/api/states", Host=host).status == status


def test_pages_of_other_places_may_not_ask(live: Live) -> None:
    own = f"http://127.0.0.1:{live.server.port}"
    body = {"rule": "key(zip)"}
    assert live.ask("/api/states/s/try/rule", body, Origin=own).status == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        assert live.ask("/api/states/s/try/rule", body, Origin=origin).status == 403
    assert live.ask("/api/states/s/try/rule", body, Content_Type="text/plain").status == 415
    for method in ("PUT", "DELETE", "PATCH", "POST"):
        assert live.ask("/api/states/s", {}, method).status == 405
    heard = live.ask("/api/states")
    assert "access-control-allow-origin" not in heard.headers
    for name in ("content-security-policy", "x-frame-options", "referrer-policy", "cross-origin-resource-policy"):
        assert name in heard.headers
    policy = heard.headers["content-security-policy"]
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert live.ask("/static/..%2f..%2fserver.py").status == 404 and live.ask("/static/server.py").status == 404


def test_elsewhere_the_token_is_asked_for(guarded: Live) -> None:
    paths = (
        "/",
        "/api/states",
        "/metrics",
        "/openapi.json",
        "/api/events",
        "/states/s",
        "/static/page.css",
        "/nothing",
    )
    for path in paths:
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Cookie": "x=y"}):
            heard = guarded.ask(path, **given)
            assert heard.status == 401 and heard.headers["www-authenticate"] == "Bearer", path
        assert guarded.ask(f"{path}?token=wrong").status == 401
    assert guarded.ask("/healthz").status == 200
    assert guarded.ask("/api/states", Authorization=f"Bearer {TOKEN}").status == 200
    welcome = guarded.ask(f"/states/s?x=%22%3E%3Cb%3E&token={TOKEN.replace(' ', '%20')}")
    cookie = welcome.headers["set-cookie"]
    assert welcome.status == 200 and "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie and TOKEN not in welcome.body.decode() and "<b>" not in welcome.body.decode()
    assert b"url=/states/s?x=" in welcome.body
    assert guarded.ask("/states/s", Cookie=cookie.partition(";")[0]).status == 200
    assert guarded.ask("/states/s", Cookie=f"holdstrue-{guarded.server.port}={TOKEN}").status == 401
    assert guarded.ask("//evil.example?token=" + TOKEN.replace(" ", "%20")).body.count(b"url=/evil.example") == 1


def test_a_token_is_made_where_others_can_connect(state: Path) -> None:
    servers = [LiveServer([str(state)], host=host, port=0) for host in ("0.0.0.0", "0.0.0.0", "127.0.0.1", "localhost")]
    for server in servers:
        server.socket.close()
    tokens = [server.token for server in servers]
    assert tokens[0] and len(tokens[0]) >= 30 and tokens[0] != tokens[1] and tokens[2:] == [None, None]
    assert servers[0].address.endswith(f"/?token={tokens[0]}")


def test_wrong_settings_are_refused(state: Path, live: Live) -> None:
    with pytest.raises(HoldstrueError, match="the token has 5 characters"):
        LiveServer([str(state)], port=0, token="short")
    with pytest.raises(HoldstrueError, match=r"cannot listen on 127\.0\.0\.1 port"):
        LiveServer([str(state)], port=live.server.port)
    with pytest.raises(HoldstrueError, match=r"cannot listen on no\.such\.host"):
        LiveServer([str(state)], host="no.such.host.invalid", port=0)


def test_without_the_extra_it_says_what_to_install(state: Path) -> None:
    code = (
        "import sys; sys.modules['starlette'] = None; sys.argv[:1] = ['holdstrue'];"
        "from holdstrue.cli.main import run; run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "serve", str(state), "--port", "0"],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2 and "pip install 'holdstrue[serve]'" in done.stderr, done.stderr
