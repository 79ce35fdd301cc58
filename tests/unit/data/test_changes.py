"""Batches of changes: order, places and putting together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.data.changes import DELETE, INSERT, UPDATE, UPSERT, Changes, Origin, Places
from holdstrue.errors import ChangeError


def test_the_codes_are_fixed() -> None:
    assert (INSERT, UPDATE, DELETE, UPSERT) == (0, 1, 2, 3)


def test_append_makes_inserts() -> None:
    batch = Changes.append(pa.table({"id": [7, 8, 9]}))
    assert batch.ops.tolist() == [INSERT] * 3
    assert batch.counts() == {"insert": 3}
    assert batch.place(2) == "row 3 of the changes"


def test_ops_and_rows_must_match() -> None:
    with pytest.raises(ChangeError, match="2 changed rows with 1 operations\nhint: give one operation"):
        Changes(pa.table({"id": [1, 2]}), np.zeros(1, np.uint8))


def test_take_keeps_places() -> None:
    batch = Changes.append(pa.table({"id": [7, 8, 9]}), name="a.csv").take(np.array([2, 0]))
    assert batch.rows.column("id").to_pylist() == [9, 7]
    assert [batch.place(0), batch.place(1)] == ["row 3 of a.csv", "row 1 of a.csv"]
    nameless = Changes.append(pa.table({"id": [7, 8]})).take(np.array([1]))
    assert nameless.place(0) == "row 2 of the changes"


def test_concat_keeps_order_places_and_fills_with_null() -> None:
    one = Changes.append(pa.table({"id": [1, 2], "zip": ["a", "b"]}), name="a.csv").take(np.array([1]))
    none = Changes.append(pa.table({"id": pa.array([], pa.int64())}), name="empty.csv")
    two = Changes(
        pa.table({"id": [1]}),
        np.array([DELETE], np.uint8),
        Places((Origin("b.jsonl", 9, "line"),), np.array([6])),
    )
    batch = Changes.concat([one, none, two, Changes.append(pa.table({"id": [5]}))])
    assert batch.rows.to_pydict() == {"id": [2, 1, 5], "zip": ["b", None, None]}
    assert batch.ops.tolist() == [INSERT, DELETE, INSERT]
    assert [batch.place(i) for i in range(3)] == [
        "row 2 of a.csv",
        "line 7 of b.jsonl",
        "row 1 of the changes",
    ]


def test_concat_refuses_nothing_and_clashing_types() -> None:
    with pytest.raises(ChangeError, match="no batches"):
        Changes.concat([])
    with pytest.raises(ChangeError, match="columns of different types"):
        Changes.concat([Changes.append(pa.table({"id": [1]})), Changes.append(pa.table({"id": ["x"]}))])
