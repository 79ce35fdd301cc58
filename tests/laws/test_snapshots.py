"""Law: a monitor brought to a snapshot is a monitor of the snapshot, and tells exactly what differed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdstrue
from holdstrue.errors import ChangeError, HoldstrueError

RULES = ["a -> b", "not(t.a = s.a and t.b > s.b)", "not null(b)"]

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-(2**62), 2**62)),
    "few": (pa.int8(), st.integers(0, 2)),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])),
    "decimal": (pa.decimal128(5, 2), st.integers(-999, 999).map(lambda n: Decimal(n) / 100)),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.sampled_from(["", "a", "A", "ä", "a\x00"])),
    "bytes": (pa.binary(), st.binary(max_size=2)),
    "time": (pa.timestamp("ns", "UTC"), st.datetimes().map(lambda t: t.replace(year=2000))),
}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Two pictures of a table of drawn types; keys and values of the second are mostly those of the first."""
    key_type, key = KINDS[draw(st.sampled_from(["int", "few", "text", "bytes", "decimal", "bool"]))]
    (type_, value), (other_type, other) = KINDS[draw(st.sampled_from(list(KINDS)))], KINDS["few"]
    rows = st.dictionaries(key, st.tuples(st.none() | other, st.none() | value), max_size=12)
    old = draw(rows)
    new = {k: v for k, v in old.items() if draw(st.booleans())} | draw(rows)

    def table(cells: dict[Any, tuple[Any, Any]]) -> pa.Table:
        columns = [list(cells), [v[0] for v in cells.values()], [v[1] for v in cells.values()]]
        types = (key_type, other_type, type_)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        return pa.table(arrays, names=["id", "a", "b"])

    return table(old), table(dict(draw(st.permutations(list(new.items())))))


def same(one: Any, other: Any) -> bool:
    """Whether two values are one: NULL is NULL, and NaN is NaN."""
    return one == other or (str(one) == "nan" == str(other))


@given(worlds(), st.booleans())
def test_a_snapshot_is_as_if_the_state_were_made_anew(pictures: tuple[pa.Table, pa.Table], whole: bool) -> None:
    old, new = pictures
    before, after = ({row["id"]: row for row in table.to_pylist()} for table in (old, new))
    with holdstrue.Monitor(RULES, "id", data=old) as monitor:
        delta = monitor.apply(new, snapshot=True) if whole else monitor.refresh(new)
        kept = after if whole else before | after
        changed = [k for k in after if k in before and not all(same(before[k][c], after[k][c]) for c in "ab")]
        assert delta.changed == {
            "insert": len(after.keys() - before.keys()),
            "update": len(changed),
            "delete": len(before.keys() - after.keys()) if whole else 0,
        }
        expected = pa.Table.from_pylist(list(kept.values()), schema=old.schema)
        with holdstrue.Monitor(RULES, "id", data=expected) as anew:
            assert monitor.counts() == anew.counts()
            assert monitor.rows == anew.rows
        applied = monitor.batches
        again = monitor.apply(expected, snapshot=True)
        assert again.changed == {"insert": 0, "update": 0, "delete": 0}
        assert monitor.batches == applied


def test_a_key_twice_is_refused_and_nothing_is_applied() -> None:
    with holdstrue.Monitor(RULES, "id", data=pa.table({"id": [1], "a": [1], "b": [1]})) as monitor:
        with pytest.raises(ChangeError, match=r"row 3 of the .* repeats the key id=2 of row 1"):
            monitor.apply(pa.table({"id": [2, 3, 2], "a": [1, 1, 1], "b": [1, 1, 2]}), snapshot=True)
        with pytest.raises(ChangeError, match="the key column 'id' is NULL"):
            monitor.apply(pa.table({"id": pa.array([None], pa.int64()), "a": [1], "b": [1]}), snapshot=True)
        assert (monitor.rows, monitor.batches) == ({"data": 1}, 1)


def test_options_of_changes_are_not_for_snapshots() -> None:
    with holdstrue.Monitor(RULES, "id", data=pa.table({"id": [1], "a": [1], "b": [1]})) as monitor:
        for wrong in ({"feed": "ops"}, {"op_column": "a"}, {"on_conflict": "upsert"}):
            with pytest.raises(HoldstrueError, match="is compared with the rows there are"):
                monitor.apply(pa.table({"id": [1], "a": [1], "b": [1]}), snapshot=True, **wrong)  # type: ignore[arg-type]


def test_a_batch_id_counts_once_and_is_kept_though_nothing_differs() -> None:
    rows = pa.table({"id": [1], "a": [1], "b": [1]})
    with holdstrue.Monitor(RULES, "id", data=rows) as monitor:
        assert not monitor.apply(rows, "monday", snapshot=True).duplicate
        assert monitor.apply(rows.slice(0, 0), "monday", snapshot=True).duplicate
        assert monitor.rows == {"data": 1}
        # an op column of a snapshot is data that no rule reads
        assert monitor.apply(rows.append_column("op", pa.array(["delete"])), snapshot=True).changed == {
            "insert": 0, "update": 0, "delete": 0,
        }  # fmt: skip
