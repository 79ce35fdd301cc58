"""Directories that are tables of Delta Lake or Iceberg: read as such, never as the bag of files they also are.

Such a directory holds files that the table no longer has (rows that were deleted or rewritten), so its
files are no table. Which files count, the library of the format says; where it is not installed, the
table is refused by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.location import local_path

NAMES = {"delta": "Delta Lake", "iceberg": "Iceberg"}

_METADATA = re.compile(r"v?(\d+)(?:-[0-9A-Za-z-]+)?(?:\.gz)?\.metadata\.json")


@dataclass(frozen=True)
class LakeTable:
    """A table of a format that keeps a log of its files."""

    path: Path
    """Its directory."""
    format: Literal["delta", "iceberg"]
    metadata: Path | None = None
    """The file that says how an Iceberg table stands; the newest one where none is named."""

    def __str__(self) -> str:
        return str(self.metadata or self.path)

    def schema(self) -> pa.Schema:
        """Its columns, without reading rows."""
        return self._delta().schema if self.format == "delta" else self._iceberg().schema().as_arrow()

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows that the table has now. Complexity: O(wanted columns)."""
        wanted = None if columns is None else list(columns)
        if self.format == "delta":
            dataset = self._delta()
            return _guarded(self, lambda: dataset.to_table(columns=wanted))
        scan = self._iceberg().scan(selected_fields=("*",) if wanted is None else tuple(wanted))
        table = _guarded(self, scan.to_arrow)
        return table if wanted is None else table.select(wanted)

    def _delta(self) -> Any:
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise self._not_installed("deltalake", "delta") from error
        return _guarded(self, lambda: DeltaTable(str(self.path)).to_pyarrow_dataset())

    def _iceberg(self) -> Any:
        try:
            from pyiceberg.table import StaticTable
        except ImportError as error:
            raise self._not_installed("pyiceberg", "iceberg") from error
        metadata = self.metadata or _newest(self.path / "metadata")
        return _guarded(self, lambda: StaticTable.from_metadata(str(metadata.absolute())))

    def _not_installed(self, library: str, extra: str) -> DataError:
        return DataError(
            f"{self} is a table of {NAMES[self.format]}, and {library}, which reads such tables, is not installed",
            hint=f"pip install 'holdstrue[{extra}]', or write the table to Parquet and give that: its own directory "
            "holds rows that the table no longer has",
        )


def lake_table(source: Any) -> LakeTable | None:
    """The table that a source names; None where it names files or is in memory.

    A directory with `_delta_log` or with `metadata/*.metadata.json`, or one such metadata file. What lies inside such
    a directory is refused, except a single file that is named.
    """
    items = source if isinstance(source, list | tuple) else [source]
    if not items or not all(isinstance(item, str | os.PathLike) for item in items):
        return None
    tables = []
    for path in [Path(local_path(item)) for item in items]:
        format_ = format_of_directory(path)
        if format_ is not None:
            tables.append(LakeTable(path, format_))
        elif _METADATA.fullmatch(path.name) and path.is_file() and path.parent.name == "metadata":
            tables.append(LakeTable(path.parent.parent, "iceberg", path))
        elif not path.is_file():
            refuse_inside(path)
    if not tables:
        return None
    table = tables[0]
    if len(items) > 1:
        raise DataError(f"{table} is a table of {NAMES[table.format]} among {len(items)} sources", hint="give it alone")
    return table


def refuse_inside(path: Path) -> None:
    """Refuse what lies in the directory of a table, which is given whole or not at all."""
    for parent in path.absolute().parents:
        outer = format_of_directory(parent)
        if outer is not None:
            raise DataError(
                f"{str(path)!r} lies inside {str(parent)!r}, a table of {NAMES[outer]}",
                hint="give the directory of the table: files in it may hold rows that the table no longer has",
            )


def format_of_directory(path: Path) -> Literal["delta", "iceberg"] | None:
    """The format whose log lies in a directory, if any."""
    try:
        if (path / "_delta_log").is_dir():
            return "delta"
        metadata = path / "metadata"
        if metadata.is_dir() and any(_METADATA.fullmatch(file.name) for file in metadata.iterdir()):
            return "iceberg"
    except (OSError, ValueError):  # a name that no path has, or a directory that may not be read
        return None
    return None


def _newest(metadata: Path) -> Path:
    """The metadata that counts: what the version hint says, else the one of the highest number."""
    hint = metadata / "version-hint.text"
    versions: dict[int, list[Path]] = {}
    for file in metadata.iterdir():
        match = _METADATA.fullmatch(file.name)
        if match:
            versions.setdefault(int(match[1]), []).append(file)
    newest = max(versions)
    if hint.is_file():
        said = hint.read_text(encoding="utf-8", errors="replace").strip()
        if not said.isdecimal() or int(said) not in versions:
            raise DataError(
                f"{hint} says {said!r}, and there is no such metadata", hint="name the metadata file to read"
            )
        newest = int(said)
    if len(versions[newest]) > 1:
        names = " and ".join(sorted(file.name for file in versions[newest]))
        raise DataError(
            f"{metadata} has two files of version {newest}: {names}",
            hint="one of them was never committed: ask the catalog which counts, and name that file",
        )
    return versions[newest][0]


def _guarded(table: LakeTable, read: Any) -> Any:
    """What the library answers; whatever it raises means that the table cannot be read."""
    try:
        return read()
    except Exception as error:
        said = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise DataError(
            f"{table} is a table of {NAMES[table.format]} that cannot be read: {said}",
            hint="does its own tool read it? if so, write it to Parquet there and give that",
        ) from error
