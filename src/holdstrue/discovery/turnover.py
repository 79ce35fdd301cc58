"""What a batch did to the discovered rules."""

from __future__ import annotations

from dataclasses import dataclass

from holdstrue.rules.model import Body


@dataclass(frozen=True)
class Died:
    """A rule that is no longer among the minimal ones.

    `witness` are the slots of the rows that break it: one pair, or one row; empty where it still
    holds and a smaller rule took its place.
    """

    body: Body
    witness: tuple[int, ...] = ()


@dataclass(frozen=True)
class Turnover:
    """Rules that a batch ended and rules that it made."""

    died: tuple[Died, ...] = ()
    born: tuple[Body, ...] = ()
