"""The journal of a state: whose it is, a checkpoint, the batches since, and what each of them did.

Monitors, discoveries, inclusions and sites all keep one. A batch is one run, committed by the manifest that
names it; when the runs since the checkpoint add up, everything is written anew instead. What a kind of state
says of itself beside its files (rules, options, counts) are its facts: plain JSON in the same manifest. Each
run starts with the batch's lines of history, which are also where ids of batches are remembered.

>>> import tempfile
>>> with Journal.create(tempfile.mkdtemp(), "site") as journal:
...     first = journal.write_checkpoint({}, journal.line("monday"), {"rows": 2})
...     journal.commit(first)
...     second = journal.write_batch([pa.table({"id": [1, 2]})], 2, journal.line("tuesday"), {"rows": 4})
...     journal.commit(second)
...     journal.version, journal.facts["rows"], journal.seen("monday"), journal.seen("friday"), len(journal.runs.log)
(1, 4, True, False, 1)
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias, TypeVar

import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.data.validity import same_columns
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.state.store import RunFile, Store

CHECKPOINT_SHARE = 16
"""Runs that hold this part of a state cause a checkpoint: a changed row is written some sixteen times in all."""
CHECKPOINT_FROM = 10_000
"""Fewer logged rows than this never cause a checkpoint. Chosen, not tuned."""
MOST_RUNS = 256
COLLECT_EVERY = 16
"""Commits between two looks for files of batches that were given up, where tasks write them."""

Read = TypeVar("Read")

Kind: TypeAlias = Literal["monitor", "discovery", "inclusions", "site"]

READ_WITH: dict[Kind, str] = {
    "monitor": "holdstrue status STATE shows it, holdstrue apply STATE CHANGES goes on with it",
    "discovery": "holdstrue discover --state STATE shows it, and with --apply CHANGES goes on with it",
    "inclusions": "holdstrue.spark.Inclusions(spark, 'STATE') reads it, and its apply goes on with it",
    "site": "holdstrue fragments check FILE shows it, FILE being the declaration of its relation",
}
"""How the state of each kind is read."""

_ARTICLE = {"monitor": "a monitor", "discovery": "a discovery", "inclusions": "inclusions", "site": "a site"}

BATCHES = pa.schema({"batch": pa.string()})
"""The history of a state that only remembers which batches it has."""


@dataclass(frozen=True)
class Runs:
    """Names of the files that hold a state or a shard of it; new files make new `Runs`, nothing is overwritten."""

    base: Mapping[str, RunFile] = field(default_factory=dict)
    """The checkpoint."""
    log: tuple[RunFile, ...] = ()
    """The batches since, oldest first."""
    log_rows: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "base": {name: file.to_dict() for name, file in self.base.items()},
            "log": [file.to_dict() for file in self.log],
            "log_rows": self.log_rows,
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Runs:
        """From plain JSON data."""
        return Runs(
            {name: RunFile.of(file) for name, file in data["base"].items()},
            tuple(RunFile.of(file) for file in data["log"]),
            data["log_rows"],
        )

    def due(self, size: int, total: int) -> bool:
        """Whether a batch of so many rows, in a state of so many, should be written as a checkpoint."""
        return self.log_rows + size > max(CHECKPOINT_FROM, total // CHECKPOINT_SHARE) or len(self.log) >= MOST_RUNS

    def appended(self, file: RunFile, size: int) -> Runs:
        """The same with one more run."""
        return replace(self, log=(*self.log, file), log_rows=self.log_rows + size)


@dataclass(frozen=True)
class Written:
    """A version that is on disk and that no manifest names yet."""

    version: int
    content: Mapping[str, Any]
    runs: Runs
    lines: pa.Table
    frees: bool
    """Whether files of earlier versions are no longer needed."""


class Journal(Closing):
    """Reads and writes the directory of one state; writers hold its lock."""

    def __init__(
        self, store: Store, kind: Kind, history: pa.Schema, manifest: Mapping[str, Any], *, read_only: bool = False
    ) -> None:
        self.store = store
        self.kind: Kind = kind
        self.read_only = read_only
        self.facts = dict(manifest)
        """The manifest: what the state says of itself, beside its runs."""
        self.runs = Runs.of(manifest)
        """The files of the state as a whole."""
        self._schema = history
        self._lines: list[pa.Table] | None = None
        self._ids: set[str] | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str], kind: Kind, history: pa.Schema = BATCHES) -> Self:
        """A new directory; there is no state in it before the first commit.

        One that was given up before its first commit is taken over: nothing in it counts.
        """
        store = Store(path)
        store.create()
        store.lock()
        return cls(store, kind, history, {"version": -1, **Runs().to_dict()})

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], kind: Kind, history: pa.Schema = BATCHES, *, read_only: bool = False
    ) -> Self:
        """An existing one, which must be of this kind."""
        store = Store(path)
        if not read_only:
            store.newest()  # else the lock would be made where no state is
            store.lock()
        try:
            # read when the lock is taken: another writer may have gone on before it was free
            manifest = store.manifest()
            _require_kind(path, kind, manifest)
        except BaseException:
            store.close()
            raise
        return cls(store, kind, history, manifest, read_only=read_only)

    def close(self) -> None:
        """Let go of the directory; raises if a file of it turned out to be damaged."""
        self.store.close()

    # --- reading -------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of the manifest."""
        found: int = self.facts["version"]
        return found

    def read(self, reader: Callable[[Mapping[str, Any]], Read]) -> Read:
        """What a reader makes of the facts; facts of which nothing can be made are damaged."""
        return _read(self.store, self.facts, reader)

    def history(self) -> pa.Table:
        """What each batch did, oldest first. Complexity: O(batches)."""
        if self._lines is None:
            runs = self.runs
            files = [*([runs.base["history"]] if "history" in runs.base else []), *runs.log]
            self._lines = [self._schema.empty_table(), *(self._lines_in(file) for file in files)]
        self._lines = [pa.concat_tables(self._lines)]
        return self._lines[0]

    def _lines_in(self, file: RunFile) -> pa.Table:
        tables = self.store.read_tables(file)
        fits = bool(tables) and same_columns(tables[0].schema, self._schema)
        if not fits or any(column.null_count for column in tables[0].columns):
            raise self.store.damaged(file, f"it has no history of {', '.join(self._schema.names)}")
        return tables[0]

    def seen(self, batch: str) -> bool:
        """Whether a batch of this id was committed. Complexity: O(batches) the first time, then O(1)."""
        return batch in self.ids()

    def ids(self) -> set[str]:
        """The ids of all batches."""
        if self._ids is None:
            self._ids = set(self.history().column("batch").to_pylist())
        return self._ids

    def line(self, batch: str) -> pa.Table:
        """The history of one batch of which nothing but its id is remembered."""
        return pa.table({"batch": [batch]}, schema=BATCHES)

    # --- writing -------------------------------------------------------------------------------

    def write_batch(self, tables: Sequence[pa.Table], size: int, lines: pa.Table, facts: Mapping[str, Any]) -> Written:
        """Write a batch as one run. Complexity: O(batch)."""
        file = self.store.write_tables("batch", self.version + 1, [lines, *tables])
        return self.written(self.runs.appended(file, size), lines, facts)

    def write_checkpoint(self, base: Mapping[str, RunFile], lines: pa.Table, facts: Mapping[str, Any]) -> Written:
        """Take files that hold the whole state in place of all runs, and write the history anew."""
        history = pa.concat_tables([self.history(), lines])
        file = self.store.write_tables("history", self.version + 1, [history])
        return self.written(Runs({**base, "history": file}), lines, facts, frees=True)

    def written(self, runs: Runs, lines: pa.Table, facts: Mapping[str, Any], *, frees: bool = False) -> Written:
        """The next version, of files that are on disk; facts that are not given stay, those that are None go."""
        content = {**self.facts, **facts, **runs.to_dict(), "kind": self.kind, "version": None, "format": None}
        content = {name: value for name, value in content.items() if value is not None}
        return Written(self.version + 1, content, runs, lines, frees)

    def commit(self, written: Written) -> None:
        """Name what was written, in one step."""
        self.store.commit(written.version, written.content)
        self.facts, self.runs = {**written.content, "version": written.version}, written.runs
        if self._lines is not None:
            self._lines.append(written.lines)
        if self._ids is not None:
            self._ids.update(written.lines.column("batch").to_pylist())
        if written.frees:
            self.store.collect()


def manifest_of(path: str | os.PathLike[str], kind: Kind) -> dict[str, Any]:
    """The newest manifest of a state, which must be of this kind. Complexity: O(its size)."""
    manifest = Store(path).manifest()
    _require_kind(path, kind, manifest)
    return manifest


def facts_of(path: str | os.PathLike[str], kind: Kind, reader: Callable[[Mapping[str, Any]], Read]) -> Read:
    """What a reader makes of the newest manifest of a state, which must be of this kind."""
    return _read(Store(path), manifest_of(path, kind), reader)


def _read(store: Store, facts: Mapping[str, Any], reader: Callable[[Mapping[str, Any]], Read]) -> Read:
    try:
        return reader(facts)
    except (HoldstrueError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        if isinstance(error, StateError) and str(store.path) in error.message:
            raise
        why = error.message if isinstance(error, HoldstrueError) else f"{type(error).__name__} {error}"
        raise store.broken(facts["version"], f"what it says cannot be: {why}") from error


def _require_kind(path: str | os.PathLike[str], kind: Kind, manifest: Mapping[str, Any]) -> None:
    if kind_of(manifest) != kind:
        raise other_kind(path, kind, kind_of(manifest))


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """Whose state a manifest describes; older ones do not say it in so many words."""
    kind: Kind = manifest.get("kind") or ("monitor" if "rules" in manifest else "discovery")
    return kind


def other_kind(path: str | os.PathLike[str], wanted: Kind, found: Kind) -> StateError:
    """What to say when a state is opened as another kind than it is."""
    return StateError(
        f"{os.fspath(path)} is the state of {_ARTICLE[found]}, not of {_ARTICLE[wanted]}",
        hint=READ_WITH[found].replace("STATE", os.fspath(path)),
    )


def schema_text(schema: pa.Schema) -> str:
    """Columns and types as text for a manifest."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_of(text: str) -> pa.Schema:
    """Back from `schema_text`; a ValueError where it cannot be."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
        _ = schema.names  # which must be text
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the columns of a table cannot be read: {error}") from error
    return schema
