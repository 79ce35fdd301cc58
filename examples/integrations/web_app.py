"""A web service that asks what a row would break before it writes it.

    STATE=states/orders uvicorn web_app:app

POST /orders with {"id": 7, "zip": "10115", "city": "Berlin"}: 201 when no rule of severity error is newly violated, and
the row is written; 409 with the violations otherwise. `preview` takes as long as opening the state, so that this is for
rows that people enter. With FastAPI the same functions are `@app.post("/orders")`. Tested: with Starlette
and uvicorn themselves.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from holdstrue import Delta, HoldstrueError, Monitor


class Orders:
    """A state whose rows are asked about, and then written, one after the other."""

    def __init__(self, state: str) -> None:
        self.monitor = Monitor.open(state)
        self._one_at_a_time = threading.Lock()

    def write(self, row: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the answer; between the question and the row nothing else is written."""
        with self._one_at_a_time:
            try:
                asked = self.monitor.preview([row], feed="append")
            except HoldstrueError as error:
                return 422, {"error": error.message, "hint": error.hint}
            broken = self._broken(asked)
            if broken:
                return 409, {"error": "this row would break rules", "rules": broken}
            # here the row is also written to the table itself
            self.monitor.apply([row], feed="append")
            return 201, {"written": row}

    def _broken(self, delta: Delta) -> dict[str, list[dict[str, Any]]]:
        severe = {rule.name for rule in self.monitor.rules if rule.severity == "error"}
        return {
            name: [violation.to_dict() for violation in delta.added if violation.rule == name]
            for name, step in delta.counts.items()
            if step.added and name in severe
        }


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """The state is open as long as the service runs."""
    app.state.orders = Orders(os.environ["STATE"])
    yield
    app.state.orders.monitor.close()


async def post_order(request: Request) -> JSONResponse:
    """One row."""
    try:
        row = await request.json()
    except ValueError:
        return JSONResponse({"error": "the body is no JSON"}, 400)
    if not isinstance(row, dict):
        return JSONResponse({"error": "a row is an object"}, 400)
    status, answer = await run_in_threadpool(request.app.state.orders.write, row)
    return JSONResponse(answer, status)


app = Starlette(routes=[Route("/orders", post_order, methods=["POST"])], lifespan=lifespan)
