"""The table of operators against what Python says of small numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from holdstrue.kernels import pairs, runs
from holdstrue.operators import ABOVE, BELOW, EQUAL, SYMBOLS, Op

VALUES = list(product(range(3), repeat=2))


@pytest.mark.parametrize("op", Op)
def test_everything_follows_from_the_outcomes(op: Op) -> None:
    for a, b in VALUES:
        outcome = BELOW if a < b else EQUAL if a == b else ABOVE
        assert op.on_values(a, b) == (outcome in op.outcomes)
        assert op.flipped.on_values(b, a) == op.on_values(a, b) == (not op.negated.on_values(a, b))
        assert all(atom.on_values(a, b) for atom in op.atoms) == op.on_values(a, b)
    holds = {pair for pair in VALUES if op.on_values(*pair)}
    assert set(op.implied) == {other for other in Op if holds <= {pair for pair in VALUES if other.on_values(*pair)}}


@pytest.mark.parametrize("op", Op)
def test_arrays_are_compared_alike(op: Op) -> None:
    a, b = np.array(VALUES).T
    expected = [op.on_values(*pair) for pair in VALUES]
    assert op.on_codes(a, b).tolist() == op.truth(a < b, a == b).tolist() == expected


def test_kernels_number_them_alike() -> None:
    for module, names in ((pairs, "EQ NE LT LE GT GE"), (runs, "LT LE GT GE")):
        assert {name: getattr(module, name) for name in names.split()} == {
            name: Op[name].code for name in names.split()
        }
    assert all(SYMBOLS[str(op)] is op for op in Op)
