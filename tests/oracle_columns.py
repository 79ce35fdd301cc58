"""What discovery says of one column, counted value by value in plain Python."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any


def rules_of(name: str, values: Sequence[Any]) -> dict[str, int]:
    """The rules that a column speaks for, as text, each with how many rows break it."""
    known = [value for value in values if value is not None]
    if len(known) < 20:
        return {}
    found: dict[str, int] = {}
    least = 0.95 * len(known)
    form = None
    if all(isinstance(value, int) and not isinstance(value, bool) for value in known):
        form = between(name, known, least) or enumeration(name, known, least)
    elif all(isinstance(value, str) for value in known):
        form = (
            enumeration(name, known, least)
            or shape(name, known, least, loose=False)
            or shape(name, known, least, loose=True)
            or length(name, known, least)
        )
    if form is not None:
        found[form[0]] = len(known) - form[1]
    elif isinstance(known[0], int | float | Decimal) and not isinstance(known[0], bool):
        negative = sum(value < 0 for value in known)
        if negative <= 0.01 * len(known):
            found[f"{name} >= 0"] = negative
    if len(values) - len(known) <= 0.05 * len(values):
        found[f"not null({name})"] = len(values) - len(known)
    return found


def between(name: str, known: list[int], least: float) -> tuple[str, int] | None:
    """Whole numbers that fill a stretch of which at most single numbers and one in four are missing."""
    if len(set(known)) > 1000:
        return None
    stretches: list[list[int]] = []
    for number in sorted(set(known)):
        if stretches and number - stretches[-1][-1] <= 2:
            stretches[-1].append(number)
        else:
            stretches.append([number])
    best: tuple[int, list[int]] | None = None
    for own in stretches:
        rows = sum(value in own for value in known)
        full = len(own) >= 5 and len(own) >= 0.75 * (own[-1] - own[0] + 1) and rows >= 3 * len(own)
        if full and (best is None or rows > best[0]):
            best = rows, own
    if best is None or best[0] < least:
        return None
    return f"{name} between {best[1][0]} and {best[1][-1]}", best[0]


def enumeration(name: str, known: list[Any], least: float) -> tuple[str, int] | None:
    """The fewest values, two to twenty, of which each is five times as common as any that is left."""
    counts = Counter(value[:257] if isinstance(value, str) else value for value in known)
    if len(counts) > 1000:
        return None
    ranked = sorted(counts, key=lambda value: (-counts[value], value))
    for size in range(2, min(20, len(ranked)) + 1):
        fits = sum(counts[value] for value in ranked[:size])
        rest = [counts[value] for value in ranked[size:]]
        rarest = counts[ranked[size - 1]]
        if len(known) - fits <= 0.05 * len(known) and rarest >= max(5, 5 * max(rest, default=0)):
            said = ", ".join(_quoted(v) if isinstance(v, str) else str(v) for v in sorted(ranked[:size]))
            main: list[Any] = sorted(ranked[:size])
            if isinstance(main[0], int) and size >= 5 and 2 * size >= main[-1] - main[0] + 1:
                return None
            long = any(isinstance(v, str) and len(v) > 256 for v in ranked[:size])
            return (f"{name} in ({said})", fits) if len(known) >= 10 * size and fits >= least and not long else None
    return None


def shape(name: str, known: list[str], least: float, *, loose: bool) -> tuple[str, int] | None:
    """Texts of up to three shapes, or two loose ones, as one pattern."""
    strict = Counter(_shape(value) for value in known)
    counts = Counter(_form(_shape(value)) for value in known) if loose else strict
    if len(counts) > 1000:
        return None
    main = sorted(one for one, count in counts.items() if count >= 0.05 * len(known))
    words = any(re.fullmatch("[Aa ]*", one) and not re.fullmatch("A+", one) for one in main)
    odd = any(not re.fullmatch(r"""[9Aa.+()*?$|\\\[\]{}^_/:,;@#%&'" -]+""", one) for one in main)
    if not 0 < len(main) <= (2 if loose else 3) or words or odd:
        return None
    patterns = []
    for form in dict.fromkeys(map(_form, main)):
        own = [[len(run) for run in re.findall("9+|A+|a+", one)] for one in main if _form(one) == form]
        pattern, at = "", 0
        for sign in form:
            if sign in "9Aa":
                low, high = min(runs[at] for runs in own), max(runs[at] for runs in own)
                at += 1
                times = f"{{{low}}}" if low == high else f"{{{low},{high}}}"
                pattern += {"9": "[0-9]", "A": "[A-Z]", "a": "[a-z]"}[sign]
                pattern += "+" if loose else "" if low == high == 1 else times
            else:
                pattern += f"\\{sign}" if sign in r".+()*?$|\[]{}^" else sign
        patterns.append(pattern)
    whole = patterns[0] if len(patterns) == 1 else f"({'|'.join(patterns)})"
    fits = sum(re.fullmatch(whole, value) is not None and len(value) <= 64 for value in known)
    return (f"{name} matches {_quoted(f'^{whole}$')}", fits) if fits >= least else None


def length(name: str, known: list[str], least: float) -> tuple[str, int] | None:
    """More than twenty texts of one length."""
    counts = Counter(map(len, known))
    size = min(counts, key=lambda one: (-counts[one], one))
    if len(counts) > 1000 or size < 2 or len({value[:257] for value in known}) <= 20 or counts[size] < least:
        return None
    return f"len({name}) = {size}", counts[size]


def _shape(value: str) -> str:
    if len(value) > 64:
        return ""
    return re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "9", value)))


def _form(one: str) -> str:
    return re.sub("([9Aa])\\1+", "\\1", one)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
