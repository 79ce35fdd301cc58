"""Digests of values: equal across types exactly where the values are equal."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.data.seed import PROCESS
from holdstrue.discovery.inclusions.contents import Compare, comparable, content_of, tuple_of


def digest(value: Any, data_type: pa.DataType, compare: Compare = "types") -> tuple[int, int]:
    content = content_of(pa.array([value], data_type), compare, PROCESS)
    return int(content.hi[0]), int(content.lo[0])


EQUAL = [
    ((5, pa.int8()), (5.0, pa.float32())),
    ((5, pa.uint64()), (5, pa.int64())),
    ((-3, pa.int16()), (Decimal("-3.000"), pa.decimal128(10, 3))),
    ((0, pa.int64()), (-0.0, pa.float64())),
    ((2**63, pa.uint64()), (float(2**63), pa.float64())),
    ((2**63 + 5, pa.uint64()), (Decimal(2**63 + 5), pa.decimal128(38, 0))),
    ((-(2**63), pa.int64()), (-float(2**63), pa.float64())),
    ((Decimal("2.50"), pa.decimal128(5, 2)), (Decimal("2.5"), pa.decimal128(38, 20))),
    ((Decimal("2.50"), pa.decimal128(5, 2)), (Decimal("2.5"), pa.decimal256(60, 1))),
    ((1, pa.int64()), (Decimal("1"), pa.decimal128(38, 30))),
    ((Decimal(f"{2**64}.5"), pa.decimal128(38, 1)), (Decimal(f"{2**64}.5"), pa.decimal256(70, 9))),
    ((float("nan"), pa.float64()), (float("nan"), pa.float32())),
    ((dt.datetime(1969, 12, 31, 23), pa.timestamp("s")), (dt.datetime(1969, 12, 31, 23), pa.timestamp("ns"))),
    ((dt.time(1, 2, 3), pa.time32("s")), (dt.time(1, 2, 3), pa.time64("us"))),
    ((dt.date(1960, 5, 1), pa.date32()), (dt.date(1960, 5, 1), pa.date64())),
    (("é", pa.string()), ("é", pa.large_string())),
    (("é", pa.string()), ("é", pa.string_view())),
    ((b"ab", pa.binary()), (b"ab", pa.binary(2))),
    ((dt.timedelta(seconds=1), pa.duration("s")), (dt.timedelta(seconds=1), pa.duration("us"))),
]  # fmt: skip

DIFFERENT = [
    ((2**53, pa.int64()), (2**53 + 1, pa.int64())),
    ((2**53 + 1, pa.int64()), (float(2**53), pa.float64())),
    ((2**63, pa.uint64()), (-(2**63), pa.int64())),
    ((5, pa.int64()), ("5", pa.string())),
    ((b"ab", pa.binary()), ("ab", pa.string())),
    ((1, pa.int64()), (True, pa.bool_())),
    ((0, pa.int64()), (dt.date(1970, 1, 1), pa.date32())),
    ((Decimal("0.1"), pa.decimal128(5, 2)), (Decimal("0.01"), pa.decimal128(5, 2))),
    ((dt.datetime(2020, 1, 1), pa.timestamp("s")), (dt.datetime(2020, 1, 1), pa.timestamp("s", "UTC"))),
    ((dt.datetime(2020, 1, 1), pa.timestamp("us")), (dt.datetime(2020, 1, 1, 0, 0, 0, 1), pa.timestamp("us"))),
    (("", pa.string()), ("\0", pa.string())),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_values(one: Any, other: Any) -> None:
    assert digest(*one) == digest(*other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_values(one: Any, other: Any) -> None:
    assert digest(*one) != digest(*other)


@pytest.mark.parametrize(
    "one", [(5, pa.int8()), (5.0, pa.float64()), (Decimal(5), pa.decimal128(3, 0)), (b"5", pa.binary())]
)
def test_as_text(one: Any) -> None:
    assert digest(one[0], one[1], "text") == digest("5", pa.string(), "text")


def test_durations_have_a_text() -> None:
    assert digest(dt.timedelta(seconds=5), pa.duration("s"), "text") == digest("5", pa.string(), "text")


def test_nulls_and_slices() -> None:
    column = pa.chunked_array([pa.array(["a", None]), pa.array(["b"]).dictionary_encode().cast(pa.string())])
    content = content_of(column, "types", PROCESS)
    assert content.mask().tolist() == [True, False, True]
    array = pa.array([Decimal("1.5"), Decimal("2.5"), None], pa.decimal128(4, 1))[1:]
    sliced = content_of(array, "types", PROCESS)
    assert (int(sliced.hi[0]), int(sliced.lo[0])) == digest(Decimal("2.5"), pa.decimal128(4, 1))
    assert sliced.mask().tolist() == [True, False]
    assert content_of(pa.nulls(3), "types", PROCESS).mask().tolist() == [False] * 3
    for data_type in (pa.decimal128(4, 1), pa.string(), pa.timestamp("s"), pa.float32()):
        assert content_of(pa.array([], data_type), "types", PROCESS).hi.size == 0


def test_tuples_depend_on_order_and_on_every_part() -> None:
    a, b = content_of(pa.array([1, 1, None]), "types", PROCESS), content_of(pa.array([2, 3, 4]), "types", PROCESS)
    ab, ba = tuple_of([a, b], PROCESS), tuple_of([b, a], PROCESS)
    assert ab.lo[0] != ba.lo[0] and ab.lo[0] != ab.lo[1]
    assert ab.mask().tolist() == [True, True, False]


def test_what_compares() -> None:
    assert comparable(pa.int8(), pa.decimal128(5, 2), "types")
    assert not comparable(pa.float64(), pa.decimal128(5, 2), "types")
    assert comparable(pa.float64(), pa.decimal128(5, 2), "text")
    assert not comparable(pa.list_(pa.int8()), pa.list_(pa.int8()), "text")
    assert comparable(pa.null(), pa.string(), "types")
