"""Change logs of Delta Lake and Iceberg brought to one form, and the keys that tell their rows apart."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdstrue.data.changes import OP_NAMES
from holdstrue.sources.feeds import diff_tables, read_changes
from unit.sources.test_feeds import SCHEMA, refuses, said


def log(rows: Sequence[tuple[str, int, int | None, str | None]], order: str = "_commit_version") -> pa.Table:
    kinds, commits, ids, zips = zip(*rows, strict=True)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "zip": pa.array(zips, pa.string()),
            "_change_type": kinds,
            order: pa.array(commits, pa.int64()),
        }
    )


def test_delta_in_the_order_of_commits() -> None:
    table = log(
        [
            ("update_preimage", 5, 1, "a"),
            ("update_postimage", 5, 1, "b"),
            ("insert", 4, 1, "a"),
            ("delete", 6, 1, "b"),
        ]
    ).append_column("_commit_timestamp", pa.array([0] * 4, pa.timestamp("us")))
    changes = read_changes(table, key=["id"], schema=SCHEMA)
    assert said(changes) == [("insert", 1, "a"), ("update", 1, "b"), ("delete", 1, "b")]
    assert [changes.place(i) for i in range(3)] == [f"row {n} of the table" for n in (3, 2, 4)]


def test_delta_update_that_changes_the_key() -> None:
    table = log(
        [
            ("update_preimage", 1, 1, "a"),
            ("update_postimage", 1, 9, "a"),
            ("update_preimage", 1, 2, "b"),
            ("update_postimage", 1, 2, "c"),
        ]
    )
    assert said(read_changes(table, key=["id"])) == [
        ("delete", 1, "a"),
        ("insert", 9, "a"),
        ("update", 2, "c"),
    ]


def test_delta_written_without_before_images() -> None:
    table = log([("update_postimage", 1, 1, "a"), ("insert", 1, 2, "b"), ("delete", 2, 2, None)])
    assert said(read_changes(table, key=["id"])) == [
        ("update", 1, "a"),
        ("insert", 2, "b"),
        ("delete", 2, None),
    ]


def test_delta_insert_and_delete_in_one_commit_is_an_update() -> None:
    table = log([("insert", 3, 1, "new"), ("delete", 3, 1, "old"), ("delete", 4, 1, "new")])
    assert said(read_changes(table, key=["id"])) == [("update", 1, "new"), ("delete", 1, "new")]


def test_delta_troubles() -> None:
    good = log([("insert", 1, 1, "a"), ("insert", 2, 2, "a")])
    with refuses("has no column '_commit_version', so it is not a changelog of Delta Lake", "keep _change_type"):
        read_changes(good.drop_columns(["_commit_version"]), key=["id"])
    with refuses("row 2 of the table: unknown change type 'merge' in column '_change_type'", "update_preimage"):
        read_changes(log([("insert", 1, 1, "a"), ("merge", 1, 1, "a")]), key=["id"])
    with refuses("row 1 of the table: no value in key column 'id'"):
        read_changes(log([("insert", 2, 1, "a"), ("insert", 1, None, "a")][::-1]), key=["id"])
    nulls = good.set_column(3, "_commit_version", pa.array([1, None]))
    with refuses("row 2 of the table: no value in _commit_version"):
        read_changes(nulls, key=["id"])
    texts = good.set_column(3, "_commit_version", pa.array(["x", "y"]))
    with refuses("row 1 of the table: _commit_version holds 'x', expected a whole number"):
        read_changes(texts, key=["id"])
    assert len(read_changes(good.slice(0, 0), key=["id"])) == 0


def test_iceberg(tmp_path: Path) -> None:
    table = log(
        [
            ("UPDATE_BEFORE", 1, 2, "b"),
            ("UPDATE_AFTER", 1, 2, "c"),
            ("INSERT", 0, 1, "a"),
            ("DELETE", 2, 1, "a"),
            ("INSERT", 2, 1, "z"),
            ("DELETE", 3, 1, "z"),
            ("UPDATE_BEFORE", 4, 2, "c"),
            ("UPDATE_AFTER", 4, 5, "c"),
        ],
        "_change_ordinal",
    ).append_column("_commit_snapshot_id", pa.array([7] * 8))
    expected = [
        ("insert", 1, "a"), ("update", 2, "c"), ("update", 1, "z"), ("delete", 1, "z"),
        ("delete", 2, "c"), ("insert", 5, "c"),
    ]  # fmt: skip
    assert said(read_changes(table, key=["id"], schema=SCHEMA)) == expected
    pq.write_table(table, tmp_path / "a.parquet")
    assert said(read_changes(tmp_path / "a.parquet", key=["id"])) == expected
    with refuses("has no column '_change_ordinal'"):
        read_changes(table.drop_columns(["_change_ordinal"]), key=["id"], feed="iceberg")


@pytest.mark.parametrize("values", [
    pa.array(np.array([1.5, 2.5], np.float16)), pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal32(5, 1)),
    pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal64(15, 1)), pa.array([2**64 - 1, 2**64 - 2], pa.uint64()),
    pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b"], pa.string_view()),
    pa.array([b"a", b"b"], pa.binary_view()), pa.array([1, 2], pa.duration("ns")),
    pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal256(50, 1)), pa.array([1, 2], pa.timestamp("ns", "UTC")),
], ids=lambda values: str(values.type))  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_keys_of_every_type(values: Any, known: bool) -> None:
    """Rows that left and came are told apart by keys of any type, asked for as it is or not."""
    keys = pa.concat_arrays([values.slice(0, 1), values.slice(0, 1), values.slice(1)])
    table = pa.table({"k": keys, "_change_type": ["update_preimage", "update_postimage", "insert"]})
    table = table.append_column("_commit_version", pa.array([1, 1, 1]))
    schema = pa.schema([("k", values.type)]) if known else None
    changes = read_changes(table, key=["k"], schema=schema)
    assert [OP_NAMES[op] for op in changes.ops] == ["update", "insert"]
    assert read_changes(pa.table({"k": values, "op": ["c", "d"]}), key=["k"], schema=schema).ops.tolist() == [0, 2]
    assert len(diff_tables(table.slice(1), table.slice(1), ["k"])) == 0


def test_keys_that_cannot_be() -> None:
    for values in ([[1], [2]], [{"a": 1}, {"a": 2}]):
        with refuses("the table: key column 'k' is ", "plain values"):
            read_changes(pa.table({"k": values, "op": ["c", "d"]}), key=["k"])


def test_commits_beyond_64_bits_are_refused() -> None:
    table = log([("insert", 1, 1, "a"), ("insert", 2, 2, "a")])
    beyond = table.set_column(3, "_commit_version", pa.array([1, 2**63], pa.uint64()))
    with refuses(f"row 2 of the table: _commit_version holds {2**63}, which is beyond 64 bits"):
        read_changes(beyond, key=["id"])
