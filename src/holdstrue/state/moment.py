"""Which version of a state is meant: its number, or a time at which it was the newest; and spans of time."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdstrue.errors import HoldstrueError

At: TypeAlias = int | dt.datetime
"""A version, or a time at which it was the newest."""

Given: TypeAlias = int | dt.datetime | str
"""The same, or as text (see `at_of`)."""

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(rf"(\d{{1,12}}(?:\.\d{{1,9}})?)\s*({'|'.join(_UNITS)})")
_NUMBER = re.compile(r"\d{1,12}")
_FIRST = dt.datetime(1, 1, 2, tzinfo=dt.UTC)


def seconds(text: str) -> float | None:
    """How long a span of time is; None for a text that is none.

    >>> seconds("500ms"), seconds("90s"), seconds("1.5m"), seconds("7d"), seconds("2w"), seconds("soon")
    (0.5, 90.0, 90.0, 604800.0, 1209600.0, None)
    """
    found = _SPAN.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _UNITS[found[2]]


def at_of(given: Given, name: str = "at") -> At:
    """The version or the time that is meant.

    Parameters
    ----------
    given
        A version, a time, or either as text: `12`, `2026-03-01`, `2026-03-01T14:30`, `2026-03-01T14:30Z`, `2h ago`. A
        time that does not say its zone is local time here, and a date is its first moment.
    name
        What it is called, for errors.

    Examples
    --------
    >>> at_of("12"), at_of(12), at_of("2026-03-01T14:30Z").astimezone(dt.UTC).isoformat()
    (12, 12, '2026-03-01T14:30:00+00:00')
    """
    if isinstance(given, str):
        given = _read(given.strip(), name)
    if isinstance(given, dt.datetime):
        return _zoned(given, name)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise _wrong(repr(given), name)
    return given


def _read(text: str, name: str) -> At:
    if _NUMBER.fullmatch(text):
        return int(text)
    if text.endswith(" ago"):
        span = seconds(text.removesuffix(" ago"))
        now = dt.datetime.now(dt.UTC)
        if span is None or span > (now - _FIRST).total_seconds():
            raise _wrong(repr(text), name)
        return now - dt.timedelta(seconds=span)
    try:
        return _zoned(dt.datetime.fromisoformat(text), name)
    except ValueError as error:
        raise _wrong(repr(text), name) from error


def _zoned(time: dt.datetime, name: str) -> dt.datetime:
    try:
        return time.astimezone()
    except (ValueError, OverflowError, OSError) as error:  # near the first or the last year
        raise _wrong(time.isoformat(), name) from error


def _wrong(shown: str, name: str) -> HoldstrueError:
    return HoldstrueError(
        f"{name} {shown} is neither a version nor a time",
        hint="a version is a number such as 12; a time is 2026-03-01, 2026-03-01T14:30 (here, unless it says its zone: "
        "2026-03-01T14:30Z) or 2h ago",
    )


@dataclass(frozen=True)
class Moment:
    """A version that is shown, and when it was made.

    >>> print(Moment(12, None))
    version 12
    """

    version: int
    time: dt.datetime | None
    """None where an earlier format does not say so."""

    def __str__(self) -> str:
        return f"version {self.version}" + ("" if self.time is None else f" of {told(self.time)}")

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data; the time is in UTC."""
        time = None if self.time is None else self.time.astimezone(dt.UTC).isoformat(timespec="milliseconds")
        return {"version": self.version, "time": time}


def told(time: dt.datetime) -> str:
    """A time as people are told it, in the zone of this machine.

    >>> told(dt.datetime(2026, 3, 1, 14, 30, tzinfo=dt.UTC)).startswith("2026-0")
    True
    """
    return time.astimezone().isoformat(sep=" ", timespec="seconds")


def span(time: float) -> str:
    """Seconds as `seconds` reads them, in the largest unit that divides them.

    >>> span(604_800), span(90), span(0.5), span(0)
    ('1w', '90s', '500ms', '0s')
    """
    for unit, size in sorted(_UNITS.items(), key=lambda known: -known[1]):
        count = time / size
        if count >= 1 and count == int(count):
            return f"{int(count)}{unit}"
    return f"{time:g}s"
