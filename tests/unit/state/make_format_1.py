"""Makes `format_1.txt`: states of format 1, as the tree at commit b21ea2e wrote them, packed as text.

    git worktree add ../format1 b21ea2e
    PYTHONPATH=../format1/src python tests/unit/state/make_format_1.py

`monitor` has a checkpoint and three batches since, over two tables; `sharded` is of Spark; `discovery` has one batch.
"""

from __future__ import annotations

import base64
import datetime as dt
import io
import tarfile
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import holdstrue
import holdstrue.spark

RULES = """\
table: orders
key: id
rules:
  - {name: zips, rule: 'zip -> city', severity: warn}
  - {name: pay, rule: 'not(t.zip = s.zip and t.price > s.price and t.day < s.day)'}
  - {name: due, rule: 'not(t.price < 0)'}
"""
MORE = """\
  - {name: who, rule: 'orders.who in people.name'}
  - {name: ids, rule: key(id)}
"""
SCHEMA = pa.schema(
    {"id": pa.int64(), "zip": pa.string(), "city": pa.string(), "price": pa.decimal128(9, 2), "day": pa.date32(),
     "who": pa.string()}
)  # fmt: skip


def orders(*rows: tuple[Any, ...]) -> pa.Table:
    """Rows of (id, zip, city, price, day, who)."""
    columns = zip(*rows, strict=True)
    made = [[Decimal(v) if i == 3 and v else dt.date(2026, 1, v) if i == 4 else v for v in column]
            for i, column in enumerate(columns)]  # fmt: skip
    return pa.table([pa.array(column, field.type) for column, field in zip(made, SCHEMA, strict=True)], schema=SCHEMA)


def changes(ops: list[str], rows: pa.Table) -> pa.Table:
    """Rows with what becomes of them."""
    return rows.append_column("op", pa.array(ops))


FIRST = orders(
    (1, "10", "Bonn", "1.50", 1, "ada"),
    (2, "10", "Ulm", "2.25", 2, "bob"),
    (3, "10", "Bonn", "0.10", 3, "eve"),
    (4, "20", "Kiel", "-3.00", 4, "ada"),
    (5, None, "Bonn", None, 5, None),
    (6, "30", "Trier", "9.99", 6, "zoe"),
)
BATCHES: dict[str, dict[str, pa.Table]] = {
    "monday": {
        "orders": changes(
            ["update", "delete", "insert"],
            orders(
                (2, "10", "Bonn", "2.25", 2, "bob"), (3, None, None, None, 3, None), (7, "20", "Köln", "5", 1, "kim")
            ),
        )
    },
    "tuesday": {
        "people": pa.table({"op": ["insert", "delete"], "name": ["zoe", "kim"]}),
        "orders": changes(
            ["update", "insert"], orders((7, "20", "Kiel", "5", 1, "kim"), (8, "30", "Aachen", "1", 9, "zoe"))
        ),
    },
    "wednesday": {"orders": changes(["delete"], orders((6, None, None, None, 6, None)))},
}


def make(folder: Path) -> None:
    """The three states."""
    (rules := folder / "rules.yaml").write_text(RULES + MORE, encoding="utf-8")
    (fewer := folder / "fewer.yaml").write_text(RULES, encoding="utf-8")
    tables = {"orders": FIRST, "people": pa.table({"name": ["ada", "bob", "kim"]})}
    with holdstrue.Monitor.create(folder / "monitor", rules, {"orders": "id"}, data=tables) as monitor:
        for name, batch in BATCHES.items():
            monitor.apply(batch, batch_id=name)
    with holdstrue.discover(FIRST.select(["id", "zip", "city"]), ("fd", "key"), key="id") as found:
        found.save(folder / "discovery")
        found.apply(pa.table({"op": ["insert"], "id": [9], "zip": ["30"], "city": ["Ulm"]}), batch_id="monday")
    spark = holdstrue.spark.start("local[1]")
    frame = spark.createDataFrame(FIRST)
    sharded = holdstrue.spark.Monitor(spark, folder / "sharded", fewer, "id", data=frame, shards=2, tasks=1)
    sharded.apply(spark.createDataFrame(BATCHES["monday"]["orders"]), batch_id="monday")


if __name__ == "__main__":
    target = Path(__file__).with_name("format_1.txt")
    with tempfile.TemporaryDirectory() as made, io.BytesIO() as packed:
        make(Path(made))
        with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as tar:
            for name in ("monitor", "discovery", "sharded"):
                tar.add(Path(made) / name, name)
        lines = base64.encodebytes(packed.getvalue()).decode()
        target.write_text(lines, encoding="ascii")
