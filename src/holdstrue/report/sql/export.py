"""A rule set as SQL: for every rule the query that lists its violations, the one that counts them, and what to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from holdstrue.errors import HoldstrueError
from holdstrue.plan.bind import bind
from holdstrue.plan.compile import checks_of, main_table
from holdstrue.report.sql.dialect import NoSuchSqlError, SqlDialect, dialect_of
from holdstrue.report.sql.measures import measured_query
from holdstrue.report.sql.queries import Writing
from holdstrue.rules.bodies import Measured
from holdstrue.rules.file import load_rules
from holdstrue.rules.model import Rule, RuleSet
from holdstrue.rules.text import condition_text
from holdstrue.rules.types import types_of_table, with_types


@dataclass(frozen=True)
class RuleQuery:
    """One rule in SQL; `violations` and `count` are None where the dialect cannot say it, and `problem` says why."""

    rule: Rule
    violations: str | None
    count: str | None
    notes: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class Export:
    """How rules become SQL: for which database, what tables are called there, their keys and what columns hold."""

    dialect: str = "duckdb"
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By table as the rules call it; that of the main table may stand under ''."""
    names: Mapping[str, str] = field(default_factory=dict)
    """By table as the rules call it: its name in the database; that of the main table may stand under ''."""
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    """What columns hold, as far as tables are known; that of the main table may stand under ''."""

    def queries(self, rules: RuleSet) -> Iterator[RuleQuery]:
        """The rules one after the other."""
        dialect = dialect_of(self.dialect)
        main = main_table(rules, tuple(name for name in self.schemas if name))
        if main in self.names and "" in self.names:
            raise HoldstrueError(f"table {main!r} has two names", hint="give one of them")
        names = {name or main: value for name, value in self.names.items()}
        keys = {name or main: value for name, value in self.keys.items()}
        schemas = {name or main: value for name, value in self.schemas.items()}
        keys.setdefault(main, rules.key)
        tables = dict.fromkeys([main, *(t for rule in rules for t in (rule.own_table or main, *rule.body.references))])
        for name in (*names, *keys, *schemas):
            if name not in tables:
                raise HoldstrueError(f"no rule speaks of table {name!r}", hint=f"they speak of {', '.join(tables)}")
        types = {name: _types(rules, name, main, tables, schemas.get(name)) for name in tables}
        fixed = {name: tuple(key) for name, key in keys.items()}
        for number, rule in enumerate(rules):
            table = rule.own_table or main
            if all(name in schemas for name in (table, *rule.body.references)):
                typed = {name: pa.schema(list(columns.items())) for name, columns in types.items() if columns}
                bind(rule, table, typed)
            yield self._query(number, rule, table, rules, Writing(dialect, names, fixed, types))

    def _query(self, number: int, rule: Rule, table: str, rules: RuleSet, writing: Writing) -> RuleQuery:
        try:
            if isinstance(rule.body, Measured):
                listing = measured_query(writing, rule, rule.body, table)
            else:
                checks = checks_of(number, rule, table, nulls_equal=rules.nulls == "equal")
                listing = writing.listing(checks, rule.columns)
        except NoSuchSqlError as error:
            return RuleQuery(rule, None, None, (), error.message)
        # a constant may hold line ends, so that lines are left as they are
        count = f"SELECT count(*) AS violations\nFROM (\n{listing}\n) AS violations"
        return RuleQuery(rule, listing, count, tuple(writing.notes))


def _types(
    rules: RuleSet, table: str, main: str, tables: Mapping[str, Any], schema: pa.Schema | None
) -> dict[str, pa.DataType]:
    """What columns hold: as the table says it, else as it is declared."""
    from holdstrue.sources.declared import arrow_type

    declared = types_of_table(rules.types, table, main, tables)
    known = ((name, arrow_type(type_)) for name, type_ in declared.items())
    found: dict[str, pa.DataType] = {name: type_ for name, type_ in known if type_ is not None}
    return found | ({} if schema is None else dict(zip(schema.names, schema.types, strict=True)))


def to_sql(
    rules: Any,
    dialect: str = "duckdb",
    *,
    key: str | Sequence[str] | None = None,
    table: str | None = None,
    names: Mapping[str, str] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    schemas: Mapping[str, pa.Schema] | pa.Schema | None = None,
    types: Mapping[str, str] | None = None,
) -> list[RuleQuery]:
    """Every rule as SQL that finds exactly what `check` finds.

    Parameters
    ----------
    rules
        Anything `load_rules` takes: a file, rule texts, rules.
    dialect
        duckdb, postgresql or spark.
    key
        Columns that tell rows of the main table apart; by default those that the rule file names.
    table
        What the main table is called in the database; `names` of further tables.
    keys
        The same as `key` for further tables.
    schemas
        What the columns hold, so that constants and the order of text are written for their types; of the main
        table, or by table.
    types
        Declared types of single columns, as in rule files.

    Examples
    --------
    >>> [query] = to_sql("zip -> city", key="id", table="people")
    >>> print(query.violations)
    SELECT t."id" AS "t.id", t."zip" AS "t.zip", t."city" AS "t.city", s."id" AS "s.id", s."zip" AS "s.zip", s."city" AS "s.city"
    FROM "people" AS t
      JOIN "people" AS s ON t."zip" = s."zip"
      AND t."id" < s."id"
      AND t."city" <> s."city"
    """  # noqa: E501
    ruleset = with_types(load_rules(rules), types)
    own = {"": (key,) if isinstance(key, str) else tuple(key)} if key is not None else {}
    export = Export(
        dialect,
        {**(keys or {}), **own},
        {**(names or {}), **({} if table is None else {"": table})},
        {"": schemas} if isinstance(schemas, pa.Schema) else dict(schemas or {}),
    )
    return list(export.queries(ruleset))


def comment(text: str) -> str:
    """A line of a comment, which no character can leave."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"-- {shown}\n"


def about(query: RuleQuery) -> Iterator[str]:
    """What stands above the queries of a rule."""
    rule = query.rule
    yield comment(f"rule: {rule.name}")
    if rule.description:
        yield comment(rule.description)
    where = "" if rule.where is None else f" where {condition_text(rule.where)}"
    yield comment(f"{rule.text}{where}")
    said = [rule.kind, f"severity {rule.severity}"]
    if rule.tolerance is not None:
        count, share = rule.tolerance.count, rule.tolerance.share
        percent = f"{(share or Decimal(0)).scaleb(2):f}%"
        said.append(f"tolerates {percent} of the rows" if count is None else f"tolerates {count:,} violating rows")
    yield comment("; ".join(said))
    for note in query.notes:
        yield comment(f"note: {note}")


def sql_text(rules: RuleSet, export: Export) -> Iterator[str]:
    """The whole text: a head, and for each rule two queries or why there are none."""
    dialect: SqlDialect = dialect_of(export.dialect)
    yield comment(f"{len(rules)} rules of holdstrue for {dialect.title}: each lists its violations, then counts them")
    if not export.schemas and not rules.types:
        yield comment("columns are taken for what their constants look like: give --data or --type where that is wrong")
    for query in export.queries(rules):
        yield "\n"
        yield from about(query)
        if query.violations is None:
            yield comment(f"NOT WRITTEN: {query.problem}")
        else:
            yield f"{query.violations};\n\n" + comment(f"count: {query.rule.name}") + f"{query.count};\n"
