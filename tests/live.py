"""A server of states for a test, asked over loopback; shapes of its answers compared with what it says of them."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdstrue.serve.server import LiveServer

PATIENCE = 60.0
"""Seconds after which a test no longer waits for what should have happened long ago."""


def until(holds: Callable[[], Any], what: str) -> Any:
    """What a function returns once it is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"it did not happen in {PATIENCE:g} seconds: {what}")


@dataclass(frozen=True)
class Heard:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """The JSON of it."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Live:
    """A server that runs."""

    server: LiveServer

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> Heard:
        """One request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            named = {"Content-Type": "application/json", **named}
        connection.request(method or ("GET" if body is None else "POST"), path, data, named)
        answer = connection.getresponse()
        heard = Heard(answer.status, dict(answer.getheaders()), answer.read())
        connection.close()
        return heard

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        heard = self.ask(path)
        assert heard.status == 200, heard.body
        return heard.data

    def standing(self, name: str, wanted: str) -> Any:
        """A state once it stands so."""
        found: list[Any] = [None]

        def stands() -> bool:
            found[0] = self.get(f"/api/states/{name}")
            return bool(found[0]["standing"] == wanted)

        try:
            until(stands, f"{name} is {wanted}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {found[0]}") from None
        return found[0]


@contextmanager
def serving(*states: object, told: list[str] | None = None, **options: Any) -> Iterator[Live]:
    """A server of these states, whose states were all looked at; `told` gets what goes wrong inside: nothing may."""
    quiet, told = told is None, [] if told is None else told
    server = LiveServer([str(state) for state in states], port=0, every=0.05, tell=told.append, **options)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the server started")
        until(
            lambda: all(state.said.standing != "opening" for state in server.states.values()), "all states were opened"
        )
        yield Live(server)
    finally:
        server.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive() and not (quiet and told), told


def misfits(value: Any, schema: Mapping[str, Any], shapes: Mapping[str, Any], at: str = "answer") -> Iterator[str]:
    """Where data is not of a shape: the part of JSON Schema that the document uses."""
    if "$ref" in schema:
        yield from misfits(value, shapes[schema["$ref"].rpartition("/")[2]], shapes, at)
        return
    if "anyOf" in schema:
        if all(list(misfits(value, one, shapes, at)) for one in schema["anyOf"]):
            yield f"{at}: {value!r} is none of {schema['anyOf']}"
        return
    unknown = set(schema) - {"type", "properties", "required", "additionalProperties", "items", "enum"}
    assert not unknown, unknown
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    types = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None)}
    kind = types.get(schema.get("type", ""))
    if kind is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        yield from (f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, part in value.items():
            if name in properties:
                yield from misfits(part, properties[name], shapes, f"{at}.{name}")
            elif more is False:
                yield f"{at}: {name} is not in its shape"
            elif isinstance(more, dict):
                yield from misfits(part, more, shapes, f"{at}.{name}")
    if isinstance(value, list) and "items" in schema:
        for place, part in enumerate(value):
            yield from misfits(part, schema["items"], shapes, f"{at}[{place}]")
