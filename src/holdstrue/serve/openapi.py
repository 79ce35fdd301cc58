"""The OpenAPI document: what `ENDPOINTS` says, in the words of that standard."""

from __future__ import annotations

from typing import Any

from holdstrue import __version__
from holdstrue.serve.endpoints import ENDPOINTS, Endpoint
from holdstrue.serve.shapes import SHAPES, of

EVENTS = "/api/events"
DOCUMENT = "/openapi.json"


def document() -> dict[str, Any]:
    """The whole of it."""
    paths: dict[str, Any] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    streamed = {"text/event-stream": {"schema": {"type": "string"}}}
    paths[EVENTS] = {
        "get": {
            "summary": "States as they change: server-sent events whose data is a State.",
            "responses": {"200": {"description": "events until the reader leaves", "content": streamed}},
        }
    }
    told = {"application/json": {"schema": {"type": "object"}}}
    paths[DOCUMENT] = {
        "get": {"summary": "This document.", "responses": {"200": {"description": "OpenAPI", "content": told}}}
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "holdstrue serve",
            "version": __version__,
            "description": "States of holdstrue, to be read: what is violated, since when, and what would be.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": SHAPES,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    schema = {"type": "string"} if endpoint.shape is None else of(endpoint.shape)
    wrong = {"description": "why not, and what to do", "content": {"application/json": {"schema": of("Error")}}}
    content = {endpoint.type: {"schema": schema}}
    found: dict[str, Any] = {
        "summary": endpoint.said,
        "parameters": [
            {
                "name": parameter.name,
                "in": parameter.place,
                "description": parameter.said,
                "required": parameter.required,
                "schema": parameter.schema,
            }
            for parameter in endpoint.parameters
        ],
        "responses": {"200": {"description": "the answer", "content": content}, "default": wrong},
    }
    if endpoint.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": of(endpoint.body)}}}
    return found
