"""Batches of changes, and the rows they leave."""

from __future__ import annotations

import pyarrow as pa
import pytest

from workloads.changing import ChangingTable

COLUMNS = ("id", "zip", "city")


@pytest.mark.parametrize("size", [1, 7, 300])
def test_the_rows_left_are_the_base_with_the_changes(size: int) -> None:
    table = ChangingTable(100, COLUMNS, changes=1200)
    rows = {row["id"]: row for row in table.base.to_pylist()}
    kinds = set()
    for _ in range(1200 // size):
        batch = table.batch(size).to_pylist()
        assert len({row["id"] for row in batch}) == size
        for row in batch:
            kind = row.pop("op")
            kinds.add(kind)
            assert (row["id"] in rows) == (kind != "insert")
            if kind == "delete":
                assert row == {"id": row["id"], "zip": None, "city": None}
                del rows[row["id"]]
            else:
                rows[row["id"]] = row
    assert kinds == {"insert", "update", "delete"}
    assert table.left().to_pylist() == [rows[key] for key in sorted(rows)]


def test_same_seed_same_batches() -> None:
    def batches(seed: int) -> pa.Table:
        table = ChangingTable(50, COLUMNS, changes=40, seed=seed)
        return pa.concat_tables([table.batch(10) for _ in range(4)])

    assert batches(1).equals(batches(1))
    assert not batches(1).equals(batches(2))
