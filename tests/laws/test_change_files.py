"""Change files on a sharded state mean what they mean in one process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue import HoldstrueError, Monitor
from holdstrue.monitor.sharded import Sharded
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


def test_a_column_that_no_rule_reads_may_come_and_go(tmp_path: Path) -> None:
    one, many = monitors(tmp_path)
    path = tmp_path / "new.csv"
    path.write_text("id,zip,city,colour\n3,10,C,red\n")
    files = [pa.table({"path": [str(path)]})]
    here, there = one.apply(path), many.apply(files, feed="files")
    assert dict(here.counts) == dict(there.counts)
    assert here.counts["zip -> city"].open == 1
    for delta in (here, there):
        assert any("'colour'" in note and "left out" in note for note in delta.notes), delta.notes
        assert any("'op'" in note and "no rule reads" in note for note in delta.notes), delta.notes
    assert many.rows == one.rows == {"data": 3}


def test_a_column_that_a_rule_reads_may_not_vanish(tmp_path: Path) -> None:
    one, many = monitors(tmp_path)
    path = tmp_path / "new.csv"
    path.write_text("id,zip,cty,op\n3,10,C,insert\n")
    with pytest.raises(HoldstrueError, match=r"no column 'city'(.|\n)*did you mean 'cty'"):
        one.apply(path)
    with pytest.raises(HoldstrueError, match=r"no column 'city'(.|\n)*did you mean 'cty'"):
        many.apply([pa.table({"path": [str(path)]})], feed="files")
    assert many.batches == 1


def test_a_column_that_was_all_null_takes_the_type_of_its_first_values(tmp_path: Path) -> None:
    empty = pa.table({"id": [1, 2], "zip": pa.nulls(2), "city": ["A", "B"]})
    one = Monitor("zip -> city", key="id")
    one.apply(empty, feed="append")
    many = Sharded(Loops(2), tmp_path / "state", "zip -> city", key="id")
    many.apply([empty], feed="append")
    path = tmp_path / "new.csv"
    path.write_text("id,zip,city\n3,10,C\n4,10,D\n")
    files = [pa.table({"path": [str(path)]})]
    assert dict(many.apply(files, feed="files").counts) == dict(one.apply(path).counts)
    assert many.counts() == one.counts()
    assert one.counts()["zip -> city"].pairs == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_commit_of_a_changelog_may_lie_in_several_files(tmp_path: Path, order: tuple[int, int]) -> None:
    one, many = monitors(tmp_path)
    head = "id,zip,city,op,_change_type,_commit_version\n"
    (tmp_path / "0.csv").write_text(head + "1,10,A,insert,update_preimage,1\n2,11,B,delete,delete,2\n")
    (tmp_path / "1.csv").write_text(head + "1,11,A,insert,update_postimage,1\n")
    paths = [tmp_path / f"{i}.csv" for i in order]
    assert dict(one.apply(paths, feed="delta").counts) == dict(
        many.apply(
            [pa.table({"path": [str(path) for path in paths]})], feed="files", read={"feed": "delta"}
        ).counts
    )  # fmt: skip
    assert many.rows == one.rows == {"data": 1}
    assert many.counts() == one.counts()
