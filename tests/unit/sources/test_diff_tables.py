"""Old against new by key: applying the difference to the old table gives the new one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.data.changes import DELETE, INSERT, UPDATE, Changes
from holdstrue.errors import ChangeError
from holdstrue.sources.feeds import diff_tables

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("x", pa.float64()), ("y", pa.string())])
KEY = ["a", "b"]

values = st.tuples(st.sampled_from([None, math.nan, 0.0, -0.0, 1.5]), st.sampled_from([None, "", "p", "q"]))
tables = st.dictionaries(st.tuples(st.integers(0, 3), st.sampled_from("uvw")), values, max_size=12)


def as_table(rows: dict[Any, Any], cut: int = 0) -> pa.Table:
    records = [dict(zip(SCHEMA.names, (*key, *rest))) for key, rest in rows.items()]
    table = pa.Table.from_pylist(records, SCHEMA)
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


def applied(old: dict[Any, Any], changes: Changes) -> dict[Any, Any]:
    """The plainest way to apply changes."""
    state = dict(old)
    for op, row in zip(changes.ops, changes.rows.to_pylist()):
        key = (row["a"], row["b"])
        assert (key in state) == (op in (UPDATE, DELETE))
        if op == DELETE:
            del state[key]
        else:
            state[key] = (row["x"], row["y"])
    return state


def shown(state: dict[Any, Any]) -> list[tuple[Any, ...]]:
    """Rows in a form in which NaN equals NaN and -0.0 equals 0.0."""
    return sorted((key, "0" if x == 0 else str(x), repr(y)) for key, (x, y) in state.items())


@given(old=tables, new=tables, cut=st.integers(0, 12))
@settings(max_examples=300, deadline=None)
def test_applying_the_difference_to_old_gives_new(old: dict[Any, Any], new: dict[Any, Any], cut: int) -> None:
    changes = diff_tables(as_table(old, cut), as_table(new, cut // 2), KEY)
    assert shown(applied(old, changes)) == shown(new)
    same = {key for key in old if key in new and shown({key: old[key]}) == shown({key: new[key]})}
    assert len(changes) == len(old.keys() | new.keys()) - len(same), "rows that do not differ are left alone"


@given(table=tables)
@settings(max_examples=30, deadline=None)
def test_a_table_does_not_differ_from_itself(table: dict[Any, Any]) -> None:
    assert len(diff_tables(as_table(table), as_table(dict(reversed(table.items()))), KEY)) == 0


def test_files_order_and_places(tmp_path: Path) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("id,zip\n1,a\n2,b\n3,\n4,d\n")
    new.write_text("zip,id\ne,5\nx,3\nb,2\n")
    changes = diff_tables(old, new, ["id"])
    assert changes.ops.tolist() == [DELETE, DELETE, INSERT, UPDATE]
    assert changes.rows.to_pydict() == {"id": [1, 4, 5, 3], "zip": ["a", "d", "e", "x"]}
    assert [changes.place(i) for i in range(4)] == [
        f"row 1 of {old}",
        f"row 4 of {old}",
        f"row 1 of {new}",
        f"row 2 of {new}",
    ]


def test_nested_values_and_columns_without_a_type() -> None:
    old = pa.table({"id": [1, 2], "tags": [["a"], ["b"]], "v": pa.nulls(2)})
    new = pa.table({"id": [1, 2], "tags": [["a"], ["c"]], "v": [None, 3]})
    changes = diff_tables(old, new, "id")
    assert changes.rows.to_pylist() == [{"id": 2, "tags": ["c"], "v": 3}]


def refuses(text: str) -> pytest.RaisesExc[ChangeError]:
    def check(error: ChangeError) -> bool:
        assert text in error.message, error.message
        return True

    return pytest.RaisesExc(ChangeError, check=check)


def test_troubles() -> None:
    good = pa.table({"id": [1, 2, 3], "zip": ["a", "b", "c"]})
    twice = pa.table({"id": [7, 2, 2], "zip": ["a", "b", "c"]})
    with refuses("row 3 of the new table repeats the key id=2 of row 2 of the new table"):
        diff_tables(good, twice, ["id"])
    with refuses("row 3 of the old table repeats the key id=2 of row 2 of the old table"):
        diff_tables(twice, good, ["id"])
    with refuses("the new table has no column 'zip', the old table has"):
        diff_tables(good, good.select(["id"]), ["id"])
    with refuses("row 2 of the old table: no value in key column 'id'"):
        diff_tables(pa.table({"id": [1, None]}), pa.table({"id": [1, 2]}), ["id"])
    with refuses("have no key column 'idd'"):
        diff_tables(good, good, ["idd"])
    with refuses("row 1 of the new table: column 'zip' holds 5, expected text (string)"):
        diff_tables(good, pa.table({"id": [1], "zip": [5]}), ["id"])
