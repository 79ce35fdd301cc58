"""The shop written into a directory, and the walk through the commands on it."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdstrue.demo.draw import Draws
from holdstrue.demo.shop import RULES, SEED, Row, Shop, clean_shop, spoilt
from holdstrue.demo.week import Day, week
from holdstrue.errors import HoldstrueError

TABLES = ("orders", "customers", "products")
"""The tables, the one that the rule file speaks of first."""


@dataclass(frozen=True)
class WalkStep:
    """Some words and the arguments of the command that they are about, which runs in the shop's directory."""

    words: str
    command: tuple[str, ...]


def make_shop(directory: Path) -> tuple[Shop, list[Day]]:
    """Write tables, rules and changes into a directory, which must be new or empty; the same every time."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise HoldstrueError(
            f"{str(directory)!r} exists and is not an empty directory",
            hint="name another one: holdstrue demo DIR",
        )
    draw = Draws(SEED)
    clean = clean_shop(draw)
    days = week(clean, draw)
    shop = spoilt(clean)
    changes = directory / "changes"
    changes.mkdir(parents=True)
    (directory / "rules.yaml").write_text(RULES, encoding="utf-8")
    for table in TABLES:
        _write(directory / f"{table}.csv", getattr(shop, table))
    for day in days:
        for table, rows in day.changes.items():
            _write(changes / f"{day.name}-{table}.csv", rows)
    return shop, days


def steps(days: Sequence[Day]) -> Iterator[WalkStep]:
    """The commands of the walk, in order."""
    tables = ("--table", "customers=customers.csv", "--table", "products=products.csv")
    yield WalkStep(
        "What is wrong in the tables? Every violation is counted, some are shown.",
        ("check", "orders.csv", "--rules", "rules.yaml", *tables, "--limit", "1"),
    )
    yield WalkStep(
        "Keep watch: a state knows the rows, so that from now on only changes are looked at.",
        ("init", "state", "--rules", "rules.yaml", "--data", "orders.csv", *tables),
    )
    for day in days:
        further = [
            word
            for table in TABLES[1:]
            if table in day.changes
            for word in ("--table", f"{table}=changes/{day.name}-{table}.csv")
        ]
        yield WalkStep(
            f"{day.name.capitalize()}. {day.story}",
            ("apply", "state", f"changes/{day.name}-orders.csv", *further, "--batch-id", day.name, "--limit", "2"),
        )
        if day.name == "friday":
            yield WalkStep(
                "Hundreds of pairs, and yet few rows to blame: those in most violations.",
                ("violations", "state", "--worst", "3"),
            )
    yield WalkStep("What is left at the end of the week?", ("status", "state"))
    yield WalkStep(
        "Some of it is known and stays for a while: accepted violations are counted and fail nothing.",
        ("accept", "state", "--rule", "a zip code lies in one town", "--reason", "the post office was asked"),
    )
    yield WalkStep(
        "What is left to do?",
        ("violations", "state", "--accepted", "accepted.yaml", "--limit", "1"),
    )
    yield WalkStep(
        "No rules yet? They can be found. Nearly true ones come with the rows that break them: likely errors.",
        ("discover", "customers.csv", "--key", "id", "--kind", "fd,key", "--type", "zip=text"),
    )
    yield WalkStep(
        "Which cells are probably wrong, and what should they be? No rule was given for this.",
        ("suspects", "customers.csv", "--key", "id", "--type", "zip=text"),
    )
    yield WalkStep(
        "What refers to what, found from the values alone.",
        ("discover", "--kind", "ind", *(f"{table}={table}.csv" for table in TABLES), "--top", "5"),
    )
    yield WalkStep(
        "All of it on one page, to open in a browser.",
        ("report", "state", "--suspects", "--title", "The shop", "-o", "report.html"),
    )


def _write(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.DictWriter(file, tuple(rows[0]), lineterminator="\n")
        lines.writeheader()
        lines.writerows(rows)
