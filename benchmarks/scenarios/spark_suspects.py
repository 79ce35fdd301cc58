"""Suspects on Spark with a small driver and small workers, beside one process: taxes of which some cities are wrong.

Half a percent of the rows have the city of another zip (`NOISE`). Every side reads the same Parquet files. A wrong city
that is a suspect is a hit; of one process, which is asked up to `HERE` rows, all suspects are compared.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scenarios.setting import Outcome, Setting, Table
from scenarios.spark_discover import PIECE, SMALL
from scenarios.spark_sql import TASKS, clocked
from workloads.tax import country, tax

NOISE = 0.005
HERE = 1_000_000
"""Rows that one process is asked at most: it holds them all, and what it makes of them."""
Cells = set[tuple[int, str]]


def run(setting: Setting) -> Outcome:
    """Every size."""
    import holdstrue
    import holdstrue.spark

    outcome = Outcome()
    spark = holdstrue.spark.start(f"local[{TASKS}]", SMALL)
    head = (
        "rows", "wrong cities", "parts, by", "suspects", "cities found", "of suspected cities wrong", "CPU s", "wall s",
        "one process: suspects", "found on Spark too", "CPU s", "wall s",
    )  # fmt: skip
    table = Table("suspects of taxes on Spark, driver and workers of 1 GB, results of 4 MB", head)
    for rows in setting.sizes:
        folder = setting.folder / f"dirty-taxes-{rows}"
        wrong = written(folder, rows)
        # the first use compiles, and starts workers
        frame = spark.read.parquet(str(folder))
        holdstrue.spark.suspects(frame.limit(1000), key="id")
        found, ours = clocked(partial(holdstrue.spark.suspects, frame, key="id", budget=None))
        listed = setting.folder / f"suspects-{rows}"
        found.frame.select("row", "column").write.mode("overwrite").parquet(str(listed))
        cells = told(pq.read_table(listed))
        cities = {row for row, column in cells if column == "city"}
        hits = len(cities & wrong)
        line: list[Any] = [
            f"{rows:,}", len(wrong), f"{found.parts}, {found.cut or '-'}", len(cells), hits / max(1, len(wrong)),
            hits / max(1, len(cities)), *ours,
        ]  # fmt: skip
        record = {"rows": rows, "wrong": len(wrong), "parts": found.parts, "cut": found.cut, "found": len(cells)}
        record |= {"hits": hits, "cities": len(cities), "ours": ours}
        if rows <= HERE:
            alone, own = clocked(partial(holdstrue.suspects, str(folder), key="id", budget=None))
            both = {(suspect.key, suspect.column) for suspect in alone}
            line += [len(both), len(both & cells) / max(1, len(both)), *own]
            record |= {"alone": len(both), "in_both": len(both & cells), "own": own}
        else:
            line += ["-"] * 4
        outcome.records.append(record)
        table.rows.append(tuple(line))
        print(" | ".join(map(str, line)), flush=True)
    outcome.tables.append(table)
    spark.stop()
    return outcome


def written(folder: Path, rows: int) -> set[int]:
    """The taxes as Parquet files; the ids of rows whose city is not that of their zip."""
    land = country()
    folder.mkdir(exist_ok=True)
    wrong: set[int] = set()
    for start in range(0, rows, PIECE):
        part = tax(min(PIECE, rows - start), start=start, noise=NOISE)
        pq.write_table(part, folder / f"{start:010}.parquet", row_group_size=PIECE // 4)
        at = np.searchsorted(np.array(land.zips.to_pylist()), np.array(part.column("zip").to_pylist()))
        true = land.cities.take(pa.array(land.zip_city[at])).to_pylist()
        said = part.column("city").to_pylist()
        ids = part.column("id").to_pylist()
        wrong |= {key for key, own, other in zip(ids, said, true, strict=True) if own != other}
    return wrong


def told(table: pa.Table) -> Cells:
    """The cells of a list of suspects."""
    return set(zip(table.column("row").to_pylist(), table.column("column").to_pylist(), strict=True))
