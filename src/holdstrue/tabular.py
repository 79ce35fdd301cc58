"""Answers as tables of whatever library people work with."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdstrue.errors import HoldstrueError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Tabular(ABC):
    """What can be had as a table: of Arrow, pandas and polars; and shown in a notebook."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """As an Arrow table."""

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas data frame."""
        _needed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """As a polars data frame."""
        return _needed("polars").from_arrow(self.to_arrow())

    def _repr_html_(self) -> str:
        # rendering lives above, so it is looked up when a notebook asks for it
        html: str = import_module("holdstrue.report").html_of(self)
        return html


class PlanText(str, Tabular):
    """Text that says how rules are checked; a notebook shows its lines as they are.

    >>> PlanText("table data: reads a\\n\\nkey(a)\\n  group check: hash on (a)").to_arrow().to_pylist()[1]
    {'about': 'key(a)', 'says': 'group check: hash on (a)'}
    """

    def to_arrow(self) -> pa.Table:
        """A row for each thing that is said, with what it is about: a rule, a table or a kind of discovery."""
        import pyarrow as pa

        said: list[dict[str, str]] = []
        about = ""
        lines = [line for line in self.splitlines() if line]
        for line, after in zip(lines, [*lines[1:], ""], strict=True):
            if line.startswith(" "):
                said.append({"about": about, "says": line.strip()})
            elif after.startswith(" "):
                about = line
            else:  # all in one line
                said.append(dict(zip(("about", "says"), line.split(": ", 1), strict=True)))
        return pa.Table.from_pylist(said, schema=pa.schema({"about": pa.string(), "says": pa.string()}))

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self)}</pre>"


def key_array(keys: Sequence[Any]) -> pa.Array:
    """Keys as a column: of their type, or as text where they have several columns or types."""
    import pyarrow as pa

    if any(isinstance(key, tuple) for key in keys):
        return pa.array([None if key is None else str(list(key)) for key in keys], pa.string())
    try:
        # types are taken from the first values, where nanoseconds would be cut to what most have
        fine = next((key for key in keys if getattr(key, "nanosecond", 0) or getattr(key, "nanoseconds", 0)), None)
        if fine is None:
            return pa.array(keys)
        moment = isinstance(fine, dt.datetime)
        type_ = pa.timestamp("ns", str(fine.tzinfo) if fine.tzinfo else None) if moment else pa.duration("ns")
        return pa.array(keys, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # keys of several tables
        return pa.array([None if key is None else str(key) for key in keys], pa.string())


def _needed(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise HoldstrueError(f"{library} is not installed", hint=f"pip install {library}, or use to_arrow()") from error
