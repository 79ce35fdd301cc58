"""Shares at the edge: as many exceptions as a number allows, one more, or a little less, in every form they come in."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hypothesis import strategies as st

from holdstrue.discovery.options import Proportion


@st.composite
def shares(draw: st.DrawFn, count: int) -> tuple[Proportion, Fraction]:
    """A share of so many, below 1, as it is given and as it is meant."""
    plain = ("0.01", "0.05", "0.13", "0.29", "0.3", "0.57", "0.07")
    if not count or draw(st.booleans()):
        text = draw(st.sampled_from(plain))
    else:
        edge = Fraction(draw(st.integers(0, max(0, count // 2))), count)
        if draw(st.booleans()):
            return edge, edge
        # as a decimal of few digits the edge is met, or missed on either side
        places = Decimal(10) ** -draw(st.integers(2, 12))
        text = str((Decimal(edge.numerator) / Decimal(edge.denominator)).quantize(places))
    forms: list[Proportion] = [text, float(text), Decimal(text), Fraction(text)]
    return draw(st.sampled_from(forms)), Fraction(text)
