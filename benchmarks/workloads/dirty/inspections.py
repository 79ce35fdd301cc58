"""Food inspections of New England places, with hospital-like code and text columns."""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

import pyarrow as pa

from workloads.dirty.dice import Dice
from workloads.dirty.kinds import (
    day_month_swapped,
    digit_slip,
    fixed,
    letter_to_x,
    mapped,
    mojibake,
    no_leading_zeros,
    recase,
    spaces,
    times,
    truncate,
    typo,
    word_for_nothing,
    years_off,
)
from workloads.dirty.planting import Kinds, Planted, Planting
from workloads.dirty.words import ADJECTIVES, NOUNS, SURNAMES

SCHEMA = pa.schema(
    [
        ("inspection_id", pa.int64()),
        ("license_no", pa.string()),
        ("name", pa.string()),
        ("facility_type", pa.string()),
        ("risk", pa.string()),
        ("address", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("zip", pa.string()),
        ("latitude", pa.float64()),
        ("longitude", pa.float64()),
        ("inspection_date", pa.date32()),
        ("inspection_type", pa.string()),
        ("result", pa.string()),
        ("violation_code", pa.string()),
        ("violation_text", pa.string()),
    ]
)
STATE_VARIANTS = {
    "MA": ["Mass.", "Massachusetts", "ma", "AM"],
    "RI": ["R.I.", "IR"],
    "NH": ["N.H."],
    "ME": ["Maine"],
}
RISK_VARIANTS = {"Risk 1 (High)": ["Risk 1", "High"], "Risk 2 (Medium)": ["Risk 2 (Med)", "2"]}
RESULT_VARIANTS = {
    "Pass": ["PASS", "Passed", "Pas"],
    "Fail": ["Failed", "fail"],
    "Pass w/ Conditions": ["Pass with conditions"],
}
TOWNS = [
    ("Boston", "MA", ["02108", "02116", "02118", "02127"], 42.36, -71.06),
    ("Cambridge", "MA", ["02138", "02139", "02141"], 42.37, -71.11),
    ("Somerville", "MA", ["02143", "02144"], 42.39, -71.10),
    ("Worcester", "MA", ["01602", "01605"], 42.26, -71.80),
    ("Springfield", "MA", ["01103", "01109"], 42.10, -72.59),
    ("Providence", "RI", ["02903", "02906"], 41.82, -71.41),
    ("Newport", "RI", ["02840"], 41.49, -71.31),
    ("Manchester", "NH", ["03101", "03104"], 42.99, -71.46),
    ("Portland", "ME", ["04101", "04102"], 43.66, -70.26),
    ("Nantucket", "MA", ["02554"], 41.28, -70.10),
]
CODES = {
    "03-302.11": "Food not separated and protected",
    "03-501.16": "Hot or cold holding temperature not maintained",
    "04-601.11": "Food contact surfaces not clean to sight and touch",
    "04-602.13": "Non-food contact surfaces not clean",
    "05-205.11": "Hand sink blocked or used for other purposes",
    "06-301.12": "Hand drying provision missing",
    "06-501.11": "Walls, floors or ceilings in poor repair",
    "06-501.12": "Walls, floors or ceilings not clean",
    "06-501.111": "Evidence of insects, rodents or other pests",
    "07-201.11": "Toxic items stored near food",
    "08-103.12": "Written plan not followed",
    "590.009/E": "Choking procedures not posted",
}
CHAINS = ["DUNKIN DONUTS", "SUBWAY", "McDONALD'S", "STARBUCKS COFFEE", "AU BON PAIN", "7-ELEVEN"]
FACILITIES = [
    "Restaurant",
    "Grocery Store",
    "School",
    "Bakery",
    "Mobile Food Cart",
    "Daycare (2 - 6 Years)",
    "Hospital",
    "Catering",
    "Long Term Care",
    "Church Kitchen",
    "Ice Cream Truck",
    "Roof-top Hive",
]
RISKS = ["Risk 1 (High)", "Risk 2 (Medium)", "Risk 3 (Low)"]
USUAL_RISK = {
    "Restaurant": RISKS[0],
    "School": RISKS[0],
    "Hospital": RISKS[0],
    "Long Term Care": RISKS[0],
    "Daycare (2 - 6 Years)": RISKS[0],
    "Grocery Store": RISKS[1],
    "Bakery": RISKS[1],
    "Catering": RISKS[1],
}
STREETS = [
    "Main",
    "Washington",
    "Beacon",
    "Elm",
    "Harbor",
    "Mill",
    "Park",
    "Tremont",
    "Massachusetts",
    "State",
    "Federal",
    "Broadway",
    "Boylston",
    "Commercial",
]


class Place(NamedTuple):
    """A place with a licence; before `since` it was at the first of its two spots, then at the second."""

    licence: str
    name: str
    facility: str
    risk: str
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    since: dt.date


def inspections(seed: int) -> Planted:
    """Food inspections of New England places, with hospital-like code and text columns.

    Honest oddities: chains with many licences of one name (with and without a shop number),
    postcodes with leading zeros, places that moved or changed hands halfway, passes without a
    violation, one-off facility types, an island far from the other coordinates, places whose
    risk class is not the usual one for their type, missing coordinates of mobile carts.
    """
    dice = Dice(seed, 104)
    errors = Planting(dice, SCHEMA, _rows(dice))
    return errors.plant(dice.real(0.06, 0.1), _kinds(errors))


def _rows(dice: Dice) -> list[tuple[Any, ...]]:
    places = [_place(dice, number) for number in dice.some(range(1200, 99000), 1100)]
    made = [_inspection(dice, places) for _ in range(5600)]
    made.sort(key=lambda each: each[1][0])
    rows, number = [], 1400000
    for where, found in made:
        number += dice.whole(1, 40)
        rows.append((number, *where, *found))
    return rows


def _spot(dice: Dice) -> tuple[Any, ...]:
    town, state, codes, north, east = dice.skewed(TOWNS, 0.8)
    kind = ["St", "Ave", "Rd", "Sq"]
    street = f"{dice.whole(1, 999)} {dice.pick(STREETS)} {dice.weighted(kind, [7, 3, 1, 1])}"
    code = dice.pick(codes)
    return street, town, state, code, round(north + dice.normal(0, 0.012), 6), round(east + dice.normal(0, 0.012), 6)


def _place(dice: Dice, number: int) -> Place:
    facility = dice.skewed(FACILITIES, 1.3)
    if facility == "Restaurant" and dice.chance(0.2):
        name = dice.skewed(CHAINS, 0.7) + (f" #{dice.whole(100, 9999)}" if dice.chance(0.3) else "")
    else:
        two = f"{dice.pick(ADJECTIVES)} {dice.pick(NOUNS)}"
        owner = f"{dice.pick(SURNAMES)}'s"
        kind = f"{dice.pick(NOUNS)} {dice.pick(['Cafe', 'Café', 'Grill', 'Pizza', 'Market'])}"
        name = dice.pick([two, owner, kind])
        name = name.upper() if dice.chance(0.3) else name
    risk = USUAL_RISK.get(facility, RISKS[2])
    if dice.chance(0.05):
        risk = dice.pick(RISKS)
    first = _spot(dice)
    if facility == "Mobile Food Cart":
        first = *first[:4], None, None
    second = _spot(dice) if dice.chance(0.02) else first
    since = dice.day(dt.date(2015, 6, 1), dt.date(2018, 6, 1))
    return Place(f"{number:07d}", name, facility, risk, first, second, since)


def _inspection(dice: Dice, places: list[Place]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Where, and what was found when."""
    place = dice.skewed(places, 0.4)
    first, last = dt.date(2015, 1, 2), dt.date(2018, 12, 28)
    day = dice.day(first, last)
    while day.weekday() > 4 and not dice.chance(0.02):
        day = dice.day(first, last)
    spot = place.first if day < place.since else place.second
    reasons = ["Canvass", "Licence", "Complaint", "Canvass Re-Inspection", "Suspected Food Poisoning", "Task Force"]
    reason = dice.weighted(reasons, [60, 14, 14, 10, 1.5, 0.2])
    results = ["Pass", "Pass w/ Conditions", "Fail", "Out of Business", "No Entry"]
    result = dice.weighted(results, [58, 15, 19, 5, 3])
    code = None
    if result in ("Fail", "Pass w/ Conditions") or (result == "Pass" and dice.chance(0.3)):
        code = dice.skewed(list(CODES), 0.6)
    text = None if code is None else CODES[code]
    return (place.licence, place.name, place.facility, place.risk, *spot), (day, reason, result, code, text)


def _kinds(errors: Planting) -> Kinds:
    return [
        (2, errors.cell("license_no", no_leading_zeros)),
        (1, errors.cell("license_no", digit_slip)),
        (2, errors.cell("zip", no_leading_zeros)),
        (1, errors.cell("zip", digit_slip)),
        (1, errors.other("zip")),
        (2, errors.cell("name", typo)),
        (1, errors.cell("name", mojibake)),
        (1, errors.cell("name", spaces)),
        (2, errors.cell("city", letter_to_x)),
        (1.5, errors.cell("city", recase)),
        (1, errors.other("city")),
        (1.5, errors.cell("state", mapped(STATE_VARIANTS))),
        (1, errors.cell("address", lambda dice, value: value.replace(" St", " Street").replace(" Ave", " Avenue"))),
        (1, errors.cell("address", truncate)),
        (1, errors.cell("latitude", times(-1, 10, 0.1))),
        (1, errors.swap("latitude", "longitude")),
        (1, errors.cell("latitude", fixed(0.0))),
        (1.5, errors.cell("inspection_date", years_off(-20, -10, 10, 20))),
        (1.5, errors.cell("inspection_date", day_month_swapped)),
        (1, errors.cell("facility_type", typo)),
        (1, errors.cell("facility_type", word_for_nothing)),
        (1, errors.other("risk")),
        (1, errors.cell("risk", mapped(RISK_VARIANTS))),
        (1, errors.cell("result", mapped(RESULT_VARIANTS))),
        (1, errors.other("result")),
        (2, errors.cell("violation_text", letter_to_x)),
        (1, errors.cell("violation_text", truncate)),
        (1, errors.cell("violation_code", letter_to_x)),
        (1, errors.cell("violation_code", fixed(*CODES))),
        (1, errors.blank("violation_text")),
        (0.5, errors.blank("city")),
        (0.5, errors.shift(["address", "city", "state", "zip"])),
    ]
