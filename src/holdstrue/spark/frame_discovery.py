"""Rules discovered in data frames: pairs of rows are compared in tasks, the search for rules runs on the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from holdstrue.discovery.api import discover as discover_here
from holdstrue.discovery.discovery import Discovery
from holdstrue.spark.runner import SparkRunner
from holdstrue.spark.tiles import Tiles


def discover(
    data: DataFrame | Mapping[str, DataFrame],
    kinds: Sequence[str] | str = ("dc", "fd", "key"),
    *,
    key: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    columns: Sequence[str] = (),
    state: Any = None,
    types: Mapping[str, str] | None = None,
    **choices: Any,
) -> Discovery:
    """Find the rules that hold in a data frame, or between several; see `holdstrue.discover`.

    The evidence of denial constraints, which is quadratic in the rows, is counted in tasks; keys, FDs and
    inclusions are found on the driver. The columns that are looked at must fit into its memory.
    """
    frames = dict(data) if isinstance(data, Mapping) else {"data": data}
    runner = SparkRunner(next(iter(frames.values())).sparkSession)
    tables = {}
    own = {key} if isinstance(key, str) else set() if key is None or isinstance(key, Mapping) else set(key)
    for name, frame in frames.items():
        keys = own | _names(key.get(name)) if isinstance(key, Mapping) else own
        wanted = [c for c in frame.columns if not columns or c in columns or c in keys]
        tables[name] = runner.select(frame, wanted).toArrow()
    given: Any = tables if isinstance(data, Mapping) else tables["data"]
    # text that Spark read is parsed here; what the types of columns that are not looked at are, nobody asks
    read = {name: set(table.column_names) for name, table in tables.items()}
    declared = {name: text for name, text in (types or {}).items() if _is_read(name, read) or not columns}
    return discover_here(
        given, kinds, key=key, columns=columns, state=state, types=declared, within=Tiles(runner), **choices
    )


def _is_read(name: str, read: Mapping[str, set[str]]) -> bool:
    table, _, column = name.partition(".")
    return name in next(iter(read.values())) or column in read.get(table, ())


def _names(key: str | Sequence[str] | None) -> set[str]:
    return {key} if isinstance(key, str) else set(key or ())
