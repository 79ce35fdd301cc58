"""Read Parquet and Arrow IPC files, only the columns that are wanted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.sources.files import Options
from holdstrue.sources.validity import require_text

# Arrow's own message may hold a name that is no UTF-8, and then fails to be one
_CORRUPT = (pa.ArrowException, OSError, EOFError, UnicodeError)


def read_parquet(path: Path, options: Options) -> pa.Table:
    """The wanted columns of a Parquet file.

    Runtime complexity: proportional to the wanted columns, not to the file.
    """
    import pyarrow.parquet as pq

    def read() -> pa.Table:
        with pq.ParquetFile(os.fspath(path)) as file:
            require_text(file.schema_arrow, str(path))
            names = options.selected(file.schema_arrow.names, str(path))
            table = file.read(columns=names)
            return table.select(names)

    return _guarded(read, path, "Parquet")


def parquet_schema(path: Path) -> pa.Schema:
    """The schema of a Parquet file, from its footer."""
    import pyarrow.parquet as pq

    return _guarded(lambda: pq.read_schema(os.fspath(path)), path, "Parquet")


def read_arrow(path: Path, options: Options) -> pa.Table:
    """The wanted columns of an Arrow IPC file, stream or Feather file."""

    def read() -> pa.Table:
        # Not memory-mapped: a file replaced while its table is in use would end the process.
        with pa.OSFile(os.fspath(path)) as file:
            table = _open_ipc(file).read_all()
        require_text(table.schema, str(path))
        return table.select(options.selected(table.column_names, str(path)))

    return _guarded(read, path, "Arrow")


def arrow_schema(path: Path) -> pa.Schema:
    """The schema of an Arrow IPC file or stream, from its head."""

    def read() -> pa.Schema:
        with pa.OSFile(os.fspath(path)) as file:
            return _open_ipc(file).schema

    return _guarded(read, path, "Arrow")


def _open_ipc(file: Any) -> Any:
    try:
        return pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        return pa.ipc.open_stream(file)


def _guarded(read: Callable[[], Any], path: Path, what: str) -> Any:
    try:
        return read()
    except PermissionError as error:
        raise DataError(f"cannot open {path}: {error}", hint="check that the file may be read") from error
    except _CORRUPT as error:
        size = path.stat().st_size if path.exists() else 0
        detail = "it is empty" if size == 0 else str(error).splitlines()[0]
        raise DataError(
            f"{path} is damaged or not {what}: {detail}",
            hint="write the file again, or give its format if its name misleads",
        ) from error
