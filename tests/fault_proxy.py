"""A proxy between a client and an HTTP server on loopback that counts requests and does harm by plan.

    with FaultProxy(server.port) as proxy:
        proxy.plan({3: Drop()})                        # the third request from now is done, its answer is lost
        proxy.plan({1: Repeat()}, counting="PUT .*log/")   # counts only requests that match
        proxy.plan({n: Kill(lambda: child.pid)})       # the process dies before the server sees request n
        proxy.plan({n: Kill(child.pid, after=True)})   # ... when the server has done it, before it hears of that

Requests are counted from 1 as they arrive, over all connections; `plan` starts the count anew.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Drop:
    """The server does it, the client sees a closed connection; `before`: the server does not see it either."""

    before: bool = False


@dataclass(frozen=True)
class Repeat:
    """The server does it twice, and the client gets the second answer."""


@dataclass(frozen=True)
class Answer:
    """The client gets this status; with `done` the server does it nevertheless."""

    status: int
    done: bool = False
    body: bytes = b"<Error><Code>Planned</Code></Error>"


@dataclass(frozen=True)
class Cut:
    """The server does it, the client gets half of the answer's body and a closed connection."""


@dataclass(frozen=True)
class Delay:
    """Seconds before the server sees it."""

    seconds: float


@dataclass(frozen=True)
class Kill:
    """A process is killed (SIGKILL) before the server sees it, or after it was done and before it is answered."""

    pid: int | Callable[[], int]
    after: bool = False


Fault = Drop | Repeat | Answer | Cut | Delay | Kill


@dataclass
class Request:
    """A request as it came, and the status that the server answered; 0 where it was not asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    status: int = 0
    fault: Fault | None = None
    sent: int = 0
    """Bytes of the answer's body."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass
class FaultProxy:
    """Forwards to `127.0.0.1:target`; see the module."""

    target: int
    requests: list[Request] = field(default_factory=list)
    """Every request since the last plan, counted or not."""
    connections: int = 0
    """How many were made since the last plan."""
    host: str = "127.0.0.1"
    """The address on which it listens."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._plan: Mapping[int, Fault] = {}
        self._counting: re.Pattern[str] | None = None
        self._seen = 0
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with proxy._lock:
                    proxy.connections += 1

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except ConnectionError:  # the client is gone, as planned
                    self.close_connection = True

            def do_GET(self) -> None:
                proxy._serve(self)

            def do_PUT(self) -> None:
                proxy._serve(self)

            def do_POST(self) -> None:
                proxy._serve(self)

            def do_HEAD(self) -> None:
                proxy._serve(self)

            def do_DELETE(self) -> None:
                proxy._serve(self)

            def log_message(self, *_: object) -> None:
                """Nothing: `requests` tells."""

        self._server = ThreadingHTTPServer((self.host, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its address, for AWS_ENDPOINT_URL."""
        return f"http://{self.host}:{self.port}"

    @property
    def seen(self) -> int:
        """How many requests were counted since the last plan."""
        with self._lock:
            return self._seen

    def plan(self, faults: Mapping[int, Fault] | None = None, *, counting: str | None = None) -> None:
        """Do this to the requests from now on; `counting` is looked for in "METHOD /path?query"."""
        with self._lock:
            self._plan = dict(faults or {})
            self._counting = re.compile(counting) if counting else None
            self._seen = 0
            self.requests = []
            self.connections = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        request = Request(handler.command, handler.path, dict(handler.headers.items()))
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with self._lock:
            self.requests.append(request)
            if self._counting is None or self._counting.search(str(request)):
                self._seen += 1
                request.fault = self._plan.get(self._seen)
        reply = self._harm(request, body)
        if reply is None:
            # a reset, so that the client does not wait for more
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            handler.close_connection = True
            return
        handler.send_response_only(reply.status)
        for name, value in reply.headers:
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                handler.send_header(name, value)
        length = len(reply.body)
        if request.method == "HEAD":
            length = next((int(value) for name, value in reply.headers if name.lower() == "content-length"), 0)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        if isinstance(request.fault, Cut):
            handler.wfile.write(reply.body[: len(reply.body) // 2])
            handler.close_connection = True
        elif request.method != "HEAD":
            request.sent = len(reply.body)
            handler.wfile.write(reply.body)

    def _harm(self, request: Request, body: bytes) -> _Reply | None:
        """Do what is planned; None when the connection is to be closed without an answer."""
        match request.fault:
            case Drop(before=True):
                return None
            case Drop():
                self._forward(request, body)
                return None
            case Repeat():
                self._forward(request, body)
            case Answer(status, done, text):
                if done:
                    self._forward(request, body)
                return _Reply(status, [("Content-Type", "application/xml")], text)
            case Delay(seconds):
                time.sleep(seconds)
            case Kill(pid, after):
                if after:
                    self._forward(request, body)
                os.kill(pid if isinstance(pid, int) else pid(), signal.SIGKILL)
                return None
        return self._forward(request, body)

    def _forward(self, request: Request, body: bytes) -> _Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=60)
        try:
            connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name.lower() != "connection":
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            request.status = answer.status
            return _Reply(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()
