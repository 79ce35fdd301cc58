"""What a batch of a pair check is estimated to cost, by either way: probe the index or sweep the touched groups.

Nanoseconds on a busy Xeon at 2.8 GHz. `CANDIDATE` and `SWEPT_ROW` follow from one workload (see there), the others are
guesses of the right size: not yet calibrated one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from holdstrue.index.protocol import Shape
from holdstrue.operators import Op

FEW = 32
"""Rows up to which a batch is always probed: so many rows meet at most as many candidates as a sweep sorts rows."""
DRAWN = 16
"""Rows of a batch that are probed to estimate its candidates."""
LOOKED_AT = 1024
"""Rows of a table that are looked at to estimate how many are in the groups that a batch touches."""
MOST_DRAWN = 1 << 16
"""Candidates after which the estimate ends. Chosen, not tuned."""

PROBED_ROW = 1_500.0
"""To probe for a row that finds nothing."""
CANDIDATE = 60.0
"""To find a candidate, test it in both versions and count it on both sides: 10,000 updates of a million rows with 67
million candidates took 65 to 125 ns each, in runs where a row was swept in 350 to 650."""
SLOT = 6.0
"""To tell whether a row is in a touched group."""
SWEPT_ROW = 350.0
"""To sort a row by up to two terms and sweep it."""
HALVED_ROW = 130.0
"""To carry a row through one cut in half, with three terms."""
CUT_TO = 256
"""Rows at which cutting ends."""


COUNTED_ROW = 25.0
"""To count a row of a key or an FD in or out: 200,000 rows that replace as many took 5 ms."""


@dataclass(frozen=True)
class Estimate:
    """What a batch would cost by either way, in nanoseconds.

    >>> print(Estimate(None, 6e8, 200_000, 7.4e7, whole=True))
    the last batch started over: sweeping all 200,000 rows 74.0 ms, probing at least 600.0 ms (estimates)
    """

    candidates: int | None
    """None where probing is dearer whatever it finds, so that nobody asked."""
    probe: float
    swept_rows: int
    sweep: float
    whole: bool = False
    """Whether the groups that are swept hold every row."""

    @property
    def sweeps(self) -> bool:
        """Whether sweeping is cheaper."""
        return self.sweep < self.probe

    def __str__(self) -> str:
        found = "probing at least" if self.candidates is None else f"probing for about {self.candidates:,} candidates"
        probe = f"{found} {self.probe / 1e6:,.1f} ms"
        if not self.swept_rows:
            return f"the last batch probed the index: {probe}"
        sweep = f"sweeping {'all ' if self.whole else ''}{self.swept_rows:,} rows {self.sweep / 1e6:,.1f} ms"
        if self.sweeps:
            done = "started over" if self.whole else "swept the groups it touched"
            return f"the last batch {done}: {sweep}, {probe} (estimates)"
        return f"the last batch probed the index: {probe}, {sweep} (estimates)"


@dataclass(frozen=True)
class Counting:
    """How a batch of a key or an FD was counted: rows in and out, or those that are there in the end.

    >>> print(Counting(out=3_000, new=1_000, stay=500_000))
    the last batch counted 3,000 rows out and 1,000 in: 0.1 ms, starting over 12.5 ms (estimates)
    """

    out: int
    new: int
    stay: int

    @property
    def anew(self) -> bool:
        """Whether starting over is cheaper."""
        return self.out > self.stay

    def __str__(self) -> str:
        changes, anew = ((rows + self.new) * COUNTED_ROW / 1e6 for rows in (self.out, self.stay))
        if self.anew:
            rows = f"{self.stay:,} rows that stay and {self.new:,} new ones"
            return f"the last batch started over with {rows}: {anew:,.1f} ms, by changes {changes:,.1f} ms (estimates)"
        done = f"counted {self.out:,} rows out and {self.new:,} in: {changes:,.1f} ms"
        return f"the last batch {done}, starting over {anew:,.1f} ms (estimates)"


def probe_cost(rows: int, candidates: float) -> float:
    """To probe for so many rows and look at so many candidates."""
    return rows * PROBED_ROW + candidates * CANDIDATE


def sweep_cost(shape: Shape, rows: int, updated: int, violating: int) -> float:
    """To count so many rows by sweeping, and which pairs of updated rows, of those that violated, are still there.

    `updated` and `violating` are rows that were in a violation before: updated ones, and others of the same groups.
    """
    ordered = sum(term.op.is_order for term in shape.terms)
    sweeps = 2 ** sum(term.op is Op.NE for term in shape.terms)
    cost = sweeps * rows * row_cost(ordered, rows)
    if updated:
        # with staying rows in both roles, and with each other by the terms of both versions
        with_others, among = 2 * violating * row_cost(ordered, violating), updated * row_cost(2 * ordered, updated)
        cost += sweeps * sweeps * (with_others + among)
    return cost


def row_cost(ordered: int, rows: int) -> float:
    """To sweep one of so many rows with so many order terms.

    >>> row_cost(2, 1 << 20) < row_cost(3, 1 << 20) < row_cost(4, 1 << 20)
    True
    """
    cuts = max(1.0, log2(max(rows, 2) / CUT_TO))
    if ordered <= 3:
        return SWEPT_ROW + (HALVED_ROW * cuts if ordered == 3 else 0.0)
    # every further term leaves fewer rows to carry on: of 16,000 rows, at random and rising together, each took 1.2 to
    # 1.8 us with four terms, 1.7 to 2.4 with five, 2.2 to 2.6 with six, 3.3 to 3.5 with eight
    return SWEPT_ROW + HALVED_ROW * cuts**2 * (1 + (ordered - 4) / 4)
