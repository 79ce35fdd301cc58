"""Rules discovered in data frames: small ones on the driver, others where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdstrue.discovery.api import discover as discover_here
from holdstrue.discovery.api import keys_of, options_of, require_columns
from holdstrue.discovery.discovery import Discovery
from holdstrue.discovery.options import USUAL
from holdstrue.discovery.work import Work
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.rules.types import checked_types, types_of_table
from holdstrue.spark.discovering.bounded_jobs import WHOLE, most_bytes
from holdstrue.spark.discovering.frame_kinds import found_in_frames
from holdstrue.spark.named import named_frames
from holdstrue.spark.runner import SparkRunner, quoted
from holdstrue.spark.tiles import Tiles


def discover(
    data: DataFrame | str | Mapping[str, DataFrame | str],
    kinds: Sequence[str] | str = USUAL,
    *,
    key: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    columns: Sequence[str] = (),
    state: Any = None,
    types: Mapping[str, str] | None = None,
    whole: int | None = None,
    **choices: Any,
) -> Discovery:
    """Find the rules that hold in a data frame, or between several; see `holdstrue.discover`.

    Parameters
    ----------
    whole
        Tables of up to so many bytes together are searched on the driver (the pairs of rows of denial
        constraints in tasks), and can be kept with `state`. Larger ones stay on Spark: the driver sees samples, counts,
        candidates and a few rows that break them. By default 32 MB, or a quarter of `spark.driver.maxResultSize`
        where that is less; with `state` there is no limit unless one is given, as a state holds the rows.
    """
    given = {name: named_frames(one) for name, one in (data.items() if isinstance(data, Mapping) else [("data", data)])}
    if not given:
        raise HoldstrueError("no table is given", hint="give a data frame, or a mapping from names to data frames")
    runner = SparkRunner(next(iter(given.values())).sparkSession)
    frames = {name: _wanted(runner, frame, _own(key, name), columns) for name, frame in given.items()}
    most = whole if whole is not None else None if state is not None else most_bytes(runner, WHOLE)
    counted = {} if most is None else _sizes(runner, frames, most)
    if most is None or sum(size for _, size in counted.values()) <= most:
        return _on_driver(runner, data, frames, kinds, key, columns, state, types, choices)
    if state is not None:
        raise HoldstrueError(
            f"a state holds the rows, and these are more than whole={most} bytes",
            hint="leave out whole= where the driver can hold them, or leave out state=",
        )
    progress = choices.pop("progress", None)
    options, keys = options_of(kinds, columns, choices), keys_of(key, list(frames))
    require_columns({name: frame.columns for name, frame in frames.items()}, keys, options)
    declared = checked_types((types or {}).items())
    first = next(iter(frames))
    for name, frame in frames.items():
        own = types_of_table(declared, name, first, frames)
        frames[name] = runner.declared(frame, {c: d for c, d in own.items() if c in frame.columns}, None)
    for name, own_key in keys.items():
        _require_key(runner, name, frames[name], own_key)
    work = Work.lasting(options.budget, progress, options.threads)
    found = found_in_frames(runner, frames, {name: rows for name, (rows, _) in counted.items()}, keys, options, work)
    found.types = declared
    return found


def _on_driver(
    runner: SparkRunner, data: Any, frames: Mapping[str, DataFrame], kinds: Any, key: Any, columns: Sequence[str],
    state: Any, types: Mapping[str, str] | None, choices: Mapping[str, Any],
) -> Discovery:  # fmt: skip
    tables = {name: frame.toArrow() for name, frame in frames.items()}
    given: Any = tables if isinstance(data, Mapping) else tables["data"]
    # text that Spark read is parsed here; what the types of columns that are not looked at are, nobody asks
    read = {name: set(table.column_names) for name, table in tables.items()}
    declared = {name: text for name, text in (types or {}).items() if _is_read(name, read) or not columns}
    return discover_here(
        given, kinds, key=key, columns=columns, state=state, types=declared, within=Tiles(runner), **choices
    )


def _wanted(runner: SparkRunner, frame: DataFrame, key: set[str], columns: Sequence[str]) -> DataFrame:
    return runner.select(frame, [c for c in frame.columns if not columns or c in columns or c in key])


def _sizes(runner: SparkRunner, frames: Mapping[str, DataFrame], most: int) -> dict[str, tuple[int, int]]:
    """By table its rows, and about how many bytes they take: 8 a value, and the length of text and bytes.

    What text takes is not looked at where footers tell so many rows that a table is larger than `most` without it.
    """
    found = {}
    with runner.about("size of the tables"):
        for name, frame in frames.items():
            rows = runner.known_rows(frame)
            if rows is not None and 8 * rows * len(frame.columns) > most:
                found[name] = rows, 8 * rows * len(frame.columns)
                continue
            long = [f.name for f in frame.schema if f.dataType.typeName() in ("string", "varchar", "char", "binary")]
            lengths = " + ".join(f"coalesce(octet_length({quoted(own)}), 0)" for own in long) or "0"
            [row] = frame.selectExpr("count(1) as n", f"sum({lengths}) as long").collect()
            found[name] = row["n"], 8 * row["n"] * len(frame.columns) + (row["long"] or 0)
    return found


def _require_key(runner: SparkRunner, name: str, frame: DataFrame, key: Sequence[str]) -> None:
    """Refuse a key that several rows have, with one of them."""
    with runner.about("keys of rows"):
        keys = runner.select(frame, list(dict.fromkeys(key)))
        again = keys.groupBy(*keys.columns).agg(F.count(F.lit(1)).alias(":rows")).where("`:rows` > 1").take(1)
    if again:
        said = ", ".join(f"{c}={v!r}" for c, v in zip(key, again[0], strict=False))
        raise ChangeError(
            f"table {name!r} has {again[0][-1]} rows with the key {said}",
            hint="name columns that tell rows apart, or leave out the key",
        )


def _is_read(name: str, read: Mapping[str, set[str]]) -> bool:
    table, _, own = name.partition(".")
    return name in next(iter(read.values())) or own in read.get(table, ())


def _own(key: Any, table: str) -> set[str]:
    """The columns that tell the rows of a table apart."""
    mine = key.get(table) if isinstance(key, Mapping) else key
    return {mine} if isinstance(mine, str) else set(mine or ())
