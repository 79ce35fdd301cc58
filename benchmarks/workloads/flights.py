"""Domestic flights as in paper 003: months of routes, with the many violations of phi11 and phi12."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from workloads.text import pick

I64 = NDArray[np.int64]

RULES = {
    "phi11": "not(t.origin = s.dest and t.dest = s.origin and t.distance != s.distance)",
    "phi12": "not(t.origin = s.origin and t.dest = s.dest and t.flights > s.flights and t.passengers < s.passengers)",
}

AIRPORTS, PAIRS = 400, 15_000
"""Airports, and unordered pairs of them with flights both ways."""

SKEW = 1.6
"""Spread of the routes' traffic: rows meet some 1,000 others of their route at 3.6M rows, so that phi12 has
over 10^8 violating pairs there (the paper: 193,512,571) and 10^7 at 1M."""

WRONG_DISTANCE = 1e-3


@dataclass(frozen=True)
class Network:
    """Routes and how busy they are."""

    airports: pa.Array
    ends: I64
    distance: I64
    upto: NDArray[np.float64]
    seats: I64


@cache
def network(seed: int = 0) -> Network:
    """The routes of a seed."""
    rng = np.random.default_rng([seed, 11])
    letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    codes = rng.choice(26**3, AIRPORTS, replace=False)
    airports = ["".join(letters[[code // 676, code // 26 % 26, code % 26]]) for code in codes]
    places = rng.uniform(0, 2500, (AIRPORTS, 2))
    pairs = rng.choice(AIRPORTS * (AIRPORTS - 1) // 2, PAIRS, replace=False)
    low, high = np.triu_indices(AIRPORTS, 1)
    ends = np.stack((low[pairs], high[pairs]), axis=1)
    distance = np.hypot(*(places[ends[:, 0]] - places[ends[:, 1]]).T).astype(np.int64)
    traffic = rng.lognormal(0, SKEW, PAIRS)
    upto = np.cumsum(traffic) / traffic.sum()
    return Network(pa.array(airports), ends, distance, upto, rng.integers(30, 200, PAIRS))


def flights(rows: int, *, start: int = 0, seed: int = 0, wrong_distance: float = WRONG_DISTANCE) -> pa.Table:
    """Rows `start` to `start + rows` of the flights of a seed; `id` is the key. Complexity: O(rows)."""
    rng = np.random.default_rng([seed, start, rows])
    net = network(seed)
    route = np.searchsorted(net.upto, rng.random(rows)).clip(0, PAIRS - 1)
    ends, back = net.ends[route], rng.integers(2, size=rows)
    distance = net.distance[route]
    wrong = np.flatnonzero(rng.random(rows) < wrong_distance)
    distance[wrong] += rng.integers(1, 50, wrong.size)
    flown = rng.integers(1, 120, rows)
    # planes are 55 to 95 percent full: months with more flights and fewer passengers are common
    load = rng.uniform(0.55, 0.95, rows)
    return pa.table(
        {
            "id": np.arange(start, start + rows, dtype=np.int64),
            "origin": pick(net.airports, np.where(back, ends[:, 1], ends[:, 0])),
            "dest": pick(net.airports, np.where(back, ends[:, 0], ends[:, 1])),
            "distance": distance,
            "flights": flown,
            "passengers": (flown * net.seats[route] * load).astype(np.int64),
        }
    )
