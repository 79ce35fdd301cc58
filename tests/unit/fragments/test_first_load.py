"""A first load in portions: whole everywhere or nowhere, its keys found, its values what they were."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.errors import HoldstrueError, StateError
from holdstrue.fragments import Relation, Site, first_load, key_slots, packed_values
from holdstrue.fragments.ids import Ids
from holdstrue.fragments.key_slots import KeySlots
from holdstrue.index import rows as index_rows
from holdstrue.index.checked import Checked
from holdstrue.index.rows import Rows


def state_of(relation: Relation) -> Any:
    return {rule: sorted(table.column("id").to_pylist()) for rule, table in relation.violations().items()}


def test_rows_in_different_orders_are_loaded_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_load, "PORTION", 2)
    left = pa.table({"id": [1, 2, 3, 4, 5], "a": [1, 1, 2, 2, 3]})
    right = pa.table({"id": [5, 3, 1, 4, 2], "b": ["v", "x", "y", "z", "y"]})
    relation = Relation([Site("l", ("a",), source=left), Site("r", ("b",), source=right)], ["a -> b"], key="id")
    assert relation.load().added_keys("a -> b") == {3, 4}


def test_a_doubled_key_is_refused_and_nothing_is_held() -> None:
    rows = pa.table({"id": [1, 2, 1], "a": [1, 1, 2], "b": [1, 2, 3]})
    relation = Relation([Site("s", source=rows)], ["a -> b"], key="id")
    with pytest.raises(HoldstrueError, match="two rows with the key"):
        relation.load()
    assert not relation.loaded and relation.sizes()["s"]["rows"] == 0


def test_text_that_a_file_holds_by_distinct_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_rows, "LARGE_PART", 1)
    city = pa.array(["Ulm", None, "Bonn", "Ulm", "Köln"] * 40)
    rows = pa.table({"id": range(200), "zip": [i % 50 for i in range(200)], "city": city})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=64)
    halves = [("zip < 25", "low"), ("zip >= 25", "high")]
    sites = [Site(name, where=where, source=rows.filter(_holds(where))) for where, name in halves]
    files = [Site("file", source=str(tmp_path / "rows.parquet"))]
    rules = ["zip -> city", "[city='Ulm'] -> [zip=3]"]
    found = [Relation(some, rules, key="id") for some in (sites, files)]
    one, other = map(_loaded, found)
    assert one == other


def _holds(where: str) -> Any:
    return pa.compute.field("zip") < 25 if where == "zip < 25" else pa.compute.field("zip") >= 25


def _loaded(relation: Relation) -> Any:
    relation.load()
    return _loaded_again(relation)


def _loaded_again(relation: Relation) -> Any:
    found = state_of(relation)
    checked = {rule: sorted(table.column("id").to_pylist()) for rule, table in relation.check().added.items()}
    assert found == checked and found
    return found


@settings(deadline=None)
@given(data=st.data())
def test_keys_are_found_where_they_were_put(data: st.DataObject) -> None:
    """Against a dictionary, through growing, removing and restoring; ids that share halves are told apart."""
    few = data.draw(st.booleans())
    with (
        patch.object(key_slots, "MOVED_FROM", 1 if few else key_slots.MOVED_FROM),
        patch.object(key_slots, "MOVED_FOR", 1),
        patch.object(key_slots, "MOVED_AT_LEAST", data.draw(st.integers(1, 40))),
    ):
        _put_and_find(data)


def _put_and_find(data: st.DataObject) -> None:
    slots, known, rows = KeySlots(), dict[tuple[int, int], int](), 0
    word = st.integers(0, 3).map(lambda n: n << 32) | st.integers(0, 2**64 - 1)
    for _ in range(data.draw(st.integers(1, 6))):
        fresh = data.draw(st.lists(st.tuples(word, word), unique_by=lambda key: (key[0] >> 32, key[1]), max_size=90))
        taken = {(hi >> 32, lo) for hi, lo in known}
        fresh = [key for key in fresh if (key[0] >> 32, key[1]) not in taken]
        slots.add(_ids(fresh), rows)
        known |= {key: rows + i for i, key in enumerate(fresh)}
        rows += len(fresh)
        gone = data.draw(st.lists(st.sampled_from(sorted(known)), unique=True)) if known else []
        slots.remove(_ids(gone))
        everything = [*known, (9 << 32, 1), (9 << 32, 2**64 - 1)]
        known = {key: slot for key, slot in known.items() if key not in gone}
        if data.draw(st.booleans()):
            alive = np.zeros(rows, dtype=np.uint8)
            alive[[*known.values()]] = 1
            again = KeySlots()
            again.restore(Checked({k: v.copy() for k, v in slots.snapshot(rows).items()}, _damaged), rows, alive)
            slots = again
        assert slots.find(_ids(everything)).tolist() == [known.get(key, -1) for key in everything]
        assert len(slots) == len(known)


def _ids(keys: list[tuple[int, int]]) -> Ids:
    return Ids(*(np.array([key[lane] for key in keys], dtype=np.uint64) for lane in (0, 1)))


def _damaged(reason: str) -> StateError:
    return StateError(reason)


@settings(deadline=None)
@given(data=st.data())
def test_packed_values_are_what_they_were(data: st.DataObject) -> None:
    """Whole numbers at the edges of every width, text, NULL, and types that are not packed."""
    size = data.draw(st.integers(1, 12))
    edges = st.one_of(st.none(), st.sampled_from([0, -1, 127, 128, -128, -129, 32767, 32768, -32769, 2**31, -(2**63)]))
    kinds: list[tuple[pa.DataType, Any]] = [
        (pa.int64(), edges),
        (pa.int32(), st.sampled_from([None, 0, 127, -129, 40_000])),
        (pa.string(), st.sampled_from([None, "", "Ulm", "Bonn"])),
        (pa.float64(), st.sampled_from([None, 0.0, -0.0, 2.5])),
        (pa.date32(), st.sampled_from([None, date(2026, 11, 18)])),
        (pa.decimal128(10, 2), st.sampled_from([None, Decimal("1.10")])),
        (pa.bool_(), st.sampled_from([None, True, False])),
    ]
    columns = {f"c{i}": pa.array(data.draw(_lists(some, size)), type_) for i, (type_, some) in enumerate(kinds)}
    whole = pa.table(columns)
    cut = data.draw(st.integers(0, size))
    rows = Rows(whole.schema, keyed=False)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(index_rows, "LARGE_PART", 1)
        for part in (pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]), whole):
            rows.append(packed_values.packed(part), None, ())
    slots = np.array(data.draw(st.lists(st.integers(0, 2 * size - 1), min_size=1)), dtype=np.int32)
    assert rows.take(slots).to_pylist() == [whole.slice(int(s) % size, 1).to_pylist()[0] for s in slots]
    assert rows.take(slots).schema == whole.schema
    assert rows.values().to_pylist() == whole.to_pylist() * 2


def _lists(some: Any, size: int) -> Any:
    return st.lists(some, min_size=size, max_size=size)
