"""Data from standard input, copied once for all that read it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import Any

from holdstrue.errors import DataError
from holdstrue.sources.copies import Copies, copied, told_by_content
from holdstrue.sources.datafiles import DataFile

NAME = "standard input"

_COPIED: weakref.WeakKeyDictionary[Any, tuple[Copies, Any]] = weakref.WeakKeyDictionary()
"""By stream its copy: rules may ask for the columns before the rows are read, and a pipe can be read once only."""


def opened(_: str, format: str | None) -> Sequence[DataFile]:  # noqa: A002
    """What standard input holds, in the format that is given or that its first bytes tell, CSV otherwise."""
    stream = sys.stdin
    if stream is None or stream.closed:
        raise DataError("data cannot be read from standard input, which is closed", hint="give a file")
    if stream not in _COPIED:
        if stream.isatty():
            raise DataError("standard input is a terminal", hint="send data to it: cat t.csv | holdstrue check - ...")
        with Copies().filling() as copies:
            path = copies.path("stdin")
            if not copied(stream.buffer, path, NAME):
                raise DataError("standard input is empty", hint="send data to it: cat t.csv | holdstrue check - ...")
        _COPIED[stream] = copies, path
    copies, path = _COPIED[stream]
    path, told = told_by_content(path, NAME, format)
    _COPIED[stream] = copies, path
    return [copies.file(path, NAME, told)]
