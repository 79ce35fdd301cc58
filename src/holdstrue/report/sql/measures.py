"""Rules about whole tables as queries: one row with what is measured where a limit is broken, none where it is not.

A measure that nothing is known of is NULL, and so is every comparison with it: it breaks nothing.
"""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa

from holdstrue.data.values import family_of, plain_type
from holdstrue.operators import Op
from holdstrue.report.sql.comparisons import symbol, with_constant
from holdstrue.report.sql.dialect import NoSuchSqlError
from holdstrue.report.sql.queries import Writing
from holdstrue.rules.bodies import Measured
from holdstrue.rules.measure import Amount, Measure
from holdstrue.rules.model import Rule

_WIDEST = 38
"""Digits of the widest decimals of DuckDB and Spark."""
_NOW = {
    "duckdb": ("now()", "(now() AT TIME ZONE 'UTC')", "INTERVAL '{} seconds'", "TIMESTAMP"),
    "postgresql": ("now()", "(now() AT TIME ZONE 'UTC')", "INTERVAL '{} seconds'", "TIMESTAMP"),
    "spark": (
        "current_timestamp()",
        "convert_timezone(current_timezone(), 'UTC', CAST(current_timestamp() AS TIMESTAMP_NTZ))",
        "INTERVAL '{}' SECOND",
        "TIMESTAMP_NTZ",
    ),
}
"""By dialect: this moment, the same as a timestamp without a zone, a span of time, and the type of such timestamps."""


def measured_query(writing: Writing, rule: Rule, body: Measured, table: str) -> str:
    """The query of a rule about a whole table.

    >>> from holdstrue.report.sql import to_sql
    >>> print(to_sql("count() > 1000", table="orders")[0].violations)
    SELECT m.v AS measured
    FROM (SELECT count(*) AS v FROM "orders" AS t) AS m
    WHERE NOT (m.v > 1000)
    """
    left, *others = body.measures
    names = ["m.v AS measured"]
    sources = [_source(writing, rule, left, table, "m")]
    if others:
        names.append("n.v AS expected")
        sources.append(_source(writing, rule, others[0], table, "n"))
    broken = []
    for bound in body.bounds:
        if isinstance(bound.right, Amount):
            broken.append(f"NOT ({_held(writing, left, bound.op, bound.right, table)})")
        else:
            _comparable(writing, left, bound.right, table)
            broken.append(f"NOT (m.v {symbol(bound.op)} n.v)")
    return f"SELECT {', '.join(names)}\nFROM {' CROSS JOIN '.join(sources)}\nWHERE {' OR '.join(broken)}"


def _source(writing: Writing, rule: Rule, measure: Measure, table: str, name: str) -> str:
    """A table of one row that holds a measure. The filter of a rule is on the rows of its own table."""
    owner = measure.table or table
    asked = writing.asked(rule.where if owner == table else None, owner, "t")
    where = f" WHERE {' AND '.join(asked)}" if asked else ""
    return f"(SELECT {_value(writing, measure, owner)} AS v FROM {writing.source(owner, 't')}{where}) AS {name}"  # noqa: S608


def _value(writing: Writing, measure: Measure, owner: str) -> str:
    """What is selected; sums are widened, so that none wraps."""
    if measure.column is None:
        return "count(*)"
    cell, type_ = writing.cell("t", measure.column), _type(writing, measure, owner)
    family = None if type_ is None else family_of(type_)
    if family in ("duration", "time", "null"):
        raise NoSuchSqlError(f"{measure.text} of {type_} values is not written as SQL")
    if measure.function == "count":
        return f"count({cell})"
    if measure.function == "sum":
        if family == "float" or type_ is None:
            writing.notes[f"{measure.text}: a sum of floats is rounded by the database, so that = may fail"] = None
        elif writing.dialect.name == "spark":
            digits = 20 if family == "integer" else plain_type(type_).precision
            cell = f"CAST({cell} AS DECIMAL({digits}, {0 if family == 'integer' else plain_type(type_).scale}))"
        elif writing.dialect.name == "duckdb" and family == "integer":
            return f"CAST(sum({cell}) AS DECIMAL({_WIDEST}, 0))"
        return f"sum({cell})"
    return f"{'max' if measure.function == 'fresh' else measure.function}({cell})"


def _type(writing: Writing, measure: Measure, owner: str) -> pa.DataType | None:
    return pa.int64() if measure.column is None else writing.type_of(owner, measure.column)


def _result(writing: Writing, measure: Measure, table: str) -> pa.DataType | None:
    """The type of what comes out of a measure."""
    type_ = _type(writing, measure, measure.table or table)
    if measure.function == "count":
        return pa.int64()
    if measure.function != "sum" or type_ is None or family_of(type_) == "float":
        return type_
    return pa.decimal128(_WIDEST, 0 if family_of(type_) == "integer" else plain_type(type_).scale)


def _held(writing: Writing, measure: Measure, op: Op, amount: Amount, table: str) -> str:
    """That a measure satisfies a limit."""
    type_ = _result(writing, measure, table)
    if measure.function != "fresh":
        return with_constant("m.v", op, amount.constant, type_, writing.dialect)
    if type_ is None:
        raise NoSuchSqlError(f"{measure.text} needs to know what the column holds: give --data or --type")
    return _fresh(writing, op, amount.seconds, type_)


def _fresh(writing: Writing, op: Op, seconds: Fraction, type_: pa.DataType) -> str:
    """That the newest value is younger, or older, than a length of time; times without a zone are of UTC."""
    if seconds.denominator != 1:
        raise NoSuchSqlError("freshness is written in whole seconds")
    now, here, span, plain = _NOW[writing.dialect.name]
    family = family_of(type_)
    if family not in ("date", "timestamp", "zoned"):
        raise NoSuchSqlError(f"there is no freshness of {type_} values")
    value = f"CAST(m.v AS {plain})" if family == "date" else "m.v"
    moment = now if family == "zoned" else here
    return f"{value} {symbol(op.flipped)} {moment} - {span.format(int(seconds))}"


def _comparable(writing: Writing, left: Measure, right: Measure, table: str) -> None:
    """Refuse measures that databases compare otherwise, and say where they may fail to."""
    one, two = (_result(writing, measure, table) for measure in (left, right))
    kinds = {None if type_ is None else family_of(type_) for type_ in (one, two)}
    if kinds & {"date", "timestamp", "zoned"} and len(kinds) > 1:
        raise NoSuchSqlError(f"{left.text} ({one}) and {right.text} ({two}) are compared differently by databases")
    if one != two:
        writing.notes[f"{left.text} and {right.text} have two types: comparing them may fail"] = None
