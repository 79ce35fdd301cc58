"""What verifying rules says: which were looked at, which are broken, and by which rows."""

from __future__ import annotations

from dataclasses import dataclass

from holdstrue.typing import I64, Mask


@dataclass(frozen=True)
class PairVerdicts:
    """By rule: whether there was time to look at it, and two slots (t, s) that break it, or -1.

    Examples
    --------
    >>> import numpy as np
    >>> verdicts = PairVerdicts(np.array([True, True, False]), np.array([[4, 2], [-1, -1], [-1, -1]]))
    >>> verdicts.broken.tolist(), verdicts.holds.tolist(), verdicts.pair(0), verdicts.pair(1)
    ([True, False, False], [False, True, False], (4, 2), None)
    """

    looked: Mask
    pairs: I64

    @property
    def broken(self) -> Mask:
        """Which rules are broken."""
        found: Mask = self.pairs[:, 0] >= 0
        return found

    @property
    def holds(self) -> Mask:
        """Which rules hold for sure."""
        return self.looked & ~self.broken

    def pair(self, rule: int) -> tuple[int, int] | None:
        """Two rows that break a rule."""
        t, s = self.pairs[rule].tolist()
        return None if t < 0 else (t, s)
