"""Who may ask: only this machine by its own names, or who has the token; and what a browser may do with an answer."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from collections.abc import Iterable
from html import escape
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = ("/healthz",)
"""What needs no token: that the server lives is no secret."""
HERE = ("localhost", "127.0.0.1", "[::1]")
LONGEST_TOKEN = 512
MOST_BODY = 1 << 20
"""Bytes of a row or a rule that is tried. Chosen, not tuned."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer: nothing is loaded from elsewhere, shown in another page, or kept."""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nobody else can reach it.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> host_name("localhost:8765"), host_name("[::1]:80"), host_name("evil.example")
    ('localhost', '[::1]', 'evil.example')
    """
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0].lower()


class Gate:
    """Refuses who may not ask.

    Parameters
    ----------
    names
        The names of this machine that a request may be for; None for any. A page of another name that leads here by
        a trick of DNS is refused so, as browsers would let it read the answers.
    token
        What everybody must know; None for nobody.
    cookie
        The name of the cookie that says that a browser has shown the token.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] | None, token: str | None, cookie: str) -> None:
        self._app = app
        self._names = None if names is None else frozenset(names)
        self._token = token
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = self._refused(scope, headers)
        await (answer or self._app)(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        name = host_name(headers.get("host", ""))
        if self._names is not None and name not in self._names:
            return wrong(421, f"this server is not called {name!r}", f"call it {' or '.join(sorted(self._names))}")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return wrong(403, "pages of other places may not ask here", "open this server's own page")
        if scope["method"] == "POST" and headers.get("content-type", "").partition(";")[0] != "application/json":
            return wrong(415, "what is posted must be JSON", "send it with Content-Type: application/json")
        if self._token is None or scope["path"] in OPEN:
            return None
        return self._without_token(scope, headers, self._token)

    def _without_token(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and same(given.strip(), token):
            return None
        mark = sealed(token)
        if same(_cookies(headers).get(self._cookie, ""), mark):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] == "GET" and any(name == "token" and same(value, token) for name, value in query):
            return self._welcome(scope["path"], [pair for pair in query if pair[0] != "token"], mark)
        answer = wrong(
            401, "this server asks for its token", "open the address that it printed, or send it as a bearer"
        )
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    def _welcome(self, path: str, query: list[tuple[str, str]], mark: str) -> Response:
        """Give the browser its cookie, and lead it to the address without the token.

        By a page and not by a redirect: a strict cookie is not sent along a redirect that began elsewhere.
        """
        target = escape("/" + path.lstrip("/") + (f"?{urlencode(query)}" if query else ""))
        answer = HTMLResponse(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}">'
            f'<link rel="icon" href="data:,"><title>holdstrue</title><a href="{target}">go on</a>'
        )
        answer.set_cookie(self._cookie, mark, httponly=True, samesite="strict", path="/")
        return answer


def same(given: str, wanted: str) -> bool:
    """Whether a secret is the right one, in a time that says nothing of it."""
    return hmac.compare_digest(given[:LONGEST_TOKEN].encode(), wanted.encode())


def sealed(token: str) -> str:
    """What a cookie holds in place of the token itself."""
    return hmac.new(token.encode(), b"holdstrue serve", hashlib.sha256).hexdigest()


def wrong(status: int, message: str, hint: str) -> JSONResponse:
    """An answer that says why there is none."""
    return JSONResponse({"error": {"message": message, "hint": hint}}, status)


def read_body(body: bytes) -> dict[str, object]:
    """What was posted; a ValueError where it is no JSON object."""
    found = json.loads(body)
    if not isinstance(found, dict):
        raise TypeError("it is no JSON object")
    return found


def _cookies(headers: Headers) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return {name: value for name, _, value in pairs}


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sent
