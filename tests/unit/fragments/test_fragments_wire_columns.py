"""What a message carries comes back as it was, in every form, and repeated ids are not paid for twice."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdstrue.fragments.wire_columns import (
    ColumnReader,
    write_codes,
    write_masks,
    write_pairs,
    write_rows,
    write_words,
)


@given(
    rows=st.one_of(
        st.sets(st.integers(0, 40)),  # dense: a bitmap
        st.sets(st.integers(0, 2**32 - 1), max_size=5),
        st.integers(0, 30).map(lambda size: set(range(7, 7 + size))),
    ),
    distinct=st.integers(1, 5),
    cfds=st.integers(0, 4),
    data=st.data(),
)
def test_what_is_written_is_read(rows: set[int], distinct: int, cfds: int, data: st.DataObject) -> None:
    told = np.array(sorted(rows), dtype=np.uint32)
    words = st.integers(0, 2**64 - 1)
    known = np.array(data.draw(st.lists(st.tuples(words, words), min_size=distinct, max_size=distinct)), np.uint64)
    at = data.draw(st.lists(st.integers(0, distinct - 1), min_size=told.size, max_size=told.size))
    ids = known[np.array(at, dtype=np.int64)].reshape(-1, 2)
    hi, lo = np.ascontiguousarray(ids[:, 0]), np.ascontiguousarray(ids[:, 1])
    row = st.lists(st.booleans(), min_size=told.size, max_size=told.size)
    drawn = data.draw(st.lists(row, min_size=cfds, max_size=cfds))
    masks = np.array(drawn, dtype=np.bool_).reshape(cfds, told.size)
    reader = ColumnReader(write_rows(told) + write_pairs(hi, lo) + write_masks([*masks]), told.size)
    assert np.array_equal(reader.rows(), told)
    assert all(np.array_equal(found, sent) for found, sent in zip(reader.pairs(), (hi, lo), strict=True))
    found = reader.masks()
    assert len(found) == cfds and all(np.array_equal(one, sent) for one, sent in zip(found, masks, strict=True))


def test_many_different_masks_are_numbered_by_two_bytes() -> None:
    masks = np.random.default_rng(1).random((300, 40)) < 0.5
    assert np.array_equal(ColumnReader(write_masks([*masks]), 40).masks(), masks)


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1)), max_size=60))
def test_words_are_read_as_they_were_written(words: list[int]) -> None:
    sent = np.array(words, dtype=np.uint64)
    assert np.array_equal(ColumnReader(write_words(sent), 7).words(), sent)


@given(st.lists(st.lists(st.integers(0, 7), min_size=5, max_size=5), max_size=4))
def test_codes_are_read_as_they_were_written(codes: list[list[int]]) -> None:
    sent = np.array(codes, dtype=np.uint8).reshape(-1, 5)
    assert np.array_equal(ColumnReader(write_codes(sent), 5).codes(), sent)


def test_repeats_are_cheap() -> None:
    few = np.zeros(1000, dtype=np.uint64), np.arange(1000, dtype=np.uint64) % np.uint64(3)
    assert len(write_pairs(*few)) < 16 * 3 + 1000 // 4 + 16
    assert len(write_pairs(few[0], np.arange(1000, dtype=np.uint64))) == 16_005 - 4
