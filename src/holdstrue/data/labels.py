"""A growing dictionary whose labels keep the order of the values: for text, bytes and long decimals under < and >.

Labels are 64-bit integers with gaps. A value that falls between two known ones takes the middle of
their gap; a value beyond either end takes a step outward. When a gap is used up all values are
labelled anew and `epoch` grows, and whoever stored labels must translate them with `translation`.
Memory: the values as Python objects (about 60 bytes and their text) and 16 bytes a distinct value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.values import Family
from holdstrue.typing import I64

STEP = 1 << 32
"""Room for 32 halvings between neighbours and 2^30 values beyond either end."""


class Labels:
    """Values in order, each with a label that orders alike.

    Examples
    --------
    >>> labels = Labels("text")
    >>> b, d = labels.assign(["b", "d"])
    >>> [c] = labels.assign(["c"])
    >>> b < c < d
    True
    """

    def __init__(self, family: Family) -> None:
        self._family: Family = family
        self._values: list[Any] = []
        self._labels: list[int] = []
        self._label_of: dict[Any, int] = {}
        self.epoch = 0
        self.translation: tuple[I64, I64] | None = None

    def written(self) -> pa.Array:
        """The values in order as bytes that `restore` reads: text as UTF-8, numbers by their digits."""
        written = [value if isinstance(value, bytes) else str(value).encode() for value in self._values]
        return pa.array(written, type=pa.large_binary())

    def restore(self, written: Sequence[bytes], labels: Sequence[int]) -> None:
        """Take over values and labels as they were; a ValueError says why they cannot be.

        >>> Labels("text").restore([b"b", b"a"], [0, 1])
        Traceback (most recent call last):
        ValueError: its values do not ascend with their labels
        """
        try:
            values = [_READ[self._family](value) for value in written]
            ascend = all(a < b for known in (values, labels) for a, b in pairwise(known))
        except (UnicodeDecodeError, InvalidOperation) as error:
            raise ValueError(f"a value is no {self._family}") from error
        if not ascend or len(values) != len(labels):
            raise ValueError("its values do not ascend with their labels")
        self._values, self._labels = values, list(labels)
        self._label_of = dict(zip(self._values, self._labels, strict=True))

    def __len__(self) -> int:
        return len(self._values)

    @property
    def span(self) -> tuple[int, int]:
        """The lowest and the highest label."""
        return (self._labels[0], self._labels[-1]) if self._labels else (0, 0)

    @property
    def values(self) -> list[Any]:
        """The known values in order."""
        return self._values

    @property
    def labels(self) -> I64:
        """Their labels, ascending."""
        return np.array(self._labels, dtype=np.int64)

    def assign(self, values: Iterable[Any]) -> list[int]:
        """Labels of the values, giving new ones to the unknown.

        Complexity: O(log distinct) a known value, O(distinct) memory moves a new one.
        """
        wanted = list(values)
        new = sorted({value for value in wanted if value not in self._label_of})
        if len(new) > len(self._values):
            self._relabel(sorted({*self._values, *new}))
        else:
            for value in new:
                self._add(value)
        return [self._label_of[value] for value in wanted]

    def _add(self, value: Any) -> None:
        at = bisect_left(self._values, value)
        below = self._labels[at - 1] if at > 0 else None
        above = self._labels[at] if at < len(self._labels) else None
        if below is None:
            label = 0 if above is None else above - STEP
        elif above is None:
            label = below + STEP
        else:
            label = (below + above) // 2
        if label in (below, above) or not -(2**62) < label < 2**62:
            self._relabel([*self._values[:at], value, *self._values[at:]])
            return
        self._values.insert(at, value)
        self._labels.insert(at, label)
        self._label_of[value] = label

    def _relabel(self, values: list[Any]) -> None:
        old_values, old_labels = self._values, self.labels
        step = min(STEP, (2**62) // (len(values) + 1))
        self._values = values
        self._labels = [(i - len(values) // 2) * step for i in range(len(values))]
        self._label_of = dict(zip(self._values, self._labels, strict=True))
        if old_values:
            self.epoch += 1
            moved = np.array([self._label_of[value] for value in old_values], dtype=np.int64)
            self.translation = _compose(self.translation, old_labels, moved)

    def take_translation(self) -> tuple[I64, I64] | None:
        """Old labels (ascending) and what each became, since the last call; None when nothing moved."""
        translation, self.translation = self.translation, None
        return translation


_READ: dict[str, Callable[[bytes], Any]] = {
    "text": bytes.decode, "bytes": bytes, "decimal": lambda digits: Decimal(digits.decode()),
}  # fmt: skip


def _compose(
    earlier: tuple[I64, I64] | None,
    old: I64,
    new: I64,
) -> tuple[I64, I64]:
    if earlier is None:
        return old, new
    first_old, first_new = earlier
    return first_old, new[np.searchsorted(old, first_new)]
