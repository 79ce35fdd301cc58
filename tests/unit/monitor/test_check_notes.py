"""What a check says of a key that does not tell rows apart."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import holdstrue


@pytest.mark.parametrize(
    ("columns", "key", "said"),
    [
        ({"id": [1, 2, 3]}, "id", None),
        ({"id": [1, 2, 1, 2, 2]}, "id", "3 rows have the key of another row (such as id 1)"),
        ({"id": [3, 1, 2, 2]}, "id", "1 row has the key of another row (such as id 2)"),
        ({"id": ["a", "a\x1b"]}, "id", None),
        ({"id": ["\x1b[2J", "\x1b[2J"]}, "id", r"1 row has the key of another row (such as id '\x1b[2J')"),
        ({"id": [None, 1, None]}, "id", "1 row has the key of another row (such as id None)"),
        ({"id": [0.0, -0.0]}, "id", "1 row has the key of another row (such as id -0.0)"),
        ({"id": [1, 1], "day": [1, 2]}, ("id", "day"), None),
        ({"id": [1, 1], "day": [2, 2]}, ("id", "day"), "1 row has the key of another row (such as id 1, day 2)"),
        ({"id": [[1], [1]]}, "id", None),  # nobody can tell whether lists are the same
    ],
)
def test_a_key_that_several_rows_have(columns: dict[str, list[Any]], key: Any, said: str | None) -> None:
    rows = pa.table({**columns, "v": list(range(len(columns["id"])))})
    notes = holdstrue.check(rows, "not(t.v < 0)", key=key).notes
    assert notes == (() if said is None else (f"the key is not unique: {said}, so keys do not tell rows apart",))
