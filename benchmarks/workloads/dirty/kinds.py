"""Kinds of errors: from a true value to a wrong one, as slips, conversions and habits make it."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from workloads.dirty.dice import Dice
from workloads.dirty.planting import Change

Day = TypeVar("Day", bound=dt.date)

NEAR = {
    "a": "sq", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj",
    "i": "uo", "j": "hk", "k": "jl", "l": "k", "m": "n", "n": "bm", "o": "ip", "p": "o",
    "q": "wa", "r": "et", "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe", "x": "zc",
    "y": "tu", "z": "x",
}  # fmt: skip
"""Letters that lie beside one another on a keyboard."""


def typo(dice: Dice, text: str) -> str:
    """One slip of the keyboard."""
    if len(text) < 3:
        return text + text[-1:]
    at = dice.whole(0, len(text) - 2)
    kind = dice.whole(0, 3)
    if kind == 0:
        return text[:at] + text[at + 1 :]
    if kind == 1:
        return text[:at] + text[at] + text[at:]
    if kind == 2:
        return _turned(text, at)
    new = dice.pick(NEAR.get(text[at].lower(), "aeiourst"))
    return text[:at] + (new.upper() if text[at].isupper() else new) + text[at + 1 :]


def letter_to_x(dice: Dice, text: str) -> str:
    """A letter turned into x, as in the table `hospital`."""
    spots = [at for at, letter in enumerate(text) if letter.isalnum() and letter not in "xX"]
    if not spots:
        return text
    at = dice.pick(spots)
    return text[:at] + "x" + text[at + 1 :]


def digit_slip(dice: Dice, text: str) -> str:
    """One digit of a code replaced, or two neighbours changed over."""
    spots = [at for at, letter in enumerate(text) if letter.isdigit()]
    if not spots:
        return text
    at = dice.pick(spots)
    if dice.chance(0.5) and at + 1 < len(text) and text[at + 1].isdigit() and text[at] != text[at + 1]:
        return _turned(text, at)
    return text[:at] + dice.pick([digit for digit in "0123456789" if digit != text[at]]) + text[at + 1 :]


def digits_turned(dice: Dice, number: int) -> int:
    """Two digits of a whole number changed over."""
    text = str(abs(number))
    spots = [at for at in range(len(text) - 1) if text[at] != text[at + 1] and not (at == 0 and text[1] == "0")]
    return int(_turned(text, dice.pick(spots))) if spots else number


def _turned(text: str, at: int) -> str:
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def letter_for_digit(dice: Dice, text: str) -> str:
    """A digit written as the letter that looks like it."""
    for digit, letter in dice.shuffled([("0", "O"), ("1", "l"), ("5", "S"), ("8", "B")]):
        if digit in text:
            return text.replace(digit, letter, 1)
    return text


def recase(dice: Dice, text: str) -> str:
    """All letters large, all small, or all the other way round."""
    return dice.pick([text.upper(), text.lower(), text.swapcase()])


def spaces(dice: Dice, text: str) -> str:
    """Blanks before, after or within, where they do not belong."""
    kind = dice.whole(0, 2)
    if kind == 0 or (kind == 1 and " " not in text):
        return text + " " * dice.whole(1, 2)
    return " " + text if kind == 2 else text.replace(" ", "  ", 1)


def truncate(dice: Dice, text: str) -> str:
    """The end cut off."""
    return text if len(text) < 6 else text[: dice.whole(len(text) // 3, len(text) - 2)].rstrip()


def mojibake(dice: Dice, text: str) -> str:
    """UTF-8 read as Latin-1; plain ASCII stays."""
    return text.encode("utf-8").decode("latin-1")


def lost_accents(dice: Dice, text: str) -> str:
    """Question marks for what is not ASCII."""
    return text.encode("ascii", "replace").decode("ascii")


def word_for_nothing(dice: Dice, text: str) -> str:
    """A word that says that there is no value."""
    return dice.pick(["N/A", "n/a", "unknown", "-", "NULL", "none", "?", "TBD", "missing"])


def no_leading_zeros(dice: Dice, text: str) -> str:
    """A code that went through a column of numbers."""
    return text.lstrip("0") or text


def zeros_lost_after(start: str) -> Change:
    """A code whose number was written without its zeros."""
    return lambda dice, text: start + text.removeprefix(start).lstrip("0")


def negative(dice: Dice, number: Any) -> Any:
    """The other sign."""
    return -number


def flipped(dice: Dice, truth: bool) -> bool:
    """True for false, false for true."""
    return not truth


def times(*factors: float) -> Change:
    """A number in another unit: multiplied by one of the factors."""

    def change(dice: Dice, number: Any) -> Any:
        factor = dice.pick(factors)
        if isinstance(number, Decimal):
            return (number * Decimal(str(factor))).quantize(Decimal("0.01"))
        if isinstance(number, int):
            return round(number * factor)
        return round(number * factor, 6)

    return change


def plus(*steps: int) -> Change:
    """A whole number off by one of the steps."""
    return lambda dice, number: number + dice.pick(steps)


def fixed(*values: Any) -> Change:
    """One of these values, whatever the true one is."""
    return lambda dice, value: dice.pick(values)


def mapped(variants: Mapping[str, Sequence[str]]) -> Change:
    """A listed variant of the value; one that is not listed stays."""
    return lambda dice, value: dice.pick(variants[value]) if value in variants else value


def replaced(old: str, new: str) -> Change:
    """A part of the text replaced wherever it occurs."""
    return lambda dice, text: text.replace(old, new)


def ended(*ends: str) -> Change:
    """One of the ends put behind the text."""
    return lambda dice, text: text + dice.pick(ends)


def with_year(day: Day, year: int) -> Day:
    """The day in another year, or the last of its month where there is no such day."""
    return day.replace(year=year, day=min(day.day, calendar.monthrange(year, day.month)[1]))


def day_month_swapped(dice: Dice, day: dt.date) -> dt.date:
    """The month read as the day; days after the twelfth stay."""
    return day.replace(month=day.day, day=day.month) if day.day <= 12 else day


def years_off(*years: int) -> Change:
    """A day off by one of these numbers of years."""
    return lambda dice, day: with_year(day, day.year + dice.pick(years))


def days_off(low: int, high: int) -> Change:
    """A day off by so many days, in either direction."""
    return lambda dice, day: day + dt.timedelta(days=dice.pick([-1, 1]) * dice.whole(low, high))
