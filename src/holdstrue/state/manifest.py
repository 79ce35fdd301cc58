"""What a version of a state says of itself: its kind, its facts, and every file that it consists of.

It comes from outside, so that its shape is checked before anybody uses it. Names of files are names that this
package gives, never paths.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdstrue.errors import StateError

FORMAT = 5
"""What is written. Since 5 shards are packed (`state/packing.py`), and a version may name pages of them."""
FIRST_LOGGED = 4
"""The first format that has a log; those before it are read by `state/old_formats.py`."""

Manifest: TypeAlias = dict[str, Any]

RUN_NAME = re.compile(r"[a-z]+-(\d{12})-[0-9a-f]{12}\.arrow")
"""A run, and the version for which it was written."""
_ENTRY_NAME = re.compile(r"log/\d{12}")
_CHECKSUM = re.compile(r"[0-9a-f]{16}")
_MOST_BYTES = 1 << 50
KINDS = ("monitor", "discovery", "inclusions", "site")


@dataclass(frozen=True)
class RunFile:
    """An immutable file, or a part of one, as a manifest names it."""

    name: str
    size: int
    checksum: str
    start: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        part = {"start": self.start} if self.start else {}
        return {"name": self.name, "bytes": self.size, "checksum": self.checksum, **part}

    @staticmethod
    def of(data: Mapping[str, Any]) -> RunFile:
        """From plain JSON data that was `checked`."""
        return RunFile(data["name"], data["bytes"], data["checksum"], data.get("start", 0))


def folded(headers: Sequence[Mapping[str, Any]]) -> Manifest:
    """A whole version and the steps since, as one manifest."""
    manifest = dict(headers[0])
    if "since" in manifest:
        raise ValueError("the first of the entries is a step itself")
    manifest["since"] = manifest.get("version")
    manifest["log"] = list(manifest.get("log", ()))
    manifest["recent"] = list(manifest.get("recent", ()))
    for step in headers[1:]:
        if step.get("since") != headers[0].get("version"):
            raise ValueError(f"version {step.get('version')} builds on another version than those around it")
        for problem in step_problems(step):
            raise ValueError(f"of version {step.get('version')} {problem}")
        manifest |= {**step["facts"], "version": step["version"], "time": step["time"]}
        manifest["log"].append(step["run"])
        manifest["log_rows"] += step["rows"]
        manifest["recent"] += step["batches"]
    return manifest


def checked(manifest: Mapping[str, Any], where: str) -> Manifest:
    """A manifest of the right shape; raises for any other."""
    said = manifest.get("format")
    if not isinstance(said, int) or not FIRST_LOGGED <= said <= FORMAT:
        raise StateError(
            f"{where} has format {said!r}, this version reads up to {FORMAT}",
            hint="open it with a newer version of holdstrue",
        )
    for problem in _problems(manifest):
        raise StateError(
            f"{where} is damaged: {problem}",
            hint="restore the state from a copy, or make it anew; holdstrue verify STATE checks all its files",
        )
    return dict(manifest)


def step_problems(step: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the shape of a step."""
    if not _is_count(step.get("since")) or not _is_count(step.get("rows")):
        yield f"it builds on version {step.get('since')!r} and adds {step.get('rows')!r} rows"
    if not isinstance(step.get("facts"), dict):
        yield "facts is no object"
    batches = step.get("batches")
    if not (isinstance(batches, list) and all(isinstance(batch, str) for batch in batches)):
        yield "batches is no list of batches"
    yield from _list_problems([step.get("run")], "run")


def _problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    if manifest.get("kind") not in KINDS:
        yield f"its kind is {manifest.get('kind')!r}, not one of {', '.join(KINDS)}"
    for name in ("version", "log_rows", "committed"):
        if not _is_count(manifest.get(name)):
            yield f"{name} is {manifest.get(name)!r}, not a number of 0 or more"
    if not isinstance(manifest.get("keep", 0), int | float) or not 0 <= manifest.get("keep", 0) < _MOST_BYTES:
        yield f"keep is {manifest.get('keep')!r}, not a number of seconds"
    if "time" in manifest and not _is_time(manifest["time"]):
        yield f"it was made at {manifest['time']!r}, which is no time"
    recent = manifest.get("recent")
    if not (isinstance(recent, list) and all(isinstance(batch, str) for batch in recent)):
        yield "recent is no list of batches"
    yield from _runs_problems(manifest, "")
    yield from _list_problems(manifest.get("delta", []), "delta")
    yield from _list_problems(manifest.get("pages", []), "pages")
    shards = manifest.get("shards", {})
    if not isinstance(shards, dict):
        yield "shards is no object"
        return
    yield from shard_problems(shards)


def shard_problems(shards: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the shape of what is said of shards."""
    for number, shard in shards.items():
        if not (number.isdigit() and isinstance(shard, dict)):
            yield f"shard {number!r} is none"
        else:
            yield from _runs_problems(shard, f"shard {number}: ")


def _runs_problems(data: Mapping[str, Any], where: str) -> Iterator[str]:
    base = data.get("base")
    if not isinstance(base, dict):
        yield f"{where}base is {type(base).__name__}, not an object"
    else:
        yield from _list_problems(list(base.values()), f"{where}base")
    yield from _list_problems(data.get("log"), f"{where}log")
    moved = data.get("moved")
    if moved is not None and not _is_count(moved):
        yield f"{where}moved is {moved!r}, not a number of runs"
    if not _is_count(data.get("log_rows", 0)):
        yield f"{where}log_rows is {data.get('log_rows')!r}, not a number of 0 or more"


def _list_problems(files: Any, where: str) -> Iterator[str]:
    if not isinstance(files, list):
        yield f"{where} is {type(files).__name__}, not a list"
        return
    for file in files:
        if not isinstance(file, dict):
            yield f"{where} names {file!r}, which is no file"
            continue
        name, size, checksum, start = (file.get(key) for key in ("name", "bytes", "checksum", "start"))
        if not (isinstance(name, str) and (RUN_NAME.fullmatch(name) or _ENTRY_NAME.fullmatch(name))):
            yield f"{where} names {name!r}, which is no file of a state"
        if not (_is_count(size) and size) or not _is_count(start or 0):
            yield f"{where}: {name} has {size!r} bytes from {start!r} on"
        if not (isinstance(checksum, str) and _CHECKSUM.fullmatch(checksum)):
            yield f"{where}: {name} has the checksum {checksum!r}"


def _is_time(value: Any) -> bool:
    try:
        dt.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_BYTES


def files_of(manifest: Mapping[str, Any]) -> list[RunFile]:
    """Every file a manifest names."""
    found = [*manifest["base"].values(), *manifest["log"], *manifest.get("delta", ()), *manifest.get("pages", ())]
    return [*(RunFile.of(data) for data in found), *files_of_shards(manifest.get("shards", {}))]


def files_of_shards(shards: Mapping[str, Any]) -> list[RunFile]:
    """Every file of some shards."""
    found = [file for shard in shards.values() for file in (*shard["base"].values(), *shard["log"])]
    return [RunFile.of(data) for data in found]
