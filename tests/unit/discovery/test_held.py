"""Rows with and without a key, as a discovery holds them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.data.changes import DELETE, INSERT, UPDATE, Changes
from holdstrue.data.seed import PROCESS
from holdstrue.discovery.held import Held
from holdstrue.errors import ChangeError

ROWS = pa.table({"a": [1, 1, None, 2], "b": ["x", "x", "y", None]})


def held() -> Held:
    made = Held({"data": ROWS.schema}, {}, PROCESS)
    made.load({"data": ROWS})
    return made


def changes(rows: pa.Table, *ops: int) -> Changes:
    return Changes(rows, np.array(ops, np.uint8))


def test_a_delete_takes_one_of_equal_rows_the_oldest_first() -> None:
    rows = held()
    part = rows.resolve("data", changes(ROWS.slice(1, 2), DELETE, DELETE), "error")
    assert part.old.tolist() == [0, 2]
    batch = rows.apply({"data": part})["data"]
    assert batch.old.to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
    assert rows.counts() == {"data": 2}
    again = rows.resolve("data", changes(ROWS.slice(0, 1), DELETE), "error")
    assert again.old.tolist() == [1]


def test_a_row_may_come_and_go_in_one_batch() -> None:
    rows = held()
    new = pa.table({"a": [7, 7, 7], "b": ["n", "n", "n"]})
    part = rows.resolve("data", changes(new, INSERT, INSERT, DELETE), "error")
    assert (part.old.size, part.values.to_pylist()) == (0, [{"a": 7, "b": "n"}])


def test_a_row_that_is_not_there_cannot_go() -> None:
    rows = held()
    with pytest.raises(ChangeError, match="row 1 of the changes: no such row"):
        rows.resolve("data", changes(pa.table({"a": [9], "b": ["x"]}), DELETE), "error")
    # a delete before the insert of an equal row finds nothing either
    with pytest.raises(ChangeError, match="row 1 of the changes: no such row"):
        rows.resolve("data", changes(pa.table({"a": [9, 9], "b": ["x", "x"]}), DELETE, INSERT), "error")


def test_updates_need_a_key() -> None:
    with pytest.raises(ChangeError, match="update of a table without a key"):
        held().resolve("data", changes(ROWS.slice(0, 1), UPDATE), "error")


def test_a_lacking_column_is_named() -> None:
    with pytest.raises(ChangeError, match="no column 'b'"):
        held().resolve("data", changes(ROWS.select(["a"]).slice(0, 1), DELETE), "error")
