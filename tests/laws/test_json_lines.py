"""JSON lines are read as Python's parser reads them, or refused with the file and the line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdstrue.errors import DataError
from holdstrue.sources.feeds import read_changes
from holdstrue.sources.read import read_table
from laws.json_text import changed, lines, meant, same


def judge(data: bytes, path: Path) -> str:
    """Read a text and compare with what it means."""
    path.write_bytes(data)
    expected = meant(data)
    try:
        table = read_table(path)
    except DataError as error:
        assert str(path) in error.message, (data, error)
        if expected is None:
            assert read_feed(path) is None
        return "refused"
    assert expected is not None, (data, table.to_pylist())
    assert table.num_columns == 0 or table.num_rows == len(expected), (data, table.to_pylist())
    for name in table.column_names:
        got = table.column(name).to_pylist()
        for row, value in zip(expected, got):
            assert same(row.get(name), value), (data, name, row, value)
    return "read"


def read_feed(path: Path) -> int | None:
    """As a batch of changes, which is read object by object where it may be Debezium's."""
    try:
        return len(read_changes(path, key=["id"], extra="ignore"))
    except DataError:
        return None


@given(st.integers(0, 2**32))
def test_as_python_reads_them(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    chance = random.Random(seed)
    judge(changed(lines(chance), chance), tmp_path_factory.getbasetemp() / "t.jsonl")


@pytest.mark.soak
def test_many(tmp_path: Path) -> None:
    for seed in range(200_000):
        chance = random.Random(seed)
        judge(changed(lines(chance), chance), tmp_path / "t.jsonl")
