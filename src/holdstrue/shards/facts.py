"""What a monitor knows of its tables and says in its manifest: rules, keys, kept columns, types, counts, history."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import pyarrow as pa

from holdstrue.data.buffers import arrow_values
from holdstrue.data.seed import Seed
from holdstrue.detect.delta import Batched, RuleCounts, Step
from holdstrue.detect.sequence import gone_of, gone_schema
from holdstrue.errors import HoldstrueError
from holdstrue.index.protocol import INDEXES, IndexKind
from holdstrue.plan.checks import MeasureCheck
from holdstrue.plan.compile import Plan, compile_rules, main_table, needed_columns
from holdstrue.plan.measures import Part, parts_of, written
from holdstrue.rules.file import dump_rules, load_rules
from holdstrue.rules.model import Inclusion, Measured, RuleSet
from holdstrue.rules.types import Declared, types_of_table, with_types
from holdstrue.sources.declared import agrees
from holdstrue.state.few_rows import FewRows, RowForm
from holdstrue.state.history import Lines
from holdstrue.state.schema_text import schema_of, schema_text
from holdstrue.state.shape import DIGEST, RUNS, require

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


def kept_of(
    rules: RuleSet, main: str, keys: Keys, table: str, seen: pa.Schema, sequence: Mapping[str, str]
) -> pa.Schema:
    """The columns that are kept of a table: its key, what the rules read and what orders its changes."""
    wanted = kept_names(rules, main, keys, table, sequence)
    for name in keys[table]:
        if name not in seen.names:
            raise HoldstrueError(
                f"table {table!r} has no key column {name!r}", hint=f"its columns are {', '.join(seen.names)}"
            )
    return pa.schema([plain_field(seen.field(name)) for name in wanted if name in seen.names])


def kept_names(
    rules: RuleSet, main: str, keys: Keys, table: str, sequence: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The names of the columns that are kept of a table."""
    order = () if not sequence or table not in sequence else (sequence[table],)
    return tuple(dict.fromkeys((*keys[table], *needed_columns(rules, main).get(table, ()), *order)))


def sequence_by(given: str | Mapping[str, str] | None, main: str, keys: Keys) -> dict[str, str]:
    """By table the column that orders its changes; a name alone is of the main table."""
    found = {main: given} if isinstance(given, str) else dict(given or {})
    for table in found:
        if table not in keys:
            raise HoldstrueError(
                f"sequence_by names table {table!r}, which no rule reads", hint=f"one of {', '.join(keys)}"
            )
    return found


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


def batch_name(batch_id: str | int | None, applied: int) -> str:
    """The name of a batch: its id, or a number where it has none."""
    batch = f"#{applied + 1}" if batch_id is None else str(batch_id)
    if batch_id is not None and batch.startswith("#"):
        raise HoldstrueError(
            f"batch id {batch!r} starts with '#'", hint="such ids name the batches that are given none"
        )
    return batch


def typed(known: pa.Schema, seen: pa.Schema, *, widen: bool = False) -> pa.Schema:
    """The columns that are known; those that were all NULL so far take the type they are now seen with.

    With `widen` so do those that were narrower.

    >>> seen = pa.schema({"a": pa.int64(), "b": pa.string(), "c": "int8"})
    >>> typed(pa.schema({"a": pa.int32(), "b": pa.null()}), seen, widen=True)
    a: int64
    b: string
    """
    return pa.schema(
        [
            field.with_type(wider(field.type, plain_field(seen.field(field.name)).type))
            if field.name in seen.names and (widen or pa.types.is_null(field.type))
            else field
            for field in known
        ]
    )


def wider(known: pa.DataType, seen: pa.DataType) -> pa.DataType:
    """The type that a column has from now on: the wider of two where one holds all values of the other exactly.

    >>> [str(wider(known, seen)) for known, seen in ((pa.int32(), pa.int64()), (pa.int64(), pa.int8()),
    ...     (pa.float32(), pa.float64()), (pa.decimal128(5, 2), pa.decimal128(9, 2)), (pa.int32(), pa.string()))]
    ['int64', 'int64', 'double', 'decimal128(9, 2)', 'int32']
    """
    if pa.types.is_null(known):
        return seen
    signed, floating, decimal = pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_decimal128
    grows = any(kind(known) and kind(seen) for kind in (signed, floating)) and seen.bit_width > known.bit_width
    if decimal(known) and decimal(seen):
        grows = seen.scale >= known.scale and seen.precision - seen.scale >= known.precision - known.scale
    return seen if grows else known


def new_fields(schema: pa.Schema, known: pa.Schema | None) -> pa.Schema:
    """The columns of which nothing was known before."""
    types = {} if known is None else {field.name: field.type for field in known}
    return pa.schema([field for field in schema if pa.types.is_null(types.get(field.name, pa.null()))])


def plain_field(field: pa.Field) -> pa.Field:
    """A column without its dictionary and metadata."""
    return pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)


HISTORY = Lines(
    pa.schema(
        {
            "batch": pa.string(),
            "time": pa.string(),
            "rule": pa.string(),
            "added": pa.int64(),
            "removed": pa.int64(),
            "open": pa.int64(),
        }
    ),
    keys=("rule",),
    sums=("added", "removed"),
)
_COLUMNS = tuple((attrgetter(field.name), field.type) for field in HISTORY.schema)
_FORM = RowForm(HISTORY.schema)


_COUNTS = {"rows": int, "pairs": int, "groups": int, "open": int}

SHAPE = {
    "rules": str, "main": str, "keys": {str: [str]}, "index": set(INDEXES), "digest": DIGEST, "schemas": {str: str},
    "batches": int, "last_batch?": (str, None), "rows": {str: int}, "counts": {str: _COUNTS}, "kept?": bool,
    "measures?": {str: [[str]]}, "sequence?": {str: str},
    "sharding?": {"shards": int, "blocks": int, "hot": [[[str]]], "routes": [str]},
    "shards?": {str: {**RUNS, "rows": {str: int}, "tallies": {str: [int]}, "measures?": {str: [[str]]}}},
}  # fmt: skip
"""The shape of a monitor's manifest."""


@dataclass(frozen=True)
class Facts:
    """A monitor as its manifest describes it."""

    rules: RuleSet
    main: str
    keys: Mapping[str, tuple[str, ...]]
    index: IndexKind
    seed: Seed
    batches: int = 0
    last_batch: str | None = None
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    """The tables as they were seen: all their columns, kept or not."""
    rows: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, RuleCounts] = field(default_factory=dict)
    """How rules stood after the last batch."""
    measures: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    """What is kept of rules about whole tables, which also stand otherwise as time passes."""
    sequence: Mapping[str, str] = field(default_factory=dict)
    """By table the column that orders its changes, where they may come late."""

    @staticmethod
    def new(rules: RuleSet, key: Any, index: IndexKind, sequence: str | Mapping[str, str] | None = None) -> Facts:
        """Those of a monitor that has seen nothing yet; `key` is as `Monitor` takes it."""
        others = tuple(name for name in (key if isinstance(key, Mapping) else ()) if name != rules.table)
        main = main_table(rules, others)
        keys = keys_of(rules, key, main)
        return Facts(rules, main, keys, index, Seed.new(), sequence=sequence_by(sequence, main, keys))

    def sequenced(self, given: str | Mapping[str, str] | None, table: str) -> Facts:
        """The same where changes are ordered by these columns too; a name alone is of `table`."""
        if given is None:
            return self
        more = sequence_by(given, table, self.keys)
        for name, column in more.items():
            if self.sequence.get(name, column) != column:
                raise HoldstrueError(
                    f"changes of {name!r} are ordered by {self.sequence[name]!r}, not by {column!r}",
                    hint="leave sequence_by out; to order them otherwise, make the state anew",
                )
        return self if self.sequence.items() >= more.items() else replace(self, sequence={**self.sequence, **more})

    @property
    def all_keys(self) -> dict[str, tuple[str, ...]]:
        """The keys of all tables that shards hold, also of those that remember deletes."""
        return {**self.keys, **{gone_of(table): self.keys[table] for table in self.sequence}}

    def kept_names(self, table: str) -> tuple[str, ...]:
        """The names of the columns that are kept of a table."""
        return kept_names(self.rules, self.main, self.keys, table, self.sequence)

    def plan(self) -> Plan:
        """The plan for the tables as they were seen; those not seen yet have the columns that others imply."""
        tables = {}
        for table in dict.fromkeys((*self.schemas, *needed_columns(self.rules, self.main))):
            if table in self.schemas:
                seen = self.schemas[table]
                tables[table] = kept_of(self.rules, self.main, self.keys, table, seen, self.sequence)
            else:
                tables[table] = pa.schema([pa.field(column, pa.null()) for column in self.kept_names(table)])
        for table, column in self.sequence.items():
            tables[gone_of(table)] = gone_schema(table, tables[table], self.keys[table], column)
        return compile_rules(self.rules, self.main, tables, self.index, self.seed)

    def measure_checks(self) -> dict[str, MeasureCheck]:
        """By rule the checks of those about whole tables. Complexity: that of planning, if there are such."""
        if not any(isinstance(rule.body, Measured) for rule in self.rules):
            return {}
        return measure_checks(self.plan())

    def judged(self, moment: int) -> Facts:
        """The same with rules that time decides on as they stand at a moment, in nanoseconds since 1970."""
        counts = dict(self.counts)
        for rule, check in self.measure_checks().items():
            if rule in self.measures:
                counts[rule] = RuleCounts(0, 0, 0, int(check.broken(self.measures[rule], moment)))
        return replace(self, counts=counts)

    def measured(self, moment: int) -> dict[str, str]:
        """By rule what was measured of whole tables, in words."""
        checks = self.measure_checks()
        return {rule: checks[rule].said(parts, moment) for rule, parts in self.measures.items()}

    def known_table(self, name: str) -> str:
        """The name of a table; raises when the monitor does not watch it."""
        if name not in self.keys:
            raise HoldstrueError(f"no table {name!r} in this monitor", hint=f"it watches {', '.join(self.keys)}")
        return name

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "rules": dump_rules(self.rules),
            "main": self.main,
            "keys": {table: list(key) for table, key in self.keys.items()},
            "index": self.index,
            "digest": self.seed.to_dict(),
            "schemas": {table: schema_text(schema) for table, schema in self.schemas.items()},
            **({"sequence": dict(self.sequence)} if self.sequence else {}),
            **self.changing(),
        }

    def changing(self) -> dict[str, Any]:
        """What every batch changes."""
        return changing(self.batches, self.last_batch, self.rows, self.counts, self.measures)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Facts:
        """From plain JSON data; a ValueError where it has another shape."""
        require(data, SHAPE)
        if not all(data["keys"].values()):
            raise ValueError("a table has no key")
        facts = Facts(
            rules=load_rules(data["rules"]),
            main=data["main"],
            keys={table: tuple(key) for table, key in data["keys"].items()},
            index=data["index"],
            seed=Seed.of(data["digest"]),
            batches=data["batches"],
            last_batch=data.get("last_batch"),
            schemas={table: schema_of(text) for table, text in data["schemas"].items()},
            rows=data["rows"],
            counts={rule: RuleCounts(**counts) for rule, counts in data["counts"].items()},
            sequence=data.get("sequence", {}),
        )
        if not facts.sequence.keys() <= facts.keys.keys():
            raise ValueError("it orders changes of a table that it does not have")
        if not data.get("measures"):
            return facts
        checks = facts.measure_checks()
        if data["measures"].keys() != checks.keys():
            raise ValueError(f"it has measures of {', '.join(data['measures'])}, not of {', '.join(checks)}")
        known = {rule: parts_of(checks[rule].measures, parts) for rule, parts in data["measures"].items()}
        return replace(facts, measures=known)


def changing(
    batches: int,
    last_batch: str | None,
    rows: Mapping[str, int],
    counts: Mapping[str, RuleCounts],
    measures: Mapping[str, tuple[Part, ...]],
) -> dict[str, Any]:
    """What every batch changes of a monitor's facts, as plain JSON data."""
    return {
        "batches": batches,
        "last_batch": last_batch,
        "rows": dict(rows),
        "counts": {
            rule: {"rows": c.rows, "pairs": c.pairs, "groups": c.groups, "open": c.open} for rule, c in counts.items()
        },
        **({"measures": {rule: written(parts) for rule, parts in measures.items()}} if measures else {}),
    }


def late_notes(late: Mapping[str, int], sequence: Mapping[str, str]) -> list[str]:
    """What there is to say of changes that lost to newer ones."""
    return [
        f"{count:,} changes of {table} came late: newer ones are there, by {sequence[table]}"
        for table, count in late.items()
        if count
    ]


def measure_checks(plan: Plan) -> dict[str, MeasureCheck]:
    """By rule the checks of whole tables."""
    return {plan.rules.rules[check.rule].name: check for check in plan.checks if isinstance(check, MeasureCheck)}


def now_text() -> str:
    """The time of a line of history that is written now."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def history_rows(batch: str, time: str, steps: Mapping[str, Step]) -> FewRows:
    """The same as rows of the history."""
    return FewRows(_FORM, [(batch, time, rule, step.added, step.removed, step.open) for rule, step in steps.items()])


def history_lines(batch: str, time: str, steps: Mapping[str, Step]) -> list[Batched]:
    """What a batch did to each rule, and when."""
    return [Batched(batch, time, rule, step.added, step.removed, step.open) for rule, step in steps.items()]


def history_table(lines: Sequence[Batched]) -> pa.Table:
    """Lines of history as a table."""
    columns = [arrow_values([column(line) for line in lines], type_) for column, type_ in _COLUMNS]
    return pa.Table.from_arrays(columns, schema=HISTORY.schema)


def history_of(table: pa.Table) -> list[Batched]:
    """Back from `history_table`."""
    return [Batched(**row) for row in table.to_pylist()]
