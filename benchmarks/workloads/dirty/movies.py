"""Films with dates, money, ratings and a link that repeats the key."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa

from workloads.dirty.dice import Dice
from workloads.dirty.kinds import (
    day_month_swapped,
    digits_turned,
    fixed,
    letter_for_digit,
    mapped,
    mojibake,
    negative,
    times,
    truncate,
    years_off,
    zeros_lost_after,
)
from workloads.dirty.planting import Kinds, Planted, Planting
from workloads.dirty.words import ADJECTIVES, NOUNS, person

SCHEMA = pa.schema(
    [
        ("film_id", pa.string()),
        ("title", pa.string()),
        ("year", pa.int64()),
        ("release_date", pa.date32()),
        ("director", pa.string()),
        ("minutes", pa.int64()),
        ("genre", pa.string()),
        ("country", pa.string()),
        ("language", pa.string()),
        ("certificate", pa.string()),
        ("rating", pa.float64()),
        ("votes", pa.int64()),
        ("reviews", pa.int64()),
        ("budget", pa.int64()),
        ("gross", pa.int64()),
        ("url", pa.string()),
    ]
)
GENRE_VARIANTS = {
    "Science Fiction": ["Sci-Fi", "SciFi"],
    "Documentary": ["Docu", "Documentry"],
    "Drama": ["drama", "Darma"],
    "Comedy": ["Comdy", "COMEDY"],
    "Romance": ["Romantic"],
    "Action": ["Acton", "action "],
}
COUNTRY_VARIANTS = {"USA": ["US", "U.S.A.", "United States"], "UK": ["United Kingdom", "GB"], "South Korea": ["Korea"]}
SPEECH = {
    "USA": "English",
    "UK": "English",
    "France": "French",
    "India": "Hindi",
    "Germany": "German",
    "Japan": "Japanese",
    "Canada": "English",
    "Italy": "Italian",
    "Spain": "Spanish",
    "South Korea": "Korean",
    "Sweden": "Swedish",
    "Denmark": "Danish",
    "Brazil": "Portuguese",
    "Iran": "Persian",
    "Iceland": "Icelandic",
    "Senegal": "Wolof",
}
GENRES = [
    "Drama",
    "Comedy",
    "Action",
    "Thriller",
    "Horror",
    "Documentary",
    "Romance",
    "Animation",
    "Science Fiction",
    "Western",
    "Musical",
    "Film-Noir",
]


def movies(seed: int) -> Planted:
    """Films with dates, money, ratings and a link that repeats the key.

    Honest oddities: heavy-tailed votes and takings, sequels and remakes with nearly or exactly
    the same title, releases in the year after, many unknown budgets (never for old films),
    very long and very short films, rare countries and certificates, prolific directors.
    """
    dice = Dice(seed, 103)
    errors = Planting(dice, SCHEMA, _rows(dice))
    return errors.plant(dice.real(0.05, 0.09), _kinds(errors))


def _rows(dice: Dice) -> list[tuple[Any, ...]]:
    directors = [" ".join(person(dice)[1:]) for _ in range(1300)]
    keys = sorted(dice.some(range(10000, 4000000), 4800))
    titles: list[str] = []
    return [_film(dice, key, titles, directors) for key in keys]


def _film(dice: Dice, key: int, titles: list[str], directors: list[str]) -> tuple[Any, ...]:
    age = (key - 10000) / 3990000
    year = min(2019, max(1925, int(1935 + 84 * age**0.55 + dice.normal(0, 1.5))))
    titles.append(_title(dice, titles))
    country = dice.skewed(list(SPEECH), 1.2)
    language = SPEECH[country]
    if country == "Canada" and dice.chance(0.25):
        language = "French"
    elif dice.chance(0.03):
        language = dice.pick(list(SPEECH.values()))
    genre = dice.skewed(GENRES, 0.8)
    shown = year + (1 if dice.chance(0.06) else 0)
    release = dice.day(dt.date(shown, 1, 1), dt.date(shown, 12, 31))
    minutes = int(dice.normal(85 if genre in ("Animation", "Documentary") else 106, 14))
    if dice.chance(0.01):
        minutes = dice.pick([21, 34, 46, 212, 238, 317])
    votes = int(dice.lognormal(7.5, 2.0)) + 5
    rating = round(min(9.4, max(1.3, dice.normal(6.3, 1.0))), 1)
    reviews = max(1, int(votes / dice.real(150, 320))) if votes > 150 else None
    money = _money(dice, year)
    certificate = _certificate(dice, year)
    director = dice.skewed(directors, 0.35)
    code = f"tt{key:07d}"
    what = code, titles[-1], year, release, director, minutes, genre, country, language, certificate
    return *what, rating, votes, reviews, *money, f"http://films.example.org/title/{code}/"


def _title(dice: Dice, before: list[str]) -> str:
    title = f"{'The ' if dice.chance(0.4) else ''}{dice.pick(ADJECTIVES)} {dice.pick(NOUNS)}"
    if dice.chance(0.25):
        title += dice.pick([" of ", " and the ", " in the "]) + dice.pick(NOUNS)
    if before and dice.chance(0.06):
        title = dice.pick(before) + dice.pick(["", " 2", " II", " III", ": The Beginning", " Returns"])
    if dice.chance(0.02):
        title = dice.pick(["Amélie", "Léon", "Das Boot", "Ånden", "À bout de souffle", "Señora"])
    return title


def _money(dice: Dice, year: int) -> tuple[int | None, int | None]:
    """What a film cost and took in, where it is known."""
    if year <= 1950 or not dice.chance(0.5):
        return None, None
    budget = int(round(dice.lognormal(15.8, 1.5), -5)) or 50000
    gross = int(dice.lognormal(math.log(budget) + 0.3, 1.1))
    return budget, None if gross and dice.chance(0.1) else gross


def _certificate(dice: Dice, year: int) -> str:
    certificate = dice.weighted(["R", "PG-13", "PG", "Not Rated", "G", "NC-17", "X"], [40, 24, 16, 14, 5, 0.6, 0.4])
    if year < 1968:
        certificate = dice.weighted(["Approved", "Passed", "Not Rated"], [6, 3, 2])
    return certificate


def _kinds(errors: Planting) -> Kinds:
    true = errors.true
    return [
        (1, errors.cell("film_id", zeros_lost_after("tt"))),
        (1, errors.cell("film_id", letter_for_digit)),
        (1, errors.cell("url", lambda dice, value: value.rstrip("/"))),
        (1, errors.other("url")),
        (2, errors.cell("year", digits_turned)),
        (1, errors.cell("year", lambda dice, value: value % 100)),
        (1, errors.cell("release_date", years_off(-100, 100))),
        (1, errors.cell("release_date", fixed(dt.date(1900, 1, 1), dt.date(1970, 1, 1)))),
        (2, errors.cell("release_date", day_month_swapped)),
        (2, errors.cell("minutes", lambda dice, value: round(value / 60))),
        (1, errors.cell("minutes", times(60, 10))),
        (2, errors.cell("rating", times(10))),
        (1, errors.cell("rating", fixed(0.0, -1.0, 99.9))),
        (1, errors.cell("votes", negative)),
        (1, errors.cell("votes", times(0.001))),
        (1, errors.cell("gross", times(0.000001), lambda row: true["gross"][row] > 2000000)),
        (1, errors.cell("budget", times(1000))),
        (2, errors.cell("genre", mapped(GENRE_VARIANTS))),
        (1, errors.other("genre")),
        (1.5, errors.cell("country", mapped(COUNTRY_VARIANTS))),
        (1, errors.swap("country", "language")),
        (1, errors.cell("language", fixed(*SPEECH.values()))),
        (1, errors.cell("certificate", fixed("PG13", "Rated R", "Unrated", "r"))),
        (1, errors.rowwise("director", lambda row: true["title"][row])),
        (1.5, errors.cell("director", mojibake)),
        (1, errors.cell("director", lambda dice, value: ", ".join(reversed(value.split(" ", 1))))),
        (1, errors.cell("title", truncate)),
        (1, errors.cell("title", mojibake)),
        (1, errors.blank("genre")),
        (1, errors.blank("reviews")),
    ]
