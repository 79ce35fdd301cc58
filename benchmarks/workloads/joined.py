"""A relation like TPC-H's tables joined into one (paper 000, Section 7), of any size, with CFDs and 10 sites.

A row is a line of an order with all that is known of its order, customer, part and supplier. Entities are
functions of their keys, so clean rows satisfy every FD; a small share of rows has a wrong value in one column.
A row depends on the seed and its number alone, so `joined(1000, start=10**6, scale=10**6)` are further rows of
`joined(10**6)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from workloads.text import digits, pick

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

NOISE = 2e-5
"""Share of rows with a wrong value, for each right-hand column. A wrong value makes a whole group violate: some
40 rows of a customer, some 30 of a part."""

NATIONS = (
    "ALGERIA", "ARGENTINA", "BRAZIL", "CANADA", "EGYPT", "ETHIOPIA", "FRANCE", "GERMANY", "INDIA", "INDONESIA", "IRAN",
    "IRAQ", "JAPAN", "JORDAN", "KENYA", "MOROCCO", "MOZAMBIQUE", "PERU", "CHINA", "ROMANIA", "ARABIA", "VIETNAM",
    "RUSSIA", "UK", "US",
)  # fmt: skip
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDEAST")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-LOW", "5-NONE")
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")

GROUPS: tuple[tuple[str, ...], ...] = (
    ("orderkey", "linenumber", "quantity", "returnflag"),
    ("partkey", "suppkey", "discount", "shipmode"),
    ("linestatus", "instruct", "price", "warehouse"),
    ("custkey", "o_status", "o_date"),
    ("o_priority", "o_clerk"),
    ("c_name", "c_address", "c_phone"),
    ("c_nation", "c_region", "c_segment"),
    ("p_name", "p_mfgr", "p_brand", "p_type"),
    ("p_size", "p_container", "p_retail", "supplycost", "availqty"),
    ("s_name", "s_address", "s_nation", "s_region", "s_phone"),
)
"""Columns of the ten vertical sites: TPC-H's tables, the larger ones cut in two or three."""

FDS: tuple[tuple[tuple[str, ...], str], ...] = (
    *(((("orderkey",)), b) for b in ("custkey", "o_status", "o_date", "o_priority", "o_clerk")),
    *(((("custkey",)), b) for b in ("c_name", "c_address", "c_nation", "c_phone", "c_segment")),
    *(((("partkey",)), b) for b in ("p_name", "p_brand", "p_type", "p_size", "p_container", "p_retail")),
    *(((("suppkey",)), b) for b in ("s_name", "s_address", "s_nation", "s_phone")),
    (("partkey", "suppkey"), "supplycost"),
    (("partkey", "suppkey"), "availqty"),
    (("c_nation",), "c_region"),
    (("s_nation",), "s_region"),
    (("p_brand",), "p_mfgr"),
)
PATTERNS: tuple[tuple[str, str], ...] = (
    ("o_priority", "1-URGENT"),
    ("c_segment", "BUILDING"),
    ("shipmode", "AIR"),
    ("c_region", "EUROPE"),
)
"""What is asked of rows beside a left side, in CFDs made from the FDs."""


def cfds(count: int) -> list[dict[str, str]]:
    """CFDs as in the paper: the FDs, then the FDs with patterns; every 25 hold two constant ones."""
    found = [_rule(x, b, None) for x, b in FDS[:23]]
    found += [_constant(0), _constant(1)]
    for number, pattern in enumerate(PATTERNS):
        usable = [(x, b) for x, b in FDS if pattern[0] not in (*x, b)][:23]
        found += [_rule(x, b, pattern) for x, b in usable]
        found += [_constant(2 * number + 2), _constant(2 * number + 3)]
    return [{"name": f"cfd{i}", "rule": rule} for i, rule in enumerate(found[:count])]


def _rule(x: tuple[str, ...], b: str, pattern: tuple[str, str] | None) -> str:
    cells = [*x] if pattern is None else [f"{pattern[0]}='{pattern[1]}'", *x]
    return f"[{', '.join(cells)}] -> [{b}]"


def _constant(nation: int) -> str:
    return f"[c_nation='{NATIONS[nation]}', s_nation='{NATIONS[nation]}'] -> [c_region='{REGIONS[nation % 5]}']"


def joined(rows: int, *, start: int = 0, scale: int | None = None, seed: int = 1) -> pa.Table:
    """Lines `start, start + 1, ...` of a relation whose base has `scale` rows."""
    size = rows if scale is None else scale
    # one more, whose values are wrong ones for the row before
    at = np.arange(start, start + rows + 1, dtype=np.uint64)
    order = at // np.uint64(4)
    cust = _mix(order, seed) % np.uint64(max(1, size // 40))
    part = _mix(at, seed + 1) % np.uint64(max(1, size // 30))
    supp = _mix(part * np.uint64(4) + at % np.uint64(4), seed + 2) % np.uint64(max(1, size // 600))
    both = part * np.uint64(1 << 20) + supp
    nation, s_nation = _mix(cust, 3) % np.uint64(25), _mix(supp, 4) % np.uint64(25)
    brand = _mix(part, 5) % np.uint64(25)
    columns: dict[str, Any] = {
        "id": at.view(np.int64),
        "orderkey": order,
        "linenumber": at % np.uint64(4),
        "quantity": _mix(at, 6) % np.uint64(50),
        "returnflag": _words(("A", "N", "R"), _mix(at, 7)),
        "partkey": part,
        "suppkey": supp,
        "discount": _mix(at, 8) % np.uint64(10),
        "shipmode": _words(MODES, _mix(at, 9)),
        "linestatus": _words(("F", "O"), _mix(at, 10)),
        "instruct": _words(("COLLECT", "DELIVER", "NONE", "TAKE BACK"), _mix(at, 11)),
        "price": _mix(at, 12) % np.uint64(100_000),
        "warehouse": _mix(at, 13) % np.uint64(10),
        "custkey": cust,
        "o_status": _words(("F", "O", "P"), _mix(order, 14)),
        "o_date": _mix(order, 15) % np.uint64(2406),
        "o_priority": _words(PRIORITIES, _mix(order, 16)),
        "o_clerk": _mix(order, 17) % np.uint64(1000),
        "c_name": digits(cust.view(np.int64), "Customer#000000000"),
        "c_address": digits((_mix(cust, 18) >> np.uint64(20)).view(np.int64), "0000 000 000000"),
        "c_phone": digits((_mix(cust, 19) >> np.uint64(20)).view(np.int64), "00-000-000-0000"),
        "c_nation": _words(NATIONS, nation),
        "c_region": _words(REGIONS, nation),
        "c_segment": _words(SEGMENTS, _mix(cust, 20)),
        "p_name": digits((_mix(part, 21) >> np.uint64(20)).view(np.int64), "part 0000000000"),
        "p_mfgr": brand // np.uint64(5),
        "p_brand": brand,
        "p_type": _mix(part, 22) % np.uint64(150),
        "p_size": _mix(part, 23) % np.uint64(50),
        "p_container": _mix(part, 24) % np.uint64(40),
        "p_retail": _mix(part, 25) % np.uint64(200_000),
        "supplycost": _mix(both, 26) % np.uint64(100_000),
        "availqty": _mix(both, 27) % np.uint64(10_000),
        "s_name": digits(supp.view(np.int64), "Supplier#000000000"),
        "s_address": digits((_mix(supp, 28) >> np.uint64(20)).view(np.int64), "0000 000 000000"),
        "s_nation": _words(NATIONS, s_nation),
        "s_region": _words(REGIONS, s_nation),
        "s_phone": digits((_mix(supp, 29) >> np.uint64(20)).view(np.int64), "00-000-000-0000"),
    }
    table = {name: _arrow(values) for name, values in columns.items()}
    for number, name in enumerate(sorted({b for _, b in FDS} - {"custkey"})):
        wrong = _mix(at[:-1], 100 + number) < np.uint64(int(NOISE * 2**64))
        if wrong.any():
            table[name] = table[name].take(pa.array(np.arange(rows) + wrong))
    return pa.table({name: values[:rows] for name, values in table.items()})


def _mix(values: U64, salt: int) -> U64:
    """Numbers that look random and depend on the values alone (splitmix64)."""
    x = values + np.uint64((salt * 0x9E3779B97F4A7C15) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _words(words: Any, values: U64) -> pa.Array:
    return pick(pa.array(list(words)), (values % np.uint64(len(words))).view(np.int64))


def _arrow(values: Any) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values.view(np.int64))
    return values


def vertical_columns(sites: int) -> list[tuple[str, ...]]:
    """The ten groups of columns over fewer sites."""
    return [
        tuple(c for i, group in enumerate(GROUPS) for c in group if i * sites // len(GROUPS) == site)
        for site in range(sites)
    ]


def horizontal_filters(sites: int) -> list[str]:
    """Rows by warehouse, of which there are ten."""
    own = [[w for w in range(10) if w * sites // 10 == site] for site in range(sites)]
    return [f"warehouse in ({', '.join(map(str, some))})" for some in own]
