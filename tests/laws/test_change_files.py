"""Change files on a sharded state mean what they mean in one process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue import HoldstrueError, Monitor
from holdstrue.spark.sharded import Sharded
from laws.shards import Loops

START = pa.table({"id": [1, 2], "zip": [10, 11], "city": ["A", "B"], "op": ["insert", "delete"]})


def monitors(tmp_path: Path) -> tuple[Monitor, Sharded]:
    one = Monitor("zip -> city", key="id")
    one.apply(START, feed="append")
    many = Sharded(Loops(2), tmp_path / "state", "zip -> city", key="id")
    many.apply([START], feed="append")
    return one, many


def test_a_column_of_the_table_is_never_an_operation(tmp_path: Path) -> None:
    one, many = monitors(tmp_path)
    path = tmp_path / "new.csv"
    path.write_text("id,zip,city,op\n3,10,C,delete\n")
    files = [pa.table({"path": [str(path)]})]
    assert dict(many.apply(files, feed="files").counts) == dict(one.apply(path).counts)
    assert many.rows == one.rows == {"data": 3}


def test_an_unknown_column_is_refused(tmp_path: Path) -> None:
    one, many = monitors(tmp_path)
    path = tmp_path / "new.csv"
    path.write_text("id,zip,city,op,colour\n3,10,C,x,red\n")
    with pytest.raises(HoldstrueError, match="colour"):
        one.apply(path)
    with pytest.raises(HoldstrueError, match="colour"):
        many.apply([pa.table({"path": [str(path)]})], feed="files")
    assert many.batches == 1
