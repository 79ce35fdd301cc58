"""Rules about columns are those that counting in plain Python gives, from scratch and after every batch."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import holdstrue
import oracle_columns
from holdstrue.discovery.discovery import Discovery

TYPES = {
    "grade": pa.int16(), "code": pa.string(), "word": pa.large_string(), "size": pa.dictionary(pa.int32(), pa.string()),
    "pay": pa.float64(), "half": pa.float16(), "tax": pa.decimal128(5, 2),
    "sum": pa.decimal256(40, 3), "number": pa.int64(), "large": pa.uint64(), "yes": pa.bool_(),
    "day": pa.date32(), "mail": pa.string(),
}  # fmt: skip
SCHEMA = pa.schema([("id", pa.int64()), *TYPES.items()])


GRADES = ((1, 2, 3, 4, 5, 6, 7), (1, 3, 5, 7, 9, 12), (2, 4, 8, 16, 32, 64))


def row(random: Random, key: int, wrong: float, grades: tuple[int, ...] = GRADES[0]) -> dict[str, Any]:
    """A row in which some cells are not like others."""

    def odd() -> bool:
        return random.random() < wrong

    sizes = ("S", "M", "L" * random.choice((1, 1, 1, 300)))
    code = f"{random.choice('AB')}{random.choice('CD')}-{random.randrange(10 ** random.randrange(1, 4))}"
    cells = {
        "grade": random.choice(grades) if not odd() else 40,
        "code": code if not odd() else random.choice(("?", "x" * 70, "é-1", "")),
        "word": "".join(random.choices("abcdefg", k=6)) if not odd() else "longer than six",
        "size": random.choice(sizes) if not odd() else "it's" * random.choice((1, 90)),
        "pay": random.random() if not odd() else -1.0,
        "half": 0.5 if not odd() else -0.5,
        "tax": Decimal(random.randrange(9)) if not odd() else Decimal(-1),
        "sum": Decimal(random.randrange(9)) if not odd() else Decimal(-1),
        "large": 2**64 - random.randrange(1, 6),
        "yes": random.random() < 0.5,
        "day": date(2024, 1, random.randrange(1, 29)),
        "number": random.randrange(10**6) if not odd() else -3,
        "mail": f"{'x' * random.randrange(1, 30)}@{'y' * random.randrange(1, 30)}.de" if not odd() else "none.",
    }
    return {"id": key, **{name: None if odd() and odd() else cell for name, cell in cells.items()}}


def told(found: Discovery) -> dict[str, int]:
    """Rules with how many rows break them."""
    rows = sum(found.counts().values())
    return {rule.text: round(rule.measures.get("error", 0.0) * rows) for rule in found.best}


def expected(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {
        text: broken
        for name in SCHEMA.names
        for text, broken in oracle_columns.rules_of(name, [one[name] for one in rows]).items()
    }


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_kept_is_counted(data: st.DataObject) -> None:
    random = Random(data.draw(st.integers(0, 1 << 32)))
    wrong = data.draw(st.sampled_from((0.0, 0.01, 0.04, 0.2)))
    size = data.draw(st.sampled_from((0, 19, 21, 60, 300, 1500)))
    grades = data.draw(st.sampled_from(GRADES))
    rows = {key: row(random, key, wrong, grades) for key in range(size)}
    found = holdstrue.discover(pa.Table.from_pylist(list(rows.values()), schema=SCHEMA), kinds="column", key="id")
    assert told(found) == expected(list(rows.values()))
    assert all(not rule.measures.get("error") for rule in found.rules)
    for batch in range(data.draw(st.integers(1, 3))):
        count = data.draw(st.sampled_from((1, 30, 900)))
        gone = random.sample(sorted(rows), min(len(rows), random.choice((0, count, len(rows)))))
        new = {
            key: row(random, key, wrong, grades) for key in range(10_000 * (batch + 1), 10_000 * (batch + 1) + count)
        }
        before = {rule.text for rule in found.rules}
        changes = [{"op": "delete", **rows.pop(key)} for key in gone] + [
            {"op": "insert", **one} for one in new.values()
        ]
        updated = {key: row(random, key, wrong, grades) for key in random.sample(sorted(rows), min(len(rows), count))}
        changes += [{"op": "update", **one} for one in updated.values()]
        rows |= new | updated
        schema = pa.schema([("op", pa.string()), *SCHEMA])
        turned = found.apply(pa.Table.from_pylist(changes, schema=schema), feed="ops", op_column="op")
        assert told(found) == expected(list(rows.values()))
        after = {rule.text for rule in found.rules}
        assert {one.text for one in turned.died} == before - after
        assert {one.text for one in turned.born} == after - before
        for died in turned.died:
            assert all(key in new | updated for key in died.rows)


def test_what_is_opened_is_what_was_left(tmp_path: Any) -> None:
    random = Random(5)
    rows = [row(random, key, 0.01) for key in range(400)]
    found = holdstrue.discover(
        pa.Table.from_pylist(rows, schema=SCHEMA), kinds="column", key="id", state=tmp_path / "state"
    )
    more = [row(random, key, 0.01) for key in range(400, 420)]
    found.apply(pa.Table.from_pylist(more, schema=SCHEMA))
    found.close()
    with Discovery.open(tmp_path / "state") as again:
        assert told(again) == told(found) == expected(rows + more)


def test_a_rule_file_of_what_nearly_holds_passes_on_its_table() -> None:
    random = Random(7)
    table = pa.Table.from_pylist([row(random, key, 0.02) for key in range(1000)], schema=SCHEMA)
    found = holdstrue.discover(table, kinds="column", key="id")
    rules = found.ruleset(nearly=True)
    assert any(rule.tolerance is not None for rule in rules.rules)
    assert holdstrue.check(table, rules).ok
