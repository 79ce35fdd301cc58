"""What is counted of a column: NULLs, values, the shapes of text, lengths, numbers below zero.

All of it is sums, so that rows that come and go are added and taken off. The shape of a text has 9 for a digit, A and a
for a letter of ASCII, and everything else as it is: `DE-1234` has the shape `AA-9999` and the loose shape `A-9`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.values import family_of
from holdstrue.discovery.columns.few_values import FewValues
from holdstrue.typing import I64

LONGEST = 64
"""Characters up to which a text has a shape; longer ones have the empty one, which nothing is made of."""
LONGEST_VALUE = 256
"""Characters up to which texts are told apart; those that are longer are no values of an enumeration."""

Occurrences: TypeAlias = tuple[pa.Array, I64]
"""Different values, and how often each is there."""

CLASSES = (("[0-9]", "9"), ("[A-Z]", "A"), ("[a-z]", "a"))
"""What stands for what in a shape, one after the other."""
RUNS = (("9+", "9"), ("A+", "A"), ("a+", "a"))
"""What makes a shape loose."""


@dataclass
class ColumnProfile:
    """The counts of one column.

    Examples
    --------
    >>> profile = ColumnProfile.of(pa.chunked_array([["DE-1", "DE-22", None, "AT-1"]]))
    >>> profile.rows, profile.known, profile.tallies["shapes"].counts, profile.tallies["forms"].counts
    (4, 3, {'AA-9': 2, 'AA-99': 1}, {'A-9': 3})
    >>> profile.change(pa.chunked_array([["x"]]), pa.chunked_array([["DE-22"]]))
    >>> profile.rows, profile.tallies["forms"].counts, profile.tallies["lengths"].counts
    (4, {'A-9': 2, 'a': 1}, {4: 2, 1: 1})
    """

    family: str | None
    rows: int = 0
    known: int = 0
    negative: int = 0
    tallies: dict[str, FewValues] = field(default_factory=dict)

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> ColumnProfile:
        """Count a whole column. Complexity: O(rows)."""
        profile = cls(family_of(column.type))
        profile.change(column, column.slice(0, 0))
        return profile

    def change(self, came: pa.ChunkedArray, went: pa.ChunkedArray) -> None:
        """Count rows that come and go. Complexity: O(rows of both)."""
        self.rows += len(came) - len(went)
        self.known += (len(came) - came.null_count) - (len(went) - went.null_count)
        self.negative += _negative(came, self.family) - _negative(went, self.family)
        if self.family not in ("text", "integer"):
            return
        new, old = _facts(came, self.family), _facts(went, self.family)
        for name, of in FACTS.items():
            if self.family == "text" or name == "values":
                self.tallies.setdefault(name, FewValues()).change(of(new), of(old) if len(old[0]) else None)

    @property
    def stale(self) -> bool:
        """Whether the column must be counted anew."""
        return any(tally.stale for tally in self.tallies.values())


def _facts(column: pa.ChunkedArray, family: str | None) -> Occurrences:
    """The different values that are known, as text or whole numbers."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if family == "text":
        column = column.cast(pa.large_string())
    counted = pc.value_counts(column.drop_null().combine_chunks())
    return counted.field("values"), counted.field("counts").to_numpy(zero_copy_only=False).astype(np.int64)


def _negative(column: pa.ChunkedArray, family: str | None) -> int:
    """How many numbers are below zero: as a double none comes to lie on the other side."""
    if family not in ("integer", "float", "decimal"):
        return 0
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return pc.sum(pc.less(plain.cast(pa.float64(), safe=False), 0.0)).as_py() or 0


def _grouped(keys: pa.Array, counts: I64) -> Occurrences:
    """Counts of keys that may be equal, together."""
    coded = keys.dictionary_encode()
    of = coded.indices.to_numpy(zero_copy_only=False)
    sums = np.bincount(of, weights=counts, minlength=len(coded.dictionary)).astype(np.int64)
    return coded.dictionary, sums


def values(facts: Occurrences) -> Occurrences:
    """The values themselves, texts that are long cut off."""
    found, counts = facts
    if not pa.types.is_large_string(found.type) or not len(found):
        return facts
    if pc.max(pc.utf8_length(found)).as_py() <= LONGEST_VALUE:
        return facts
    return _grouped(pc.utf8_slice_codeunits(found, 0, LONGEST_VALUE + 1), counts)


def shapes(facts: Occurrences) -> Occurrences:
    """The shapes of texts."""
    keys, counts = facts
    keys = pc.if_else(pc.greater(pc.utf8_length(keys), LONGEST), pa.scalar("", pa.large_string()), keys)
    for pattern, sign in CLASSES:
        keys = pc.replace_substring_regex(keys, pattern, sign)
    return _grouped(keys, counts)


def forms(facts: Occurrences) -> Occurrences:
    """Their loose shapes."""
    keys, counts = shapes(facts)
    for pattern, sign in RUNS:
        keys = pc.replace_substring_regex(keys, pattern, sign)
    return _grouped(keys, counts)


def lengths(facts: Occurrences) -> Occurrences:
    """How many characters they have."""
    texts, counts = facts
    return _grouped(pc.utf8_length(texts), counts)


FACTS: dict[str, Callable[[Occurrences], Occurrences]] = {
    "values": values,
    "shapes": shapes,
    "forms": forms,
    "lengths": lengths,
}
"""By the name of its tally what is counted of the different values; numbers have values only."""
