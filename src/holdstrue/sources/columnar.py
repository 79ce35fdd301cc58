"""Read Parquet and Arrow IPC files, only the columns that are wanted."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from math import log2
from typing import Any

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.sources.datafiles import DataFile, ReadOptions
from holdstrue.sources.late_columns import LateColumns
from holdstrue.sources.validity import require_text

REPEATED = 1.5
"""Binary logarithm of how often a value of a dictionary must come up: 1M telephone numbers in row groups of 50,000 took
35 CPU ms to read as text and 50 as dictionaries, and 10 more to be coded. Chosen, not tuned."""

# Arrow's own message may hold a name that is no UTF-8, and then fails to be one
_CORRUPT = (pa.ArrowException, OSError, EOFError, UnicodeError)


def read_parquet(file: DataFile, options: ReadOptions) -> pa.Table:
    """The wanted columns of a Parquet file.

    Runtime complexity: proportional to the wanted columns, not to the file.
    """

    def read() -> pa.Table:
        with _kept(file, _open_parquet) as opened:
            require_text(opened.schema_arrow, str(file))
            names = options.selected(opened.schema_arrow.names, str(file))
            short = small_dictionaries(opened, [name for name in names if name in options.dictionaries])
            if options.wanted is not None and file.ranges is None:
                opens = partial(_open_parquet, file, short, opened.metadata)
                found = LateColumns(opened, opens, file.path, names, short).read(options.wanted)
                if found is not None:
                    return found
            if short and file.ranges is None:
                with _open_parquet(file, short, opened.metadata) as again:
                    return again.read(columns=names).select(names)
            return opened.read(columns=names).select(names)

    return _guarded(read, file, "Parquet")


def small_dictionaries(opened: Any, columns: Sequence[str]) -> list[str]:
    """Those of some columns of text that a Parquet file holds as dictionaries throughout.

    A writer turns to plain values where a dictionary grows too large, and to make dictionaries of those takes five
    times as long as to read them. Nothing says so but the size: indices take less than three bytes a value, plain text
    at least four and its letters. A dictionary that is not much shorter than the column spares nothing either, and
    indices say by their size how many values it has.
    """
    metadata = opened.metadata
    texts = {field.name for field in opened.schema_arrow if field.type in (pa.string(), pa.large_string())}
    # columns of a flat schema have the same numbers there and here
    flat = len(opened.schema_arrow) == metadata.num_columns
    found = []
    for name in columns if flat else ():
        number = opened.schema_arrow.get_field_index(name)
        chunks = [metadata.row_group(group).column(number) for group in range(metadata.num_row_groups)]
        if name in texts and chunks and all(map(_is_dictionary, chunks)):
            found.append(name)
    return found


def _is_dictionary(chunk: Any) -> bool:
    if not chunk.has_dictionary_page:
        return False
    pages = chunk.total_compressed_size - (chunk.data_page_offset - chunk.dictionary_page_offset)
    grown = chunk.total_uncompressed_size / max(chunk.total_compressed_size, 1)
    bits = 8 * pages * grown / max(chunk.num_values, 1)
    return bool(bits < min(24, log2(max(chunk.num_values, 2)) - REPEATED))


def parquet_schema(file: DataFile, _: ReadOptions) -> pa.Schema:
    """The schema of a Parquet file, from its footer; the file is kept open until it is read."""
    file.kept = _guarded(lambda: _open_parquet(file), file, "Parquet")
    return _guarded(lambda: file.kept.schema_arrow, file, "Parquet")


def read_arrow(file: DataFile, options: ReadOptions) -> pa.Table:
    """The wanted columns of an Arrow IPC file, stream or Feather file."""

    def read() -> pa.Table:
        table = _kept(file, _open_ipc).read_all()
        require_text(table.schema, str(file))
        return table.select(options.selected(table.column_names, str(file)))

    return _guarded(read, file, "Arrow")


def arrow_schema(file: DataFile, _: ReadOptions) -> pa.Schema:
    """The schema of an Arrow IPC file or stream, from its head; the file is kept open until it is read."""
    file.kept = _guarded(lambda: _open_ipc(file), file, "Arrow")
    return file.kept.schema


def _kept(file: DataFile, opened: Callable[[DataFile], Any]) -> Any:
    """The file as it was opened for its schema, or opened now."""
    kept, file.kept = file.kept, None
    return opened(file) if kept is None else kept


def _open_parquet(file: DataFile, dictionaries: Sequence[str] = (), metadata: Any = None) -> Any:
    import pyarrow.parquet as pq

    if file.ranges is not None:
        # what is wanted is asked for at once, and what lies close together by one request
        return pq.ParquetFile(file.ranges(), pre_buffer=True)
    return pq.ParquetFile(os.fspath(file.path), read_dictionary=list(dictionaries), metadata=metadata)


def _open_ipc(file: DataFile) -> Any:
    # Not memory-mapped: a file replaced while its table is in use would end the process.
    source = pa.OSFile(os.fspath(file.path))
    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source)


def _guarded(read: Callable[[], Any], file: DataFile, what: str) -> Any:
    try:
        return read()
    except PermissionError as error:
        raise DataError(f"cannot open {file}: {error}", hint="check that the file may be read") from error
    except _CORRUPT as error:
        empty = file.ranges is None and not (file.path.exists() and file.path.stat().st_size)
        detail = "it is empty" if empty else str(error).splitlines()[0]
        raise DataError(
            f"{file} is damaged or not {what}: {detail}",
            hint="write the file again, or give its format if its name misleads",
        ) from error
