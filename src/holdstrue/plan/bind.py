"""Rules against the columns of their tables: every name must exist and every comparison must make sense."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from holdstrue.data.values import common_families, family_of
from holdstrue.errors import RuleError
from holdstrue.plan.constants import constant_for
from holdstrue.rules.model import (
    CFD,
    DC,
    FD,
    All,
    Any,
    Column,
    Comparison,
    Condition,
    Constant,
    Inclusion,
    IsNull,
    Key,
    Not,
    NotNull,
    Op,
    Rule,
    Source,
)
from holdstrue.rules.text import condition_text


def bind(rule: Rule, table: str, schemas: Mapping[str, pa.Schema]) -> None:
    """Raise a `RuleError` that underlines the first name or comparison that does not fit."""
    schema = schemas[table]
    for column in own_columns(replace(rule, where=None)):
        _need(rule, column, table, schema)
    match rule.body:
        case Inclusion():
            _bind_inclusion(rule, rule.body, table, schemas)
        case DC(predicates):
            for predicate in predicates:
                _bind_comparison(rule, schema, predicate.left.name, predicate.op, predicate.right)
        case CFD(lhs, rhs, tableau):
            for pattern in tableau:
                for column, constant in (
                    *zip(lhs, pattern.lhs, strict=True),
                    *zip(rhs, pattern.rhs, strict=True),
                ):
                    if constant is not None:
                        _bind_comparison(rule, schema, column, Op.EQ, constant)
    _bind_where(rule, table, schema)


def _bind_where(rule: Rule, table: str, schema: pa.Schema) -> None:
    """The filter's own columns and comparisons, underlined in the filter's text."""
    if rule.where is None:
        return
    shown = _as_filter(rule, rule.where)
    for column in dict.fromkeys(condition_columns(rule.where)):
        _need(shown, column, table, schema)
    for comparison in comparisons_of(rule.where):
        right = comparison.right if isinstance(comparison.right, Constant) else Column("t", comparison.right)
        _bind_comparison(shown, schema, comparison.column, comparison.op, right)


def _as_filter(rule: Rule, where: Condition) -> Rule:
    """The rule as messages about its filter show it."""
    text = condition_text(where)
    return replace(rule, name=f"{rule.name} (its where)", source=Source(text, _places(text, condition_columns(where))))


def _places(text: str, columns: Iterator[str]) -> tuple[tuple[str, int, int], ...]:
    found = ((column, text.find(column)) for column in dict.fromkeys(columns))
    return tuple((column, at, at + len(column)) for column, at in found if at >= 0)


def require_columns(rules: Iterable[Rule], main: str, schemas: Mapping[str, pa.Schema]) -> None:
    """Raise for the first column that a rule reads and its table does not have; types are not looked at."""
    for rule in rules:
        body = rule.body
        own = (body.table if isinstance(body, Inclusion) else None) or rule.table or main
        for column in own_columns(replace(rule, where=None)) if own in schemas else ():
            _present(rule, column, own, schemas[own])
        if rule.where is not None and own in schemas:
            shown = _as_filter(rule, rule.where)
            for column in dict.fromkeys(condition_columns(rule.where)):
                _present(shown, column, own, schemas[own])
        if isinstance(body, Inclusion) and body.ref_table in schemas:
            for column in body.ref_columns:
                _present(rule, column, body.ref_table, schemas[body.ref_table])


def own_columns(rule: Rule) -> tuple[str, ...]:
    """Columns the rule reads of its own table, in order of appearance."""
    names: list[str] = []
    match rule.body:
        case Key(columns) | NotNull(columns) | Inclusion(_, columns, _, _):
            names.extend(columns)
        case FD(lhs, rhs) | CFD(lhs, rhs, _):
            names.extend((*lhs, *rhs))
        case DC(predicates):
            for predicate in predicates:
                names.append(predicate.left.name)
                if isinstance(predicate.right, Column):
                    names.append(predicate.right.name)
    names.extend(condition_columns(rule.where))
    return tuple(dict.fromkeys(names))


def condition_columns(condition: Condition | None) -> Iterator[str]:
    match condition:
        case Comparison(column, _, right):
            yield column
            if isinstance(right, str):
                yield right
        case IsNull(column):
            yield column
        case Not(operand):
            yield from condition_columns(operand)
        case All(operands) | Any(operands):
            for operand in operands:
                yield from condition_columns(operand)


def comparisons_of(condition: Condition | None) -> Iterator[Comparison]:
    """The comparisons that a condition is made of."""
    match condition:
        case Comparison():
            yield condition
        case Not(operand):
            yield from comparisons_of(operand)
        case All(operands) | Any(operands):
            for operand in operands:
                yield from comparisons_of(operand)


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
        if not near and _is_compared_with(rule, column):
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


def _is_compared_with(rule: Rule, name: str) -> bool:
    """Whether a denial constraint has the name on the right of a comparison, where people forget the quotes of text."""
    return isinstance(rule.body, DC) and any(
        isinstance(p.right, Column) and p.right.name == name for p in rule.body.predicates
    )


def _bind_comparison(rule: Rule, schema: pa.Schema, left: str, op: Op, right: Column | Constant) -> None:
    left_type = schema.field(left).type
    if isinstance(right, Constant):
        if constant_for(right, left_type, ordered=op.is_order) is None:
            raise error(
                rule,
                f"column {left!r} holds {left_type} values, which do not compare with {right.value!r}",
                left,
                _constant_hint(left, left_type, right),
            )
        return
    right_type = schema.field(right.name).type
    if common_families([left_type, right_type]) is None:
        raise error(
            rule,
            f"{left!r} ({left_type}) does not compare with {right.name!r} ({right_type})",
            left,
            "compare values of one kind, or cast one of the columns",
        )


def _bind_inclusion(rule: Rule, body: Inclusion, table: str, schemas: Mapping[str, pa.Schema]) -> None:
    ref = schemas.get(body.ref_table)
    if ref is None:
        raise error(
            rule,
            f"no table {body.ref_table!r}",
            body.ref_table,
            f"name it with --table {body.ref_table}=PATH (known: {', '.join(schemas)})",
        )
    for column, ref_column in zip(body.columns, body.ref_columns, strict=True):
        _need(rule, ref_column, body.ref_table, ref)
        left_type, right_type = schemas[table].field(column).type, ref.field(ref_column).type
        if common_families([left_type, right_type]) is None:
            raise error(
                rule,
                f"{column!r} ({left_type}) does not compare with {ref_column!r} ({right_type})",
                column,
                "compare values of one kind, or cast one of the columns",
            )


def error(rule: Rule, message: str, name: str, hint: str) -> RuleError:
    """A `RuleError` of this rule with the place of `name` underlined."""
    said = f"rule {rule.name!r}: {message}"
    if isinstance(rule.body, DC):
        said += "\na denial constraint lists what must never hold together"
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
