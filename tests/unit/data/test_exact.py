"""Sums and largest values of columns, exactly."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdstrue.data import exact

WHOLE: list[tuple[pa.DataType, st.SearchStrategy[Any], int]] = [
    (pa.int8(), st.integers(-128, 127), 1),
    (pa.uint32(), st.integers(0, 2**32 - 1), 1),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1), 1),
    (pa.uint64(), st.integers(0, 2**64 - 1), 1),
    (pa.decimal32(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)), 100),
    (pa.decimal128(38, 1), st.integers(-(10**26), 10**26).map(lambda n: Decimal(n).scaleb(-1)), 10),
    (pa.decimal256(76, 0), st.integers(-(10**27), 10**27).map(Decimal) | st.just(Decimal(10) ** 75), 1),
]


@pytest.mark.parametrize("data_type, values, units", WHOLE, ids=str)
def test_whole_numbers(data_type: pa.DataType, values: st.SearchStrategy[Any], units: int) -> None:
    @given(st.lists(values, max_size=30), st.integers(0, 9), values)
    def judged(some: list[Any], most: int, bound: Any) -> None:
        words = exact.words_of(pa.array(some, data_type))
        numbers = [int(Fraction(value) * units) for value in some]
        assert exact.units_of(data_type) == units
        assert exact.whole(words) == numbers
        assert exact.total(words) == sum(numbers)
        assert exact.largest(words, most) == sorted(numbers)[max(0, len(numbers) - most) :]
        low = int(Fraction(bound) * units)
        for limit in (low, low - 2**300, low + 2**300):
            assert exact.whole(exact.at_least(words, limit)) == [number for number in numbers if number >= limit]

    judged()


@given(st.lists(st.floats(), max_size=40), st.sampled_from([1, 3, 1 << 25]))
def test_floats(values: list[float], at_once: int) -> None:
    with mock.patch.object(exact, "_AT_ONCE", at_once):
        whole, nans, highs, lows = exact.float_total(np.array(values))
    finite = [value for value in values if math.isfinite(value)]
    assert Fraction(whole, 2**exact.SMALLEST) == sum(map(Fraction, finite))
    assert (nans, highs, lows) == (sum(map(math.isnan, values)), values.count(math.inf), values.count(-math.inf))


@given(st.floats())
def test_floats_by_code(value: float) -> None:
    [code] = exact.whole(exact.words_of(pa.array([value])))
    back = exact.float_of(code)
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_many_floats_of_one_size_do_not_overflow() -> None:
    values = np.full(1 << 20, 1.7976931348623157e308)
    assert exact.float_total(values)[0] == int(Fraction(values[0]) * 2**exact.SMALLEST) << 20


def test_known_values_of_chosen_rows() -> None:
    column = pa.chunked_array([["a", None], ["b", "a"]]).dictionary_encode()
    assert exact.known_values(column).to_pylist() == ["a", "b", "a"]
    assert exact.known_values(column, np.array([True, True, False, True])).to_pylist() == ["a", "a"]
