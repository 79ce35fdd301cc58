"""The application: the endpoints behind the gate, and states that are followed while it runs."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from holdstrue.errors import HoldstrueError
from holdstrue.report.typeset import json_text
from holdstrue.serve.bell import Bell
from holdstrue.serve.endpoints import ENDPOINTS, Asked, Endpoint, RefusedError, Reply, brief
from holdstrue.serve.gate import MOST_BODY, Gate, read_body, wrong
from holdstrue.serve.openapi import DOCUMENT, EVENTS, document
from holdstrue.serve.shapes import SHAPES
from holdstrue.serve.watched import Said, WatchedState
from holdstrue.state.files import GoneError

LOOKERS = 32
"""States that are looked at at once: one that is slow to answer does not hold up others."""


def application(
    states: Mapping[str, WatchedState],
    every: float,
    bell: Bell,
    *,
    names: Iterable[str] | None,
    token: str | None,
    cookie: str,
    tell: Callable[[str], None],
) -> ASGIApp:
    """What answers requests; `tell` gets what went wrong inside."""

    @asynccontextmanager
    async def following(_: Starlette) -> AsyncIterator[None]:
        bell.loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(min(LOOKERS, len(states)), thread_name_prefix="holdstrue-look") as pool:
            tasks = [asyncio.create_task(_follow(state, every, bell, pool, tell)) for state in states.values()]
            try:
                yield
            finally:
                bell.close()
                for task in tasks:
                    task.cancel()

    async def events(_: Request) -> Response:
        return StreamingResponse(bell.listen(), media_type="text/event-stream")

    async def described(_: Request) -> Response:
        return Response(json_text(document(), indent=1), media_type="application/json")

    routes = [Route(one.path, _handler(one, states, tell), methods=[one.method]) for one in ENDPOINTS]
    routes += [Route(EVENTS, events), Route(DOCUMENT, described)]
    app = Starlette(routes=routes, lifespan=following, exception_handlers={HTTPException: _nothing_here})
    return Gate(app, names, token, cookie)


async def _follow(
    state: WatchedState, every: float, bell: Bell, pool: ThreadPoolExecutor, tell: Callable[[str], None]
) -> None:
    """Look at a state again and again. One that takes long to open is opened less often."""
    loop = asyncio.get_running_loop()
    while True:
        began = time.monotonic()
        try:
            changed = await loop.run_in_executor(pool, state.look)
        except Exception as error:  # noqa: BLE001  # whatever is wrong with one state, others are shown
            tell("".join(traceback.format_exception(error)))
            said = Said(
                "damaged", f"{state.given} could not be read: {type(error).__name__}", "see what the server said"
            )
            changed = said != state.said
            state.said, state.current, state.discovery = said, None, None
        if changed:
            bell.ring(brief(state))
        await asyncio.sleep(max(every, 2 * (time.monotonic() - began) if changed else 0))


def _handler(
    endpoint: Endpoint, states: Mapping[str, WatchedState], tell: Callable[[str], None]
) -> Callable[[Request], Any]:
    known = {parameter.name for parameter in endpoint.parameters if parameter.place == "query"}
    required = {
        parameter.name for parameter in endpoint.parameters if parameter.required and parameter.place == "query"
    }

    async def handle(request: Request) -> Response:
        given = {**request.query_params, **request.path_params}
        extra = sorted(set(request.query_params) - known)
        missing = sorted(required - set(given))
        if extra or missing:
            what = f"{extra[0]!r} is not asked here" if extra else f"{missing[0]!r} is missing"
            return wrong(400, what, f"there are {', '.join(sorted(known)) or 'no parameters'}")
        body: Mapping[str, Any] = {}
        if endpoint.body is not None:
            try:
                body = read_body(await _body(request))
            except (ValueError, TypeError, RecursionError) as error:
                return wrong(400, f"what was posted cannot be read: {error}", "post a JSON object")
            fields = SHAPES[endpoint.body]["properties"]
            more = next((name for name in body if name not in fields), None)
            if more is not None:
                return wrong(400, f"{more!r} is not asked here", f"post an object of {', '.join(fields)}")
        return await _answered(endpoint, Asked(states, given, body), tell)

    return handle


async def _body(request: Request) -> bytes:
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > MOST_BODY:
            raise ValueError(f"it has more than {MOST_BODY:,} bytes")
    return found


async def _answered(endpoint: Endpoint, asked: Asked, tell: Callable[[str], None]) -> Response:
    try:
        answer = await run_in_threadpool(endpoint.answer, asked)
    except RefusedError as error:
        return wrong(error.status, error.message, error.hint or "")
    except GoneError as error:
        return wrong(410, error.message, error.hint or "")
    except HoldstrueError as error:
        return wrong(400, error.message, error.hint or "")
    except Exception as error:  # noqa: BLE001  # one question must not end the server
        tell("".join(traceback.format_exception(error)))
        return wrong(500, f"internal error: {type(error).__name__}", "this is a fault in holdstrue; see what it said")
    if not isinstance(answer, Reply):
        return Response(json_text(answer), media_type="application/json")
    headers = {**answer.headers, "Content-Type": answer.type}
    if isinstance(answer.content, str):
        return Response(answer.content, headers=headers)
    return StreamingResponse(answer.content, headers=headers)


async def _nothing_here(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return wrong(status, f"nothing answers {request.method} {request.url.path}", f"{DOCUMENT} lists what can be asked")
