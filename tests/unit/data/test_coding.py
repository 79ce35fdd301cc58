"""Codes compare as values do, for every type."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.data.coding import domain_of, encode, key_digest
from holdstrue.data.labels import Labels
from holdstrue.data.seed import PROCESS
from holdstrue.errors import DataError

ORDERED: list[list[Any]] = [
    [-(2**63), -1, 0, 1, 2**63 - 1],
    [float("-inf"), -1.5, 0.0, 1e-300, 2.5, float("inf"), float("nan")],
    ["", "A", "a", "ab", "b", "é", "日本"],
    [b"", b"\x00", b"a", b"\xff"],
    [False, True],
    [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    [dt.datetime(1900, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1)],
    [dt.time(0), dt.time(23, 59, 59, 999999)],
    [dt.timedelta(days=-1), dt.timedelta(seconds=1)],
    [Decimal("-9.99"), Decimal("0.00"), Decimal("0.01")],
    [Decimal("-12345678901234567890.5"), Decimal("12345678901234567890.4"), Decimal("12345678901234567890.5")],
]


@pytest.mark.parametrize("values", ORDERED, ids=lambda values: type(values[0]).__name__)
def test_order(values: list[Any]) -> None:
    array = pa.array([*values, None])
    domain = domain_of([array.type], ordered=True, seed=PROCESS)
    assert domain is not None
    coded = encode(array, domain, name="x", labels=Labels(domain.family))
    assert (np.diff(coded.codes[:-1]) > 0).all()
    assert coded.mask().tolist() == [True] * len(values) + [False]


@pytest.mark.parametrize("values", ORDERED, ids=lambda values: type(values[0]).__name__)
def test_digests_tell_values_apart_and_do_not_depend_on_layout(values: list[Any]) -> None:
    array = pa.array(values)
    domain = domain_of([array.type], ordered=False, seed=PROCESS)
    assert domain is not None
    hi, lo, known = key_digest([encode(array, domain, name="x")], len(values), PROCESS)
    assert len(set(zip(hi.tolist(), lo.tolist()))) == len(values) and known.all()
    padded = pa.chunked_array([pa.array(values[::-1]), pa.array(values)]).slice(len(values) - 1)
    again = key_digest([encode(padded, domain, name="x")], len(values) + 1, PROCESS)
    assert (again[0][1:] == hi).all() and (again[1][1:] == lo).all()


def test_equal_values_of_different_types() -> None:
    for left, right in itertools.product([pa.int8(), pa.int64(), pa.float32(), pa.float64()], repeat=2):
        domain = domain_of([left, right], ordered=False, seed=PROCESS)
        assert domain is not None
        codes = [encode(pa.array([0, 3, 100], kind), domain, name="x").codes.tolist() for kind in (left, right)]
        assert codes[0] == codes[1]
    for kinds in ([pa.string(), pa.large_string()], [pa.string(), pa.dictionary(pa.int32(), pa.string())]):
        domain = domain_of(kinds, ordered=False, seed=PROCESS)
        assert domain is not None
        codes = [encode(pa.array(["x", "y"]).cast(kind), domain, name="x").codes.tolist() for kind in kinds]
        assert codes[0] == codes[1]
    domain = domain_of([pa.timestamp("s"), pa.timestamp("us")], ordered=True, seed=PROCESS)
    assert domain is not None and domain.unit == "us"
    domain = domain_of([pa.decimal128(9, 2), pa.int32()], ordered=True, seed=PROCESS)
    assert domain is not None
    assert encode(pa.array([3], pa.int32()), domain, name="x").codes.tolist() == [300]


@pytest.mark.parametrize(
    "kinds",
    [
        [pa.string(), pa.int64()],
        [pa.timestamp("us"), pa.timestamp("us", "UTC")],
        [pa.bool_(), pa.int8()],
        [pa.date32(), pa.timestamp("s")],
        [pa.list_(pa.int8())],
        [pa.decimal128(5, 2), pa.float64()],
    ],
)
def test_incomparable(kinds: list[pa.DataType]) -> None:
    assert domain_of(kinds, ordered=False, seed=PROCESS) is None


def test_refused_rather_than_rounded() -> None:
    mixed = domain_of([pa.int64(), pa.float64()], ordered=True, seed=PROCESS)
    assert mixed is not None
    with pytest.raises(DataError, match=r"9007199254740993.*exactly"):
        encode(pa.array([2**53 + 1]), mixed, name="big")
    signed = domain_of([pa.uint64(), pa.int8()], ordered=True, seed=PROCESS)
    assert signed is not None
    with pytest.raises(DataError, match="'u' holds 18446744073709551615"):
        encode(pa.array([2**64 - 1], pa.uint64()), signed, name="u")
    scaled = domain_of([pa.decimal128(9, 2), pa.int64()], ordered=True, seed=PROCESS)
    assert scaled is not None
    with pytest.raises(DataError, match="'n' holds 92233720368547760"):
        encode(pa.array([2**63 // 100 + 2]), scaled, name="n")
    fine = domain_of([pa.timestamp("s"), pa.timestamp("ns")], ordered=True, seed=PROCESS)
    assert fine is not None
    with pytest.raises(DataError, match="outside the range"):
        encode(pa.array([dt.datetime(9999, 1, 1)], pa.timestamp("s")), fine, name="far")
