"""Values off the form of their column: each kind in a column by itself, and honest columns that look much like it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.discovery.suspects.answer import Suspects

ROWS = 400


def found(values: list[Any], odd: dict[int, Any], kind: pa.DataType | None = None) -> Suspects:
    """The suspects of a column with some odd values in it."""
    values = [odd.get(at, value) for at, value in enumerate(values)]
    return holdstrue.suspects(pa.table({"a": pa.array(values, kind), "id": pa.array(range(len(values)))}), key="id")


def column(make: Any, rows: int = ROWS) -> list[Any]:
    rng = Random(5)
    return [make(rng) for _ in range(rows)]


CODES = column(lambda rng: f"SO-{rng.randrange(30000):07}")
DAYS = column(lambda rng: f"{rng.randrange(1, 13)}/{rng.randrange(1, 29)}/{rng.randrange(10, 26)}")
SIZES = column(lambda rng: rng.choice(["12.0", "16.0", "24.5"]))
MAILS = column(lambda rng: f"{rng.choice(['anna', 'otto', 'ida'])}.{rng.choice('klmn')}x@example.org")
LENGTHS = column(lambda rng: f"{rng.randrange(70, 190)} min")
STATES = column(lambda rng: rng.choice(["Pass", "Failed", "Not looked at"]))
ZIPS = column(lambda rng: f"{rng.randrange(100, 99999):05}")
MANY = column(
    lambda rng: f"{rng.choice(['Kleinert', 'Oberberg', 'Winterhalder', 'Zimmermann', 'Buchenau'])} {rng.choice('ABC')}"
)
YEARS = column(lambda rng: str(rng.randrange(1950, 2016)))

OFF: list[tuple[str, list[Any], dict[int, Any], dict[int, Any]]] = [
    ("shape", DAYS, {3: "3-12-19", 9: "2019-3-12"}, {3: None, 9: None}),
    ("shape", [*DAYS[:370], *(["3-7-12", "3 7 12"] * 15)], {}, dict.fromkeys(range(370, 400))),
    ("shape", SIZES, {5: "12.0 oz", 6: "16.0oz.", 7: "24.6%"}, {5: "12.0", 6: "16.0", 7: "24.6"}),
    ("shape", [f"{size} oz" if at < 60 else size for at, size in enumerate(SIZES)], {},
     {at: SIZES[at] for at in range(60)}),
    ("shape", MAILS, {1: "anna.kx.example.org", 2: "ANNA.KX@EXAMPLE.ORG"}, {1: None, 2: None}),
    ("shape", LENGTHS, {1: "1 hr. 39 min.", 2: "99"}, {1: None, 2: None}),
    ("shape", CODES, {1: "SO-1043", 2: "SO-12"}, {1: "SO-0001043", 2: "SO-0000012"}),
    ("shape", ZIPS, {1: "1907", 2: "010001"}, {1: "01907", 2: None}),
    ("letters", STATES, {1: "PASS", 2: "looked at, Not"}, {1: "Pass", 2: "Not looked at"}),
    ("spelling", MANY, {1: "Winterhalxer A", 2: "Zimmerman B"}, {1: "Winterhalder A", 2: "Zimmermann B"}),
    ("missing", [None if at % 3 else size for at, size in enumerate(SIZES)], {3: "n/a", 6: "NULL"}, {3: None, 6: None}),
    ("missing", YEARS, {3: "unknown", 6: ""}, {3: None, 6: None}),
    ("number", YEARS, {3: "62", 6: "19500"}, {3: None, 6: None}),
    ("trace", [f"{name} und Sohn" for name in MANY], {3: "K?hler und Sohn"}, {3: None}),
]  # fmt: skip


@pytest.mark.parametrize(("why", "values", "odd", "wanted"), OFF)
def test_what_is_off_its_form(why: str, values: list[Any], odd: dict[int, Any], wanted: dict[int, Any]) -> None:
    suspects = [suspect for suspect in found(values, odd) if suspect.column == "a"]
    assert {suspect.key for suspect in suspects} == set(wanted)
    for suspect in suspects:
        assert why in suspect.why
        assert wanted[suspect.key] in (None, suspect.proposed)


NUMBERS: list[tuple[list[Any], dict[int, Any], pa.DataType | None]] = [
    (column(lambda rng: rng.randrange(30_000, 104_000)), {3: 410_000, 4: 3_900, 5: -40_000}, None),
    (column(lambda rng: rng.choice([20.0, 30.0, 40.0])), {3: 400.0, 4: 0.4}, None),
    (column(lambda rng: Decimal(rng.randrange(500, 900)) / 100), {3: Decimal("70.00"), 4: Decimal("-6.00")}, None),
    (column(lambda rng: dt.date(2001, 1, 1) + dt.timedelta(days=rng.randrange(9000))),
     {3: dt.date(1, 1, 1), 4: dt.date(1900, 1, 1), 5: dt.date(2099, 9, 9)}, None),
    (column(lambda rng: dt.date(1930, 1, 1) + dt.timedelta(days=rng.randrange(20_000))),
     {3: dt.date(1, 1, 1), 4: dt.date(1, 1, 2)}, None),
    (column(lambda rng: dt.datetime(2026, 1, 1) + dt.timedelta(minutes=rng.randrange(9000))),
     {3: dt.datetime(1970, 1, 1)}, pa.timestamp("us", "UTC")),
]  # fmt: skip


@pytest.mark.parametrize(("values", "odd", "kind"), NUMBERS)
def test_numbers_and_days_that_are_far_off(values: list[Any], odd: dict[int, Any], kind: pa.DataType | None) -> None:
    suspects = [suspect for suspect in found(values, odd, kind) if suspect.column == "a"]
    assert {suspect.key for suspect in suspects} == set(odd)
    assert {why for suspect in suspects for why in suspect.why} == {"number"}


def test_a_number_of_the_wrong_sign_is_proposed_with_the_other() -> None:
    [suspect] = found(column(lambda rng: rng.randrange(20, 60)), {3: -33})
    assert (suspect.value, str(suspect.proposed)) == (-33, "33")


HONEST: list[list[Any]] = [
    column(lambda rng: rng.lognormvariate(3, 1.2)),
    column(lambda rng: int(rng.paretovariate(1.1) * 100)),
    column(lambda rng: rng.gauss(0, 10)),
    column(lambda rng: 212 if rng.random() < 0.02 else rng.randrange(60, 151)),
    [f"{'AT' if at % 40 == 0 else 'DE'}{value * 7919}" for at, value in enumerate(range(1000, 1400))],
    [f"NL{at}AB{at}" if at % 80 == 0 else f"DE{at * 7919}" for at in range(1000, 1400)],
    [f"{at % 12} Pt 1" if at % 13 == 0 else str(at % 12) for at in range(ROWS)],
    column(lambda rng: rng.choice(["C", "C++", "C#", "R"])),
    column(lambda rng: "Du Pont" if rng.random() < 0.002 else "Dupont"),
    column(lambda rng: "RO-BR" if rng.random() < 0.01 else "BR-RO"),
    column(lambda rng: "NA" if rng.random() < 0.01 else rng.choice(["NA", "EU", "AS"])),
    column(lambda rng: f"Brewery {rng.choice('ABCDEFGHIJ')}{rng.choice('ABCDEFGHIJ')}"),
]


@pytest.mark.parametrize("values", HONEST)
def test_what_only_looks_off(values: list[Any]) -> None:
    assert len(found(values, {})) == 0


def test_two_branches_of_one_shop_are_two_things() -> None:
    """The second has the name, and another street, phone and number: nothing of it is wrong."""
    rng = Random(3)
    shops = [(f"shop {at % 57}", f"street {at}", f"0{at:06}", at * 31) for at in range(60)]
    visits = [*(shop for shop in shops[:57] for _ in range(7)), *(shop for shop in shops[57:] for _ in range(2))]
    rng.shuffle(visits)
    table = pa.table({name: list(values) for name, values in zip(("name", "street", "phone", "number"), zip(*visits))})
    assert len(holdstrue.suspects(table)) == 0
    lost = table.set_column(
        2, "phone", pa.array(["0000099" if at == 5 else value.as_py() for at, value in enumerate(table["phone"])])
    )
    assert {(suspect.key, suspect.column) for suspect in holdstrue.suspects(lost)} == {(5, "phone")}


@pytest.mark.parametrize("rises", [True, False])
def test_prices_that_rose_one_day_are_no_errors(rises: bool) -> None:
    rng = Random(8)
    sales = sorted(
        (dt.date(2026, 1, 1) + dt.timedelta(days=rng.randrange(365)), rng.randrange(150)) for _ in range(1500)
    )
    rose = {thing for thing in range(150) if thing % 2}
    first = dt.date(2026, 2, 10)
    prices = [
        5 + thing / 4 + (thing in rose and (day < first if rises else rng.random() < 0.05)) for day, thing in sales
    ]
    table = pa.table({"day": [day for day, _ in sales], "thing": [f"T{thing}" for _, thing in sales], "price": prices})
    told = [suspect for suspect in holdstrue.suspects(table) if suspect.column == "price"]
    assert bool(told) != rises


@pytest.mark.parametrize("ratio", [1.1, 0.9, None, 10.0, 1.004])
def test_surcharges_and_discounts_are_no_errors(ratio: float | None) -> None:
    """A tenth of the prices is changed: by the same share, by one of its own each, or by what a slip makes of it."""
    rng = Random(9)
    usual = [20 + 7 * thing for thing in range(60)]
    sales = [rng.randrange(60) for _ in range(900)]
    changed = {at for at in range(900) if rng.random() < 0.1}
    prices = [
        round(usual[thing] * ((ratio or rng.uniform(0.5, 2)) if at in changed else 1), 2)
        for at, thing in enumerate(sales)
    ]
    table = pa.table({"id": range(900), "thing": [f"T{thing}" for thing in sales], "price": prices})
    told = {suspect.key for suspect in holdstrue.suspects(table, key="id") if suspect.column == "price"}
    if ratio in (1.1, 0.9):
        assert not told
    else:
        assert told <= changed
        assert len(told) > 0.4 * len(changed)


def test_a_value_as_common_as_others_is_not_off_by_its_shape() -> None:
    """Names of products, of which one has a number in it; where it comes once nothing says that it is one of them."""
    names = [f"{brand} {kind}" for brand in ("AB-1", "CD-2", "EF-3") for kind in range(1, 21)]
    values = column(lambda rng: rng.choice(names), 1200)
    assert not found(values, dict.fromkeys(range(0, 1200, 60), "Phillips 66 C"))
    assert {suspect.key for suspect in found(values, {7: "Phillips 66 C"})} == {7}


@pytest.mark.parametrize(("many", "told"), [(3, 3), (14, 14), (15, 0), (20, 0)])
def test_shapes_of_many_cells_are_another_kind(many: int, told: int) -> None:
    """Telephones abroad: nobody knows what else they should be."""
    here = column(lambda rng: f"{rng.randrange(200, 999)}-{rng.randrange(200, 999)}-{rng.randrange(10000):04}", 2000)
    rng = Random(3)
    abroad = {at * 90: f"+44 20 {rng.randrange(10**7, 10**8)}" for at in range(many)}
    assert len(found(here, abroad)) == told
