"""The one table of comparison operators: whoever reads, prints, turns, negates or evaluates one asks here.

Two values stand to each other in one of three ways: below, equal, above. An operator is the set of these outcomes
that it allows, and nearly all else follows from that: exchanging the sides turns the outcomes, negating takes the
others, two comparisons of the same sides together allow what both do, and one follows from another that allows less.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from holdstrue.typing import Mask

Outcomes: TypeAlias = frozenset[str]

BELOW, EQUAL, ABOVE = "<", "=", ">"
"""How the left side stands to the right."""

_TURNED = {BELOW: ABOVE, EQUAL: EQUAL, ABOVE: BELOW}


class Op(StrEnum):
    """A comparison operator; its value is how rules print it, its place in the list how kernels number it.

    What cannot be computed stands here: the outcomes, and what others call the operator.
    """

    code: int
    """Its number in kernels."""
    outcomes: Outcomes
    """What it allows."""
    function: str
    """What numpy and Arrow call it."""
    says: str
    """The operator between two things, in words."""
    against: str
    """What a row that stands so to another has, in words, before the name of the column."""
    symbols: tuple[str, ...]
    """How people write it."""
    holoclean: str
    weever: tuple[str, ...]

    EQ = "=", "=", "equal", "is", "the same", ("=", "=="), "EQ", ("EQUAL",)
    NE = "!=", "<>", "not_equal", "is not", "another", ("!=", "<>", "≠"), "IQ", ("UNEQUAL", "NOT_EQUAL")
    LT = "<", "<", "less", "is less than", "a lower", ("<",), "LT", ("LESS",)
    LE = "<=", "<=", "less_equal", "is at most", "a lower or equal", ("<=", "≤"), "LTE", ("LESS_EQUAL",)
    GT = ">", ">", "greater", "is greater than", "a higher", (">",), "GT", ("GREATER",)
    GE = ">=", ">=", "greater_equal", "is at least", "a higher or equal", (">=", "≥"), "GTE", ("GREATER_EQUAL",)

    def __new__(cls, value: str, outcomes: str, *names: Any) -> Self:
        op = str.__new__(cls, value)
        op._value_ = value
        op.code, op.outcomes = len(cls.__members__), frozenset(outcomes)
        op.function, op.says, op.against, op.symbols, op.holoclean, op.weever = names
        return op

    @cached_property
    def flipped(self) -> Op:
        """The operator that holds when the two sides are exchanged."""
        return op_of(_TURNED[outcome] for outcome in self.outcomes)

    @cached_property
    def negated(self) -> Op:
        """The operator that holds exactly when this one does not (on known values)."""
        return op_of({BELOW, EQUAL, ABOVE} - self.outcomes)

    @cached_property
    def is_order(self) -> bool:
        """Whether it needs an order rather than equality alone."""
        return self.flipped is not self

    @cached_property
    def implied(self) -> tuple[Op, ...]:
        """Every operator that holds wherever this one does, itself among them.

        >>> [str(op) for op in Op.LT.implied]
        ['!=', '<', '<=']
        """
        return tuple(op for op in Op if self.outcomes <= op.outcomes)

    @cached_property
    def atoms(self) -> frozenset[Op]:
        """The operators among !=, <= and >= of which it is the conjunction.

        >>> sorted(Op.LT.atoms), sorted(Op.NE.atoms)
        ([<Op.NE: '!='>, <Op.LE: '<='>], [<Op.NE: '!='>])
        """
        return frozenset(op for op in self.implied if len(op.outcomes) == 2)

    @cached_property
    def on_values(self) -> Callable[[Any, Any], bool]:
        """The comparison of two Python values."""
        compare: Callable[[Any, Any], bool] = getattr(operator, self.name.lower())
        return compare

    @cached_property
    def on_codes(self) -> Callable[..., Mask]:
        """The comparison of arrays of codes, value by value."""
        import numpy as np  # rules are read without it

        compare: Callable[..., Mask] = getattr(np, self.function)
        return compare

    def truth(self, below: Mask, equal: Mask) -> Mask:
        """Where it holds, of values that are below others, or equal to them, or else above.

        >>> import numpy as np
        >>> Op.GE.truth(np.array([True, False, False]), np.array([False, True, False])).tolist()
        [False, True, True]
        """
        if len(self.outcomes) == 2:
            return ~self.negated.truth(below, equal)
        if EQUAL in self.outcomes:
            return equal
        return below if BELOW in self.outcomes else ~(below | equal)


_BY_OUTCOMES = {op.outcomes: op for op in Op}

SYMBOLS = {symbol: op for op in Op for symbol in op.symbols}
"""Every way of writing an operator in a rule."""

PATTERN = "|".join(re.escape(symbol) for symbol in sorted(SYMBOLS, key=len, reverse=True))
"""A regular expression that finds them."""

HOLOCLEAN = {op.holoclean: op for op in Op}
"""The operators by their names in HoloClean's constraints."""

WEEVER = {name: op for op in Op for name in op.weever}
"""The operators by their names in Weever's configuration."""


def op_of(outcomes: Any) -> Op:
    """The operator that allows these outcomes.

    >>> op_of(Op.LE.outcomes & Op.GE.outcomes)
    <Op.EQ: '='>
    """
    return _BY_OUTCOMES[frozenset(outcomes)]
