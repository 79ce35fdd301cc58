"""Sites over Arrow Flight: a server for one of them, and how it reaches the others.

A call is an action with a frame in it, and so is its answer. On this machine alone nobody is asked who they are; who
listens for others must ask for a token, or for certificates of both sides (mutual TLS).
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.frames import SlowError, UnreachableError
from holdstrue.fragments.site_service import SiteService

ASK = "ask"
_TOKEN = re.compile(r"[!-~]([ -~]*[!-~])?")
PIECE = 64 << 20
"""Bytes of an answer that come together: a load may break rules for as many rows as there are, and what gRPC is given
at once ends the process from 2 GiB on."""
MOST_BYTES = (2 << 30) - (1 << 20)
"""Of a word, for the same reason."""
TIMEOUT = 60.0
"""Seconds that one call may take before the site is asked whether it is there and the call is repeated, which waits for
the first one: so a site that needs longer is only asked again. Chosen, not tuned."""


@dataclass(frozen=True)
class Credentials:
    """What sites show each other: a token that all know, or certificates that one authority has signed."""

    token: str | None = None
    certificate: str | None = None
    key: str | None = None
    authority: str | None = None

    def __post_init__(self) -> None:
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            raise HoldstrueError(
                f"the token {'has characters that cannot be sent' if self.token.strip() else 'is empty'}",
                hint="letters, digits and signs of ASCII, with no blank at its ends",
            )
        files = {"certificate": self.certificate, "key": self.key, "authority": self.authority}
        missing = [name for name, file in files.items() if file is None]
        if missing and len(missing) < len(files):
            raise HoldstrueError(
                f"TLS needs a certificate, its key and the authority; missing: {', '.join(missing)}",
                hint="give --certificate, --key and --authority, or none of them",
            )
        if not missing:
            self._refuse_unfit()

    def _refuse_unfit(self) -> None:
        """Refuse files that gRPC would only complain of while it connects, and in words of its own."""
        for name in ("certificate", "key", "authority"):
            self.read(name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            # without an answer for a password it would be asked for at the terminal
            context.load_cert_chain(str(self.certificate), str(self.key), password="")
        except (ssl.SSLError, ValueError) as error:
            raise HoldstrueError(
                f"the certificate {self.certificate!r} and the key {self.key!r} cannot be used: {_reason(error)}",
                hint="both are PEM; the key belongs to the certificate and has no password",
            ) from None
        try:
            context.load_verify_locations(self.authority)
        except ssl.SSLError as error:
            raise HoldstrueError(
                f"the authority {self.authority!r} cannot be used: {_reason(error)}",
                hint="a certificate in PEM, which has signed those of all sites",
            ) from None

    @property
    def tls(self) -> bool:
        """Whether both sides show certificates."""
        return self.certificate is not None

    def read(self, name: str) -> bytes:
        """What is in a file of TLS."""
        file = Path(getattr(self, name))
        try:
            return file.read_bytes()
        except OSError as error:
            raise HoldstrueError(f"cannot read the {name} {str(file)!r}: {error.strerror}") from None


_TLS = "both sides must use TLS or neither, with certificates that the other side's authority has signed"


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).lower().replace("_", " ")


def parted(address: str) -> tuple[str, int]:
    """A host and a port.

    >>> parted("127.0.0.1:7001")
    ('127.0.0.1', 7001)
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise HoldstrueError(f"{address!r} is not an address", hint="HOST:PORT, as in 127.0.0.1:7001")
    return host, int(port)


def on_this_machine(host: str) -> bool:
    """Whether nobody else can reach a host by this name."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class _Token(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in who knows the token."""

    def __init__(self, token: str) -> None:
        self._wanted = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: Mapping[str, Any]) -> None:
        given = [value for name, values in headers.items() if name.lower() == "authorization" for value in values]
        told = [value if isinstance(value, bytes) else str(value).encode() for value in given]
        if not any(hmac.compare_digest(value, self._wanted) for value in told):
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")


class SiteServer(flight.FlightServerBase):  # type: ignore[misc]
    """One site, listening."""

    def __init__(self, service: SiteService, address: str, credentials: Credentials) -> None:
        host, port = parted(address)
        if not on_this_machine(host) and credentials.token is None and not credentials.tls:
            raise HoldstrueError(
                f"others could reach {address}, and nobody is asked who they are",
                hint="give --token, or --certificate, --key and --authority; or listen on 127.0.0.1",
            )
        options: dict[str, Any] = {}
        if credentials.tls:
            options["tls_certificates"] = [(credentials.read("certificate"), credentials.read("key"))]
            options |= {"verify_client": True, "root_certificates": credentials.read("authority")}
        if credentials.token is not None:
            options["middleware"] = {"token": _Token(credentials.token)}
        self._service = service
        scheme = "grpc+tls" if credentials.tls else "grpc"
        try:
            super().__init__(f"{scheme}://{host}:{port}", **options)
        except (pa.ArrowException, OSError) as error:
            raise HoldstrueError(f"cannot listen on {address}: {error}", hint="is the port free?") from None

    def do_action(self, context: Any, action: flight.Action) -> Iterator[flight.Result]:
        """Answer a call."""
        if action.type != ASK:
            raise NotImplementedError(f"no action is called {action.type!r}")
        answer = self._service.answer(action.body.to_pybytes())
        for start in range(0, len(answer), PIECE):
            yield flight.Result(pa.py_buffer(memoryview(answer)[start : start + PIECE]))

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        """What there is to ask for."""
        return [(ASK, "a word of a site: head and body in one frame")]


class Wires:
    """Connections to sites by name, opened when they are first needed and again after each failure."""

    def __init__(self, addresses: Mapping[str, str], credentials: Credentials, timeout: float = TIMEOUT) -> None:
        self._addresses, self._credentials, self._timeout = dict(addresses), credentials, timeout
        self._clients: dict[str, flight.FlightClient] = {}
        self._lock = threading.Lock()

    def carry(self, site: str, frame: bytes) -> bytes:
        """Bring a frame to a site, and its answer back."""
        if site not in self._addresses:
            raise HoldstrueError(f"site {site!r} has no address", hint="give it one in the file: address: HOST:PORT")
        if len(frame) > MOST_BYTES:
            raise HoldstrueError(
                f"what site {site!r} is to be told takes {len(frame):,} bytes, and at most {MOST_BYTES:,} go at once",
                hint="apply fewer changes at a time",
            )
        token = self._credentials.token
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        try:
            options = flight.FlightCallOptions(timeout=self._timeout, headers=headers)
            pieces = [piece.body for piece in self._client(site).do_action(flight.Action(ASK, frame), options)]
            return pieces[0].to_pybytes() if len(pieces) == 1 else b"".join(pieces)
        except flight.FlightUnauthenticatedError:
            raise HoldstrueError(
                f"site {site!r} does not let this one in: the token is missing or wrong",
                hint="start all sites with the same token",
            ) from None
        except flight.FlightTimedOutError:
            raise SlowError(
                f"site {site!r} at {self._addresses[site]} did not answer in {self._timeout:g} seconds",
                hint="is it beyond a wire that is cut?",
            ) from None
        except (flight.FlightError, pa.ArrowException, OSError) as error:
            self._drop(site)
            # gRPC says much before it says why
            said = (
                str(error).partition("\n")[0].rpartition("Failed to connect to remote host: ")[2]
                or type(error).__name__
            )
            raise UnreachableError(
                f"site {site!r} at {self._addresses[site]} does not answer: {said or type(error).__name__}",
                hint=f"start it: holdstrue site serve FILE --name {site}"
                + (f"; if it is there, {_TLS}" if "Socket closed" in said or "handshake" in said else ""),
            ) from None

    def _client(self, site: str) -> flight.FlightClient:
        with self._lock:
            if site not in self._clients:
                host, port = parted(self._addresses[site])
                options: dict[str, Any] = {}
                if self._credentials.tls:
                    options["tls_root_certs"] = self._credentials.read("authority")
                    options["cert_chain"] = self._credentials.read("certificate")
                    options["private_key"] = self._credentials.read("key")
                scheme = "grpc+tls" if self._credentials.tls else "grpc"
                # each with a connection of its own: one that is broken waits longer and longer before it tries again
                options["generic_options"] = [("grpc.use_local_subchannel_pool", 1)]
                self._clients[site] = flight.FlightClient(f"{scheme}://{host}:{port}", **options)
            return self._clients[site]

    def _drop(self, site: str) -> None:
        with self._lock:
            client = self._clients.pop(site, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        """Close all of them."""
        for site in [*self._clients]:
            self._drop(site)


def served(
    service: Callable[[Callable[[str, bytes], bytes]], SiteService],
    addresses: Mapping[str, str],
    listen: str,
    credentials: Credentials,
) -> tuple[SiteServer, SiteService, Wires]:
    """A site that listens; the port is known from its server, where any free one was asked for."""
    wires = Wires(addresses, credentials)
    made = service(wires.carry)
    try:
        return SiteServer(made, listen, credentials), made, wires
    except BaseException:
        made.close()
        wires.close()
        raise
