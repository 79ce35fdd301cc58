"""Lists of violations as Arrow tables: made in tasks, written beside the runs, read by the driver and by sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.detect.delta import Violation, shares
from holdstrue.shards.layout import Layout, Spot
from holdstrue.shards.shard import Shard, as_key
from holdstrue.typing import I32, I64

ADDED, REMOVED = 1, -1
ENTERED, LEFT_BEHIND = 2, -2
"""Rows with a missing reference that came from another shard, and that went to another."""
KEPT = 0
"""Violations of rows that moved together: they are among the added and the removed ones and are neither."""


def listing(layout: Layout, check: int, change: int, t: pa.Array, s: pa.Array | None) -> pa.Table:
    """Violations of one check as a table; its metadata names the table whose rows these are."""
    rule = layout.plan.rules.rules[layout.plan.checks[check].rule].name
    count = len(t)
    return pa.table(
        {
            "rule": pa.repeat(pa.scalar(rule), count),
            "change": pa.array(np.full(count, change, dtype=np.int8)),
            "pair": pa.array(np.full(count, s is not None)),
            "t": t,
            "s": pa.nulls(count, t.type) if s is None else s,
        }
    ).replace_schema_metadata({"table": layout.plan.checks[check].table})


def whole_tables(layout: Layout, broken: Iterable[int], change: int) -> Iterator[pa.Table]:
    """Violations of rules about whole tables, which name no rows."""
    for check in broken:
        table = layout.plan.checks[check].table
        schema, key = layout.plan.schemas[table], layout.keys[table]
        yield listing(
            layout, check, change, as_key(schema.empty_table().select(key)).take(pa.nulls(1, pa.int32())), None
        )


def crossing(shard: Shard, spot: Spot, blocks: int, table: str, slots: I32) -> I32:
    """The pairs that a cell of a grid is to list: those of different blocks, where it holds two."""
    if not spot.crosses or not slots.size or slots.shape[1] == 1:
        return slots
    t, s = (shard.blocks(table, slots[:, side], blocks) for side in (0, 1))
    return slots[t != s]


def by_table(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Lists of the same table put together."""
    found: dict[bytes, list[pa.Table]] = {}
    for table in tables:
        if table.num_rows:
            found.setdefault(table.schema.metadata[b"table"], []).append(table)
    return [pa.concat_tables(parts) for parts in found.values()]


def settled(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Added and removed violations without those that were kept, a table of the database each."""
    for table in by_table(tables):
        change = table.column("change").to_numpy()
        listed = table.filter(pa.array(np.abs(change) == 1))
        kept = table.filter(pa.array(change == KEPT))
        if kept.num_rows and listed.num_rows:
            names = _names(pa.concat_tables([kept, listed]))
            listed = listed.filter(pa.array(~np.isin(names[kept.num_rows :], names[: kept.num_rows])))
        yield listed


def delta_lists(tables: Iterable[pa.Table], limit: int) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
    """Added and removed violations, each up to the limit, of which every rule has its share."""
    lists = list(settled(tables))
    both: list[tuple[Violation, ...]] = []
    for added in (True, False):
        own = [table.filter(pa.array((table.column("change").to_numpy() == ADDED) == added)) for table in lists]
        counts = Counter[str]()
        for table in own:
            counts.update(table.column("rule").to_pylist())
        left = dict(zip(counts, shares(list(counts.values()), limit), strict=True))
        found: list[Violation] = []
        for table in own:
            for rule in counts:
                rows = table.filter(pc.equal(table.column("rule"), rule)).slice(0, left[rule])
                left[rule] -= rows.num_rows
                found.extend(map(violation_of, rows.to_pylist()))
        both.append(tuple(found))
    return both[0], both[1]


def violation_of(row: Mapping[str, Any]) -> Violation:
    """A row of a list as a violation."""
    t, s = (tuple(v.values()) if isinstance(v := row[side], dict) else v for side in ("t", "s"))
    return Violation(row["rule"], t, s, pair=row["pair"])


def kept_references(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows whose reference was missing where they were and is missing where they went, as kept violations."""
    for table in by_table(tables):
        change = table.column("change").to_numpy()
        entered, left = table.filter(pa.array(change == ENTERED)), table.filter(pa.array(change == LEFT_BEHIND))
        if entered.num_rows and left.num_rows:
            names = _names(pa.concat_tables([entered, left]))
            both = entered.filter(pa.array(np.isin(names[: entered.num_rows], names[entered.num_rows :])))
            place = both.schema.get_field_index("change")
            if both.num_rows:
                none = pa.array(np.full(both.num_rows, KEPT, dtype=np.int8))
                yield both.set_column(place, "change", none)


def _names(table: pa.Table) -> I64:
    """Numbers of violations, equal where rule, t and s are equal."""
    numbers = np.zeros(table.num_rows, dtype=np.int64)
    for name in ("rule", "t", "s"):
        column = table.column(name)
        for part in column.flatten() if pa.types.is_struct(column.type) else [column]:
            codes = pc.dictionary_encode(part.combine_chunks(), null_encoding="encode")
            codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
            _, numbers = np.unique(
                numbers * (len(codes.dictionary) + 1) + codes.indices.to_numpy(), return_inverse=True
            )
    return numbers
