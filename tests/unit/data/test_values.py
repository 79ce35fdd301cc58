"""The table of types: the README says what the code means, and every type of Arrow has its place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdstrue.data import values
from holdstrue.data.values import common_families, family_of, plain_type
from laws.typed import KINDS, compare

PAGE = Path(__file__).parents[3] / "docs" / "values.md"


def test_the_documentation_has_the_table() -> None:
    rows = [line for line in (values.__doc__ or "").splitlines() if line.startswith("|")]
    assert len(rows) == 14
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")


def test_families() -> None:
    for kind in KINDS:
        assert family_of(kind.type) == kind.family
        assert family_of(pa.dictionary(pa.int32(), kind.type)) == kind.family
    for nested in (pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8())):
        assert family_of(nested) is None
    assert plain_type(pa.run_end_encoded(pa.int32(), pa.string())) == pa.string()


def test_what_compares_with_what() -> None:
    for one in KINDS:
        for other in KINDS:
            assert (common_families([one.type, other.type]) is not None) == compare(one, other), (one.type, other.type)


@pytest.mark.parametrize("types", [[pa.int8(), pa.float64(), pa.decimal128(5, 2)], [pa.int8(), pa.string()]])
def test_three_do_not_compare_where_two_of_them_do_not(types: list[pa.DataType]) -> None:
    assert common_families(types) is None


def test_decimals_that_arrow_cannot_print_do_not_compare() -> None:
    assert family_of(pa.decimal128(9, 200)) is None
    assert family_of(pa.decimal128(9, 39)) is None
    assert family_of(pa.decimal128(9, 38)) == family_of(pa.decimal256(9, -76)) == "decimal"
