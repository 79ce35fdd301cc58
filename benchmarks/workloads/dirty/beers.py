"""Beers and their breweries; numbers kept as text, as in the public table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from workloads.dirty.dice import Dice
from workloads.dirty.kinds import ended, mojibake, negative, recase, replaced, times, truncate, typo
from workloads.dirty.planting import Kinds, Planted, Planting
from workloads.dirty.words import ADJECTIVES, NOUNS, SURNAMES, US_CITIES

SCHEMA = pa.schema(
    [
        ("index", pa.int64()),
        ("beer_id", pa.int64()),
        ("beer_name", pa.string()),
        ("style", pa.string()),
        ("ounces", pa.string()),
        ("abv", pa.string()),
        ("ibu", pa.int64()),
        ("brewery_id", pa.int64()),
        ("brewery_name", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
    ]
)
STYLES: dict[str, tuple[float, int | None]] = {
    "American IPA": (0.065, 70),
    "American Pale Ale (APA)": (0.054, 40),
    "American Amber / Red Ale": (0.056, 35),
    "American Blonde Ale": (0.049, 21),
    "American Double / Imperial IPA": (0.086, 95),
    "American Pale Wheat Ale": (0.048, 22),
    "American Brown Ale": (0.058, 30),
    "American Porter": (0.06, 33),
    "Saison / Farmhouse Ale": (0.061, 27),
    "Witbier": (0.051, 16),
    "Fruit / Vegetable Beer": (0.05, 14),
    "Kölsch": (0.048, 22),
    "Hefeweizen": (0.051, 16),
    "American Stout": (0.062, 45),
    "American Pilsner": (0.048, 25),
    "Cider": (0.06, None),
    "American Black Ale": (0.07, 68),
    "Märzen / Oktoberfest": (0.056, 22),
    "Oatmeal Stout": (0.057, 34),
    "Scottish Ale": (0.056, 24),
    "Cream Ale": (0.05, 19),
    "English Brown Ale": (0.055, 26),
    "Vienna Lager": (0.05, 23),
    "Tripel": (0.087, 24),
    "Dubbel": (0.074, 23),
    "Altbier": (0.053, 34),
    "Gose": (0.045, 10),
    "Russian Imperial Stout": (0.106, 85),
    "American Barleywine": (0.108, 96),
    "Radler": (0.04, 10),
    "Rauchbier": (0.056, 26),
    "Braggot": (0.088, None),
    "Low Alcohol Beer": (0.007, 5),
    "Grisette": (0.043, 20),
}

"""Styles, with their usual alcohol and bitterness."""

Brewery = tuple[int, str, str, str]


def beers(seed: int) -> Planted:
    """Beers and their breweries; numbers kept as text, as in the public table.

    Honest oddities: cities and breweries of the same name in different states, beers of the
    same name in different breweries, many missing bitterness values, rare can sizes and
    styles, a few very strong beers, alcohol text with one to three decimals.
    """
    dice = Dice(seed, 101)
    errors = Planting(dice, SCHEMA, _rows(dice))
    return errors.plant(dice.real(0.07, 0.11), _kinds(errors))


def _rows(dice: Dice) -> list[tuple[Any, ...]]:
    breweries = _breweries(dice)
    made = [_beer(dice, breweries) for _ in range(2400)]
    made.sort(key=lambda each: each[0][0])
    numbers = dice.some(range(1, 2700), len(made))
    return [
        (at, number, *beer, *brewery) for at, (number, (brewery, beer)) in enumerate(zip(numbers, made, strict=True))
    ]


def _breweries(dice: Dice) -> list[Brewery]:
    ends = ["Brewing Company", "Brewery", "Brewing Co.", "Beer Company", "Brewing", "Brauhaus"]
    breweries: list[Brewery] = []
    for number in range(420):
        end = dice.weighted(ends, [45, 20, 12, 8, 10, 2])
        first = f"{dice.pick(ADJECTIVES)} {dice.pick(NOUNS)}" if dice.chance(0.6) else dice.pick(NOUNS + SURNAMES)
        breweries.append((number, f"{first} {end}", *dice.skewed(US_CITIES, 0.5)))
    for number in range(420, 426):  # honest: one brewery with a second site under another number
        breweries.append((number, breweries[dice.whole(0, 400)][1], *dice.pick(US_CITIES)))
    return breweries


def _beer(dice: Dice, breweries: list[Brewery]) -> tuple[Brewery, tuple[str, str, str, str | None, int | None]]:
    brewery = dice.skewed(breweries, 0.45)
    style = dice.skewed(list(STYLES), 0.8)
    usual, bitter = STYLES[style]
    alcohol = max(0.001, round(dice.normal(usual, 0.006), dice.pick([3, 3, 2, 3])))
    ibu = None if bitter is None or dice.chance(0.4) else max(4, int(dice.normal(bitter, bitter * 0.18)))
    name = f"{dice.pick(ADJECTIVES)} {dice.pick(NOUNS)}{dice.pick(['', '', ' IPA', ' Ale', ' Stout'])}"
    if dice.chance(0.06):
        name = dice.pick(["Oktoberfest", "Pale Ale", "Pumpkin Ale", "Saison", "Dunkel"])
    if dice.chance(0.05):
        name += dice.pick([" (2013)", " (2014)", " (Current)", " #9"])
    ounces = dice.weighted(["12.0", "16.0", "24.0", "19.2", "32.0", "8.4", "16.9"], [1500, 820, 25, 15, 6, 4, 2])
    return brewery, (name, style, ounces, None if dice.chance(0.02) else f"{alcohol:g}", ibu)


def _state_into_city(errors: Planting, row: int) -> int:
    if errors.touched(row, "city", "state"):
        return 0
    errors.put(row, "city", f"{errors.true['city'][row]} {errors.true['state'][row]}")
    errors.put(row, "state", None)
    return 1


def _kinds(errors: Planting) -> Kinds:
    return [
        (4, errors.cell("ounces", ended(" oz", " oz.", " ounce", " OZ.", " oz. Alumi-Tek"))),
        (3, errors.cell("abv", ended("%"))),
        (2, errors.cell("abv", lambda dice, value: f"{float(value) * dice.pick([10, 100]):g}")),
        (1, errors.cell("abv", replaced(".", ","))),
        (2, lambda row: _state_into_city(errors, row)),
        (2, errors.cell("style", typo)),
        (1, errors.cell("style", recase)),
        (1, errors.cell("style", mojibake)),
        (1.5, errors.other("style")),
        (1.5, errors.cell("brewery_name", typo)),
        (1, errors.cell("brewery_name", replaced("Brewing Company", "Brewing Co"))),
        (1, errors.cell("city", typo)),
        (1, errors.other("state")),
        (1, errors.cell("ibu", times(10))),
        (0.5, errors.cell("ibu", negative)),
        (1, errors.cell("beer_name", truncate)),
        (0.5, errors.other("brewery_id")),
        (0.5, errors.blank("style")),
    ]
