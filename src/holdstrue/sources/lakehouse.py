"""Tables of Delta Lake and Iceberg in directories or at URLs: read as such, never as the bag of files they also are.

Such a directory holds files that the table no longer has (rows that were deleted or rewritten), so its
files are no table. Which files count, the library of the format says; where it is not installed, the
table is refused by name.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.location import local_path
from holdstrue.state.object_settings import endpoint
from holdstrue.state.object_url import ObjectUrl

NO_SNAPSHOT = "none"
"""What stands for the snapshot of an Iceberg table that has none yet."""

NAMES = {"delta": "Delta Lake", "iceberg": "Iceberg"}

_METADATA = re.compile(r"v?(\d+)(?:-[0-9A-Za-z-]+)?(?:\.gz)?\.metadata\.json")


@dataclass(frozen=True)
class LakeTable:
    """A table of a format that keeps a log of its files."""

    path: Path | str
    """Its directory, or its URL in an object store."""
    format: Literal["delta", "iceberg"]
    metadata: Path | str | None = None
    """The file that says how an Iceberg table stands; the newest one where none is named."""

    def __str__(self) -> str:
        return str(self.metadata if isinstance(self.metadata, Path) else self.path)

    @property
    def selective(self) -> bool:
        """Every column is read, so that a monitor knows all of them."""
        return False

    def schema(self) -> pa.Schema:
        """Its columns, without reading rows."""
        if self.format == "iceberg":
            return self.iceberg().schema().as_arrow()
        return guarded(self, lambda: self.delta().to_pyarrow_dataset().schema)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows that the table has now. Complexity: O(wanted columns)."""
        wanted = None if columns is None else list(columns)
        if self.format == "delta":
            table = self.delta()
            return guarded(self, lambda: table.to_pyarrow_dataset().to_table(columns=wanted))
        scan = self.iceberg().scan(selected_fields=("*",) if wanted is None else tuple(wanted))
        table = guarded(self, scan.to_arrow)
        return table if wanted is None else table.select(wanted)

    def version(self) -> str:
        """What names the rows that are read: the table's own id and its version, which does not change any more.

        Versions of Delta Lake are numbers, which a table that is put back from a backup gives again to other rows: a
        digest of the commit tells them apart.
        """
        if self.format == "delta":
            table = self.delta()
            number = int(table.version())
            return f"delta:{table.metadata().id}:{marked(number, self.commit_digest(number))}"
        metadata = self.iceberg().metadata
        return f"iceberg:{metadata.table_uuid}:{metadata.current_snapshot_id or NO_SNAPSHOT}"

    def commit_digest(self, number: int) -> str | None:
        """What tells a commit of Delta Lake from another of the same number; None where its log entry is gone."""
        name = f"{number:020d}.json"
        if isinstance(self.path, str):
            from holdstrue.sources.object_files import read_object

            entry = read_object(f"{self.path}/_delta_log", name)
        else:
            file = self.path / "_delta_log" / name
            entry = file.read_bytes() if file.is_file() else None
        return None if entry is None else hashlib.sha256(entry).hexdigest()[:12]

    def delta(self) -> Any:
        """The table as deltalake knows it, at the version that it had when it was first asked for."""
        return self._delta

    @cached_property
    def _delta(self) -> Any:
        return self.delta_at(None)

    def delta_at(self, number: int | None) -> Any:
        """The table as deltalake knows it, at a version; None for the newest."""
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise self._not_installed("deltalake", "delta") from error
        options = storage_options(self.path, os.environ) if isinstance(self.path, str) else None
        return guarded(self, lambda: DeltaTable(str(self.path), version=number, storage_options=options))

    def iceberg(self) -> Any:
        """The table as pyiceberg knows it, as it stood when it was first asked for."""
        return self._iceberg

    @cached_property
    def _iceberg(self) -> Any:
        try:
            from pyiceberg.table import StaticTable
        except ImportError as error:
            raise self._not_installed("pyiceberg", "iceberg") from error
        if isinstance(self.path, str):
            settings = file_io(self.path, os.environ)
            return guarded(self, lambda: StaticTable.from_metadata(str(self.metadata), settings))
        metadata = Path(self.metadata) if self.metadata else _newest(self.path / "metadata")
        return guarded(self, lambda: StaticTable.from_metadata(str(metadata.absolute())))

    def _not_installed(self, library: str, extra: str) -> DataError:
        return DataError(
            f"{self} is a table of {NAMES[self.format]}, and {library}, which reads such tables, is not installed",
            hint=f"pip install 'holdstrue[{extra}]', or write the table to Parquet and give that: its own directory "
            "holds rows that the table no longer has",
        )


def marked(number: int, digest: str | None) -> str:
    """A version of Delta Lake as ids name it: its number, and what tells its commit from others of that number.

    >>> marked(3, "5f0c"), marked(3, None)
    ('3-5f0c', '3')
    """
    return str(number) if digest is None else f"{number}-{digest}"


def storage_options(url: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What deltalake is told beside what it finds in the environment: that an address there is plain HTTP.

    >>> storage_options("s3://b/t", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})
    {'AWS_ALLOW_HTTP': 'true'}
    """
    place = ObjectUrl.of(url, "data")
    plain = (endpoint(place, environment) or "").lower().startswith("http://")
    prefix = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}[place.provider]
    return {f"{prefix}_ALLOW_HTTP": "true"} if plain else {}


_FILE_IO: dict[str, dict[str, tuple[str, ...]]] = {
    "s3": {
        "s3.access-key-id": ("AWS_ACCESS_KEY_ID",),
        "s3.secret-access-key": ("AWS_SECRET_ACCESS_KEY",),
        "s3.session-token": ("AWS_SESSION_TOKEN",),
        "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    },
    "gs": {"gcs.oauth2.token": ("GOOGLE_OAUTH2_TOKEN",)},
    "az": {
        "adls.account-name": ("AZURE_STORAGE_ACCOUNT_NAME",),
        "adls.account-key": ("AZURE_STORAGE_ACCOUNT_KEY",),
        "adls.sas-token": ("AZURE_STORAGE_SAS_TOKEN",),
    },
}
"""Settings of pyiceberg, and where the environment holds them for states in the same stores."""


def file_io(url: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What pyiceberg is told of an object store, from the environment.

    >>> file_io("s3://b/t", {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})
    {'s3.region': 'eu-west-1', 's3.endpoint': 'http://127.0.0.1:9000'}
    """
    place = ObjectUrl.of(url, "data")
    told = {
        setting: next(environment[name] for name in names if environment.get(name))
        for setting, names in _FILE_IO[place.provider].items()
        if any(environment.get(name) for name in names)
    }
    address = endpoint(place, environment)
    key = {"s3": "s3.endpoint", "gs": "gcs.service.host", "az": "adls.blob-storage-authority"}[place.provider]
    return told | ({} if address is None else {key: address})


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
    names = [file.name for file in metadata.iterdir() if file.is_file()]
    found = newest_metadata(names, str(metadata), (metadata / HINT).read_bytes)
    assert found is not None
    return metadata / found


HINT = "version-hint.text"
"""The file in which some catalogs keep the version that counts."""


def newest_metadata(names: Iterable[str], where: str, hint: Callable[[], bytes]) -> str | None:
    """Of the names in a folder of metadata the one that counts; None where there is no metadata.

    Parameters
    ----------
    hint
        Reads the version hint, where there is one.
    """
    there = list(names)
    versions: dict[int, list[str]] = {}
    for name in there:
        match = _METADATA.fullmatch(name)
        if match:
            versions.setdefault(int(match[1]), []).append(name)
    if not versions:
        return None
    newest = max(versions)
    if HINT in there:
        said = hint().decode("utf-8", "replace").strip()
        if not said.isdecimal() or int(said) not in versions:
            raise DataError(
                f"{where}/{HINT} says {said!r}, and there is no such metadata", hint="name the metadata file to read"
            )
        newest = int(said)
    if len(versions[newest]) > 1:
        both = " and ".join(sorted(versions[newest]))
        raise DataError(
            f"{where} has two files of version {newest}: {both}",
            hint="one of them was never committed: ask the catalog which counts, and name that file",
        )
    return versions[newest][0]


def guarded(table: LakeTable, read: Any) -> Any:
    """What the library answers; whatever it raises means that the table cannot be read."""
    try:
        return read()
    except DataError:
        raise
    except Exception as error:
        said = shown_error(error)
        raise DataError(
            f"{table} is a table of {NAMES[table.format]} that cannot be read: {said}",
            hint="does its own tool read it? if so, write it to Parquet there and give that",
        ) from error


def shown_error(error: BaseException) -> str:
    """The first line of what a library says, without what stands between quotes of an address with a query."""
    lines = [re.sub(r"\x1b\[[0-9;]*m|↳", "", line).strip() for line in str(error).splitlines()]
    told = [line for line in lines if line] or [type(error).__name__]
    # deltalake tells what led to what, one to a line, and the cause comes last
    said = f"{told[0]}: {told[-1]}" if "↳" in str(error) else told[0]
    return re.sub(r"\?[^\s\"')]*", "?...", said) if "://" in said else said
