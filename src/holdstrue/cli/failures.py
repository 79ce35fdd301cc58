"""Commands as typer is to see them; failures as exit codes and one clear message, never a bare traceback."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import typer

from holdstrue import __version__
from holdstrue.cli.talk import Talk
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.progress import LOG

CLEAN, VIOLATED, BAD_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130
DEBUG = "HOLDSTRUE_DEBUG"


def guarded(command: Callable[..., int]) -> Callable[..., None]:
    """A command as typer is to see it: it ends with its exit code, and every failure is turned into one too.

    A parameter whose type is a dataclass stands for options, its fields, which become parameters of their own.
    Every command has those of `Talk`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Reading:
    ...     encoding: str = "utf8"
    >>> @guarded
    ... def check(data: str, reading: Reading = Reading()) -> int:
    ...     return len(data + reading.encoding)
    >>> list(inspect.signature(check).parameters)
    ['data', 'encoding', 'quiet', 'verbose', 'log']
    """
    hints = get_type_hints(command, include_extras=True)
    bundles: dict[str, Any] = {}
    parameters = []
    own_parameters = inspect.signature(command).parameters
    talk = inspect.Parameter("talk", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for name, parameter in (*own_parameters.items(), ("talk", talk)):
        kind = Talk if parameter is talk else hints[name]
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
    def run(**given: Any) -> None:
        try:
            made = {
                name: kind(**{field.name: given.pop(field.name) for field in fields(kind) if field.name in given})
                for name, kind in bundles.items()
            }
            with made.pop("talk").heard():
                code = _ended(command.__name__, functools.partial(command, **given, **made))
        except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001
            code = explained(error)
        raise typer.Exit(code)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _ended(name: str, command: Callable[[], int]) -> int:
    """The exit code of a command, which is logged."""
    start = time.perf_counter()
    LOG.debug("holdstrue %s: %s begins", __version__, name)
    try:
        code = command()
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001
        code = explained(error)
    LOG.info("%s: exit code %d after %.3f s", name, code, time.perf_counter() - start)
    return code


def _shown(annotation: Any) -> Any:
    """A type whose metadata makes the option of the parameter by its `option()` is replaced by that."""
    made = (part.option() for part in getattr(annotation, "__metadata__", ()) if hasattr(part, "option"))
    return next(made, annotation)


def explained(error: BaseException) -> int:
    """Say what went wrong on standard error; returns the exit code."""
    match error:
        case typer.Exit():
            return error.exit_code
        case KeyboardInterrupt():
            code, said = INTERRUPTED, "interrupted"
        case HoldstrueError():
            code, said = BAD_INPUT, f"error: {error}"
        case OSError():
            where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
            code, said = BAD_INPUT, f"error: {where}{error.strerror or error}"
        case _ if type(error).__module__.startswith(("pyspark.", "py4j.")):
            code, said = INTERNAL, f"error: Spark failed: {spark_says(error)}\nhint: {DEBUG}=1 shows all that it says"
        case MemoryError():
            code, said = INTERNAL, "error: out of memory"
        case _:
            first = next(iter(str(error).splitlines()), "")
            code = INTERNAL
            said = (
                f"internal error: {type(error).__name__}: {first}\n"
                f"hint: this is a fault in holdstrue; {DEBUG}=1 shows where it happened"
            )
    if os.environ.get(DEBUG, "") not in ("", "0") and code != INTERRUPTED:
        said = "".join(traceback.format_exception(error)) + said
    LOG.error("%s", said)
    tell(said)
    return code


def spark_says(error: BaseException) -> str:
    """The line of an error of Spark that says what is wrong: they come with traces of two languages.

    >>> spark_says(Exception("An error occurred while calling o1.x.\\n: java.io.IOException: no host\\n\\tat java..."))
    'java.io.IOException: no host'
    >>> spark_says(Exception("An exception was thrown from the Python worker:\\n x\\nOSError: full\\n\\tat a"))
    'OSError: full'
    """
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return lines[1].removeprefix(": ")
    if "Python worker" not in lines[0]:
        return lines[0]
    raised = [line for line in lines if re.match(r"(?!org\.|java\.|pyspark\.|py4j\.)[\w.]+: ", line)]
    return raised[-1] if raised else lines[-1]


def with_option(error: ChangeError) -> ChangeError:
    """The same error; a hint about conflicts names the option as it is written on the command line."""
    if error.hint is None or not error.hint.startswith("on conflict "):
        return error
    return ChangeError(error.message, hint=error.hint.replace("on conflict ", "--on-conflict "))


def tell(text: str) -> None:
    """A message on standard error, whatever that can show; where there is none, nothing."""
    if sys.stderr is None:
        return
    try:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
