"""Tables with known errors, made from a seed: misspellings, swaps, moved rows, formats, missing values, bad sources."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from lookalikes import ENDS, PEOPLE, PLACES, distinct, letters

Row = dict[str, Any]


class Dirty(NamedTuple):
    """The true table, the same with errors, and the cells (row, column) that have one."""

    true: pa.Table
    dirty: pa.Table
    wrong: frozenset[tuple[int, str]]


def misspelt(rng: Random, text: str) -> str:
    """The text with a letter changed, left out, doubled or put in another place."""
    at = rng.randrange(len(text))
    kind = rng.randrange(4)
    if kind == 0:
        return text[:at] + rng.choice("qxzjkw") + text[at + 1 :]
    if kind == 1 and len(text) > 2:
        return text[:at] + text[at + 1 :]
    if kind == 2:
        return text[:at] + text[at] + text[at:]
    return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]


def soiled(rows: list[Row], spoil: dict[str, Callable[[Any], Any]], errors: int, rng: Random) -> Dirty:
    """So many cells of the columns changed, each by its function; one that stays as it is counts for none."""
    dirty = [dict(row) for row in rows]
    wrong = set()
    for _ in range(errors):
        at, column = rng.randrange(len(rows)), rng.choice(list(spoil))
        if (at, column) not in wrong:
            dirty[at][column] = spoil[column](rows[at][column])
            if dirty[at][column] != rows[at][column]:
                wrong.add((at, column))
    schema = pa.Table.from_pylist(rows).schema
    return Dirty(pa.Table.from_pylist(rows, schema), pa.Table.from_pylist(dirty, schema), frozenset(wrong))


def orders(rows: int = 1500, errors: int = 120, seed: int = 11) -> Dirty:
    """Orders of customers that live in towns, of products with a price: FDs by customer, zip and product.

    Errors: misspelt names and towns, codes of others, missing values.
    """
    rng = Random(seed)
    towns = distinct(lambda: rng.choice(PLACES) + rng.choice(ENDS), 40)
    regions = ["north", "south", "east", "west"]
    zips = distinct(lambda: f"{rng.randrange(10000, 99999)}", 60)
    of_zip = {code: rng.choice(towns) for code in zips}
    of_town = {town: rng.choice(regions) for town in towns}
    customers = [
        {"customer": f"C{number:04}", "name": f"{rng.choice(PEOPLE)} {rng.choice(PLACES)} {letters(rng, 1)}",
         "zip": code, "town": of_zip[code], "region": of_town[of_zip[code]]}
        for number, code in enumerate(rng.choices(zips, k=120))
    ]  # fmt: skip
    products = [
        {"product": f"P{number:03}", "category": rng.choice(["tools", "garden", "kitchen", "books"]),
         "price": rng.randrange(100, 9000) / 100}
        for number in range(50)
    ]  # fmt: skip
    made = [
        {"order": number, **rng.choice(customers), **rng.choice(products), "amount": rng.randrange(1, 9)}
        for number in range(rows)
    ]
    costs = sorted({row["price"] for row in made})
    spoil: dict[str, Callable[[Any], Any]] = {
        "name": lambda name: misspelt(rng, name),
        "town": lambda town: misspelt(rng, town) if rng.random() < 0.6 else rng.choice(towns),
        "region": lambda region: rng.choice(regions) if rng.random() < 0.5 else None,
        "zip": lambda code: rng.choice(zips) if rng.random() < 0.5 else misspelt(rng, code),
        "category": lambda category: misspelt(rng, category),
        "price": lambda price: rng.choice(costs) if rng.random() < 0.5 else price * 10,
        "customer": lambda customer: f"C{rng.randrange(120):04}",
    }
    return soiled(made, spoil, errors, rng)


def forms(rows: int = 800, errors: int = 60, seed: int = 12) -> Dirty:
    """Columns that nothing determines but their form: days, phones, shares, sizes, countries. Errors of format."""
    rng = Random(seed)
    countries = ["Germany", "France", "Portugal", "Sweden", "Hungary"]
    made = [
        {"id": number, "day": f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
         "phone": f"0{rng.randrange(100, 999)}-{rng.randrange(1000000, 9999999)}",
         "share": f"{rng.randrange(0, 100)}.{rng.randrange(10)}%", "size": f"{rng.randrange(1, 60)} cm",
         "country": rng.choice(countries), "weight": round(rng.uniform(1, 90), 2),
         "note": f"{rng.choice(PEOPLE)} {rng.choice(PLACES)}{rng.choice(ENDS)} {letters(rng, 3)}"}
        for number in range(rows)
    ]  # fmt: skip
    spoil: dict[str, Callable[[Any], Any]] = {
        "day": lambda day: rng.choice([f"{day[8:]}/{day[5:7]}/{day[:4]}", day.replace("-", ""), f"{day[2:]}."]),
        "phone": lambda phone: rng.choice([phone.replace("-", " "), phone.replace("0", "O", 1), f"+49 {phone}"]),
        "share": lambda share: rng.choice([share[:-1], share.replace(".", ","), f"x{share[1:]}"]),
        "size": lambda size: rng.choice([size.replace(" cm", "cm"), size.replace("cm", "xm"), size.replace(" ", "  ")]),
        "country": lambda country: rng.choice([misspelt(rng, country), f"{country} ", f"{country}&nbsp;"]),
        "weight": lambda weight: weight * 100000,
    }
    return soiled(made, spoil, errors, rng)


def prices(things: int = 120, seed: int = 13) -> Dirty:
    """What shops say a thing costs and weighs: some are right nearly always, some rarely, some copy a bad one."""
    rng = Random(seed)
    right = {"alpha": 0.97, "beta": 0.95, "gamma": 0.9, "delta": 0.85, "epsilon": 0.6, "zeta": 0.4, "eta": 0.35}
    copies = {"theta": "zeta", "iota": "zeta", "kappa": "eta", "lambda": "zeta"}
    truth: list[Row] = [
        {"thing": f"{letters(rng, 3)}-{number}", "price": f"{rng.randrange(5, 500)}.{rng.randrange(10, 99)}",
         "weight": f"{rng.randrange(100, 9999)} g", "maker": rng.choice(PEOPLE)}
        for number in range(things)
    ]  # fmt: skip
    true: list[Row] = []
    dirty: list[Row] = []
    wrong: set[tuple[int, str]] = set()
    for thing in truth:
        told: dict[str, Row] = {}
        for shop, accuracy in right.items():
            said = dict(thing)
            if rng.random() > accuracy:
                said["price"] = f"{rng.randrange(5, 500)}.{rng.randrange(10, 99)}"
            if rng.random() > accuracy:
                said["weight"] = rng.choice([None, f"{rng.randrange(100, 9999)} g"])
            told[shop] = said
        told |= {shop: dict(told[of]) for shop, of in copies.items()}
        for shop, said in told.items():
            if rng.random() < 0.9:
                wrong |= {(len(dirty), column) for column in thing if said[column] != thing[column]}
                true.append({"shop": shop, **thing})
                dirty.append({"shop": shop, **said})
    schema = pa.Table.from_pylist(true).schema
    return Dirty(pa.Table.from_pylist(true, schema), pa.Table.from_pylist(dirty, schema), frozenset(wrong))


def people(rows: int = 1200, seed: int = 14) -> pa.Table:
    """A clean table with what looks like errors: rare names near others, exceptions, gaps, long tails."""
    rng = Random(seed)
    made = []
    for number in range(rows):
        town = rng.choice(PLACES) + rng.choice(ENDS)
        made.append(
            {"id": number, "name": f"{rng.choice(PEOPLE)}{rng.choice(['', 's', 'son', 'er', 'n'])}", "town": town,
             "middle": rng.choice([None, None, letters(rng, 1)]), "age": min(99, int(rng.expovariate(1 / 35)) + 18),
             "income": round(20000 * rng.paretovariate(1.3)), "married": rng.random() < 0.6,
             "spouse": None if rng.random() < 0.4 else rng.choice(PEOPLE), "score": round(rng.gauss(0, 1), 3),
             "grade": rng.choices("ABCDEF", weights=[300, 300, 200, 100, 20, 2])[0]}
        )  # fmt: skip
    return pa.Table.from_pylist(made)
