"""Rules about single columns are found, exactly and nearly, ranked with others, and kept current."""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue import Discovery, check, discover


def shop(rows: int = 400, *, dirty: bool = False) -> pa.Table:
    draw = random.Random(4)
    table: dict[str, list[Any]] = {
        "id": list(range(rows)),
        "status": [draw.choice(["open", "paid", "sent"]) for _ in range(rows)],
        "age": [18 + draw.randrange(60) for _ in range(rows)],
        "code": [f"{draw.choice('ABC')}{draw.choice('XYZ')}-{draw.randrange(1000, 9999)}" for _ in range(rows)],
        "share": [f"{draw.randrange(100)}.{draw.randrange(10)}%" for _ in range(rows)],
        "day": [str(date(2020, 1, 1) + timedelta(draw.randrange(900))) for _ in range(rows)],
        "word": ["".join(draw.choice("abcdef") for _ in range(4)) for _ in range(rows)],
        "note": [draw.choice([None, "x" * draw.randrange(1, 60)]) for _ in range(rows)],
    }
    if dirty:
        table["status"][3], table["age"][4], table["code"][5], table["word"][6] = "opne", 999_999, "AX-12a4", "abcde"
        table["age"][9] = None
    return pa.table(table)


def texts(found: Discovery) -> dict[str, float]:
    return {rule.text: float(rule.measures.get("error", 0)) for rule in found}


EXPECTED = (
    "not null(age)",
    "status in ('open', 'paid', 'sent')",
    "age between 18 and 77",
    "code matches '^[A-Z]{2}-[0-9]{4}$'",
    r"share matches '^[0-9]{1,2}\\.[0-9]%$'",
    "day matches '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'",
    "len(word) = 4",
)


@pytest.mark.parametrize("text", EXPECTED)
def test_a_form_that_all_rows_keep_to_is_found(text: str) -> None:
    assert texts(discover(shop(), kinds="column", types={"day": "text"}))[text] == 0


@pytest.mark.parametrize("text", EXPECTED)
def test_a_form_that_a_few_rows_break_is_found_with_its_error(text: str) -> None:
    found = texts(discover(shop(dirty=True), kinds="column"))
    broken = 0.0 if text.startswith(("share", "day")) else 1 / 400
    assert found[text] == broken


def test_columns_that_say_nothing_have_no_rule() -> None:
    found = texts(discover(shop(), kinds="column"))
    assert not any("note" in text or text.startswith("id between") for text in found)


def test_they_stand_in_one_list_with_others_and_their_file_passes() -> None:
    found = discover(shop(dirty=True), kinds=("column", "key", "fd"))
    kinds = [rule.kind for rule in found.best]
    assert {"key", "demand", "not_null"} <= set(kinds)
    scores = [rule.score for rule in found.best]
    assert scores == sorted(scores, reverse=True)
    rules = found.ruleset(nearly=True)
    assert any(rule.tolerance for rule in rules.rules)
    assert check(shop(dirty=True), rules).ok


def test_a_batch_says_what_broke_them(tmp_path: object) -> None:
    found = discover(shop(), kinds="column", key="id", state=f"{tmp_path}/found", error=0.0001)
    row = shop().slice(0, 1).set_column(0, "id", [[1000]]).set_column(1, "status", [["lost"]])
    changes = found.apply(row)
    [died] = [one for one in changes.died if one.text.startswith("status in")]
    assert died.why == "broken" and died.rows == (1000,)
    found.close()
    again = Discovery.open(f"{tmp_path}/found")
    assert texts(again) == texts(discover(pa.concat_tables([shop(), row]), kinds="column", key="id", error=0.0001))
    again.close()


values = st.one_of(st.none(), st.sampled_from(["A-1", "B-22", "x.y", "", "Ö9", "it's", "a\\b", "tab\t1", "(9)", "[a]"]))


@settings(max_examples=40)
@given(st.lists(st.tuples(values, st.one_of(st.none(), st.integers(-5, 5))), min_size=20, max_size=60))
def test_rules_that_are_said_to_hold_do(rows: list[tuple[str | None, int | None]]) -> None:
    schema = pa.schema({"a": pa.string(), "b": pa.int64()})
    table = pa.Table.from_pylist([{"a": a, "b": b} for a, b in rows], schema=schema)
    found = discover(table, kinds="column")
    if not found.rules:
        return
    checked = check(table, [rule.rule for rule in found], limit=0)
    for rule, result in zip(found, checked.results, strict=True):
        assert result.counts.rows == round(float(rule.measures.get("error", 0)) * len(rows)), rule.text
