"""The runs of a state, read or mapped, and compared with what was written before anybody uses them."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.distinct import is_packed
from holdstrue.data.validity import validate_table
from holdstrue.kernels.digest import checksum
from holdstrue.state import few_rows
from holdstrue.state.manifest import RUN_NAME, Manifest, RunFile, files_of_shards
from holdstrue.state.packing import joined
from holdstrue.state.pages import Page, Shards, merged, pages_named, read_pages, shards_in
from holdstrue.state.store import LOG, RUNS, Missing
from holdstrue.state.versions import FETCHERS, Versions

JOINT = "joint"
"""Starts the names of files that several runs share."""
VERIFIERS = 4
"""Threads that compare files with their checksums; they wait for the disk as much as for a core."""

Arrays = dict[str, NDArray[np.generic]]


class RunReader(Versions):
    """Reads the runs that versions name."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._verifying: dict[str, Future[mmap.mmap]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._paged: dict[RunFile, list[RunFile]] = {}

    def close(self) -> None:
        """Wait for pending checks of files, and let go of the place."""
        try:
            self.verified()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None
            super().close()

    def manifest(self, version: int | None = None, writer: str | None = None) -> Manifest:
        """What a version says, with the shards that its pages list. Complexity: as without, and O(shards)."""
        found = super().manifest(version, writer)
        pages = self.pages(found)
        return {**found, "shards": merged(pages, found.get("shards", {}))} if pages else found

    def pages(self, header: Mapping[str, Any]) -> list[Page]:
        """The pages that an entry or a manifest names."""
        return read_pages(self.url, list(pages_named(header)), self._page)

    def paged(self, header: Mapping[str, Any]) -> list[RunFile]:
        """The files that the pages of an entry name, each page read once. Complexity: O(shards in its pages)."""
        for page in pages_named(header):
            if page not in self._paged:
                self._paged[page] = files_of_shards(self._page(page))
        return [file for page in pages_named(header) for file in self._paged[page]]

    def _page(self, file: RunFile) -> Shards:
        try:
            return shards_in(self.read_tables(file))
        except ValueError as error:
            raise self.damaged(file, str(error)) from error

    def read_tables(self, file: RunFile) -> list[pa.Table]:
        """The tables of a run, checked before they are used."""
        for last in (False, True):
            data = self._bytes(file)
            if len(data) == file.size and checksum_of(bytearray(data)) == file.checksum:
                return self._tables(file, pa.py_buffer(data))
            if last or file.name.startswith(LOG) or not self.store.drop(RUNS + file.name):
                break
        raise self.damaged(file, "its checksum does not match")

    def _bytes(self, file: RunFile) -> bytes | memoryview:
        if file.name.startswith(LOG):
            version = int(file.name.removeprefix(LOG))
            known = self._payloads.pop(version, None)
            return self._entry(version).payload if known is None else known
        if not file.name.startswith(JOINT):
            with self._opened(file) as handle:
                return handle.read()
        try:
            return self.store.read_range(RUNS + file.name, file.start, file.size)
        except Missing as error:
            raise self._lost(RUNS + file.name, self._seen) from error

    def read_each(self, files: Sequence[RunFile]) -> list[list[pa.Table]]:
        """The tables of each run, several read at a time where reading waits for a network."""
        if not self.store.shared or len(files) < 2:
            return [self.read_tables(file) for file in files]
        with ThreadPoolExecutor(min(FETCHERS, len(files)), thread_name_prefix="holdstrue-fetch") as pool:
            return list(pool.map(self.read_tables, files))

    def bring(self, files: Iterable[RunFile]) -> None:
        """Fetch what this machine does not have of the files of some runs, several at a time.

        A file that several runs share comes whole: who reads one of a shard's runs reads those of the others too.
        """
        if not self.store.shared:
            return
        wanted = list({file.name: file for file in files if RUN_NAME.fullmatch(file.name)}.values())
        if len(wanted) > 1:
            with ThreadPoolExecutor(min(FETCHERS, len(wanted)), thread_name_prefix="holdstrue-fetch") as pool:
                list(pool.map(self._brought, wanted))

    def _brought(self, file: RunFile) -> None:
        try:
            self.store.file(RUNS + file.name, None if file.name.startswith(JOINT) else file.size)
        except Missing as error:
            raise self._lost(RUNS + file.name, self._seen) from error

    def map_table(self, file: RunFile, schema: pa.Schema) -> pa.Table:
        """The one table of a run, of these columns or of their distinct values, mapped into memory."""
        tables = self._tables(file, pa.py_buffer(self._map(file)))
        if len(tables) != 1 or not is_packed(tables[0].schema, schema):
            raise self.damaged(file, f"it does not hold the columns {', '.join(schema.names)}")
        return tables[0]

    def _tables(self, file: RunFile, data: pa.Buffer) -> list[pa.Table]:
        source, tables = pa.BufferReader(data), []
        try:
            if data[: len(few_rows.MARK)].to_pybytes() == few_rows.MARK:
                return few_rows.decode(data.to_pybytes())
            while source.tell() < data.size:
                tables.append(pa.ipc.open_stream(source).read_all())
                validate_table(tables[-1])  # Arrow's readers look at no buffer
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self.damaged(file, str(error)) from error
        return tables

    def map_arrays(self, file: RunFile) -> Arrays:
        """The arrays of a run, mapped copy-on-write: writing to them changes memory, never the file."""
        mapped = self._map(file)
        buffer = pa.py_buffer(mapped)
        try:
            batch = pa.ipc.open_file(pa.BufferReader(buffer)).get_batch(0)
            batch.validate()
            return joined(
                {field.name: _array(mapped, buffer, field, batch.column(at)) for at, field in enumerate(batch.schema)}
            )
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, MemoryError) as error:
            raise self.damaged(file, str(error)) from error

    def _map(self, file: RunFile) -> mmap.mmap:
        self.verify(file)
        return self._verifying.pop(file.name).result()

    def verify(self, *files: RunFile) -> None:
        """Start to compare whole files with their checksums, beside other work (see `verified`)."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=VERIFIERS, thread_name_prefix="holdstrue-verify")
        for file in files:
            if file.name not in self._verifying and RUN_NAME.fullmatch(file.name):
                self._verifying[file.name] = self._pool.submit(self._verify, file)

    def _verify(self, file: RunFile) -> mmap.mmap:
        """The bytes that were compared, to be used: to map them once more would cost as much as to look at them."""
        for last in (False, True):
            with self._opened(file) as handle:
                mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
            if checksum_of(mapped) == file.checksum:
                return mapped
            mapped.close()
            if last or not self.store.drop(RUNS + file.name):
                break
        raise self.damaged(file, "its checksum does not match")

    def require(self, files: Iterable[RunFile]) -> None:
        """Raise unless all of these are as they were written; in an object store, unless they are there.

        Complexity: O(bytes), where they are on this machine.
        """
        if self.store.shared:
            sizes = {listed.name: listed.size for listed in self.store.list(RUNS)}
            for file in files:
                if RUN_NAME.fullmatch(file.name) and sizes.get(RUNS + file.name, -1) < file.start + file.size:
                    raise self.damaged(file, "it is missing, or cut off")
            return
        for file in files:
            if file.name.startswith((LOG, JOINT)):
                self.read_tables(file)
            else:
                self.verify(file)
        self.verified()

    def verified(self) -> None:
        """Wait until every file under way has been read and compared with its checksum; raises for a damaged one."""
        pending, self._verifying = self._verifying, {}
        for future in pending.values():
            future.result()

    def _opened(self, file: RunFile) -> BinaryIO:
        """The file of a run, opened at once: it may be removed a moment later."""
        try:
            handle = self.store.file(RUNS + file.name, file.size).open("rb")
        except (Missing, FileNotFoundError) as error:
            raise self._lost(RUNS + file.name, self._seen) from error
        size = os.fstat(handle.fileno()).st_size
        if size != file.size:
            handle.close()
            raise self.damaged(file, f"it has {size} bytes instead of {file.size}")
        return handle


def _array(mapped: mmap.mmap, buffer: pa.Buffer, field: pa.Field, column: pa.Array) -> NDArray[np.generic]:
    values = column.values
    shape = tuple(int(size) for size in field.metadata[b"shape"].decode().split(",") if size)
    dtype = np.dtype(field.metadata.get(b"dtype", str(values.type).encode()).decode())
    fits = pa.types.is_primitive(values.type) and not dtype.hasobject
    stored = dtype
    if fits and dtype.itemsize * 8 != values.type.bit_width:
        # whole numbers that were packed
        stored = np.dtype(values.type.to_pandas_dtype())
        fits = stored.kind == dtype.kind and stored.kind in "iu" and stored.itemsize < dtype.itemsize
    if not fits:
        raise ValueError(f"array {field.name!r} is said to hold {dtype} and holds {values.type}")
    if len(values) == 0:
        if 0 not in shape:
            raise ValueError(f"array {field.name!r} is said to have the shape {shape} and is empty")
        return np.empty(shape, dtype=dtype)
    offset = values.buffers()[1].address - buffer.address + values.offset * stored.itemsize
    if offset < 0:
        raise ValueError(f"array {field.name!r} lies outside of the file")
    found = np.frombuffer(mapped, dtype=stored, count=len(values), offset=offset).reshape(shape)
    return found.astype(dtype, copy=False)


def checksum_of(data: mmap.mmap | bytearray) -> str:
    """The checksum of a run, as versions note it."""
    whole = len(data) - len(data) % 8
    words = np.frombuffer(data, dtype=np.uint64, count=whole // 8)
    ends = np.zeros(2, dtype=np.uint64)
    ends[0] = checksum(words)
    if whole < len(data):
        ends.view(np.uint8)[8 : 8 + len(data) - whole] = np.frombuffer(data, dtype=np.uint8, offset=whole)
    del words
    return f"{int(checksum(ends)):016x}"


def matches(file: RunFile, data: mmap.mmap | bytearray) -> bool:
    """Whether bytes are those that were written."""
    return len(data) == file.size and checksum_of(data) == file.checksum
