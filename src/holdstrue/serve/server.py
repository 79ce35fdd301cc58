"""The server: a socket, who may connect to it, and the application until a signal ends it."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

from holdstrue.errors import HoldstrueError

INSTALL = "pip install 'holdstrue[serve]'"
SHORTEST_TOKEN = 12
"""Characters of a token that is given. Chosen, not tuned."""


class LiveServer:
    """Serves states until it is told to stop.

    Parameters
    ----------
    states
        Paths and URLs of states.
    accepted
        Files of accepted violations: `FILE` for the only state, `NAME=FILE` for the state of that name.
    host, port
        Where to listen; port 0 is any that is free.
    token
        What everybody must know. Made where it is not given and others than this machine can connect.
    every
        Seconds between two looks for new versions.
    tell
        Gets what went wrong inside.
    """

    def __init__(
        self,
        states: Sequence[str],
        *,
        accepted: Sequence[str] = (),
        host: str = "127.0.0.1",
        port: int = 8765,
        token: str | None = None,
        every: float = 2.0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        try:
            import uvicorn

            from holdstrue.serve.app import application
            from holdstrue.serve.bell import Bell
            from holdstrue.serve.endpoints import brief
            from holdstrue.serve.gate import HERE, is_loopback
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio"):
                raise
            raise HoldstrueError("serve needs starlette and uvicorn, which are not installed", hint=INSTALL) from error
        from holdstrue.serve.watched import accepted_files, named

        alone = is_loopback(host)
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise HoldstrueError(
                f"the token has {len(token)} characters",
                hint=f"give at least {SHORTEST_TOKEN}, or none to have one made",
            )
        self.token = token or (None if alone else secrets.token_urlsafe(24))
        files = accepted_files(list(named(list(states))), accepted)
        self.states = named(list(states), files)
        self.socket = _listening(host, port)
        self.port: int = self.socket.getsockname()[1]
        self._bell = Bell(lambda: [brief(state) for state in self.states.values()])
        app = application(
            self.states,
            every,
            self._bell,
            names=(*HERE, _in_url(host)) if self.token is None else None,
            token=self.token,
            cookie=f"holdstrue-{self.port}",
            tell=tell,
        )
        self.url = f"http://{_in_url(_reachable(host))}:{self.port}/"
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=2,
            lifespan="on",
        )
        self._server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """Where to go first: with the token, where there is one."""
        return self.url if self.token is None else f"{self.url}?token={quote(self.token)}"

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM, or `stop`."""
        failed: list[BaseException] = []

        def serve() -> None:
            try:
                asyncio.run(self._server.serve(sockets=[self.socket]))
            except BaseException as error:  # noqa: BLE001  # told by the thread that waits
                failed.append(error)

        # in a thread of its own uvicorn leaves signals alone, which it would raise again once it has ended
        serving = threading.Thread(target=serve, name="holdstrue-serve", daemon=True)
        with self._signals():
            serving.start()
            while serving.is_alive():
                serving.join(0.2)
        if failed:
            raise failed[0]

    def stop(self) -> None:
        """Have `run` end soon; may be called by another thread."""
        self._server.should_exit = True
        self._bell.close_soon()

    @property
    def started(self) -> bool:
        """Whether requests are answered."""
        return self._server.started

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        # the process is this server's: what was imported stays, so letting go of an old version takes 12 ms, not 200
        gc.collect()
        gc.freeze()
        before = {number: signal.signal(number, lambda *_: self.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(128)
        except BaseException:
            listening.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise HoldstrueError(
            f"cannot listen on {host} port {port}: {why}", hint="choose another with --port, or --port 0 for any"
        ) from error
    return listening


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _reachable(host: str) -> str:
    """A name by which a browser reaches a server that listens on all addresses."""
    try:
        return socket.gethostname() if ipaddress.ip_address(host).is_unspecified else host
    except ValueError:
        return host
