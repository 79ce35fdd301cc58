"""Commands as typer is to see them: a parameter whose type is a dataclass stands for options, its fields."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def unfolded(command: Callable[..., int]) -> Callable[..., int]:
    """The command with such options as parameters of their own, and with the choices that it takes from a table.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Reading:
    ...     encoding: str = "utf8"
    >>> @unfolded
    ... def check(data: str, reading: Reading = Reading()) -> int:
    ...     return len(data + reading.encoding)
    >>> list(inspect.signature(check).parameters), check(data="a.csv", encoding="latin-1")
    (['data', 'encoding'], 12)
    """
    hints = get_type_hints(command, include_extras=True)
    bundles: dict[str, Any] = {}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if not is_dataclass(kind):
            parameters.append(parameter.replace(annotation=_shown(kind)))
            continue
        bundles[name] = kind
        own = get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(field.name, parameter.kind, default=field.default, annotation=_shown(own[field.name]))
            for field in fields(kind)
        ]

    @functools.wraps(command)
    def run(**given: Any) -> int:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind) if field.name in given})
            for name, kind in bundles.items()
        }
        return command(**given, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _shown(annotation: Any) -> Any:
    """A type whose metadata makes the option of the parameter by its `option()` is replaced by that."""
    made = (part.option() for part in getattr(annotation, "__metadata__", ()) if hasattr(part, "option"))
    return next(made, annotation)
