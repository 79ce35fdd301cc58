"""Every command opens a file of data once and reads the manifest of a state once: counted, not timed."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdstrue.sources import datafiles
from holdstrue.state.files import StateFiles
from unit.cli.runs import PEOPLE, run, write

_opened: Counter[str] = Counter()
_watching: list[bool] = []


def _heard(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook: it stays until the process ends, so it is made once and listens only while a test wants it."""
    if _watching and event == "open" and isinstance(args[0], str) and "w" not in str(args[1] or "r"):
        _opened[Path(args[0]).name] += 1


sys.addaudithook(_heard)


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often files are opened for reading, by name: by Python, or by Arrow, which says nothing to audit hooks."""

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def wrapper(source: Any, *args: Any, **options: Any) -> Any:
            if isinstance(source, str | os.PathLike) and "wb" not in args:
                _opened[Path(source).name] += 1
            return real(source, *args, **options)

        monkeypatch.setattr(module, name, wrapper)

    for module, name in ((pa, "input_stream"), (pq, "ParquetFile")):
        counted(module, name)
    read = StateFiles.manifest

    def manifest(files: StateFiles, version: int | None = None) -> Any:
        _opened["a manifest"] += 1
        return read(files, version)

    monkeypatch.setattr(StateFiles, "manifest", manifest)
    _opened.clear()
    _watching.append(True)
    yield _opened
    _watching.clear()


def manifests(openings: Counter[str]) -> int:
    """How often a manifest was read."""
    return openings["a manifest"]


@pytest.fixture(params=["csv", "semicolons.csv", "csv.gz", "parquet", "jsonl"])
def data(request: pytest.FixtureRequest, people: Path, tmp_path: Path) -> Path:
    """A table in one of the formats."""
    from holdstrue.sources.read import read_table

    table, path = read_table(people), tmp_path / f"data.{request.param}"
    match request.param:
        case "parquet":
            pq.write_table(table, path)
        case "jsonl":
            import json

            write(path, "".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        case "csv.gz":
            with pa.output_stream(path, compression="gzip") as out:
                out.write(PEOPLE.encode())
        case "semicolons.csv":
            write(path, PEOPLE.replace(",", ";"))
        case _:
            write(path, PEOPLE)
    return path


def test_a_check_opens_its_data_once(data: Path, rules: Path, openings: Counter[str]) -> None:
    assert run("check", data, "--rules", rules).exit_code == 1
    assert openings[data.name] == 1


def test_a_large_file_is_opened_once(tmp_path: Path, openings: Counter[str]) -> None:
    lines = "".join(f"{i},{i % 7},city {i % 7}, and some more text to fill a line\n" for i in range(60_000))
    path = write(tmp_path / "large.csv", f"id,zip,city,more\n{lines}")
    assert path.stat().st_size > datafiles.START
    assert run("check", path, "--rule", "zip -> city", "--key", "id").exit_code == 0
    assert openings[path.name] == 1


def test_a_state_is_made_with_one_look_at_its_data(
    data: Path, rules: Path, tmp_path: Path, openings: Counter[str]
) -> None:
    assert run("init", tmp_path / "state", "--rules", rules, "--data", data).exit_code == 0
    assert openings[data.name] == 1
    # one to see which files it names, before others are removed, and one to say how it stands
    assert manifests(openings) <= 2


def test_a_batch_reads_its_changes_and_the_manifest_once(
    data: Path, rules: Path, tmp_path: Path, openings: Counter[str]
) -> None:
    run("init", tmp_path / "state", "--rules", rules)
    openings.clear()
    assert run("apply", tmp_path / "state", data).exit_code == 1
    assert openings[data.name] == 1
    first = manifests(openings)
    openings.clear()
    assert run("apply", tmp_path / "state", data, "--on-conflict", "upsert").exit_code == 0
    assert (openings[data.name], manifests(openings)) == (1, 1), first


@pytest.mark.parametrize("command", ["status", "violations"])
def test_questions_read_the_manifest_once(state: Path, command: str, openings: Counter[str]) -> None:
    assert run(command, state).exit_code == 0
    assert manifests(openings) == 1
