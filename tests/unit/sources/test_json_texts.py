"""Texts that a parser misreads or dies of: each is read right, or refused with file and line."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.errors import DataError
from holdstrue.sources.feeds import read_changes
from holdstrue.sources.read import read_table


def write(folder: Path, text: bytes) -> Path:
    """A file of JSON lines."""
    path = folder / "t.jsonl"
    path.write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (b'null{"id":1}', 1, "Extra data"),
        (b'{"id":1}\nnull{"id":2}', 2, "Extra data"),
        (b'{"id":1}\nnull\n{"id":2}', 2, "not an object"),
        (b'{"id":1}{"id":2}', 1, "Extra data"),
        (b'{"id":1} {"id":2}\n', 1, "Extra data"),
        (b'{"id":1}\r{"id":2}', 1, "Extra data"),
        (b'{"id":1}\n{"id":2} x', 2, "Extra data"),
        (b'{"id":1}\n{"id":\n2}', 2, "not JSON"),
        (b'{"id":1}\n\x00', 2, "not JSON"),
        (b'{"id":"a\x00b"}', 1, "control character"),
        (b'{"id":1,"id":2}', 1, "'id' is given twice"),
        (b'{"id":1}\n{"\\u0069d":1,"id":2}', 2, "'id' is given twice"),
        (b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 1, "more than 100 lists"),
        (b'{"id":1}\n' + b"[" * 100_000, 2, "more than 100 lists"),
        (b'{"id":1e999}', 1, "beyond the largest float"),
        (b'{"id":' + b"9" * 5000 + b"}", 1, " digits"),
        (b'{"id":' + b"9" * 50 + b"}", 1, "decimals have 38"),
        (b'{"id":0.5}\n{"id":true}', 2, "True"),
        (b'{"id":"\\ud800"}', 1, "half a character"),
        (b'{"id":1}\n\xef\xbb\xbf{"id":2}', 2, "not JSON"),
        (b'{"id":Inf}', 1, "not JSON"),
    ],
)  # fmt: skip
def test_refused_with_the_line(text: bytes, line: int, said: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    for read in (read_table, lambda source: read_changes(source, key=["id"])):
        with pytest.raises(DataError) as caught:
            read(path)
        assert f"line {line} of {path}" in caught.value.message, caught.value
        assert said in caught.value.message
        assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b'\xef\xbb\xbf{"id":1}\n', [1]),
        (b'{"id":NaN}\n{"id":-Infinity}', [float("nan"), float("-inf")]),
        (b'{"id":"\\ud83d\\ude00"}', ["\U0001f600"]),
        (b'{"id":"}{"}\n{"id":"null{"}', ["}{", "null{"]),
        (b'\n\n{"id":1}\r\n\r\n{"id":2}', [1, 2]),
        (b'{"id":99999999999999999999}\n{"id":1}', [Decimal(99999999999999999999), Decimal(1)]),
        (b'{"id":9007199254740993}\n{"id":null}', [9007199254740993, None]),
        (b'{"id":1e300}\n{"id":0.5}', [1e300, 0.5]),
        (b'{"id":0.5}\n{"id":9007199254740993}', [Decimal("0.5"), Decimal("9007199254740993.0")]),
        (b'{"id":"' + b"x" * (5 << 20) + b'"}\n{"id":"y"}', ["x" * (5 << 20), "y"]),
        (b'[{"id": 1},\n {"id": 2}]', [1, 2]),
    ],
)  # fmt: skip
def test_read_right(text: bytes, values: list[Any], tmp_path: Path) -> None:
    got = read_table(write(tmp_path, text)).column("id").to_pylist()
    assert repr(got) == repr(values)


@pytest.mark.parametrize(
    "text", [b'[{"id":1},]', b'[{"id":1}]x', b'[{"id":1} {"id":2}]', b"[" * 100_000, b'[{"id":1},{"id":1', b"[,]"]
)
def test_an_array_that_is_none(text: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=r"t\.jsonl is not JSON"):
        read_table(path)


def test_half_a_character_in_an_array(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"record 2 of .* half a character"):
        read_table(write(tmp_path, b'[{"id":"a"},{"id":"\\ud800"}]'))


def test_digits_of_an_array_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path, b'[{"id": 1.234567890123456789}]')
    table = read_table(path, schema=pa.schema([("id", pa.decimal128(38, 18))]))
    assert table.column("id").to_pylist() == [Decimal("1.234567890123456789")]


def test_the_process_lives_on(tmp_path: Path) -> None:
    """These two ended it."""
    for text in (b'null{"id":1}', b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}"):
        path = write(tmp_path, text)
        code = "from holdstrue.cli.main import run; run()"
        ran = subprocess.run(
            [sys.executable, "-c", code, "check", str(path), "--rule", "key(id)"],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert ran.returncode == 2, (ran.returncode, ran.stderr[-500:])
        assert f"line 1 of {path}" in ran.stderr


def test_records_in_memory_mix_no_truth_with_numbers() -> None:
    with pytest.raises(DataError, match=r"record 2: column 'id' holds True, but record 1 holds 0\.5"):
        read_table([{"id": 0.5}, {"id": True}])
    with pytest.raises(DataError, match=r"record 3: column 'id' holds 0\.5, but record 2 holds 9007199254740993"):
        holdstrue.check([{"id": 5}, {"id": 2**53 + 1}, {"id": 0.5}], "key(id)")
