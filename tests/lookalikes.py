"""Tables that look like the public ones the tests ask about, made from a seed, with what was put into them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

Row = dict[str, Any]
Constraint = frozenset[tuple[str, str, str]]
"""No two rows t, s have t.left op s.right for all (left, op, right)."""

PLACES = ["Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Ginkgo", "Hazel", "Ivy", "Juniper", "Kapok", "Larch"]
ACCENTED = ["São Tomé", "Zürich", "Málaga", "Ærø", "Besançon", "Évora", "Öland", "Señora"]
ENDS = ["ton", "ville", "field", "burg", "ford"]
PEOPLE = ["Ames", "Brandt", "Curie", "Diaz", "Evans", "Frege", "Gauss", "Hopper", "Ives", "Jansen", "Klein", "Lovelace"]


def letters(rng: Random, size: int) -> str:
    return "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=size))


def distinct(make: Any, number: int) -> list[Any]:
    """As many different values as asked for, in the order in which they are made."""
    found: dict[Any, None] = {}
    while len(found) < number:
        found[make()] = None
    return list(found)


# --- hospitals and their measures, one row for each pair -------------------------------------------------------------

HOSPITAL_RULES = tuple(
    (tuple(left.split()), right)
    for left, rights in (
        ("town", "county"),
        ("zip", "emergency"),
        ("number", "hospital"),
        ("hospital", "number street town zip phone owner"),
        ("hospital phone owner", "land"),
        ("code", "measure illness average"),
        ("measure", "code"),
        ("illness measure", "kind"),
    )
    for right in rights.split()
)
"""What holds of the true table: rows that agree on the left agree on the right."""

HOSPITAL_TEXT = "\n".join(
    "&".join(["t1&t2", *(f"EQ(t1.{name},t2.{name})" for name in left), f"IQ(t1.{right},t2.{right})"])
    for left, right in HOSPITAL_RULES
)
"""The same as denial constraints in HoloClean's syntax, one a line."""


class Hospital(NamedTuple):
    """The true table, the same with errors, and the cells (row, column) that have one."""

    true: pa.Table
    dirty: pa.Table
    wrong: frozenset[tuple[int, str]]


def hospital(hospitals: int = 22, measures: int = 20, errors: int = 150, seed: int = 1) -> Hospital:
    rng = Random(seed)
    people, trees = ([word.lower() for word in words] for words in (PEOPLE, PLACES))
    names = distinct(lambda: f"{rng.choice(people)} {rng.choice(trees)} hospital", hospitals)
    towns = distinct(lambda: rng.choice(trees) + rng.choice(ENDS), hospitals * 2 // 3)
    numbers = rng.sample(range(10_001, 10_900), hospitals)
    conditions = ("heart trouble", "lung trouble", "care before surgery", "asthma of children")
    institutions: list[Row] = []
    for number, name in zip(numbers, names):
        town = rng.choice(towns)
        institutions.append(
            {"number": str(number), "hospital": name,
             "street": f"{rng.randrange(1, 999)} {rng.choice(trees)} road", "floor": None,
             "door": None, "town": town, "land": "qa", "zip": f"35{number % 1000:03}",
             "county": f"{people[towns.index(town) % 9]} county", "phone": f"205{number * 7:07}",
             "kind": "acute care", "owner": rng.choice(("private", "church", "state", "county")),
             "emergency": rng.choice(("yes", "no"))}
        )  # fmt: skip
    taken: list[Row] = []
    for number in range(measures):
        code = f"{('ht', 'lg', 'sg', 'as')[number % 4]}-{number // 4 + 1}"
        about = f"patients with {conditions[number % 4]} who got help of the kind {people[number // 4]}"
        taken.append({"illness": conditions[number % 4], "code": code, "measure": about, "average": f"qa_{code}"})
    true = [
        {**one, **other, "score": rng.choice((None, f"{rng.randrange(40, 101)}%")),
         "sample": rng.choice((None, f"{rng.randrange(9, 400)} patients"))}
        for one, other in product(institutions, taken)
    ]  # fmt: skip
    spoiled = sorted({name for left, right in HOSPITAL_RULES for name in (*left, right)})
    wrong = frozenset(distinct(lambda: (rng.randrange(len(true)), rng.choice(spoiled)), errors))
    dirty = [dict(row) for row in true]
    for row, name in sorted(wrong):
        value = dirty[row][name]
        place = rng.randrange(len(value))
        dirty[row][name] = value[:place] + "x" + value[place + 1 :]
    schema = pa.schema([(name, pa.string()) for name in true[0]])
    return Hospital(pa.Table.from_pylist(true, schema), pa.Table.from_pylist(dirty, schema), wrong)


# --- airports: types in the headers, names beyond ASCII, three batches of later rows ----------------------------------

AIRPORT_SCHEMA = pa.schema(
    [(f"{name}(String)", pa.string()) for name in ("ident", "type", "name")]
    + [("elevation_ft(Integer)", pa.int64())]
    + [(f"{name}(String)", pa.string()) for name in ("continent", "iso_country", "iso_region", "municipality",
                                                     "gps_code", "local_code", "coordinates")]
)  # fmt: skip
AIRPORT_CODES = ("ident(String)", "gps_code(String)", "local_code(String)")
"""Columns of one kind of value, so that they are compared with one another."""


class Airport(NamedTuple):
    """The first rows, three later batches, and for each of these a constraint that held until then."""

    original: pa.Table
    batches: list[pa.Table]
    ended: list[Constraint]


def airport(rows: int = 300, batch: int = 30, seed: int = 2) -> Airport:
    rng = Random(seed)
    countries = {"QA": "NA", "QB": "EU", "QC": "EU", "QD": "OC"}
    regions = [(f"{country}-{letter}", country) for country in countries for letter in "RST"]
    towns = [*ACCENTED, *(place + rng.choice(ENDS) for place in PLACES)]
    codes = distinct(lambda: f"{letters(rng, 2)}{rng.randrange(100):02}", 2 * (rows + 3 * batch))
    made: list[Row] = []
    for number in range(rows + 3 * batch):
        ident = codes[number]
        region, country = rng.choice(regions)
        kind, town = rng.choice(("heliport", "small_airport", "closed")), rng.choice(towns)
        row = dict(zip(AIRPORT_SCHEMA.names, (
            ident, kind, f"{rng.choice(towns)} {rng.choice(('Airport', 'Heliport', 'Strip'))}",
            rng.randrange(0, 400, 10), countries[country], country, region, town, ident, ident,
            f"{rng.uniform(-60, 60):.5f}{rng.uniform(0, 180):.5f}",
        )))  # fmt: skip
        if rng.random() < 0.1:  # a code of its own, which no other row has
            row[rng.choice(AIRPORT_CODES[1:])] = codes[-1 - number]
        if made and rng.random() < 0.5:  # several on one piece of ground, or a row entered twice
            other = rng.choice(made)
            ground = rng.choice((AIRPORT_SCHEMA.names[4:7], AIRPORT_SCHEMA.names[4:8], AIRPORT_SCHEMA.names[1:8]))
            row |= {name: other[name] for name in [*ground, "coordinates(String)"]}
            again = rng.sample(["name(String)", "elevation_ft(Integer)", "type(String)"], 2)
            row |= {name: other[name] for name in again}
        made.append(row)
    first = made[0]
    made[rows + 1]["gps_code(String)"] = first["gps_code(String)"]
    made[rows + batch + 1] |= {"iso_region(String)": first["iso_region(String)"], "iso_country(String)": "QX"}
    made[rows + 2 * batch + 1] |= {"coordinates(String)": first["coordinates(String)"], "continent(String)": "AN"}
    ended = [
        frozenset((f"{name}(String)", op, f"{name}(String)") for name, op in some)
        for some in (
            [("gps_code", "=")],
            [("iso_region", "="), ("iso_country", "!=")],
            [("coordinates", "="), ("continent", "!=")],
        )
    ]
    table = pa.Table.from_pylist(made, AIRPORT_SCHEMA)
    return Airport(table.slice(0, rows), [table.slice(rows + i * batch, batch) for i in range(3)], ended)


def in_incdc_syntax(constraints: Iterable[Constraint]) -> str:
    """Constraints as IncDC writes them, one a line."""
    signs = {"=": "==", "!=": "<>"}
    return "\n".join(
        "[DC: " + "".join(f"t0.{left} {signs.get(op, op)} t1.{right}  " for left, op, right in sorted(some)) + "]"
        for some in sorted(constraints, key=sorted)
    )


# --- a census: fifteen columns of numbers and words ------------------------------------------------------------------

SCHOOLS = ["none", "primary", "lower", "middle", "upper", "trade", "college", "bachelor", "master", "doctor"]


def adult(rows: int = 300, twins: int = 130, seed: int = 3) -> pa.Table:
    """School and years at school say the same, two rows are equal, many differ little: few dependencies, no key."""
    rng = Random(seed)

    def value(column: int) -> Any:
        draws: list[Any] = [
            rng.randrange(17, 80), rng.choice(PEOPLE[:6]), rng.randrange(20_000, 400_000), rng.choice(SCHOOLS), None,
            rng.choice(("single", "married", "widowed", "divorced")), rng.choice(PLACES),
            rng.choice(("head", "partner", "child")), rng.choice("abc"), rng.choice(("f", "m")),
            rng.choice((0, 0, 0, rng.randrange(9999))),
            rng.choice((0, 0, 0, rng.randrange(2000))), rng.choice((40, 40, rng.randrange(1, 99))),
            rng.choice(("here", "here", *ACCENTED)), rng.choice(("<=50K", ">50K")),
        ]  # fmt: skip
        return draws[column]

    made = [[value(column) for column in range(15)] for _ in range(rows)]
    for _ in range(twins):
        twin = list(rng.choice(made[:rows]))
        for column in rng.sample(range(15), rng.choice((3, 4, 5))):
            twin[column] = value(column) if column != 4 else None
        made.append(twin)
    made.append(list(made[7]))
    for row in made:
        row[4] = SCHOOLS.index(row[3]) + 1
    kinds = ["Long" if isinstance(cell, int) else "String" for cell in made[0]]
    names = [f"col{number + 1}({kind})" for number, kind in enumerate(kinds)]
    return pa.table(dict(zip(names, map(list, zip(*made)))))


# --- flights of one year from three airports -------------------------------------------------------------------------

HOUR_KEY = ("year", "month", "day", "origin", "hour")


class Flights(NamedTuple):
    """Tables by name, and what does not hold of them quite: values without a partner, hours that came twice."""

    tables: dict[str, pa.Table]
    lost_planes: frozenset[str]
    lost_airports: frozenset[str]
    lost_hours: frozenset[tuple[Any, ...]]
    hours_twice: frozenset[tuple[Any, ...]]


def flights(number: int = 1500, seed: int = 4) -> Flights:
    """Keys are faa, carrier, tailnum, and of flights hour, place, carrier and number; of weather hour and place, but
    for an hour that a clock set back repeats, told apart by `time_hour`."""
    rng = Random(seed)
    codes = distinct(lambda: letters(rng, 3), 84)
    lost_airports, faa = codes[:4], codes[4:]
    origins, carriers = faa[:3], distinct(lambda: letters(rng, 2), 12)
    tails = distinct(lambda: f"N{rng.randrange(100, 999)}{letters(rng, 2)}", 300)
    lost_planes = tails[:45]
    days = [datetime(2013, month, day, tzinfo=UTC) for month in range(1, 11) for day in (2, 26)]
    days[-1] = datetime(2013, 11, 3, tzinfo=UTC)
    weather: list[Row] = []
    for day, origin, hour in product(days, origins, range(25)):
        moment = day + timedelta(hours=hour + 4)
        clock = hour - (hour > 1) if day == days[-1] else hour  # on the last day the clock shows one twice
        if clock < 24:
            hour_of = {"origin": origin, "year": 2013, "month": day.month, "day": day.day, "hour": clock}
            measured = {"temp": rng.randrange(300, 900) / 10, "humid": rng.randrange(2000, 9999) / 100}
            weather.append({**hour_of, **measured, "time_hour": moment})
    lost_hours = [(2013, 1, 2, origins[0], 6), (2013, 3, 26, origins[1], 9), (2013, 7, 2, origins[2], 20)]
    weather = [row for row in weather if tuple(row[name] for name in HOUR_KEY) not in lost_hours]
    hours = [(2013, day.month, day.day, origin, hour) for day in days for origin in origins for hour in range(5, 24)]
    departures = [(*hour, rng.choice(carriers), 100 + place) for place, hour in enumerate(lost_hours * 2)]
    departures += distinct(
        lambda: (*rng.choice(hours), rng.choice(carriers), rng.randrange(1, 100)), number - len(departures)
    )
    flown: list[Row] = []
    for count, departure in enumerate(departures):
        year, month, day_of, _, hour, *_ = departure
        tail = lost_planes[count] if count < len(lost_planes) else rng.choice((None, *tails * 3))
        dest = lost_airports[count] if count < 4 else rng.choice(codes)
        flown.append(
            {**dict(zip((*HOUR_KEY, "carrier", "flight"), departure)), "minute": rng.randrange(60), "tailnum": tail,
             "dest": dest, "distance": 10 * (codes.index(dest) + 20),
             "time_hour": datetime(year, month, day_of, tzinfo=UTC) + timedelta(hours=hour + 4 + (month == 11))}
        )  # fmt: skip
    planes = [
        {"tailnum": tail, "year": rng.choice((None, rng.randrange(1985, 2013))),
         "model": f"{rng.choice(PEOPLE)}-{rng.randrange(9)}", "engines": rng.choice((1, 2)),
         "seats": rng.randrange(20, 400, 5)}
        for tail in tails[45:]
    ]  # fmt: skip
    fields = [
        {"faa": code, "name": f"{rng.choice(PLACES)} {rng.choice(PEOPLE)}", "lat": rng.uniform(20, 60),
         "lon": rng.uniform(-150, -70), "alt": rng.randrange(0, 5000), "tz": rng.choice((-5, -6, -7, -8))}
        for code in faa
    ]  # fmt: skip
    lines = [{"carrier": code, "name": f"{rng.choice(PEOPLE)} Air {code}"} for code in carriers]
    made = {"flights": flown, "weather": weather, "planes": planes, "airports": fields, "airlines": lines}
    return Flights(
        {name: pa.Table.from_pylist(rows) for name, rows in made.items()},
        frozenset(lost_planes),
        frozenset(lost_airports),
        frozenset(lost_hours),
        frozenset((2013, 11, 3, origin, 1) for origin in origins),
    )
