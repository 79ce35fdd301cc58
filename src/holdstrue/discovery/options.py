"""What is looked for, and how far; shares as the decimals people write: 0.29 of 100 rows is 29 rows, not 28.999."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from holdstrue.data.seed import Seed
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


KINDS = ("dc", "fd", "key", "cfd", "ind", "column")
USUAL = ("dc", "fd", "key", "column")
"""The kinds that are looked for where nobody says which."""
Measure: TypeAlias = Literal["pairs", "rows"]
Method: TypeAlias = Literal["evidence", "index", "sweep"]
"""How denial constraints are kept: all pairs counted, candidate pairs fetched by indexes, rules counted by sweeps."""
Nulls: TypeAlias = Literal["unknown", "equal"]
_SHARES = {
    "error": "a share: at least 0 and below 1",
    "shared": "a share between 0 and 1",
    "confidence": "a share above 0, at most 1",
}


OPTIONS = {
    "kinds": [str], "columns": [str], "max_predicates?": (int, None), "error?": str, "measure?": str, "nulls?": str,
    "cross?": bool, "shared?": str, "sample?": (int, None), "budget?": (float, None), "threads?": (int, None),
    "arity?": int, "as_text?": bool, "support?": int, "confidence?": str,
}  # fmt: skip
"""The shape of `DiscoveryOptions.to_dict`, as `state/shape.py` has it, but for the digest."""


@dataclass(frozen=True)
class DiscoveryOptions:
    """The choices of a discovery; all are kept in its state.

    Parameters
    ----------
    kinds
        Which of dc, fd, key, cfd, ind and column.
    columns
        The columns that rules may speak of; all of them where it is empty.
    max_predicates
        The most predicates of a rule: an FD has one for each column, a key likewise.
    error, measure
        How much of the data may break a rule: a share of the pairs of rows (g1), or of the rows that
        would have to go (g3). The fewest rows that break a denial constraint cannot be counted in reasonable
        time (a minimum vertex cover), so these have pairs only. Of an inclusion it is the share of the
        left side's distinct values, with `rows` that of its rows; a conditional FD has `confidence` instead.
        Shares are taken as the decimals they are written as.
    nulls
        Whether a NULL is unknown, or equal to others.
    cross, shared
        Whether columns are compared across, and the least share of values that they must then share.
    sample
        Search in so many rows, then verify in all of them; None: as many as are worth it.
    budget
        Seconds after which the search stops with what it found; None for no end.
    threads
        How many threads search; as many as there are cores where it is None.
    arity
        The most columns on a side of an inclusion.
    as_text
        Whether inclusions compare values of different types as text.
    support, confidence
        Rows that a conditional FD must speak of, and the share of them that must follow it.
    seed
        Of the digests of values.
    """

    kinds: tuple[str, ...] = USUAL
    columns: tuple[str, ...] = ()
    max_predicates: int | None = None
    error: Proportion = Fraction(0)
    measure: Measure = "pairs"
    nulls: Nulls = "unknown"
    cross: bool = True
    shared: Proportion = Fraction(3, 10)
    sample: int | None = None
    budget: float | None = 120.0
    threads: int | None = None
    arity: int = 1
    as_text: bool = False
    support: int = 20
    confidence: Proportion = Fraction(1)
    seed: Seed = field(default_factory=Seed.new)

    def __post_init__(self) -> None:
        if not self.kinds or not set(self.kinds) <= set(KINDS):
            odd = next((kind for kind in self.kinds if kind not in KINDS), "")
            raise HoldstrueError(f"no kind of rule called {odd!r}", hint=f"one or more of {', '.join(KINDS)}")
        given = {name: getattr(self, name) for name in _SHARES}
        shares = {name: exact(value, name, _SHARES[name]) for name, value in given.items()}
        for name, share in shares.items():
            object.__setattr__(self, name, share)
        checks = (
            ("max_predicates", self.max_predicates is None or self.max_predicates >= 1, "at least 1"),
            ("error", 0 <= shares["error"] < 1, _SHARES["error"]),
            ("measure", self.measure in ("pairs", "rows"), "pairs or rows"),
            ("nulls", self.nulls in ("unknown", "equal"), "unknown or equal"),
            ("shared", 0 <= shares["shared"] <= 1, _SHARES["shared"]),
            ("sample", self.sample is None or self.sample >= 2, "at least 2 rows"),
            ("budget", self.budget is None or self.budget > 0, "seconds, more than 0"),
            ("threads", self.threads is None or self.threads >= 1, "at least 1"),
            ("arity", self.arity >= 1, "at least 1"),
            ("support", self.support >= 2, "at least 2 rows"),
            ("confidence", 0 < shares["confidence"] <= 1, _SHARES["confidence"]),
        )
        for name, good, wanted in checks:
            if not good:
                raise HoldstrueError(f"{name} is {given.get(name, getattr(self, name))!r}", hint=wanted)
        # an error that a kind of rule would not be judged by
        if self.error and self.measure == "rows" and "dc" in self.kinds:
            raise HoldstrueError(
                "rows do not measure denial constraints: the fewest rows to remove cannot be counted in general",
                hint="--measure pairs (measure='pairs'), or other kinds of rules, such as --kind fd,key",
            )
        if self.error and self.kinds == ("cfd",):
            raise HoldstrueError(
                f"an error of {float(exact(self.error))} for conditional FDs alone, which have a confidence",
                hint=f"--confidence {float(1 - exact(self.error))} (confidence=...) in place of the error",
            )

    @property
    def max_lhs(self) -> int | None:
        """The most columns of a key or of an FD's left side: n predicates are a key of n columns, an FD of n - 1."""
        if self.max_predicates is None:
            return None
        return self.max_predicates if "key" in self.kinds else max(1, self.max_predicates - 1)

    @property
    def max_conditional_lhs(self) -> int:
        """The most columns on the left of a conditional FD, with the one that has the constant."""
        return 2 if self.max_predicates is None else max(1, self.max_predicates - 1)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "seed"}
        shares = {name: share_text(getattr(self, name)) for name in _SHARES}
        return {**plain, **shares, "digest": self.seed.to_dict()}

    @staticmethod
    def of(data: Mapping[str, Any]) -> DiscoveryOptions:
        """From plain JSON data."""
        known = {field.name for field in fields(DiscoveryOptions)}
        given: dict[str, Any] = {name: value for name, value in data.items() if name in known}
        for name in ("kinds", "columns"):
            given[name] = tuple(given[name])
        return DiscoveryOptions(**given, seed=Seed.of(data["digest"]))
