"""Rules against the columns of their tables: every name must exist and every comparison must make sense."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from holdstrue.data.values import common_families, family_of
from holdstrue.errors import RuleError
from holdstrue.plan.constants import constant_for
from holdstrue.rules.model import Constant, Inclusion, Rule, Source
from holdstrue.rules.terms import Read, condition_columns, reads_of
from holdstrue.rules.text import condition_text
from holdstrue.rules.tokens import DENIAL


def bind(rule: Rule, table: str, schemas: Mapping[str, pa.Schema]) -> None:
    """Raise a `RuleError` that underlines the first name or comparison that does not fit."""
    schema = schemas[table]
    for part, reads in _parts(rule):
        for column in dict.fromkeys(name for read in reads for name in read.columns):
            _need(part, column, table, schema)
        if part is rule:
            _bind_references(rule, table, schemas)
        for read in reads:
            _bind_comparison(part, schema, read)


def _parts(rule: Rule) -> Iterator[tuple[Rule, list[Read]]]:
    """What the body reads and what the filter reads, each with the rule as messages about that part show it."""
    yield rule, list(rule.body.reads())
    if rule.where is not None:
        text = condition_text(rule.where)
        found = ((column, text.find(column)) for column in condition_columns(rule.where))
        source = Source(text, tuple((column, at, at + len(column)) for column, at in found if at >= 0))
        yield replace(rule, name=f"{rule.name} (its where)", source=source), list(reads_of(rule.where))


def require_columns(rules: Iterable[Rule], main: str, schemas: Mapping[str, pa.Schema]) -> None:
    """Raise for the first column that a rule reads and its table does not have; types are not looked at."""
    for rule in rules:
        own = rule.own_table or main
        for part, reads in _parts(rule) if own in schemas else ():
            for column in dict.fromkeys(name for read in reads for name in read.columns):
                _present(part, column, own, schemas[own])
        for table, columns in rule.body.references.items():
            for column in columns if table in schemas else ():
                _present(rule, column, table, schemas[table])


def _need(rule: Rule, column: str, table: str, schema: pa.Schema) -> None:
    _present(rule, column, table, schema)
    data_type = schema.field(column).type
    if family_of(data_type) is None:
        raise error(
            rule,
            f"column {column!r} holds {data_type} values, which do not compare",
            column,
            "rules read plain values: numbers, text, dates, times, booleans, bytes",
        )


def _present(rule: Rule, column: str, table: str, schema: pa.Schema) -> None:
    if column not in schema.names:
        near = difflib.get_close_matches(column, schema.names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(schema.names)}"
        # on the right of a comparison people forget the quotes of text
        if not near and any(read.right == column for read in rule.body.reads()):
            hint = f"text stands in quotes: '{column}'; {hint}"
        raise error(rule, f"table {table!r} has no column {column!r}", column, hint)
    if schema.names.count(column) > 1:
        raise error(rule, f"table {table!r} has several columns called {column!r}", column, "rename one of them")


def _constant_hint(column: str, data_type: pa.DataType, constant: Constant) -> str:
    if family_of(data_type) == "text" and not isinstance(constant.value, str):
        return (
            f"if it should hold numbers or dates, declare them: --type {column}=number (decimal, date(%d.%m.%Y), ...), "
            f"and --null-value for cells that mean nothing; to compare text, put the constant in quotes"
        )
    return f"write the constant as a {data_type} value, or cast the column"


def _bind_comparison(rule: Rule, schema: pa.Schema, read: Read) -> None:
    left, right = read.column, read.right
    left_type = schema.field(left).type
    if read.as_text and family_of(left_type) not in ("text", "null"):
        raise error(
            rule,
            f"column {left!r} holds {left_type} values, and only text has a length and a shape",
            left,
            f"if it holds text that looks like numbers or dates, declare that: --type {left}=text",
        )
    if isinstance(right, str):
        _bind_columns(rule, (left, left_type), (right, schema.field(right).type))
    elif right is not None and constant_for(right, left_type, ordered=read.op.is_order) is None:
        raise error(
            rule,
            f"column {left!r} holds {left_type} values, which do not compare with {right.value!r}",
            left,
            _constant_hint(left, left_type, right),
        )


def _bind_columns(rule: Rule, left: tuple[str, pa.DataType], right: tuple[str, pa.DataType]) -> None:
    if common_families([left[1], right[1]]) is None:
        raise error(
            rule,
            f"{left[0]!r} ({left[1]}) does not compare with {right[0]!r} ({right[1]})",
            left[0],
            "compare values of one kind, or cast one of the columns",
        )


def _bind_references(rule: Rule, table: str, schemas: Mapping[str, pa.Schema]) -> None:
    own = schemas[table]
    compared = list(rule.body.reads()) if isinstance(rule.body, Inclusion) else []
    for other, ref_columns in rule.body.references.items():
        if other not in schemas:
            hint = f"name it with --table {other}=PATH (known: {', '.join(schemas)})"
            raise error(rule, f"no table {other!r}", other, hint)
        for ref_column in ref_columns:
            _need(rule, ref_column, other, schemas[other])
        for read, ref_column in zip(compared, ref_columns, strict=False):
            ref_type = schemas[other].field(ref_column).type
            _bind_columns(rule, (read.column, own.field(read.column).type), (ref_column, ref_type))


def error(rule: Rule, message: str, name: str, hint: str) -> RuleError:
    """A `RuleError` of this rule with the place of `name` underlined."""
    said = f"rule {rule.name!r}: {message}"
    if rule.kind == "dc":
        said += f"\n{DENIAL}"
    if rule.source is None:
        return RuleError(said, hint=hint)
    start, end = next(
        (
            place
            for place in map(rule.source.span, (f"t.{name}", f"s.{name}", name))
            if place != (0, len(rule.source.text))
        ),
        (0, len(rule.source.text)),
    )
    return RuleError(said, text=rule.source.text, start=start, end=end, hint=hint)
