"""Shares that rules are judged by, as the decimals people write: 0.29 of 100 rows is 29 rows, not 28.999."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from holdstrue.errors import HoldstrueError
from holdstrue.typing import I64

Proportion: TypeAlias = Fraction | Decimal | float | str
"""A float stands for the decimal that it prints as, and text for the decimal, or `n/d`, that it says."""

LONGEST = 400
"""Digits and exponents that a share may have: the longest decimal of a double has fewer before its zeros."""


def exact(share: Proportion, name: str = "share", hint: str = "give a share such as 0.01") -> Fraction:
    """The share as the rational number that is written.

    Examples
    --------
    >>> exact(0.29), exact("1/3"), int(0.29 * 100), allowed(0.29, 100)
    (Fraction(29, 100), Fraction(1, 3), 28, 29)
    """
    if isinstance(share, Fraction):
        return share
    text = str(share).strip()
    wrong = HoldstrueError(f"{name} is {share!r}", hint=hint)
    if len(text) > LONGEST:
        raise wrong
    try:
        parts = [Decimal(part) for part in text.split("/", 1)]
        # an exponent of millions would take all memory as a fraction
        if not all(part.is_finite() and abs(part.adjusted()) <= LONGEST for part in parts):
            raise wrong
        whole, *by = (Fraction(part) for part in parts)
        return whole / by[0] if by else whole
    except (InvalidOperation, ZeroDivisionError) as error:
        raise wrong from error


def allowed(share: Proportion, count: int) -> int:
    """How many of so many may be exceptions: the most that are no more than the share. Complexity: O(1)."""
    return int(exact(share) * count)


def most_of(share: Proportion, counts: I64) -> I64:
    """`allowed` of each of some counts."""
    return np.array([allowed(share, count) for count in counts.ravel().tolist()], dtype=np.int64).reshape(counts.shape)


def share_text(share: Proportion) -> str:
    """A share as text that `exact` reads back."""
    return str(exact(share))
