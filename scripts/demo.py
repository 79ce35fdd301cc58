"""A tax office in one minute: a table, four rules, a monitor, and a day of changes, through the command line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

ROWS = 100_000
RULES = """\
table: citizens
key: id
rules:
- name: one phone, one person
  rule: key(area_code, phone)
- name: a zip code lies in one city
  rule: zip -> city
- name: who earns more pays no lower rate
  rule: not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)
- name: salaries are not negative
  rule: not(t.salary < 0)
  severity: warn
"""
COLUMNS = ("id", "area_code", "phone", "state", "zip", "city", "salary", "rate")


def citizens(first: int, count: int, dice: np.random.Generator) -> dict[str, list[object]]:
    """Clean rows: the rate follows the salary, the city follows the zip code."""
    number = np.arange(first, first + count)
    state = dice.integers(0, 50, count)
    zip_code = state * 1000 + dice.integers(0, 400, count)
    salary = dice.integers(10, 2000, count) * 100
    return {
        "id": number.tolist(),
        "area_code": (200 + number % 700).tolist(),
        "phone": [f"{n // 10000:03d}-{n % 10000:04d}" for n in number.tolist()],
        "state": [f"S{s:02d}" for s in state.tolist()],
        "zip": [f"{z:05d}Z" for z in zip_code.tolist()],
        "city": [f"City {z % 9973}" for z in zip_code.tolist()],
        "salary": salary.tolist(),
        "rate": np.round(1 + salary // 20_000 * 0.5, 2).tolist(),
    }


def write(path: Path, rows: dict[str, list[object]]) -> None:
    """Rows as a CSV file."""
    pyarrow.csv.write_csv(pa.table(rows), path)


def changes(day: int, dice: np.random.Generator) -> dict[str, list[object]]:
    """Some new citizens, some who move or leave; on some days somebody types a wrong city or rate."""
    new = citizens(ROWS + day * 100, 100, dice)
    moved = citizens(day * 50, 20, dice)
    if day % 2:
        new["zip"][3] = new["zip"][4]
        new["rate"][7] = 0.5
    op = ["insert"] * 100 + ["update"] * 20 + ["delete"] * 5
    gone = citizens(50_000 + day * 10, 5, dice)
    return {"op": list(op)} | {name: new[name] + moved[name] + gone[name] for name in COLUMNS}


def run(*words: str) -> None:
    """Show a command and its output."""
    print(f"\n$ holdstrue {' '.join(words)}", flush=True)
    done = subprocess.run([str(Path(sys.executable).parent / "holdstrue"), *words], check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.returncode)


def main() -> None:
    """The whole day."""
    dice = np.random.default_rng(7)
    with tempfile.TemporaryDirectory(prefix="holdstrue-demo-") as folder:
        place = Path(folder)
        print(f"a table of {ROWS:,} citizens with a few typing errors")
        table = citizens(0, ROWS, dice)
        for wrong in dice.integers(0, ROWS, 3):
            table["city"][int(wrong)] = "Ciyt"
        table["salary"][17] = -100
        write(place / "citizens.csv", table)
        (place / "rules.yaml").write_text(RULES, encoding="utf-8")
        data, rules, state = str(place / "citizens.csv"), str(place / "rules.yaml"), str(place / "state")
        run("rules", rules)
        run("check", data, "--rules", rules)
        run("init", state, "--rules", rules, "--key", "id", "--data", data)
        for day in range(4):
            batch = place / f"day{day}.csv"
            write(batch, changes(day, dice))
            run("apply", state, str(batch), "--limit", "2")
        run("status", state, "--history")
        run("violations", state, "--limit", "5")


if __name__ == "__main__":
    main()
