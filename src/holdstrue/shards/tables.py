"""The tables that a monitor watches: their keys, the columns that are kept of them, and the plan for their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.errors import HoldstrueError
from holdstrue.plan.compile import IndexKind, Plan, compile_rules, needed_columns
from holdstrue.rules.model import Inclusion, RuleSet
from holdstrue.rules.types import Declared, types_of_table, with_types
from holdstrue.sources.declared import agrees

Keys = Mapping[str, tuple[str, ...]]


def keys_of(rules: RuleSet, key: Any, main: str) -> dict[str, tuple[str, ...]]:
    """The key of each table."""
    given = key if key is not None else rules.key
    parts = dict(given) if isinstance(given, Mapping) else {main: given}
    keys = {}
    referenced = {r.body.ref_table: r.body.ref_columns for r in rules if isinstance(r.body, Inclusion)}
    for table in needed_columns(rules, main):
        # a referenced table is keyed by what refers to it unless told otherwise
        own = parts.get(table) or referenced.get(table, ())
        keys[table] = (own,) if isinstance(own, str) else tuple(own)
        if not keys[table]:
            raise HoldstrueError(
                f"table {table!r} needs a key, so that its rows can be updated and deleted",
                hint=f"name its key columns: key={{{table!r}: 'id'}}, or on the command line --table-key {table}=id",
            )
    return keys


def kept_of(rules: RuleSet, main: str, keys: Keys, table: str, seen: pa.Schema) -> pa.Schema:
    """The columns that are kept of a table: its key and what the rules read."""
    wanted = kept_names(rules, main, keys, table)
    for name in keys[table]:
        if name not in seen.names:
            raise HoldstrueError(
                f"table {table!r} has no key column {name!r}", hint=f"its columns are {', '.join(seen.names)}"
            )
    return pa.schema([plain_field(seen.field(name)) for name in wanted if name in seen.names])


def kept_names(rules: RuleSet, main: str, keys: Keys, table: str) -> tuple[str, ...]:
    """The names of the columns that are kept of a table."""
    return tuple(dict.fromkeys((*keys[table], *needed_columns(rules, main).get(table, ()))))


def types_for_batch(
    rules: RuleSet, main: str, keys: Keys, seen: Mapping[str, pa.Schema], given: Mapping[str, str] | None
) -> tuple[RuleSet, dict[str, dict[str, Declared]]]:
    """The rules with the types to remember, and by table the types that a batch is read with.

    A type given with a batch must be what is remembered of its column. It is remembered itself where nothing is
    known of the column yet; where values have told its type, it only says how this batch is written.
    """
    if not given and not rules.types:
        return rules, {table: {} for table in keys}
    known = {table: types_of_table(rules.types, table, main, keys) for table in keys}
    lasting: dict[str, str] = {}
    more = with_types(RuleSet(()), given).types
    for table in keys:
        for column, declared in types_of_table(more, table, main, keys).items():
            before = known[table].get(column)
            type_ = seen[table].field(column).type if table in seen and column in seen[table].names else pa.null()
            told = not pa.types.is_null(type_)
            if before not in (None, declared) or (told and not agrees(declared, type_)):
                raise HoldstrueError(
                    f"column {column!r} is declared as {declared}, and the monitor remembers {before or type_}",
                    hint="leave the type out; to change it, make the state anew",
                )
            known[table][column] = declared
            if before is None and not told:
                lasting[f"{table}.{column}"] = declared.text
    return with_types(rules, lasting), known


def plan_of(rules: RuleSet, main: str, keys: Keys, index: IndexKind, kept: Mapping[str, pa.Schema], seed: Seed) -> Plan:
    """The plan for tables of these types; tables not seen yet have the columns that others imply."""
    everything = dict(kept)
    for name, columns in needed_columns(rules, main).items():
        if name not in everything:
            wanted = dict.fromkeys((*keys.get(name, ()), *columns))
            everything[name] = pa.schema([pa.field(column, pa.null()) for column in wanted])
    return compile_rules(rules, main, everything, index, seed)


def plan_for(
    rules: RuleSet, main: str, keys: Keys, index: IndexKind, seen: Mapping[str, pa.Schema], seed: Seed
) -> Plan:
    """The plan for tables that were seen with these columns."""
    kept = {name: kept_of(rules, main, keys, name, schema) for name, schema in seen.items()}
    return plan_of(rules, main, keys, index, kept, seed)


def batch_name(batch_id: str | int | None, applied: int) -> str:
    """The name of a batch: its id, or a number where it has none."""
    batch = f"#{applied + 1}" if batch_id is None else str(batch_id)
    if batch_id is not None and batch.startswith("#"):
        raise HoldstrueError(
            f"batch id {batch!r} starts with '#'", hint="such ids name the batches that are given none"
        )
    return batch


def typed(known: pa.Schema, seen: pa.Schema) -> pa.Schema:
    """The columns that are known; those that were all NULL so far take the type they are now seen with."""
    return pa.schema(
        [
            plain_field(seen.field(field.name)) if pa.types.is_null(field.type) and field.name in seen.names else field
            for field in known
        ]
    )


def new_fields(schema: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """The columns of which nothing was known before."""
    types = {} if known is None else {field.name: field.type for field in known}
    return pa.schema([field for field in schema if pa.types.is_null(types.get(field.name, pa.null()))])


def plain_field(field: pa.Field) -> pa.Field:
    """A column without its dictionary and metadata."""
    return pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
