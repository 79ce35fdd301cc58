"""The eight tables of TPC-H by name, column and key, from a seeded generator: 61 columns, values made up.

Sizes follow the specification from the rows of `lineitem` (six million at scale factor 1). Prices, dates and words
are drawn uniformly; references are the specified ones, so that the true foreign keys are among the inclusions.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workloads.text import pick

WORDS = [
    "furiously", "sly", "carefully", "express", "even", "regular", "final", "ironic", "pending", "quickly", "bold",
    "silent", "deposits", "packages", "accounts", "requests", "theodolites", "pinto", "beans", "foxes",
    "instructions", "platelets", "asymptotes", "ideas", "dolphins",
]  # fmt: skip
MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG", "SHIP", "TRUCK"]
ORDERS_A_LINE = 4
TRUE_KEYS = {
    "nation.n_regionkey": "region.r_regionkey",
    "supplier.s_nationkey": "nation.n_nationkey",
    "customer.c_nationkey": "nation.n_nationkey",
    "partsupp.ps_partkey": "part.p_partkey",
    "partsupp.ps_suppkey": "supplier.s_suppkey",
    "orders.o_custkey": "customer.c_custkey",
    "lineitem.l_orderkey": "orders.o_orderkey",
    "lineitem.l_partkey": "part.p_partkey",
    "lineitem.l_suppkey": "supplier.s_suppkey",
}


def tpch(lines: int, seed: int = 1) -> dict[str, pa.Table]:
    """All tables for so many rows of `lineitem`."""
    orders, parts = max(4, lines // ORDERS_A_LINE), max(4, lines // 30)
    suppliers, customers = max(2, parts // 20), max(3, orders // 10)
    make = _Maker(seed)
    supplied = 4 * parts
    supply = (np.arange(supplied) % 4 * (suppliers // 4 + 1) + np.arange(supplied) // 4) % suppliers + 1
    return {
        "region": pa.table(
            {"r_regionkey": np.arange(5), "r_name": make.names("REGION", np.arange(5)), "r_comment": make.text(5, 6)}
        ),
        "nation": pa.table(
            {
                "n_nationkey": np.arange(25),
                "n_name": make.names("NATION", np.arange(25)),
                "n_regionkey": np.arange(25) % 5,
                "n_comment": make.text(25, 6),
            }
        ),
        "supplier": make.trader("s", "suppkey", "Supplier", suppliers),
        "customer": make.trader("c", "custkey", "Customer", customers).append_column(
            "c_mktsegment", make.words(customers, MODES)
        ),
        "part": pa.table(
            {
                "p_partkey": np.arange(1, parts + 1),
                "p_name": make.text(parts, 5),
                "p_mfgr": make.names("Manufacturer", make.upto(parts, 5)),
                "p_brand": make.names("Brand", make.upto(parts, 25)),
                "p_type": make.text(parts, 3),
                "p_size": make.upto(parts, 50) + 1,
                "p_container": make.text(parts, 2),
                "p_retailprice": (90_000 + np.arange(parts) % 20_000) / 100,
                "p_comment": make.text(parts, 3),
            }
        ),
        "partsupp": pa.table(
            {
                "ps_partkey": np.arange(supplied) // 4 + 1,
                "ps_suppkey": supply,
                "ps_availqty": make.upto(supplied, 9999) + 1,
                "ps_supplycost": make.upto(supplied, 100_000) / 100,
                "ps_comment": make.text(supplied, 8),
            }
        ),
        "orders": make.orders(orders, customers),
        "lineitem": make.lineitem(lines, orders, parts, suppliers),
    }


class _Maker:
    """Columns from one stream of random numbers."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def upto(self, rows: int, top: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self._rng.integers(0, top, rows)

    def words(self, rows: int, choices: list[str]) -> pa.Array:
        return pick(pa.array(choices), self.upto(rows, len(choices)))

    def text(self, rows: int, length: int) -> pa.Array:
        columns = [self.words(rows, WORDS) for _ in range(length)]
        number = pa.array(self.upto(rows, 100)).cast(pa.string())
        return pc.binary_join_element_wise(*columns, number, " ")

    def names(self, word: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
        return pc.binary_join_element_wise(word, pa.array(numbers).cast(pa.string()), "#")

    def days(self, rows: int) -> pa.Array:
        return pa.array(self.upto(rows, 2526) + 8035).cast(pa.int32()).cast(pa.date32())

    def trader(self, letter: str, key: str, word: str, rows: int) -> pa.Table:
        numbers = np.arange(1, rows + 1)
        phone = pa.array(self.upto(rows, 10**9)).cast(pa.string())
        return pa.table(
            {
                f"{letter}_{key}": numbers,
                f"{letter}_name": self.names(word, numbers),
                f"{letter}_address": self.text(rows, 4),
                f"{letter}_nationkey": self.upto(rows, 25),
                f"{letter}_phone": phone,
                f"{letter}_acctbal": (self.upto(rows, 1_100_000) - 100_000) / 100,
                f"{letter}_comment": self.text(rows, 8),
            }
        )

    def orders(self, rows: int, customers: int) -> pa.Table:
        return pa.table(
            {
                "o_orderkey": np.arange(1, rows + 1),
                "o_custkey": self.upto(rows, customers) + 1,
                "o_orderstatus": self.words(rows, ["F", "O", "P"]),
                "o_totalprice": self.upto(rows, 50_000_000) / 100,
                "o_orderdate": self.days(rows),
                "o_orderpriority": self.words(rows, ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-LOW", "5-NONE"]),
                "o_clerk": self.names("Clerk", self.upto(rows, max(1, rows // 1500)) + 1),
                "o_shippriority": np.zeros(rows, dtype=np.int64),
                "o_comment": self.text(rows, 6),
            }
        )

    def lineitem(self, rows: int, orders: int, parts: int, suppliers: int) -> pa.Table:
        return pa.table(
            {
                "l_orderkey": np.arange(rows) // ORDERS_A_LINE % orders + 1,
                "l_partkey": self.upto(rows, parts) + 1,
                "l_suppkey": self.upto(rows, suppliers) + 1,
                "l_linenumber": np.arange(rows) % ORDERS_A_LINE + 1,
                "l_quantity": self.upto(rows, 50) + 1,
                "l_extendedprice": self.upto(rows, 10_000_000) / 100,
                "l_discount": self.upto(rows, 11) / 100,
                "l_tax": self.upto(rows, 9) / 100,
                "l_returnflag": self.words(rows, ["A", "N", "R"]),
                "l_linestatus": self.words(rows, ["F", "O"]),
                "l_shipdate": self.days(rows),
                "l_commitdate": self.days(rows),
                "l_receiptdate": self.days(rows),
                "l_shipinstruct": self.words(rows, ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]),
                "l_shipmode": self.words(rows, MODES),
                "l_comment": self.text(rows, 3),
            }
        )
