"""dbt: rules of a `schema.yml`, or of a rule file, as a macro that counts violations after each run.

    python dbt_macro.py models/schema.yml postgresql > macros/holdstrue_check.sql
    python dbt_macro.py rules.yaml duckdb > macros/holdstrue_check.sql

`on-run-end: ["{{ holdstrue_check() }}"]` in dbt_project.yml (see there) then asks every rule in the warehouse and fails
the run when one of severity error has more violations than it tolerates. What rules say across rows (FDs, denial
constraints) dbt's own tests cannot say. Tested: the macro is rendered and asked of DuckDB with stand-ins for dbt's
`run_query`, `target`, `log` and `exceptions`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdstrue import HoldstrueError, RuleSet, load_rules, to_sql
from holdstrue.rules.imports import import_rules

SCHEMA = "holdstrue_target_schema"
"""Stands for the schema of the run, which only dbt knows."""

HEAD = """{# written by dbt_macro.py; write it again when the rules change #}
{% macro holdstrue_check() %}
{% if execute %}
{% set broken = [] %}
"""
ONE = """{{% set found = run_query({sql} | replace({schema}, target.schema)).columns[0].values()[0] | int %}}
{{% do log('holdstrue: ' ~ found ~ ' violations of ' ~ {name}, info=true) %}}
{{% if found > {tolerated} and {severe} %}}{{% do broken.append({name}) %}}{{% endif %}}
"""
TAIL = """{% if broken %}
{% do exceptions.raise_compiler_error('holdstrue: violated: ' ~ broken | join(', ')) %}
{% endif %}
{% endif %}
{% endmacro %}
"""


def literal(text: str) -> str:
    """A string of Jinja that no character of the text can leave."""
    plain = (c if c.isascii() and (c.isalnum() or c in " _,.()<>=") else f"\\U{ord(c):08x}" for c in text)
    return "'" + "".join(plain) + "'"


def rules_of(file: str) -> RuleSet:
    """The rules of a file of dbt, or of ours."""
    try:
        found = import_rules(Path(file).read_text(encoding="utf-8"), "dbt", file)
    except HoldstrueError:
        return load_rules(Path(file))
    for miss in found.unmapped:
        print(f"not mapped: {miss}", file=sys.stderr)
    return found.ruleset()


def macro(rules: RuleSet, dialect: str) -> str:
    """The macro of these rules."""
    tables = {rules.table or "data", *(t for rule in rules for t in (rule.own_table, *rule.body.references) if t)}
    parts = [HEAD]
    for query in to_sql(rules, dialect, names={table: f"{SCHEMA}.{table}" for table in tables}):
        if query.count is None:
            print(f"{query.rule.name}: not written: {query.problem}", file=sys.stderr)
            continue
        tolerance = query.rule.tolerance
        if tolerance is not None and tolerance.share is not None:
            print(f"{query.rule.name}: a share of the rows is not tolerated here", file=sys.stderr)
        parts.append(
            ONE.format(
                sql=literal(query.count),
                schema=literal(SCHEMA),
                name=literal(query.rule.name),
                tolerated=0 if tolerance is None or tolerance.count is None else tolerance.count,
                severe="true" if query.rule.severity == "error" else "false",
            )
        )
    return "".join([*parts, TAIL])


if __name__ == "__main__":
    print(macro(rules_of(sys.argv[1]), sys.argv[2]), end="")
