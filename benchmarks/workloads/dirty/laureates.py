"""Prize winners with lives, places and prizes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from workloads.dirty.dice import Dice
from workloads.dirty.kinds import (
    day_month_swapped,
    days_off,
    digits_turned,
    fixed,
    lost_accents,
    mapped,
    mojibake,
    plus,
    truncate,
    typo,
    with_year,
    years_off,
)
from workloads.dirty.planting import Kinds, Planted, Planting
from workloads.dirty.words import SURNAMES, person

SCHEMA = pa.schema(
    [
        ("laureate_id", pa.int64()),
        ("first_name", pa.string()),
        ("surname", pa.string()),
        ("born", pa.date32()),
        ("died", pa.date32()),
        ("born_country", pa.string()),
        ("born_country_code", pa.string()),
        ("born_city", pa.string()),
        ("died_country", pa.string()),
        ("died_country_code", pa.string()),
        ("gender", pa.string()),
        ("year", pa.int64()),
        ("category", pa.string()),
        ("share", pa.int64()),
        ("motivation", pa.string()),
        ("affiliation", pa.string()),
    ]
)
BORN_COUNTRY_VARIANTS = {
    "USA": ["United States", "U.S.A."],
    "United Kingdom": ["England", "UK"],
    "Germany": ["Deutschland", "FRG"],
}
GENDER_VARIANTS = {"male": ["M", "Male", "mael", "female"], "female": ["F", "femal", "male"]}
CATEGORY_VARIANTS = {
    "physics": ["physic", "Physics", "phsyics"],
    "chemistry": ["chem", "chemisty"],
    "medicine": ["physiology", "Medicine "],
    "economics": ["economy"],
    "peace": ["Peace"],
}
AFFILIATION_VARIANTS = {
    "MIT": ["Massachusetts Institute of Technology"],
    "Harvard University": ["Harvard", "Harvard Univ."],
    "University of Cambridge": ["Cambridge University"],
}
COUNTRIES = {
    "USA": ("US", ["New York, NY", "Chicago, IL", "Boston, MA", "Philadelphia, PA", "Gary, IN"]),
    "United Kingdom": ("GB", ["London", "Cambridge", "Manchester", "Leeds", "Glasgow"]),
    "Germany": ("DE", ["Berlin", "Munich", "Göttingen", "Frankfurt am Main", "Tübingen"]),
    "France": ("FR", ["Paris", "Lyon", "Orléans", "Besançon"]),
    "Sweden": ("SE", ["Stockholm", "Uppsala", "Malmö", "Göteborg"]),
    "Japan": ("JP", ["Tokyo", "Kyoto", "Nagoya"]),
    "Russia": ("RU", ["Moscow", "Saint Petersburg"]),
    "Switzerland": ("CH", ["Zurich", "Geneva", "Basel"]),
    "Netherlands": ("NL", ["Amsterdam", "Leiden", "The Hague"]),
    "Italy": ("IT", ["Rome", "Turin", "Bologna"]),
    "Poland": ("PL", ["Warsaw", "Kraków", "Łódź"]),
    "Austria-Hungary (now Austria)": ("AT", ["Vienna", "Graz"]),
    "Austria": ("AT", ["Vienna"]),
    "Prussia (now Poland)": ("PL", ["Wrocław", "Gdańsk"]),
    "Canada": ("CA", ["Toronto", "Montréal"]),
    "Denmark": ("DK", ["Copenhagen"]),
    "India": ("IN", ["Calcutta", "Bombay"]),
    "China": ("CN", ["Shanghai", "Ningbo"]),
    "Iceland": ("IS", ["Reykjavik"]),
    "Faroe Islands (Denmark)": ("FO", ["Tórshavn"]),
    "Saint Lucia": ("LC", ["Castries"]),
    "Kenya": ("KE", ["Nyeri"]),
    "Guatemala": ("GT", ["Chimel"]),
}

UNIVERSITIES = [
    "Harvard University", "University of Cambridge", "Stanford University", "MIT", "Göttingen University",
    "Sorbonne University", "Karolinska Institutet", "ETH Zürich", "University of Oxford", "Kyoto University",
    "Leiden University", "Bell Laboratories", "Rockefeller University",
]  # fmt: skip
DEEDS = [
    "discovery",
    "contributions to the theory",
    "studies of the structure",
    "development of methods for the analysis",
    "pioneering work on the nature",
]
SUBJECTS = [
    "nuclear magnetism",
    "the chemical bond",
    "immunity",
    "cell division",
    "asset prices",
    "elementary particles",
    "enzymes",
    "superconductivity",
    "the nervous system",
    "catalysis",
]


def laureates(seed: int) -> Planted:
    """Prize winners with lives, places and prizes.

    Honest oddities: the living have no death columns, organisations have no birth, gender or
    family name, people born in countries with other names then, shared and repeated winners,
    a very young and a very old winner, many one-off cities, names with accents and particles,
    a category that began in 1969.
    """
    dice = Dice(seed, 105)
    errors = Planting(dice, SCHEMA, _rows(dice))
    return errors.plant(dice.real(0.07, 0.11), _kinds(errors))


def _rows(dice: Dice) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    texts: dict[tuple[int, str], str] = {}
    number, before = 0, None
    while len(rows) < 960:
        number += 1
        year, category, share, text = _prize(dice, texts)
        if category == "peace" and dice.chance(0.22):
            rows.append((number, _organisation(dice), *[None] * 8, "org", year, category, share, text, None))
            continue
        gender, first, surname = person(dice)
        if before and dice.chance(0.02):
            surname = before  # honest: parents and children, husbands and wives
        before = surname
        if dice.chance(0.3):
            first += f" {dice.pick('ABCDEFGHJKLMRSTW')}."
        life = _life(dice, year)
        place = None if category in ("literature", "peace") else dice.skewed(UNIVERSITIES, 0.6)
        who = number, first, surname, *life, "female" if gender == "F" else "male"
        rows.append((*who, year, category, share, text, place))
        if dice.chance(0.004):  # honest: the same person wins again, with the same life
            died, again = life[1], min(2019, year + dice.whole(1, 8))
            if died is None or again <= died.year:
                rows.append((*who, again, category, share, text, place))
    return rows[:960]


def _prize(dice: Dice, texts: dict[tuple[int, str], str]) -> tuple[int, str, int, str]:
    """Year, category, share and what for; of a science one text a year, kept in `texts`."""
    year = min(2019, 1901 + int(118 * dice.real() ** 0.75))
    categories = ["physics", "chemistry", "medicine", "literature", "peace"]
    if year >= 1969:
        categories.append("economics")
    category = dice.weighted(categories, [3, 3, 3, 1.4, 1.6, 2][: len(categories)])
    if category in ("literature", "peace"):
        of = dice.pick(["her", "his", "their"]), dice.pick(["art", "efforts", "courage", "style"])
        text = f"for {' '.join(of)} in {dice.pick(SUBJECTS)}"
    else:
        text = texts.setdefault((year, category), f"for the {dice.pick(DEEDS)} of {dice.pick(SUBJECTS)}")
    return year, category, 1 if category == "literature" else dice.weighted([1, 2, 3, 4], [4, 3, 3, 2]), text


def _organisation(dice: Dice) -> str:
    kind = dice.pick(["Committee", "International Bureau", "League", "Campaign", "Office"])
    return f"{kind} for {dice.pick(['Peace', 'Refugees', 'Disarmament', 'Human Rights', 'the Red Cross'])}"


def _life(dice: Dice, year: int) -> tuple[dt.date, dt.date | None, str, str, str, str | None, str | None]:
    """Born and died when, born where (country, code, city), and died where, of somebody with a prize in that year."""
    age = min(97, max(17, int(dice.normal(59, 12))))
    born = dice.day(dt.date(year - age, 1, 1), dt.date(year - age, 12, 28))
    country = dice.skewed(list(COUNTRIES), 1.0)
    code, cities = COUNTRIES[country]
    city = dice.pick(cities)
    if dice.chance(0.2):
        city = dice.pick(SURNAMES) + dice.pick(["ville", "burg", "stad", " Creek", "-les-Bains"])
    end = born.year + int(dice.normal(82, 9))
    if end >= 2020:
        return born, None, country, code, city, None, None
    died = dice.day(dt.date(max(year, end), 1, 1), dt.date(max(year, end), 12, 28))
    if died < dt.date(year, 12, 10):
        died = died.replace(year=year + 1)
    died_in = country if dice.chance(0.45) else dice.skewed(list(COUNTRIES), 1.0)
    return born, died, country, code, city, died_in, COUNTRIES[died_in][0]


def _kinds(errors: Planting) -> Kinds:
    dice, true = errors.dice, errors.true
    return [
        (1.5, errors.cell("born", years_off(-100, 100))),
        (1, errors.cell("born", day_month_swapped)),
        (1, errors.cell("born", days_off(1, 20))),
        (1, errors.rowwise("born", lambda row: true["died"][row])),
        (
            1,
            errors.rowwise(
                "died", lambda row: with_year(true["died"][row], true["born"][row].year - dice.whole(1, 30))
            ),
        ),
        (1, errors.blank("died")),
        (1, errors.cell("died", years_off(-100, 100))),
        (2, errors.cell("born_country", typo)),
        (1.5, errors.cell("born_country", mapped(BORN_COUNTRY_VARIANTS))),
        (1.5, errors.other("born_country_code")),
        (1, errors.cell("born_country_code", lambda dice, value: value.lower())),
        (1, errors.other("died_country")),
        (1, errors.blank("died_country_code")),
        (1.5, errors.cell("born_city", mojibake)),
        (1, errors.cell("born_city", lost_accents)),
        (1, errors.other("born_city")),
        (1.5, errors.cell("gender", mapped(GENDER_VARIANTS))),
        (1.5, errors.cell("year", digits_turned)),
        (1, errors.cell("year", plus(-100, 100, 1000))),
        (1.5, errors.cell("category", mapped(CATEGORY_VARIANTS))),
        (1, errors.other("category")),
        (1, errors.cell("share", fixed(0, 5, 12, -1))),
        (1, errors.swap("first_name", "surname")),
        (1, errors.cell("surname", mojibake)),
        (1, errors.cell("surname", typo)),
        (1, errors.cell("motivation", truncate)),
        (1.5, errors.cell("affiliation", typo)),
        (1, errors.cell("affiliation", mapped(AFFILIATION_VARIANTS))),
    ]
