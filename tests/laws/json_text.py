"""JSON lines as Python's own parser reads them, and valid texts with a few bytes changed."""

from __future__ import annotations

import json
import math
import random
from typing import Any

Row = dict[str, Any]

# what parsers stumble over: pieces of JSON where they do not belong, and bytes that are none
PIECES = (
    b"null", b"{", b"}", b"[", b"]",
    b'"', b"\\", b",", b":", b"\n", b"\r", b"\x00", b"\x01", b" ", b"\t", b"NaN", b"Inf",
    b"-Infinity", b"1e999", b"-", b"0", b"01", b".5", b"1.", b"9007199254740993", b"1" * 25, b"1" * 45, b"true", b"tru",
    b'{"id":1}', b'"id":2,', b'"\\ud800"', b'"\\ud83d\\ude00"', b"\xef\xbb\xbf", b"\xff", b"\xc3\xa9", b"//", b"'",
    b"[" * 120,
    b'\\u0000', b"\n\n", b"\x0b", b"\xe2\x80\xa8",
)  # fmt: skip
WORDS = ("", "x", "id", "null", "}{", 'a"b', "é", "\U0001f600", "a\nb", "\\", "10:30", "x" * 40)


def value(chance: random.Random) -> Any:
    """A value of some type."""
    return chance.choice(
        (
            None, chance.randint(-9, 9), chance.choice((2**53, 2**53 + 1, -(2**63), 2**63 - 1, 2**63, 10**20, 10**39)),
            chance.choice((0.5, -0.0, 1e300, 5e-324, 1e17, 1.0)), chance.choice((True, False)), chance.choice(WORDS),
            chance.choice(WORDS), {"b": 1}, [1, 2],
        )
    )  # fmt: skip


def lines(chance: random.Random) -> bytes:
    """Objects, one a line, whose columns mostly have one type."""
    names = ("id", "a", "n b", "é")[: chance.randint(1, 4)]
    columns = {name: [value(chance) for _ in range(chance.choice((1, 1, 2)))] for name in names}
    rows = [
        {name: chance.choice(kinds) for name, kinds in columns.items() if chance.random() < 0.9}
        for _ in range(chance.randint(1, 6))
    ]
    separators = chance.choice(((",", ":"), (", ", ": ")))
    ascii_only = chance.random() < 0.5
    texts = [json.dumps(row, separators=separators, ensure_ascii=ascii_only) for row in rows]
    end = chance.choice(("\n", "\r\n"))
    text = end.join(texts) + chance.choice(("", end))
    return (f"[{','.join(texts)}]" if chance.random() < 0.1 else text).encode()


def changed(text: bytes, chance: random.Random) -> bytes:
    """The text with some pieces put in, cut out or doubled."""
    data = text
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        at = chance.randint(0, len(data))
        end = min(len(data), at + chance.randint(0, 8))
        match chance.randrange(4):
            case 0:
                data = data[:at] + chance.choice(PIECES) + data[at:]
            case 1:
                data = data[:at] + chance.choice(PIECES) + data[end:]
            case 2:
                data = data[:at] + data[end:]
            case _:
                data = data[:end] + data[at:]
    return data


def meant(data: bytes) -> list[Row] | None:
    """The rows of a text, each line of which is one object; None where it is not that."""
    try:
        text = data.decode("utf-8-sig")
        if text.lstrip().startswith("["):
            values = json.loads(text.strip(), object_pairs_hook=_once, parse_float=_finite)
        else:
            held = [line.strip(" \t\r") for line in text.split("\n")]
            values = [json.loads(line, object_pairs_hook=_once, parse_float=_finite) for line in held if line.strip()]
        json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return values if all(isinstance(row, dict) for row in values) else None


def _once(pairs: list[tuple[str, Any]]) -> Row:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def _finite(text: str) -> float:
    if math.isinf(float(text)):
        raise ValueError("too large")
    return float(text)


def same(one: Any, other: Any) -> bool:
    """Whether two values are one, a NaN being itself; lists and objects, which no rule compares, are not looked at."""
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return True
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
