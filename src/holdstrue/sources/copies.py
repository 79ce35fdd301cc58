"""Copies of data that is not in a file of this machine: one temporary folder, gone when nothing reads it any more."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from holdstrue.errors import DataError
from holdstrue.sources.datafiles import COMPRESSIONS, DataFile, format_by_name, format_of

CHUNK = 1 << 20
"""Bytes that are copied at once. Chosen, not tuned."""

_STARTS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",
    b"\x1f\x8b": ".gz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"BZh": ".bz2",
    b"\x04\x22\x4d\x18": ".lz4",
}
"""What files that say their format begin with, and the ending that stands for it."""


class Copies:
    """A folder for copies, removed with the last of its files in use, or when the process ends."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="holdstrue-"))
        self._end = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    @contextmanager
    def filling(self) -> Iterator[Copies]:
        """While copies are made; what was copied is gone at once if that fails."""
        try:
            yield self
        except BaseException:
            self._end()
            raise

    def path(self, name: str) -> Path:
        """A path for a copy; of the name only what tells the format is kept, since it may be anything."""
        ending = re.sub(r"[^A-Za-z0-9.]", "", "".join(Path(name).suffixes[-2:]))
        return self.folder / f"{len(os.listdir(self.folder))}{ending}"  # noqa: PTH208

    def file(self, path: Path, shown: str, format: str | None = None) -> DataFile:  # noqa: A002
        """A copy as a file of data that keeps the folder; `format` is what told it beside its name."""
        return DataFile(path, shown=shown, format=format, keeps=self)


def copied(stream: BinaryIO, path: Path, shown: str) -> int:
    """Write all of a stream to a file; how many bytes it had. A full disk is no fault of the data."""
    size = 0
    try:
        with path.open("wb") as file:
            while chunk := stream.read(CHUNK):
                size += file.write(chunk)
    except OSError as error:
        raise DataError(
            f"{shown} cannot be copied to {path.parent}: {error.strerror or error}",
            hint="let TMPDIR name a folder with room for it",
        ) from error
    return size


def told_by_content(path: Path, shown: str, format: str | None) -> tuple[Path, str]:  # noqa: A002
    """A copy under a name that says its compression, and its format: what was given, or what its first bytes say.

    Text that is not JSON lines is CSV.
    """
    start = _start(path)
    ending = next((ending for magic, ending in _STARTS.items() if start.startswith(magic)), None)
    packed = ending in COMPRESSIONS
    if packed:
        path = path.rename(path.with_name(path.name + str(ending)))
        start = _unpacked_start(path, shown)
        ending = next((ending for magic, ending in _STARTS.items() if start.startswith(magic)), None)
    if format is not None:
        return path, format_of(path, format)
    if ending is not None and ending not in COMPRESSIONS:
        return path, str(format_by_name(f"x{ending}"))
    return path, "json" if re.match(rb"(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*[{\]])", start) else "csv"


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


def _unpacked_start(path: Path, shown: str) -> bytes:
    """The first bytes of a compressed copy."""
    import pyarrow as pa

    try:
        with pa.input_stream(os.fspath(path), compression="detect") as stream:
            return bytes(stream.read(4096))
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{shown} is damaged: {error}", hint="send it again") from error
