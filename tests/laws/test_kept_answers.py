"""What a discovery answers after batches is what one from scratch does: rules of all kinds, near misses, suspects."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue import Discovery, discover

SCHEMA = pa.schema({"id": pa.int64(), "land": pa.string(), "zip": pa.int64(), "city": pa.string(), "pay": pa.int64()})


def drawn(random: Random, key: int) -> dict[str, Any]:
    """A row in which a zip says the city but for errors; in one land it says the pay too."""
    land, number = random.choice(["UK", "US"]), random.randrange(6)
    city = f"city {number % 4}" if random.random() < 0.97 else random.choice(["ctiy 1", "x", None])
    pay = 10 * number if land == "UK" else random.randrange(9)
    return {"id": key, "land": land, "zip": number, "city": city, "pay": pay}


def answers(found: Discovery) -> dict[str, Any]:
    """Everything that is told, without what only depends on the order in which rows came."""
    near = found.near_misses()
    return {
        "rules": {rule.text: rule.to_dict() for rule in found},
        "best": {rule.text: rule.to_dict() for rule in found.best},
        "near": {miss.text: (miss.violations, miss.error) for miss in near},
        "unlooked": near.unlooked,
        "suspects": sorted((one.key, one.column, str(one.proposed)) for one in found.suspects()),
    }


@pytest.mark.parametrize(
    "options",
    [
        {"kinds": ("fd", "key", "cfd"), "support": 4, "max_predicates": 4},
        {"kinds": ("fd", "key"), "error": 0.05, "measure": "rows"},
        {"kinds": ("dc", "fd"), "error": 0.02, "max_predicates": 3, "cross": False},
        {"kinds": ("dc", "cfd"), "confidence": 0.9, "support": 4, "max_predicates": 3, "cross": False},
    ],
    ids=str,
)
@settings(max_examples=6)
@given(seed=st.integers(0, 1 << 32))
def test_what_is_kept_is_what_a_search_anew_finds(options: dict[str, Any], seed: int) -> None:
    random = Random(seed)
    rows = {key: drawn(random, key) for key in range(random.choice([0, 30, 60]))}
    found = discover(pa.Table.from_pylist(list(rows.values()), schema=SCHEMA), key="id", **options)
    for batch in range(2):
        changes = []
        for key in random.sample(sorted(rows), min(len(rows), 8)):
            if random.random() < 0.5:
                del rows[key]
                changes.append({"id": key, "op": "delete"})
            else:
                rows[key] = drawn(random, key)
                changes.append({**rows[key], "op": "update"})
        for key in range(1000 * batch + 1000, 1000 * batch + 1012):
            rows[key] = drawn(random, key)
            changes.append({**rows[key], "op": "insert"})
        table = pa.Table.from_pylist(changes, schema=SCHEMA.append(pa.field("op", pa.string())))
        found.apply(table, feed="ops", op_column="op")
        anew = discover(pa.Table.from_pylist(list(rows.values()), schema=SCHEMA), key="id", **options)
        assert answers(found) == answers(anew)
