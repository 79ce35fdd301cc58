"""What a sharded state takes on disk: columns once, and of what follows from them nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from holdstrue.monitor.sharded import Sharded
from holdstrue.rules.file import load_rules
from holdstrue.shards.runner import Sizing
from holdstrue.shards.shard import POOL
from laws.shards import Loops

ROWS = 60_000
FOUR = (
    "key(phone)",
    "zip -> city",
    "state, child -> exempt",
    "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)",
)
TWENTY = (
    *FOUR,
    *("zip -> state", "area -> state", "state, married -> exempt", "city, state -> zip", "name -> child"),
    *("not null(salary)", "not(t.salary < 0)", "not(t.rate > 100)", "not null(zip)", "name, city -> phone"),
    *("[state='S1', zip] -> [city]", "[child='y', state] -> [exempt]", "phone -> area", "salary, state -> rate"),
    *("not(t.zip = s.zip and t.state != s.state)", "key(area, phone)"),
)


def table(rows: int = ROWS) -> pa.Table:
    """People, of whom some live in a city that is not that of their zip."""
    dice, number = np.random.default_rng(3), np.arange(rows)
    zips = dice.integers(0, rows // 30, rows)
    text = {
        "zip": (f"{z:05d}" for z in zips),
        "city": (f"City of {z % 900}" for z in np.where(number % 5000 == 7, zips + 1, zips)),
        "state": (f"S{z % 50}" for z in zips),
        "phone": (f"{n * 7919 % 10**7:07d}" for n in number),
        "area": (f"{z % 300}" for z in zips),
        "child": ("yn"[n] for n in number % 2),
        "married": ("yn"[n] for n in number // 2 % 2),
        "name": (f"name {n}" for n in dice.integers(0, 5000, rows)),
    }
    return pa.table(
        {
            "id": number,
            **{name: pa.array(list(values)) for name, values in text.items()},
            "exempt": zips % 50 * 100,
            "salary": dice.integers(500, 20_000, rows) * 10,
            "rate": dice.integers(0, 800, rows) / 100,
        }
    )


def bytes_a_row(place: Path, rules: tuple[str, ...], limit: int) -> None:
    monitor = Sharded(Loops(2), place, load_rules(list(rules)), key="id", sizing=Sizing(tasks=2))
    monitor.apply([table()], limit=0)
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    assert size / ROWS <= limit
    before = monitor.counts()
    POOL.empty()
    some = table().slice(5000, 10)
    monitor.apply([some.append_column("op", pa.array(["delete"] * 10))], "one", limit=0)
    assert monitor.counts() != before
    monitor.apply([some], "two", limit=0)
    assert monitor.counts() == before, "opened from its files it stands as before"


def test_four_rules(tmp_path: Path) -> None:
    bytes_a_row(tmp_path / "state", FOUR, 300)


def test_twenty_rules(tmp_path: Path) -> None:
    assert len(TWENTY) == 20
    bytes_a_row(tmp_path / "state", TWENTY, 800)
