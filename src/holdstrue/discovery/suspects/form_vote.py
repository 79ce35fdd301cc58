"""What the form of a column says of one of its values, and how many cells say what is usual."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_CELLS = 20
"""Known cells of a column that say what is usual in it."""

FEW = 0.05
"""What is usual is no error: traces and odd shapes are in no more than this share of the cells."""

RARE = 0.02
"""Rare shapes, and numbers far off, are in at most this share of the cells."""

OFF = 5.0
"""The weight of a vote for what is surely off: a trace, a shape, a number far outside."""

NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"


@dataclass(frozen=True)
class FormVote:
    """A vote on all cells of a column that have one code: it should be the proposed text, where that is known."""

    column: int
    code: int
    proposed: str | None
    weight: float
    why: str
    mute: bool
    """Whether the value is surely no witness for what other cells should be."""
