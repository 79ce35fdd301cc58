"""What makes an inclusion look like a foreign key, one part at a time, and what breaks one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.discovery.inclusions.breaks import breaks
from holdstrue.discovery.inclusions.contents import Compare
from holdstrue.discovery.inclusions.foreign_keys import ForeignKey, alike, foreign_keys
from holdstrue.discovery.inclusions.foreign_keys import ranked as every
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.errors import DataError
from holdstrue.rules.model import Inclusion


def ranked(tables: dict[str, pa.Table], **search: float) -> dict[str, ForeignKey]:
    core = InclusionCore.load(tables, DiscoveryOptions(**search))  # type: ignore[arg-type]
    return {
        f"{one.found.body.table}.{'+'.join(one.found.body.columns)}>{'+'.join(one.found.body.ref_columns)}": one
        for one in foreign_keys(core, tables)
    }


ORDERS = pa.table({"no": [1, 2, 3, 4], "customer_id": [7, 7, 9, None], "city": ["x", "x", "y", "z"]})
CUSTOMERS = pa.table({"id": [7, 8, 9, 20], "age": [7, 7, 9, 9]})


def test_every_part_of_the_score() -> None:
    found = ranked({"orders": ORDERS, "customers": CUSTOMERS})
    one = found["orders.customer_id>id"]
    assert (one.key, one.names, one.fit, one.rows) == (1.0, 1.0, 1.0, 3)
    assert one.coverage == 0.5 and one.in_range == 0.75 and one.evidence == pytest.approx(2 / 6)
    rest = 0.4 + 0.25 * 0.5 + 0.15 * 0.75 + 0.2 / 3
    assert one.score == pytest.approx(0.5 + 0.5 * rest)
    assert found["orders.customer_id>age"].key == 0
    assert next(iter(found)) == "orders.customer_id>id"


def test_rows_without_reference_lower_the_fit() -> None:
    found = ranked({"t": pa.table({"a": [1, 1, 1, 2]}), "s": pa.table({"b": [1, 3]})}, error=0.5)
    assert found["t.a>b"].fit == 0.75 and found["t.a>b"].missing_rows == 1


def test_more_columns_only_where_they_are_called_alike() -> None:
    base = {"day": [1, 1, 2, 2], "hour": [1, 2, 1, 2]}
    left, right = pa.table({**base, "year": [5] * 4}), pa.table({**base, "year": [5] * 4})
    both = ranked({"t": left, "s": right}, arity=3)
    assert "t.day+hour+year>day+hour+year" in both and "t.day+hour>day+hour" not in both
    other = ranked({"t": left, "s": right.rename_columns(["day", "hour", "qqq"])}, arity=3)
    assert "t.day+hour>day+hour" in other and "t.day+hour+year>day+hour+qqq" not in other


def test_columns_without_values_are_not_ranked() -> None:
    table = pa.table({"a": pa.nulls(2), "b": [1, 2], "c": pa.array([None, None], pa.int64())})
    assert ranked({"t": table}) == {}


def test_ranges_of_different_types() -> None:
    tables = {"t": pa.table({"a": pa.array([1, 2], pa.int8())}), "s": pa.table({"b": [1.0, 2.0, 99.5, None]})}
    assert ranked(tables)["t.a>b"].in_range == pytest.approx(2 / 3)


def test_all_inclusions_are_ranked_also_parts_and_empty_ones() -> None:
    tables = {"t": pa.table({"a": [1, 2], "b": [1, 2], "n": pa.nulls(2)}), "s": pa.table({"a": [1, 2], "b": [1, 2]})}
    core = InclusionCore.load(tables, DiscoveryOptions(arity=2))
    assert {one.found for one in every(core, tables)} == set(core.rules())
    assert len(foreign_keys(core, tables)) < len(core.rules())


TYPES: list[tuple[list[Any], pa.DataType]] = [
    ([True, False], pa.bool_()),
    ([dt.time(1), dt.time(2)], pa.time32("s")),
    ([dt.date(2020, 1, 1), dt.date(2020, 1, 2)], pa.date64()),
    ([dt.datetime(2020, 1, 1), None], pa.timestamp("ns", "UTC")),
    ([dt.timedelta(1), dt.timedelta(2)], pa.duration("ms")),
    ([Decimal(1), Decimal(2)], pa.decimal256(50, 2)),
    ([b"\xff", b"b"], pa.binary()),
    ([b"\xff", b"b"], pa.binary(1)),
    (["x", None], pa.string_view()),
    (["x", "y"], pa.dictionary(pa.int32(), pa.string())),
    ([1.5, 2.5], pa.float16()),
]


@pytest.mark.parametrize(("values", "data_type"), TYPES)
@pytest.mark.parametrize("compare", ["types", "text"])
def test_every_type_can_be_ranked(values: list[Any], data_type: pa.DataType, compare: Compare) -> None:
    if pa.types.is_float16(data_type):
        values = [np.float16(value) for value in values]
    plain = (
        pa.array(values, data_type) if not pa.types.is_dictionary(data_type) else pa.array(values).dictionary_encode()
    )
    tables = {"t": pa.table({"a": plain, "b": plain}), "s": pa.table({"a": plain, "n": ["x", "y"]})}
    core = InclusionCore.load(tables, DiscoveryOptions(error=0.999, as_text=compare == "text"))
    found = every(core, tables)
    assert len(found) >= 6 and all(0 <= one.score <= 1 for one in found)
    same = [one for one in found if one.found.body.ref_columns == ("a",) and one.found.body.columns == ("b",)]
    assert [one.in_range for one in same] == [1.0, 1.0]


def test_a_table_that_was_not_given() -> None:
    core = InclusionCore.load({"t": pa.table({"a": [1], "b": [1]})})
    with pytest.raises(DataError, match="no table 't'"):
        foreign_keys(core, {})


def test_names() -> None:
    assert alike("orderId", "orders", "id") == 1.0
    assert alike("customer", "customers", "no") == 1.0
    assert alike("x", "y", "z") == 0.0


def test_breaks_of_tuples_and_nulls() -> None:
    tables = {"t": pa.table({"a": [1, 1, None, 2], "b": [1, 2, 9, 1]}), "s": pa.table({"c": [1, 2], "d": [1, None]})}
    found = breaks(Inclusion("t", ("a", "b"), "s", ("c", "d")), tables)
    assert found.values.to_pylist() == [{"a": 1, "b": 2, "rows": 1}, {"a": 2, "b": 1, "rows": 1}]
    assert found.slots.tolist() == [1, 3] and (found.missing, found.rows) == (2, 2)
    none = breaks(Inclusion("t", ("a",), "s", ("c",)), tables)
    assert none.values.num_rows == 0 and none.rows == 0
