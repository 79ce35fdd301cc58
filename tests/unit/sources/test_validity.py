"""Arrow memory that lies is refused at every door, before anything follows its offsets and indices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import holdstrue
from holdstrue.errors import ChangeError, DataError
from holdstrue.sources.read import read_table, schema_of
from holdstrue.sources.validity import require_text


def offsets() -> pa.Array:
    """Text whose second value reaches far beyond its buffer."""
    ends = np.array([0, 3, 1 << 30, 6], dtype=np.int32)
    return pa.StringArray.from_buffers(3, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"abcdef"))


def indices() -> pa.Array:
    """A dictionary of two values, of which the third row names the billionth."""
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 10**9], pa.int32()), pa.array(["a", "b"]), safe=False)


def no_text() -> pa.Array:
    """Bytes that are no UTF-8, said to be text."""
    ends = np.array([0, 1, 2, 3], dtype=np.int32)
    return pa.StringArray.from_buffers(3, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"\xff\xfeA"))


class Frame:
    """A data frame as others hand it over: through the C interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


LIES = pytest.mark.parametrize("lie", [offsets, indices, no_text])


def forms(rows: pa.Table, folder: Path) -> dict[str, Any]:
    """The same rows at every door that takes Arrow."""
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    with pa.OSFile(str(folder / "s.arrow"), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return {
        "table": rows, "batch": rows.to_batches()[0], "reader": rows.to_reader(), "dataset": ds.dataset(rows),
        "frame": Frame(rows), "columns": {name: rows.column(name) for name in rows.column_names},
        "file": folder / "t.arrow", "stream": folder / "s.arrow",
    }  # fmt: skip


@LIES
def test_every_door_refuses_it(lie: Callable[[], pa.Array], tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "zip": lie()})
    for name, source in forms(rows, tmp_path).items():
        with pytest.raises(DataError, match="column 'zip' of") as caught:
            read_table(source)
        assert caught.value.hint, name
    for name, source in forms(rows, tmp_path).items():
        if name != "reader":  # it can be read once, and a check asks for its columns first
            with pytest.raises(DataError, match="column 'zip' of"):
                holdstrue.check(source, "key(zip)")
    for source in forms(rows, tmp_path).values():
        if not isinstance(source, dict):
            with pytest.raises(ChangeError, match="column 'zip' of"):
                holdstrue.Monitor("key(zip)", key="id").apply(source)
    with pytest.raises(DataError, match="column 'zip' of"):
        holdstrue.discover(rows)


@LIES
def test_a_batch_of_the_known_schema_is_looked_at_too(lie: Callable[[], pa.Array]) -> None:
    rows = pa.table({"id": [1, 2, 3], "zip": lie()})
    sound = pa.table({"id": [7], "zip": pa.array(["x"]).cast(rows.schema.field("zip").type)})
    monitor = holdstrue.Monitor("key(zip)", key="id", data=sound)
    with pytest.raises(DataError, match="column 'zip' of"):
        monitor.apply(rows)
    assert monitor.apply(pa.table({"id": [8], "zip": ["x"]})).counts["key(zip)"].added == 1


def test_columns_that_are_not_read_are_not_looked_at() -> None:
    rows = pa.table({"id": [1, 2, 3], "city": ["a", "b", "b"], "zip": offsets()})
    assert holdstrue.check(rows, "key(city)").total == 1
    assert read_table(rows, columns=["city"]).num_rows == 3


def test_text_in_parquet_is_looked_at(tmp_path: Path) -> None:
    pq.write_table(pa.table({"zip": no_text()}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"column 'zip' of .*t\.parquet is not text") as caught:
        read_table(tmp_path / "t.parquet")
    assert "binary" in str(caught.value.hint)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """pyarrow itself writes no such name, so one is changed in the file."""
    rows = pa.table({"a name that is long": [1]})
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    data = (tmp_path / "t.arrow").read_bytes().replace(b"that is", b"that\xff\xfes")
    (tmp_path / "t.arrow").write_bytes(data)
    for read in (read_table, schema_of):
        with pytest.raises(DataError, match="not UTF-8"):
            read(tmp_path / "t.arrow")
    with pa.OSFile(str(tmp_path / "t.arrow")) as file, pytest.raises(DataError, match="the table is damaged"):
        require_text(pa.ipc.open_file(file).schema, "the table")
