"""Columns whose memory is not what their type says are told from those whose memory is."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.data.validity import same_columns, validate_column, validate_table
from holdstrue.kernels.utf8 import is_utf8

LETTERS = ["a", "Z", "é", "ß", "\x7f", "\x80", "߿", "ࠀ", "日", "퟿", "￿", "𐀀", "😀", "\U0010ffff"]


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_utf8_is_what_python_takes_for_it() -> None:
    chance = random.Random(0)
    for size in (0, 1, 2, 3, 4, 5, 40, 5000):
        for _ in range(300 if size < 100 else 10):
            text = "".join(chance.choices(LETTERS, k=size)).encode()
            assert is_utf8(np.frombuffer(text, dtype=np.uint8))
            changed = bytearray(text)
            for _ in range(chance.randint(1, 3)):
                if changed:
                    changed[chance.randrange(len(changed))] = chance.choice(
                        (0x80, 0xBF, 0xC1, 0xE0, 0xED, 0xF0, 0xF4, 0xF5, 0x41)
                    )
            cut = bytes(changed[: chance.randint(0, len(changed))])
            assert is_utf8(np.frombuffer(cut, dtype=np.uint8)) == is_text(cut)


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("letter", ["a", "ß", "日"])
def test_long_columns_of_text(type_: pa.DataType, letter: str) -> None:
    array = pa.array([None if i % 7 == 0 else letter * (i % 5) for i in range(9000)], type_)
    for whole in (array, array.slice(11), array.slice(5, 5000), array.slice(0, 0)):
        validate_column(pa.chunked_array([whole, array]))
    nulls, offsets, data = array.buffers()
    wide = np.int32 if type_ == pa.string() else np.int64
    ends = np.frombuffer(offsets, dtype=wide)
    for at, end in ((4000, -1), (4000, 2**30), (5000, int(ends[5000]) + 1 if letter != "a" else 2**30)):
        changed = ends.copy()
        changed[at] = end
        lies = pa.Array.from_buffers(type_, len(array), [nulls, pa.py_buffer(changed), data])
        with pytest.raises(pa.ArrowInvalid):
            validate_column(pa.chunked_array([lies]))
    text = bytearray(data)
    text[len(text) // 2 : len(text) // 2 + 3] = b"\xff\xff\xff"
    with pytest.raises(pa.ArrowInvalid):
        validate_table(
            pa.table({"text": pa.Array.from_buffers(type_, len(array), [nulls, offsets, pa.py_buffer(text)])})
        )


def test_names_and_types_tell_columns() -> None:
    one = pa.schema([pa.field("a", pa.int64(), nullable=False)], metadata={"x": "y"})
    assert same_columns(one, pa.schema({"a": pa.int64()}))
    assert not same_columns(one, pa.schema({"a": pa.int32()}))
    assert not same_columns(one, pa.schema({"b": pa.int64()}))
    assert not same_columns(one, pa.schema({"a": pa.int64(), "b": pa.int64()}))
