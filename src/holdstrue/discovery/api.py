"""`discover`: from data to the rules that hold in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdstrue.data.notes import Notes
from holdstrue.discovery.denials.evidence import CountPairs
from holdstrue.discovery.discovery import Discovery
from holdstrue.discovery.held import Held
from holdstrue.discovery.kinds import load_kinds
from holdstrue.discovery.options import USUAL, DiscoveryOptions
from holdstrue.discovery.work import Progress, Work
from holdstrue.errors import DataError, HoldstrueError
from holdstrue.rules.types import checked_types, types_of_table
from holdstrue.sources.fit import comparable_table
from holdstrue.sources.read import read_table

_READ = ("encoding", "format", "delimiter", "null_values")


def discover(
    data: Any,
    kinds: Sequence[str] | str = USUAL,
    *,
    key: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    columns: Sequence[str] = (),
    state: Any = None,
    types: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    within: CountPairs | None = None,
    **choices: Any,
) -> Discovery:
    """Find the rules that hold in a table, or between tables.

    Parameters
    ----------
    data
        Anything `check` takes; a mapping from table name to such for several tables.
    kinds
        Which rules: dc (denial constraints), fd, key, cfd (conditional FDs), ind (inclusions),
        column (what holds of single columns: values, shapes, ranges, NULLs).
    key
        The columns that tell rows apart, for updates and deletes; for several tables a mapping. Rows
        without a key are known by all their values.
    columns
        The columns that rules may speak of; all where it is empty.
    state
        A directory in which the discovery is kept.
    types
        What columns hold (see `read_table`); `{"orders.day": "date"}` for one of several tables. They
        are kept, and are part of `Discovery.ruleset()`.
    progress
        Called with the share of the work that is done and what is being done.
    within
        Counts the pairs of rows of denial constraints elsewhere; `holdstrue.spark.discover` gives it.
    choices
        Options of reading (`encoding`, `format`, `delimiter`, `null_values`) and of the search
        (see `DiscoveryOptions`: `max_predicates`, `error`, `measure`, `sample`, `budget`, `nulls`, ...).

    Examples
    --------
    >>> import pyarrow as pa
    >>> found = discover(pa.table({"id": [1, 2, 3], "city": ["Bonn", "Bonn", "Ulm"]}), kinds="key")
    >>> [rule.text for rule in found]
    ['key(id)']
    """
    read = {name: choices.pop(name) for name in _READ if name in choices}
    options = options_of(kinds, columns, choices)
    named = isinstance(data, Mapping) and not hasattr(data, "__arrow_c_stream__")
    sources = dict(data) if named else {"data": data}
    if not sources:
        raise HoldstrueError("no table is given", hint="give a table, or a mapping from names to tables")
    declared, notes = checked_types((types or {}).items()), Notes()
    tables = {}
    for name, source in sources.items():
        own = types_of_table(declared, name, next(iter(sources)), sources)
        tables[name] = comparable_table(name, read_table(source, types=own, notes=notes, **read))
    keys = keys_of(key, list(tables))
    require_columns({name: table.column_names for name, table in tables.items()}, keys, options)
    work = replace(Work.lasting(options.budget, progress, options.threads), count_pairs=within)
    held = Held({name: table.schema for name, table in tables.items()}, keys, options.seed)
    held.load(tables)
    found = Discovery(held, load_kinds(held, options, work), options)
    found.types, found.notes, found.until = declared, tuple(notes), work.deadline
    if state is not None:
        found.save(state)
    return found


def options_of(kinds: Sequence[str] | str, columns: Sequence[str], choices: Mapping[str, Any]) -> DiscoveryOptions:
    """What is looked for, from the arguments of `discover`."""
    wanted = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    try:
        return DiscoveryOptions(kinds=tuple(dict.fromkeys(wanted)), columns=tuple(columns), **choices)
    except TypeError as error:
        odd = next(iter(set(choices) - set(DiscoveryOptions.__dataclass_fields__)), "")
        known = ", ".join(name for name in DiscoveryOptions.__dataclass_fields__ if name not in ("kinds", "columns"))
        raise HoldstrueError(f"unknown option {odd!r}", hint=f"{known}, {', '.join(_READ)}") from error


def keys_of(key: Any, tables: list[str]) -> dict[str, tuple[str, ...]]:
    """By table the columns that tell its rows apart."""
    given = dict(key) if isinstance(key, Mapping) else {tables[0]: key}
    for name in given:
        if name not in tables:
            raise HoldstrueError(f"no table {name!r} to have a key", hint=f"the tables are {', '.join(tables)}")
    return {name: (k,) if isinstance(k, str) else tuple(k) for name, k in given.items() if k is not None}


def require_columns(
    tables: Mapping[str, Sequence[str]], keys: Mapping[str, Sequence[str]], options: DiscoveryOptions
) -> None:
    """Refuse columns that no table has."""
    for name, columns in keys.items():
        for column in columns:
            if column not in tables[name]:
                raise DataError(f"no key column {column!r}", hint=f"the columns are {', '.join(tables[name])}")
    everything = {column for names in tables.values() for column in names}
    for column in options.columns:
        if column not in everything:
            raise DataError(f"no column {column!r}", hint=f"the columns are {', '.join(sorted(everything))}")
