"""Changes that a site was given and that no batch has taken up yet: kept on disk, a file for each batch.

They are kept beside the site's state until every site has committed the batch, so that whoever brings a batch to its
end needs nobody's rows: each site keeps its own.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import Changes
from holdstrue.errors import StateError

_OP = ":op"
_NAME = b"batch"


class Offers:
    """Offered changes below a folder, which is made when the first one comes.

    Examples
    --------
    >>> import tempfile
    >>> offers = Offers(Path(tempfile.mkdtemp()) / "S2.offers")
    >>> offers.put("monday", Changes(pa.table({"id": [7]}), np.array([0], np.uint8)))
    >>> offers.names(), offers.get("monday").rows.column("id").to_pylist()
    (['monday'], [7])
    >>> offers.drop("monday"); offers.names()
    []
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, batch: str) -> Path:
        return self._folder / f"{hashlib.blake2b(batch.encode(), digest_size=16).hexdigest()}.arrow"

    def _mark(self, batch: str) -> Path:
        return self._file(batch).with_suffix(".held")

    def hold(self, batch: str) -> None:
        """Other sites may commit a batch from now on: what was offered for it, if anything, stays as it is."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._mark(batch).touch()

    def free(self, *batches: str) -> None:
        """No site has committed these batches: what was offered for them may be replaced."""
        for batch in batches:
            self._mark(batch).unlink(missing_ok=True)

    def free_others(self, batch: str) -> None:
        """No site has committed a batch that is not committed here, but for this one."""
        for mark in self._folder.glob("*.held"):
            if mark != self._mark(batch):
                mark.unlink(missing_ok=True)

    def _refuse_other(self, batch: str, changes: Changes) -> None:
        known = self.get(batch)
        if not (known is None and not len(changes)) and (known is None or not _same(known, changes)):
            raise StateError(
                f"other sites may have batch {batch!r} already, with what was offered here before",
                hint="apply it as it was offered, then offer these changes under another id",
            )

    def put(self, batch: str, changes: Changes) -> None:
        """Keep what was offered for a batch, surely on disk; what was offered for it before is replaced."""
        if self._mark(batch).exists():
            return self._refuse_other(batch, changes)
        self._folder.mkdir(parents=True, exist_ok=True)
        table = changes.rows.append_column(_OP, pa.array(changes.ops.astype(np.uint8)))
        table = table.replace_schema_metadata({_NAME: batch.encode()})
        file = self._file(batch)
        fresh = file.with_suffix(".new")
        with fresh.open("wb") as sink:
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            sink.flush()
            os.fsync(sink.fileno())
        fresh.replace(file)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def get(self, batch: str) -> Changes | None:
        """What was offered for a batch."""
        file = self._file(batch)
        if not file.exists():
            return None
        table = _read(file)
        ops = table.column(_OP).combine_chunks().to_numpy(zero_copy_only=False)
        return Changes(table.drop_columns([_OP]).replace_schema_metadata(None), ops)

    def drop(self, batch: str) -> None:
        """Forget what was offered for a batch."""
        self._file(batch).unlink(missing_ok=True)
        self.free(batch)

    def names(self) -> list[str]:
        """The batches that something was offered for."""
        if not self._folder.is_dir():
            return []
        return sorted((_read(file).schema.metadata or {})[_NAME].decode() for file in self._folder.glob("*.arrow"))


def _same(one: Changes, other: Changes) -> bool:
    if not np.array_equal(one.ops, other.ops) or one.rows.schema != other.rows.schema:
        return False
    # NaN is no other value than NaN here
    return one.rows.equals(other.rows) or repr(one.rows.to_pylist()) == repr(other.rows.to_pylist())


def _read(file: Path) -> pa.Table:
    try:
        with pa.OSFile(str(file)) as source:
            table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)
    except (OSError, pa.ArrowException) as error:
        raise StateError(
            f"the changes kept in {file} are damaged: {error}",
            hint="offer them again under the same batch id, or move the file away",
        ) from error
    if (
        _OP not in table.column_names
        or table.schema.field(_OP).type != pa.uint8()
        or _NAME not in (table.schema.metadata or {})
    ):
        raise StateError(f"{file} holds no changes of a site", hint="move it away, and offer the changes again")
    return table
