"""`suspects`: from data, and rules where there are some, to the cells that are probably wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdstrue.data.notes import Notes
from holdstrue.discovery.suspects.answer import Suspects
from holdstrue.discovery.suspects.held import BUDGET, suspects_of
from holdstrue.discovery.work import Progress, Work
from holdstrue.errors import HoldstrueError
from holdstrue.plan.compile import main_table, needed_columns
from holdstrue.rules.file import load_rules
from holdstrue.rules.types import checked_types, types_of_table
from holdstrue.sources.read import read_table

_READ = ("encoding", "format", "delimiter", "null_values")


def suspects(
    data: Any,
    rules: Any = None,
    *,
    key: str | Sequence[str] | None = None,
    discover: bool = True,
    columns: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    budget: float | None = BUDGET,
    progress: Progress | None = None,
    **read: Any,
) -> Suspects:
    """Find the cells of a table that are probably wrong, with the values that they should probably have.

    Parameters
    ----------
    data
        Anything `check` takes.
    rules
        Rules that should hold, as `load_rules` takes them; they are believed.
    key
        The columns that name rows, and by which a patch updates them; without it rows are numbered from 0.
    discover
        Whether rules that the table itself speaks for, several sources of the same things, and values off the form of
        their column count as well. Without it only the declared rules do.
    columns
        The columns that are looked at; all where it is empty.
    types
        What columns hold (see `read_table`).
    budget
        Seconds that the search for rules may take; None for no end.

    Examples
    --------
    >>> import pyarrow as pa
    >>> towns = pa.table({"zip": ["1", "1", "1", "1", "2"], "town": ["Bonn", "Bonn", "Bonn", "Bomn", "Ulm"]})
    >>> [found] = suspects(towns, "zip -> town")
    >>> found.key, found.column, found.value, found.proposed, found.why
    (3, 'town', 'Bomn', 'Bonn', ('zip -> town',))
    """
    odd = set(read) - set(_READ)
    if odd:
        raise HoldstrueError(f"unknown option {sorted(odd)[0]!r}", hint=", ".join(_READ))
    if rules is None and not discover:
        raise HoldstrueError(
            "nothing to go by: no rules, and none are to be found", hint="give rules, or discover=True"
        )
    if budget is not None and budget <= 0:
        raise HoldstrueError(f"budget is {budget!r}", hint="seconds, more than 0")
    ruleset = None if rules is None else load_rules(rules)
    declared = (*(() if ruleset is None else ruleset.types), *checked_types((types or {}).items()))
    main = "data" if ruleset is None else main_table(ruleset, ())
    notes = Notes()
    tables = (main,) if ruleset is None else tuple(needed_columns(ruleset, main))
    table = read_table(data, types=types_of_table(declared, main, main, tables), notes=notes, **read)
    own = (key,) if isinstance(key, str) else tuple(key or (() if ruleset is None else ruleset.key))
    work = Work.lasting(budget, progress)
    found = suspects_of(table, ruleset, own, main=main, discover=discover, columns=columns, work=work)
    return replace(found, notes=(*notes, *found.notes))
