"""Dates and times read from text by a format, strictly: 31.02.2024 is no day.

Arrow's own `strptime` is that of the C library, which takes 31.02.2024 for the second of March.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.typing import I64

# How the directives that are plain numbers are written: as wide as Python's `strptime` takes them.
_NUMBERS = {
    "d": "[0-9]{1,2}", "m": "[0-9]{1,2}", "Y": "[0-9]{4}", "y": "[0-9]{2}",
    "H": "[0-9]{1,2}", "M": "[0-9]{1,2}", "S": "[0-9]{1,2}", "f": "[0-9]{1,6}",
}  # fmt: skip
_PIECE = re.compile(r"%(.)|(\s+)|([^%\s]+)", re.DOTALL)
_DAY_US = 86_400_000_000


def parse_moments(text: pa.ChunkedArray, word: str, format_: str | None) -> pa.ChunkedArray:
    """Text as dates, times or timestamps; a value that is none raises a ValueError.

    Runtime complexity: O(n); each distinct value is parsed once.

    >>> parse_moments(pa.chunked_array([["31.01.2024", None]]), "date", "%d.%m.%Y").to_pylist()
    [datetime.date(2024, 1, 31), None]
    """
    if format_ is None:
        if word == "time":
            return _by_distinct(text, lambda values: _times_of([_iso_time(value) for value in values.to_pylist()]))
        return _iso_day(text) if word == "date" else _iso_timestamp(text)
    pattern = numeric_pattern(format_)
    if pattern is None:
        return _by_distinct(text, lambda values: _by_python(values, word, format_))
    return _by_distinct(text, lambda values: _by_pattern(values, word, pattern))


def numeric_pattern(format_: str) -> str | None:
    """The regular expression of a format in which all directives are numbers; None for others.

    >>> numeric_pattern("%d.%m.%Y")
    '^(?P<d>[0-9]{1,2})\\\\.(?P<m>[0-9]{1,2})\\\\.(?P<Y>[0-9]{4})$'
    """
    parts = []
    for directive, space, literal in _PIECE.findall(format_):
        if directive in _NUMBERS:
            parts.append(f"(?P<{directive}>{_NUMBERS[directive]})")
        elif directive and directive != "%":
            return None
        else:
            parts.append(r"\s+" if space else re.escape(literal or "%"))
    return f"^{''.join(parts)}$"


def _by_distinct(text: pa.ChunkedArray, convert: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    encoded = pc.dictionary_encode(text).unify_dictionaries()
    if encoded.num_chunks == 0:
        return pa.chunked_array([convert(pa.array([], text.type))])
    values = convert(encoded.chunk(0).dictionary)
    return pa.chunked_array([values.take(chunk.indices) for chunk in encoded.chunks], type=values.type)


def _by_pattern(values: pa.Array, word: str, pattern: str) -> pa.Array:
    found = pc.extract_regex(values, pattern=pattern)
    if found.null_count:
        raise ValueError("a value is not written so")
    names = [found.type.field(i).name for i in range(found.type.num_fields)]
    texts = {name: pc.struct_field(found, name) for name in names}
    if "f" in texts:
        texts["f"] = pc.utf8_rpad(texts["f"], 6, padding="0")
    parts: dict[str, I64] = {
        name: pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False) for name, column in texts.items()
    }
    micros = _micros(parts, len(values))
    if word == "time":
        return pa.array(micros, pa.int64()).cast(pa.time64("us"))
    days = _days(parts)
    if word == "date":
        return pa.array(days.astype(np.int32), pa.int32()).cast(pa.date32())
    return pa.array(days * _DAY_US + micros, pa.int64()).cast(pa.timestamp("us"))


def _days(parts: dict[str, I64]) -> I64:
    """Days since 1970 of years, months and days, each within its bounds."""
    # two digits mean 1969 to 2068, as POSIX and Python have it
    year = parts["Y"] if "Y" in parts else parts["y"] + np.where(parts["y"] < 69, 2000, 1900)
    month, day = parts["m"], parts["d"]
    if not ((year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)).all():
        raise ValueError("no such month")
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    after = (months + 1).astype("datetime64[D]").astype(np.int64)
    days: I64 = first + day - 1
    if not (days < after).all():
        raise ValueError("no such day")
    return days


def _micros(parts: dict[str, I64], rows: int) -> I64:
    """Microseconds of the day."""
    total: I64 = np.zeros(rows, dtype=np.int64)
    for name, below, unit in (("H", 24, 3_600_000_000), ("M", 60, 60_000_000), ("S", 60, 1_000_000), ("f", 10**6, 1)):
        if name in parts:
            if not (parts[name] < below).all():
                raise ValueError("no such time")
            total += parts[name] * unit
    return total


def _by_python(values: pa.Array, word: str, format_: str) -> pa.Array:
    """Names of months and days, zones and the like: Python's own reading, value by value."""
    moments = [dt.datetime.strptime(value, format_) for value in values.to_pylist()]
    if word == "date":
        return pa.array([moment.date() for moment in moments], pa.date32())
    if word == "time":
        return _times_of([moment.time() for moment in moments])
    if "%z" in format_.replace("%%", ""):
        return pa.array([moment.astimezone(dt.UTC) for moment in moments], pa.timestamp("us", "UTC"))
    return pa.array(moments, pa.timestamp("us"))


def _times_of(times: list[dt.time]) -> pa.Array:
    return pa.array(times, pa.time64("us"))


def _iso_time(text: str) -> dt.time:
    time = dt.time.fromisoformat(text)
    if time.tzinfo is not None:
        raise ValueError("a time of day has no zone")
    if len(text.partition(".")[2].rstrip("0")) > 6:
        raise ValueError("Python would drop what is finer than microseconds")
    return time


def _iso_day(text: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(text, pa.date32())


def _iso_timestamp(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Timestamps in microseconds, or nanoseconds where a value has them; in UTC where all of them have a zone."""
    for type_ in (pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")):
        try:
            return pc.cast(text, type_)
        except pa.ArrowException:
            continue
    return pc.cast(text, pa.timestamp("ns", "UTC"))
