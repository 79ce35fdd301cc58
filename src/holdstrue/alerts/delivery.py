"""Where messages go: a web address that takes JSON, a program that reads it, or a file of JSON lines."""

from __future__ import annotations

import base64
import json
import math
import re
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from holdstrue.errors import HoldstrueError
from holdstrue.location import local_path

PATIENCE = 10.0
"""Seconds for a message to arrive. Chosen, not tuned: the next batch waits for it."""

_WEB = re.compile(r"https?://", re.IGNORECASE)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class UndeliveredError(HoldstrueError):
    """A message that did not arrive; what it was about has happened all the same."""


class Receiver(Protocol):
    """Who gets messages."""

    def deliver(self, message: Mapping[str, Any]) -> None:
        """Hand one over, or raise an `UndeliveredError` that names no secret."""


@dataclass(frozen=True)
class Webhook:
    """A web address to which messages are posted as JSON.

    Its path is a secret of many services, so that errors name the host alone.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    patience: float = PATIENCE

    def deliver(self, message: Mapping[str, Any]) -> None:
        """Post it; an answer other than 2xx is an error, and so is one that sends us elsewhere."""
        url, login = _login(self.url)
        head = {"Content-Type": "application/json", "User-Agent": "holdstrue", **login, **self.headers}
        try:
            request = urllib.request.Request(url, _json(message).encode(), head, method="POST")  # noqa: S310
            with _OPENER.open(request, timeout=self.patience):
                return
        except urllib.error.HTTPError as error:
            said = f"it answered {error.code} {error.reason}"
            error.close()
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            said = f"{type(error).__name__}: {getattr(reason, 'strerror', None) or type(reason).__name__}"
            if isinstance(error, TimeoutError) or isinstance(reason, TimeoutError):
                said = f"no answer within {self.patience:g} s"
        raise UndeliveredError(f"{_host(self.url)}: {said}")


class _NoDetours(urllib.request.HTTPRedirectHandler):
    """A redirected POST would arrive as a GET without its message."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoDetours)


@dataclass(frozen=True)
class Program:
    """A program that is started for each message and reads it from its standard input; no shell is asked."""

    command: tuple[str, ...]
    patience: float = PATIENCE

    def deliver(self, message: Mapping[str, Any]) -> None:
        """Start it and wait; an exit code other than 0 is an error."""
        name = self.command[0]
        try:
            done = subprocess.run(  # noqa: S603
                self.command, input=_json(message).encode(), capture_output=True, timeout=self.patience, check=False
            )
        except subprocess.TimeoutExpired:
            raise UndeliveredError(f"{name}: not done within {self.patience:g} s") from None
        except OSError as error:
            raise UndeliveredError(f"{name}: {error.strerror or error}") from None
        if done.returncode:
            lines = done.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
            raise UndeliveredError(f"{name}: exit code {done.returncode}" + (f": {lines[-1][:200]}" if lines else ""))


@dataclass(frozen=True)
class LinesFile:
    """A file to which messages are added, one a line."""

    path: Path

    def deliver(self, message: Mapping[str, Any]) -> None:
        """Add it to the end."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_json(message) + "\n")
        except OSError as error:
            raise UndeliveredError(f"{self.path}: {error.strerror or error}") from None


@dataclass(frozen=True)
class Receivers:
    """Several who get every message; one that is out of reach keeps none of the others from it."""

    each: tuple[Receiver, ...]

    def deliver(self, message: Mapping[str, Any]) -> None:
        """Hand it to all, and say who did not get it."""
        missed = []
        for one in self.each:
            try:
                one.deliver(message)
            except UndeliveredError as error:
                missed.append(error.message)
        if missed:
            raise UndeliveredError("; ".join(missed))


def target_of(text: str, option: str = "--alert") -> Receiver:
    """The web address or the program that a text names; refused at once where there is none.

    >>> target_of("https://hooks.example.com/services/T0/B0")
    Webhook(url='https://hooks.example.com/services/T0/B0', headers={}, patience=10.0)
    >>> target_of("cat -v").command
    ('cat', '-v')
    """
    if _WEB.match(text):
        return Webhook(_checked(text, option))
    if _ADDRESS.match(text):
        raise HoldstrueError(f"{option} {without_secrets(text)}: no such kind of address", hint="http:// or https://")
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise HoldstrueError(f"{option}: the command cannot be read: {error}", hint="mind its quotes") from None
    if not words:
        raise HoldstrueError(f"{option} is empty", hint=f"{option} https://HOST/PATH, or {option} 'COMMAND ARGUMENTS'")
    if shutil.which(words[0]) is None:
        raise HoldstrueError(
            f"{option}: there is no program {words[0]!r}",
            hint="give its path, or a web address with http:// or https://",
        )
    return Program(words)


def file_or_web(text: str, option: str, headers: Mapping[str, str] | None = None) -> Receiver:
    """The web address or the file that a text names."""
    if _WEB.match(text):
        return Webhook(_checked(text, option), headers or {})
    if _ADDRESS.match(text) and not text.startswith("file:"):
        raise HoldstrueError(f"{option} {without_secrets(text)}: no such kind of address", hint="http:// or https://")
    path = Path(local_path(text, "output"))
    if not text.strip() or path.is_dir() or not path.parent.is_dir():
        raise HoldstrueError(
            f"{option} {text!r} is no file that can be written", hint="a file in a directory that exists"
        )
    return LinesFile(path)


def without_secrets(text: str) -> str:
    """An address without what may be a secret in it: user, password, query and fragment.

    >>> without_secrets("s3://key:secret@bucket/orders?token=1"), without_secrets("orders")
    ('s3://bucket/orders', 'orders')
    """
    if not _ADDRESS.match(text):
        return text
    scheme, rest = text.split("://", 1)
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}"


def _login(url: str) -> tuple[str, dict[str, str]]:
    """The address without user and password, and the header that says them."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    return urlunsplit(parts._replace(netloc=place)), {
        "Authorization": f"Basic {base64.b64encode(unquote(user).encode()).decode()}"
    }


def _host(url: str) -> str:
    return "/".join(without_secrets(url).split("/")[:3])


def _checked(url: str, option: str) -> str:
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and (parts.port is None or parts.port > 0) and url.isascii() and url.isprintable()
    except ValueError:
        usable = False
    if not usable or " " in url:
        raise HoldstrueError(f"{option}: the web address cannot be used", hint="https://HOST/PATH, without spaces")
    return url


def _json(message: Mapping[str, Any]) -> str:
    return json.dumps(_finite(message), allow_nan=False)


def _finite(value: Any) -> Any:
    """The same with text for the numbers that JSON has not: NaN and the infinities may be keys of rows."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value
