"""What a patch of suspects refuses, heeds and holds, and what their table says."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.errors import HoldstrueError

TOWNS = pa.table({"id": range(6), "zip": list("111122"), "town": ["Bonn", "Bonn", "Bonn", "Bomn", "Ulm", "Ulm"]})


def test_a_patch_is_as_sure_as_was_asked_for() -> None:
    found = holdstrue.suspects(TOWNS, "zip -> town", key="id")
    unsure = replace(found, found=(replace(found[0], confidence=0.6),))
    assert unsure.patch().num_rows == unsure.at_least(0.0).patch().num_rows == 0
    assert [unsure.at_least(least).patch().num_rows for least in (0.5, 0.7)] == [1, 0]


def test_a_patch_by_columns_that_do_not_name_one_row_is_refused() -> None:
    """It would be applied to other rows as well."""
    found = holdstrue.suspects(TOWNS, "zip -> town", key="zip")
    assert len(found) == 1
    with pytest.raises(HoldstrueError, match="zip='1' does not name one row"):
        found.patch()
    gaps = TOWNS.set_column(0, "id", pa.array([0, 1, 2, None, 4, 5]))
    with pytest.raises(HoldstrueError, match="id=None does not name one row"):
        holdstrue.suspects(gaps, "zip -> town", key="id").patch()
    # rows that nothing is proposed for may share their key
    twice = TOWNS.set_column(0, "id", pa.array([0, 0, 2, 3, 4, 4]))
    assert holdstrue.suspects(twice, "zip -> town", key="id").patch().to_pylist() == [
        {"op": "update", "id": 3, "zip": "1", "town": "Bonn"}
    ]


def test_a_table_of_suspects_has_the_rows_that_say_so() -> None:
    [row] = holdstrue.suspects(TOWNS, "zip -> town", key="id").to_arrow().to_pylist()
    assert (row["row"], row["rows"]) == (3, [0, 1, 2])
    pairs = TOWNS.append_column("k", pa.array(["a"] * 6))
    [row] = holdstrue.suspects(pairs, "zip -> town", key=["id", "k"]).to_arrow().to_pylist()
    assert (row["row"], row["rows"]) == ("[3, 'a']", ["[0, 'a']", "[1, 'a']", "[2, 'a']"])
    none = holdstrue.suspects(TOWNS.slice(0, 2), key="id").to_arrow()
    assert none.num_rows == 0
    assert pa.types.is_list(none.schema.field("rows").type)


@pytest.mark.parametrize(
    ("type_", "wrong", "true"),
    [
        (pa.int64(), -17, 17),
        (pa.float64(), -17.5, 17.5),
        (pa.decimal128(6, 2), Decimal("-17.50"), Decimal("17.50")),
        (pa.int8(), -128, None),
    ],
)
def test_numbers_of_the_wrong_sign_are_proposed_as_numbers(type_: pa.DataType, wrong: object, true: object) -> None:
    """A patch has them in a column of their type."""
    ages: list[object] = [30 + i % 50 for i in range(300)]
    ages[7] = wrong
    table = pa.table({"id": range(300), "age": pa.array(ages, type_)})
    [found] = holdstrue.suspects(table, key="id")
    assert (found.key, found.column, found.proposed, type(found.proposed)) == (7, "age", true, type(true))
    rows = holdstrue.suspects(table, key="id").patch(least=0.0).to_pylist()
    assert rows == ([] if true is None else [{"op": "update", "id": 7, "age": true}])
