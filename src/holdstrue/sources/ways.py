"""The ways in: which module reads what a source names, by its scheme. Adding one is a line of `WAYS`.

A way opens what its URL names as files, which are copies on this machine, or as a table that is asked for its columns.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeAlias

import pyarrow as pa

from holdstrue.errors import DataError
from holdstrue.location import local_path
from holdstrue.sources.datafiles import DataFile


class OuterTable(Protocol):
    """A table that is kept elsewhere than in a file or in memory: in a database or a lakehouse.

    Its text is what messages call it, without secrets.
    """

    def schema(self) -> pa.Schema:
        """Its columns, without reading rows."""

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows that it has now; all columns unless some are named. Complexity: O(wanted columns)."""

    @property
    def selective(self) -> bool:
        """Whether a monitor reads only the columns that its rules name."""

    def version(self) -> str | None:
        """What names the rows that are read among all that the table ever had; None where nobody says it."""


NamedData: TypeAlias = "Sequence[DataFile] | OuterTable"


@dataclass(frozen=True)
class Way:
    """How sources of some schemes are opened."""

    schemes: tuple[str, ...]
    module: str
    """Below `holdstrue.sources`; its `opened(text, format)` gives files or a table. Imported when it is needed."""
    form: str
    """How such a source is written, for hints."""
    slashes: bool = True
    """Whether `//` follows the scheme."""


WAYS = (
    Way(("-",), "standard_input", "- (standard input)", slashes=False),
    Way(("http", "https"), "web", "https://HOST/FILE"),
    Way(("s3", "s3a", "s3n"), "object_files", "s3://BUCKET/PATH"),
    Way(("gs", "gcs"), "object_files", "gs://BUCKET/PATH"),
    Way(("az", "azure", "abfs", "abfss"), "object_files", "az://CONTAINER/PATH"),
    Way(("duckdb",), "databases.duckdb_file", "duckdb:FILE?table=NAME", slashes=False),
    Way(("sqlite",), "databases.sqlite_file", "sqlite:FILE?table=NAME", slashes=False),
    Way(("postgresql", "postgres"), "databases.postgresql", "postgresql://HOST/DATABASE?table=NAME"),
    Way(("adbc",), "databases.adbc", "adbc:DRIVER?uri=...&table=NAME", slashes=False),
    Way(("iceberg",), "iceberg_catalog", "iceberg:CATALOG.DATABASE.TABLE", slashes=False),
)
"""Everything that data is read from beside paths and objects in memory."""

_BY_SCHEME = {scheme: way for way in WAYS for scheme in way.schemes}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(/{0,2})")


def way_of(source: str | os.PathLike[str]) -> Way | None:
    """The way that a source names; None for a path of this machine, which `file:` URLs are too.

    >>> way_of("s3://bucket/t.csv").module, way_of("t.csv"), way_of("duckdb:t.db?table=t").module
    ('object_files', None, 'databases.duckdb_file')
    """
    text = os.fspath(source)
    if text == "-":
        return _BY_SCHEME["-"]
    found = _SCHEME.match(text)
    way = None if found is None else _BY_SCHEME.get(found[1].lower())
    if found is None or way is None:
        return None
    if way.slashes and not found[2]:
        if way.module.startswith("databases.") and not Path(text).exists():
            # not repeated, as it may hold a password
            raise DataError(f"an address of {found[1]}: begins with {found[1]}://", hint=f"write {way.form}")
        return None
    # a file may be called `sqlite:x`
    return None if not found[2] and Path(text).exists() else way


def opened(source: str | os.PathLike[str], way: Way, format: str | None) -> NamedData:  # noqa: A002
    """What a source names; `format` is that of its files, where it is told."""
    text = os.fspath(source)
    if way.slashes:
        # a single slash is what pathlib makes of two
        text = re.sub(r"^([A-Za-z0-9+.\-]+):/(?!/)", r"\1://", text)
    found: NamedData = import_module(f"holdstrue.sources.{way.module}").opened(text, format)
    return found


def require_local(source: str | os.PathLike[str]) -> str:
    """The path of this machine that a source without a way stands for; other URLs are refused with what can be read."""
    try:
        return local_path(source)
    except DataError as error:
        scheme = os.fspath(source).split(":")[0]
        if scheme.lower() == "file" or scheme.lower() in _BY_SCHEME:
            raise
        near = difflib.get_close_matches(scheme.lower(), _BY_SCHEME, n=1, cutoff=0.7)
        meant = f"did you mean {near[0]}:{'//' if _BY_SCHEME[near[0]].slashes else ''}? " if near else ""
        forms = ", ".join(way.form for way in WAYS)
        raise DataError(error.message, hint=f"{meant}data is read from paths, {forms}") from None


def not_installed(what: str, library: str, extra: str) -> DataError:
    """The error for a way whose library is missing."""
    return DataError(f"{what} is read by {library}, which is not installed", hint=f"pip install 'holdstrue[{extra}]'")


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
