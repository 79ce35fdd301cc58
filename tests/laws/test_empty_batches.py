"""Batches without rows change nothing and teach nothing, wherever they come in a history."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdstrue

HEADER = "id,zip,op"
EMPTY = ("header", "no header end", "json", "typed", "records")


def empty(kind: str, folder: Path) -> object:
    """A batch without rows, in one of its forms."""
    match kind:
        case "header" | "no header end":
            path = folder / "empty.csv"
            path.write_text(HEADER + ("\n" if kind == "header" else ""))
            return path
        case "json":
            path = folder / "empty.jsonl"
            path.write_text("")
            return path
        case "typed":
            return pa.table(
                {"id": pa.array([], pa.int64()), "zip": pa.array([], pa.int64()), "op": pa.array([], pa.string())}
            )
    return pa.table({"id": pa.nulls(0), "zip": pa.nulls(0), "op": pa.nulls(0)})


changes = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from(["upsert", "delete"])), min_size=1, max_size=4
)


@given(st.lists(st.one_of(changes, st.sampled_from(EMPTY)), max_size=6), st.booleans())
def test_they_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[tuple[int, int, str]] | str], reopened: bool
) -> None:
    folder = tmp_path_factory.mktemp("empty")
    monitor = holdstrue.Monitor.create(folder / "state", "key(zip)", key="id")
    table: dict[int, int] = {}
    for number, batch in enumerate(history):
        if isinstance(batch, str):
            monitor.apply(empty(batch, folder), batch_id=number, on_conflict="upsert")
        else:
            path = folder / "batch.csv"
            path.write_text("\n".join([HEADER, *(f"{a},{b},{op}" for a, b, op in batch)]) + "\n")
            monitor.apply(path, batch_id=number, on_conflict="upsert")
            for key, value, op in batch:
                if op == "delete":
                    table.pop(key, None)
                else:
                    table[key] = value
        if reopened:
            monitor.close()
            monitor = holdstrue.Monitor.open(folder / "state")
        assert monitor.rows["data"] == len(table)
        zips = list(table.values())
        pairs = sum(a == b for i, a in enumerate(zips) for b in zips[:i])
        assert monitor.counts()["key(zip)"].pairs == pairs
    monitor.close()
