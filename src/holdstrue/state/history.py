"""What each batch did, in a bounded number of lines: the older, the more batches to a line.

Lines are kept in packed files. When there are many of one level, the oldest are joined: the lines of sixteen
batches become those of one, of which sums stay sums. So totals are exact for ever, and the last tens of thousands of
lines are as they were written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from holdstrue.data.validity import same_columns
from holdstrue.state.files import StateFiles
from holdstrue.state.manifest import RunFile

FILE_BYTES = 128 << 10
"""A file that has so many packed bytes, some twenty thousand lines, is not added to any more."""
LEVEL_FILES = 8
"""More files of one level than this, and the oldest half of them are joined."""
JOINED = 16
"""Batches that become one."""

_KEY = "history"
"""`history.LEVEL.VERSION`, and plain `history` in earlier formats."""


@dataclass(frozen=True)
class Lines:
    """The columns of a kind of history, and how lines of several batches become one."""

    schema: pa.Schema
    keys: tuple[str, ...] = ()
    """What tells the lines of one batch apart."""
    sums: tuple[str, ...] = ()
    """What is added up; of all other columns the last value stays."""

    def joined(self, table: pa.Table) -> pa.Table:
        """The lines of every sixteen batches as those of one, named `first .. last`."""
        codes = (
            pa.concat_tables([table]).combine_chunks().column("batch").dictionary_encode().chunk(0).indices.to_numpy()
        )
        blocks = pa.array(codes // JOINED)
        others = [name for name in self.schema.names if name not in (*self.keys, *self.sums, "batch")]
        asked = [
            ("batch", "first"),
            ("batch", "last"),
            *((n, "sum") for n in self.sums),
            *((n, "last") for n in others),
        ]
        found = (
            table.append_column("_block", blocks).group_by(["_block", *self.keys], use_threads=False).aggregate(asked)
        )
        first, last = (found.column(f"batch_{end}").to_pylist() for end in ("first", "last"))
        names = [
            a if a == b else f"{a.split(' .. ')[0]} .. {b.split(' .. ')[-1]}" for a, b in zip(first, last, strict=True)
        ]
        made = {name: found.column(name) for name in self.keys}
        made |= {name: found.column(f"{name}_sum") for name in self.sums}
        made |= {name: found.column(f"{name}_last") for name in others}
        return pa.table({"batch": pa.chunked_array([names]), **made}).select(self.schema.names).cast(self.schema)


def history_files(base: Mapping[str, RunFile]) -> list[RunFile]:
    """The files of a checkpoint that hold history, oldest first."""
    return [base[key] for key in _ordered(base)]


def read_lines(files: StateFiles, file: RunFile, how: Lines) -> pa.Table:
    """The lines of history that a run starts with."""
    tables = files.read_tables(file)
    fits = bool(tables) and same_columns(tables[0].schema, how.schema)
    if not fits or any(column.null_count for column in tables[0].columns):
        raise files.damaged(file, f"it has no history of {', '.join(how.schema.names)}")
    return tables[0]


def write_history(
    files: StateFiles, version: int, base: Mapping[str, RunFile], lines: pa.Table, how: Lines
) -> dict[str, RunFile]:
    """The files of history of a checkpoint: those there were, with some more lines. Complexity: O(one file)."""
    kept = {key: base[key] for key in _ordered(base)}
    if lines.num_rows:
        last = next(reversed(kept), None)
        if last is not None and "." in last and _level(last) == 0 and kept[last].size < FILE_BYTES:
            lines = pa.concat_tables([read_lines(files, kept[last], how), lines])
        else:
            last = f"{_KEY}.0.{version:012d}"
        kept[last] = files.write_tables("history", version, [lines.combine_chunks()], packed=True)
    for level in range(max((_level(key) for key in kept), default=0) + 1):
        full = [key for key in kept if _level(key) == level][:-1]
        if len(full) > LEVEL_FILES:
            kept = _joined(files, version, kept, full[: LEVEL_FILES // 2], how)
    return kept


def _joined(
    files: StateFiles, version: int, kept: Mapping[str, RunFile], old: Sequence[str], how: Lines
) -> dict[str, RunFile]:
    table = how.joined(pa.concat_tables([read_lines(files, kept[key], how) for key in old]))
    first = old[0].rpartition(".")[2] if "." in old[0] else "0" * 12
    rest = {key: file for key, file in kept.items() if key not in old}
    file = files.write_tables("history", version, [table.combine_chunks()], packed=True)
    made = {f"{_KEY}.{_level(old[0]) + 1}.{first}": file, **rest}
    return {key: made[key] for key in _ordered(made)}


def _level(key: str) -> int:
    # a file of an earlier format is not added to
    return int(key.split(".")[1]) if "." in key else 0


def _ordered(base: Mapping[str, RunFile]) -> list[str]:
    """The keys of history from the oldest on."""
    own = (key for key in base if key.partition(".")[0] == _KEY)
    return sorted(own, key=lambda key: key.rpartition(".")[2] if "." in key else "")
