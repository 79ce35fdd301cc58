"""Whatever is asked, the answer is an answer or says what was wrong with the question; nothing fails inside."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from holdstrue import Monitor
from live import serving

WORDS = ["", "-1", "\0", "٣", "9" * 13, "9" * 5000, '["1.5", "2021-01-01"]', "{}", "nan", "5000000d ago", "0001-01-01",
         "9999-12-31T23:59:59", "<b>\u202e", "../..", "2020-01-01T00:00:00Z"]  # fmt: skip
ASKED = {
    "violations": ("rule", "severity", "column", "key", "table", "at", "since", "limit", "offset"),
    "violations.parquet": ("key", "since"),
    "row": ("key",),
    "row/history": ("key",),
    "history": ("rule", "from", "until"),
    "compare": ("from",),
    "overview": ("at",),
}
ROWS: list[object] = [
    {}, {"id": 1}, {"id": None}, {"id": [1]}, {"id": 10**30}, {"id": "x"}, {"nope": 1}, {"id": 3, "zip": 1, "city": 5},
    {"id": 3, "zip": "1", "city": "x", "more": {"a": [1]}}, {"k": "1.5", "d": "2021-13-01", "v": 3}, {"f": "NaN"},
    {"before": None, "after": {"id": 1}, "op": "c"}, {"_holdstrue_op": 1}, 5, None,
]  # fmt: skip
RULES: list[object] = ["zip -> city", "key(f)", "\0", "x" * 10_000, "not(", "a in b.c", "data.zip in other.x", 5,
                       {"a": 1}, "zip -> city\nkey(id)", "table: x\nrules: []"]  # fmt: skip


def test_nothing_fails_inside(tmp_path: Path) -> None:
    keyed = pa.table({"id": [1, 2], "zip": [1, 1], "city": ["Bonn", "Ulm"]})
    pair = {"k": [Decimal("1.5")] * 2, "d": [dt.date(2021, 1, 1), dt.date(2022, 1, 1)], "v": [b"x", b"y"]}
    Monitor.create(tmp_path / "plain", "zip -> city", "id", data=keyed).close()
    Monitor.create(tmp_path / "pair", ["k -> v", "not(t.d > '2020-01-01')"], ("k", "d"), data=pa.table(pair)).close()
    floats = pa.table({"f": [1.5, float("nan"), float("inf")]})
    Monitor.create(tmp_path / "floats", "not(t.f > 0)", "f", data=floats).close()
    Monitor.create(tmp_path / "empty", "key(x)", "id").close()
    names = ("plain", "pair", "floats", "empty")
    fine = {200, 400, 409, 410}
    with serving(*(tmp_path / name for name in names)) as live:
        for name, (path, parameters) in product(names, ASKED.items()):
            for parameter, word in product(parameters, WORDS):
                asked = f"/api/states/{name}/{path}?{parameter}={quote(word)}"
                assert live.ask(asked).status in fine, asked
        for name in names:
            for row, op in product(ROWS, ("upsert", "delete", "x", 5)):
                assert live.ask(f"/api/states/{name}/try/row", {"row": row, "op": op}).status in fine, (name, row, op)
            for rule in RULES:
                assert live.ask(f"/api/states/{name}/try/rule", {"rule": rule}).status in fine, (name, rule)
