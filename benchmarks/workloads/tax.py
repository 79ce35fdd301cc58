"""The Tax table of papers 001 to 003: the attributes of `data/tax`, any size, controlled noise.

Clean rows satisfy phi7 to phi10 whatever their number. A row depends on the seed and on where its part
of the table starts, so `tax(1000, start=10**6)` are further rows of `tax(10**6)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from workloads.text import digits, names, pick

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

RULES = {
    "phi7": "key(area_code, phone)",
    "phi8": "zip -> city",
    "phi9": "state, has_child -> child_exemp",
    "phi10": "not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)",
}

NOISE = 1e-4
"""Share of rows with a phone or a city that is another row's; a tenth of it for child_exemp and rate, whose
groups are large. Phi10 then has some 800 violating pairs at 1M rows and 5,000 at 3M (the paper: 1,438 at 6M)."""

STATES = tuple(
    state
    for region in (
        "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO",
        "MT NE NV NH NJ NM NY NC ND OH OK OR PA PR RI SC SD TN TX UT VT VA WA WV WI WY",
    )
    for state in region.split()
)
ZIPS, CITIES, NAMES, AREA_CODES = 30_000, 13_000, 10_000, 300
LEAST_SALARY, SALARY_STEPS, SALARY_STEP = 5_000, 19_500, 10
_PHONES = AREA_CODES * 10**7
_SPREAD = 1_832_713_507
"""Coprime to the number of phones, so that i -> i * _SPREAD mod _PHONES gives every row its own."""


@dataclass(frozen=True)
class Country:
    """What does not depend on the number of rows: places, names, and each state's tax law."""

    zips: pa.Array
    cities: pa.Array
    first_names: pa.Array
    last_names: pa.Array
    zip_state: I64
    zip_city: I64
    area_codes: I64
    rates: F64
    single: I64
    married: I64
    child: I64


@cache
def country(seed: int = 0) -> Country:
    """The places and laws of a seed."""
    rng = np.random.default_rng([seed, 7])
    states = len(STATES)
    zips = np.sort(rng.choice(np.arange(500, 99_950), ZIPS, replace=False))
    exempt = rng.integers(0, 40, states) * 100
    return Country(
        digits(zips, "00000"),
        pa.array([name.upper() for name in names(CITIES, rng).to_pylist()]),
        names(NAMES, rng),
        names(NAMES, rng),
        np.arange(ZIPS) * states // ZIPS,
        rng.integers(CITIES, size=ZIPS),
        np.sort(rng.choice(np.arange(201, 990), AREA_CODES, replace=False)),
        _rates(rng),
        exempt,
        2 * exempt,
        rng.permutation(states) * 60,
    )


def _rates(rng: np.random.Generator) -> F64:
    """By state and salary step a rate that never falls: no tax, one rate, brackets, or a rising curve."""
    rates = np.empty((len(STATES), SALARY_STEPS))
    along = np.arange(SALARY_STEPS) / SALARY_STEPS
    for state in range(len(STATES)):
        low, high = np.sort(rng.uniform(1, 10, 2))
        kind = state % 13
        if kind < 2:
            rates[state] = low if kind else 0.0
        elif kind < 6:
            starts = np.sort(rng.uniform(0, 1, 6))
            rates[state] = low + (high - low) * np.searchsorted(starts, along) / 6
        else:
            rates[state] = low + (high - low) * np.sqrt(along)
    return np.round(rates, 6)


def tax(rows: int, *, start: int = 0, seed: int = 0, noise: float = NOISE, corrupt_salaries: float = 0.0) -> pa.Table:
    """Rows `start` to `start + rows` of the Tax table of a seed; `id` is the key. Complexity: O(rows).

    Parameters
    ----------
    noise
        Share of rows that break phi7, of rows that break phi8, and a tenth of it each for phi9 and phi10.
    corrupt_salaries
        Share of rows whose salary is any salary: these have a share of their whole state as partners of phi10.
    """
    rng = np.random.default_rng([seed, start, rows])
    land = country(seed)
    states = len(STATES)
    number = np.arange(start, start + rows, dtype=np.int64)
    zip_at = rng.integers(ZIPS, size=rows)
    state = land.zip_state[zip_at]
    married, child = rng.integers(2, size=rows), rng.integers(2, size=rows)
    step = np.minimum((rng.beta(2, 3, rows) * SALARY_STEPS).astype(np.int64), SALARY_STEPS - 1)

    phone_of = number.copy()
    taken = _some(rng, rows, noise)
    phone_of[taken] = rng.integers(0, start + rows, taken.size)
    phone = phone_of * _SPREAD % _PHONES
    city = land.zip_city[zip_at]
    moved = _some(rng, rows, noise)
    city[moved] = rng.integers(CITIES, size=moved.size)
    child_exemp = np.where(child == 1, land.child[state], 0)
    odd = _some(rng, rows, noise / 10)
    child_exemp[odd] = land.child[rng.integers(states, size=odd.size)]
    # a wrong rate is that of a salary up to one percent of the range away, so that few rows conflict with it
    taxed = step.copy()
    wrong = _some(rng, rows, noise / 10)
    taxed[wrong] = np.clip(
        step[wrong] + rng.integers(-SALARY_STEPS // 100, SALARY_STEPS // 100, wrong.size), 0, SALARY_STEPS - 1
    )
    rate = land.rates[state, taxed]
    corrupt = _some(rng, rows, corrupt_salaries)
    step[corrupt] = rng.integers(SALARY_STEPS, size=corrupt.size)

    flags = pa.array(["N", "Y"])
    return pa.table(
        {
            "id": number,
            "f_name": pick(land.first_names, rng.integers(NAMES, size=rows)),
            "l_name": pick(land.last_names, rng.integers(NAMES, size=rows)),
            "gender": pick(pa.array(["F", "M"]), rng.integers(2, size=rows)),
            "area_code": land.area_codes[phone // 10**7],
            "phone": digits(phone % 10**7, "000-0000"),
            "city": pick(land.cities, city),
            "state": pick(pa.array(STATES), state),
            "zip": pick(land.zips, zip_at),
            "marital_status": pick(pa.array(["S", "M"]), married),
            "has_child": pick(flags, child),
            "salary": LEAST_SALARY + step * SALARY_STEP,
            "rate": rate,
            "single_exemp": np.where(married == 1, 0, land.single[state]),
            "married_exemp": np.where(married == 1, land.married[state], 0),
            "child_exemp": child_exemp,
        }
    )


def _some(rng: np.random.Generator, rows: int, share: float) -> I64:
    """A share of the rows, by place."""
    return np.flatnonzero(rng.random(rows) < share) if share > 0 else np.empty(0, dtype=np.int64)
