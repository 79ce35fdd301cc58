"""Order on text is never silent: refused where the values look like numbers or dates, and said otherwise."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from holdstrue.data.looks import look_of
from holdstrue.plan import bind
from holdstrue.rules.model import Rule
from holdstrue.rules.types import Declared
from holdstrue.sources.fit import is_text, plain_column

SAMPLE = 10_000
"""Rows in which Spark looks at what is ordered."""


def ordered_text(rules: Iterable[Rule], main: str, schemas: Mapping[str, pa.Schema]) -> dict[tuple[str, str], Rule]:
    """The text columns that rules order, by table and name, each with the first rule that does.

    >>> from holdstrue.rules.file import load_rules
    >>> found = ordered_text(load_rules("not(t.size > s.size)"), "data", {"data": pa.schema([("size", pa.string())])})
    >>> list(found)
    [('data', 'size')]
    """
    found: dict[tuple[str, str], Rule] = {}
    for rule in rules:
        table = rule.own_table or main
        schema = schemas.get(table, pa.schema([]))
        for column in (name for read in rule.reads() if read.op.is_order for name in read.columns):
            if column in schema.names and is_text(schema.field(column).type):
                found.setdefault((table, column), rule)
    return found


def order_notes(
    ordered: Mapping[tuple[str, str], Rule],
    values: Callable[[str, str], Any],
    declared: Callable[[str], Mapping[str, Declared]],
) -> Iterator[str]:
    """What to say about text that rules order; a `RuleError` where its values look like something else.

    Parameters
    ----------
    ordered
        What `ordered_text` found.
    values
        The values of a column, or some thousands of them.
    declared
        The declared types of a table: text that is declared to be text is ordered as text.
    """
    for (table, column), rule in ordered.items():
        name = f"column {column!r} of {table!r}"
        seen = None if column in declared(table) else look_of(plain_column(values(table, column)))
        if seen is not None and seen.nearly_all and not seen.look.ordered:
            raise bind.error(
                rule,
                f"{name} is ordered and holds text, whose values look like {seen.look.words}: {seen.cell!r}",
                column,
                f"text is ordered character by character: {_ways(column, seen.type)}, "
                f"or declare --type {shlex.quote(column + '=text')} if text is meant",
            )
        yield text_note((table, column), rule)


def text_note(place: tuple[str, str], rule: Rule) -> str:
    """What to say about a text column that a rule orders."""
    table, column = place
    return f"column {column!r} of {table!r} holds text, which rule {rule.name!r} orders: text is ordered by code point"


def _ways(column: str, types: str) -> str:
    named = [f"--type {shlex.quote(f'{column}={type_}')}" for type_ in types.split(" or ") if type_ != "text"]
    if not named:
        return "write its numbers without separators of thousands"
    return f"declare what it holds with {' or '.join(named)}"
