"""A tax office in one minute, on Spark: a table, four rules, a monitor, and four days of changes streamed into it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import holdstrue.spark as hs
from holdstrue.report import render
from holdstrue.spark.sinks import console

ROWS = 100_000
FILE = "path string, modificationTime timestamp, length long, content binary"
RULES = """\
table: citizens
key: id
rules:
- name: one phone, one person
  rule: key(area_code, phone)
- name: a zip code lies in one city
  rule: zip -> city
- name: who earns more pays no lower rate
  rule: not(t.district = s.district and t.salary > s.salary and t.rate < s.rate)
- name: salaries are not negative
  rule: not(t.salary < 0)
  severity: warn
"""

Row = dict[str, object]


def citizens(first: int, count: int, dice: np.random.Generator) -> list[Row]:
    """Clean rows: the rate follows the salary, the city follows the zip code."""
    ranges = ((0, 2000), (0, 4), (1, 200))
    districts, zips, salaries = (dice.integers(low, high, count).tolist() for low, high in ranges)
    return [
        {
            "id": number,
            "area_code": 200 + number % 700,
            "phone": f"{number // 10_000:03d}-{number % 10_000:04d}",
            "district": f"D{district:04d}",
            "zip": f"{district * 4 + zip_code:05d}Z",
            "city": f"City {district}",
            "salary": salary * 1000,
            "rate": 10 + salary // 20,
        }
        for number, district, zip_code, salary in zip(
            range(first, first + count), districts, zips, salaries, strict=True
        )
    ]


def days(table: list[Row], dice: np.random.Generator) -> list[list[Row]]:
    """A file a day: each has new citizens and some who left; some bring errors, some mend them."""
    files: list[list[Row]] = []
    for day in range(4):
        new = [{"op": "insert", **row} for row in citizens(ROWS + day * 100, 100, dice)]
        gone = [{"op": "delete", "id": 50_000 + day * 10 + i} for i in range(5)]
        files.append(new + gone)
    # a city is misspelt and a rate is wrong on the first day
    files[0][3]["city"] = "Ctiy"
    files[0][7] |= {"salary": 199_000, "rate": 11}
    # two misspelt cities of the table are mended on the second
    files[1] += [{"op": "update", **table[number]} for number in WRONG_CITY[:2]]
    # on the third somebody gets a number that is taken
    files[2][0] |= {"area_code": table[0]["area_code"], "phone": table[0]["phone"]}
    # the errors of the first day are mended on the fourth
    files[3] += [
        {**files[0][3], "op": "update", "city": f"City {int(str(files[0][3]['district'])[1:])}"},
        {**files[0][7], "op": "update", "rate": 19},
    ]
    return files


WRONG_CITY = (4_711, 31_337, 77_777)


def shown(title: str, command: str) -> None:
    """Say what comes, and the command that does the same."""
    print(f"\n== {title}\n   ({command})", flush=True)


def main() -> None:
    """The whole day, on Spark in local mode."""
    dice = np.random.default_rng(7)
    place = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="holdstrue-demo-"))
    arriving, state = place / "arriving", place / "state"
    arriving.mkdir(parents=True)
    print(f"a table of {ROWS:,} citizens with a few typing errors, in {place}", flush=True)
    clean = citizens(0, ROWS, dice)
    table = [dict(row) for row in clean]
    for number in WRONG_CITY:
        table[number]["city"] = "Ctiy"
    table[17]["salary"] = -1000
    pyarrow.parquet.write_table(pa.Table.from_pylist(table), place / "citizens.parquet")
    rules = place / "rules.yaml"
    rules.write_text(RULES, encoding="utf-8")

    spark = hs.start("local[*]")
    data = spark.read.parquet(str(place / "citizens.parquet"))
    shown("check the table", "holdstrue check citizens.parquet --rules rules.yaml --engine spark")
    print(render(hs.check(data, rules, key="id"), limit=2), end="", flush=True)

    shown("start a monitor", "holdstrue init state --rules rules.yaml --key id --data citizens.parquet --engine spark")
    monitor = hs.Monitor(spark, state, rules, key="id", data=data)
    print(f"{sum(counts.open for counts in monitor.counts().values()):,} open", flush=True)

    shown("stream four days of change files", "holdstrue watch state arriving --once --engine spark")
    for day, rows in enumerate(days(clean, dice)):
        path = arriving / f"day{day}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        # files are taken by age, and some file systems keep that in whole seconds
        os.utime(path, (1_700_000_000 + day, 1_700_000_000 + day))
    files = spark.readStream.format("binaryFile").schema(FILE).load(str(arriving)).select("path", "modificationTime")
    monitor.stream(files, [console], feed="files", trigger={"availableNow": True}).awaitTermination()

    shown("write what is open", "holdstrue violations state --format csv")
    monitor.violations().write.parquet(str(place / "violations"))
    print(f"{spark.read.parquet(str(place / 'violations')).count():,} violations in {place / 'violations'}", flush=True)
    monitor.violations("a zip code lies in one city").orderBy("t", "s").show(3)
    print(f"the state stays in {state}: try holdstrue status {state} --history")
    spark.stop()


if __name__ == "__main__":
    main()
