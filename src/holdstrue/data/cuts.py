"""Values at which a column is cut into ranges, and the range of every value: alike in all processes, for all types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.buffers import known, numbers, plain
from holdstrue.data.coding import Domain, encode
from holdstrue.data.labels import SortedValues, ordered_bytes
from holdstrue.typing import I32, I64


@dataclass(frozen=True)
class Cuts:
    """Some values of a column, ascending: each of them is a range, and so is what lies between two.

    Ranges are numbered upwards, so that of two values in different ranges the numbers compare as they do; a range with
    an odd number holds one value. NaN is above all numbers.
    """

    domain: Domain
    codes: I64
    """The values where codes order as they do."""
    keys: Any = None
    """An Arrow array of bytes that order as they do, of a domain whose codes depend on a dictionary."""

    @staticmethod
    def of(sample: pa.ChunkedArray, domain: Domain, most: int, name: str) -> Cuts:
        """Cuts at so many values at most, between which a sample has about as many rows. Complexity: O(n log n).

        >>> from holdstrue.data.seed import Seed
        >>> domain = Domain("int", "integer", Seed.new())
        >>> cuts = Cuts.of(pa.chunked_array([[4, 1, 1, 1, None, 3, 2, 9]]), domain, 2, "a")
        >>> cuts.codes.tolist(), cuts.numbers(pa.chunked_array([[0, 1, 3, 4, None, 9]]), "a").tolist()
        ([1, 3], [0, 1, 3, 4, -1, 4])
        """
        values = plain(sample).drop_null()
        spots = (np.arange(most) + 1) * len(values) // (most + 1) if len(values) else np.zeros(0, dtype=np.int64)
        if domain.kind != "label":
            return Cuts(domain, np.unique(np.sort(encode(values, domain, name=name).codes)[spots]))
        keys, at = ordered_bytes(values, domain.family)
        chosen = pa.array(sorted({keys[at[spot]].as_py() for spot in _by_key(keys, at)[spots]}), type=keys.type)
        return Cuts(domain, np.empty(0, dtype=np.int64), chosen)

    @property
    def ranges(self) -> int:
        """How many there are."""
        return 2 * (self.codes.size if self.keys is None else len(self.keys)) + 1

    def numbers(self, column: pa.ChunkedArray, name: str) -> I32:
        """The number of each value's range, -1 of NULL. Complexity: O(n log cuts)."""
        values = plain(column)
        if self.keys is None:
            coded = encode(values, self.domain, name=name)
            below = np.searchsorted(self.codes, coded.codes)
            upto = np.searchsorted(self.codes, coded.codes, side="right")
            found = (below + upto).astype(np.int32)
            return found if coded.valid is None else np.where(coded.valid, found, np.int32(-1))
        keys, at = ordered_bytes(values.drop_null(), self.domain.family)
        places = SortedValues(self.keys, self.codes).places(keys)
        found = np.full(len(values), -1, dtype=np.int32)
        found[known(values)] = np.where(places >= 0, 2 * places + 1, 2 * ~places)[at]
        return found


def _by_key(keys: pa.Array, at: I64) -> I64:
    """The order of values whose keys are those at some places."""
    order = numbers(pc.sort_indices(keys), np.uint64).astype(np.int64)
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    return np.argsort(rank[at], kind="stable")
