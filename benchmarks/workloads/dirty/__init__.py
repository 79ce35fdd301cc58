"""Eight dirty tables made from a seed, whose wrong cells are known; their author did not know what looks for errors."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from workloads.dirty.beers import beers
from workloads.dirty.bibliography import bibliography
from workloads.dirty.factory import factory
from workloads.dirty.inspections import inspections
from workloads.dirty.insurance import insurance
from workloads.dirty.laureates import laureates
from workloads.dirty.movies import movies
from workloads.dirty.orders import orders

TABLES = {
    "beers": beers,
    "bibliography": bibliography,
    "movies": movies,
    "inspections": inspections,
    "laureates": laureates,
    "factory": factory,
    "orders": orders,
    "insurance": insurance,
}


def dirty_tables(seed: int) -> Iterator[tuple[str, pa.Table, pa.Table, frozenset[tuple[int, str]]]]:
    """Of each table its name, the true one, the dirty one, and the cells (row, column) that are wrong."""
    for name, make in TABLES.items():
        yield name, *make(seed)
