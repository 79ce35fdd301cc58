"""What is looked for in a table."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from holdstrue.data.seed import PROCESS, Seed
from holdstrue.discovery.dependencies.codes import Nulls
from holdstrue.discovery.shares import Proportion, exact
from holdstrue.errors import DataError


@dataclass(frozen=True)
class Options:
    """Which keys and FDs are looked for.

    Parameters
    ----------
    kinds
        `fd`, `key` or both.
    nulls
        Whether NULL is unknown, so that it never breaks a rule, or a value like others.
    max_lhs
        The most columns of a key or a left side; by default as many as there are.
    threads
        By default one for each processor.
    error, measure
        How much may break a rule (`ApproximateCore`): a share of the `pairs` of rows, or of the `rows`,
        of which so many would have to go.
    seed
        Of the digests of values; that of the state where they are kept.
    """

    kinds: tuple[str, ...] = ("fd", "key")
    nulls: Nulls = "unknown"
    max_lhs: int | None = None
    threads: int | None = None
    error: Proportion = Fraction(0)
    measure: Literal["pairs", "rows"] = "pairs"
    seed: Seed = PROCESS

    def __post_init__(self) -> None:
        if self.max_lhs is not None and self.max_lhs < 1:
            raise DataError(f"max_lhs is {self.max_lhs}", hint="left sides have at least one column")
        object.__setattr__(self, "error", exact(self.error, "error"))
        if not 0 <= exact(self.error) < 1:
            raise DataError(f"error is {self.error}", hint="give a share, at least 0 and below 1")
