"""Content-addressed ids of attribute sets: what the paper's HEVs look up is computed (paper 000, Section 4).

The id of a column's value is 128 bits of its name and its value; the id of a set of columns is the lane-wise
sum of its columns' ids. So equal values have equal ids at every site without any table, and the id of a set
does not depend on the order or the places in which it was put together: id(X + Y) = id(X) + id(Y) for
disjoint X and Y. Ids are keyed by a seed that all sites of a relation share: two different values share an id with
probability about 2^-122, whoever chose them. An id is 16 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import spread
from holdstrue.data.coding import Domain, domain_of, encode, key_digest
from holdstrue.data.seed import Seed
from holdstrue.errors import DataError
from holdstrue.kernels.sorting import argsort
from holdstrue.typing import I32, U64, Mask


@dataclass(frozen=True)
class Ids:
    """Ids by row, in two lanes of 64 bits.

    Examples
    --------
    >>> rows = pa.table({"zip": ["E1", "E1", "E2"], "CC": [44, 44, 44]})
    >>> seed = Seed.new()
    >>> def ids(c): return column_ids(rows[c], common_domain(c, [rows[c].type], seed), c, nulls_equal=False)
    >>> both = ids("zip") + ids("CC")  # put together at any site, in any order
    >>> both.equals(ids("CC") + ids("zip")).all(), both.take([0]).equals(both.take([1, 2])).tolist()
    (np.True_, [True, False])
    """

    hi: U64
    lo: U64

    def __add__(self, other: Ids) -> Ids:
        return Ids(self.hi + other.hi, self.lo + other.lo)

    def __sub__(self, other: Ids) -> Ids:
        return Ids(self.hi - other.hi, self.lo - other.lo)

    def take(self, rows: NDArray[np.integer] | Mask | slice) -> Ids:
        """Some of them."""
        return Ids(self.hi[rows], self.lo[rows])

    def equals(self, other: Ids) -> Mask:
        """Where both are the same."""
        return (self.hi == other.hi) & (self.lo == other.lo)

    @property
    def size(self) -> int:
        """How many."""
        return self.hi.size

    @staticmethod
    def zeros(size: int) -> Ids:
        """The id of the empty set."""
        return Ids(np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.uint64))

    @staticmethod
    def concat(parts: Iterable[Ids]) -> Ids:
        """One after the other."""
        known = [*parts]
        if not known:
            return Ids.zeros(0)
        return Ids(np.concatenate([part.hi for part in known]), np.concatenate([part.lo for part in known]))


def common_domain(name: str, types: Iterable[pa.DataType], seed: Seed) -> Domain:
    """How a column is coded at all sites that hold it."""
    found = domain_of([*types], ordered=False, seed=seed)
    if found is None:
        shown = ", ".join(sorted({str(data_type) for data_type in types}))
        raise DataError(
            f"column {name!r} has types that do not compare at its sites: {shown}", hint="give it one type everywhere"
        )
    return found


def column_ids(column: pa.ChunkedArray | pa.Array, domain: Domain, name: str, *, nulls_equal: bool) -> Ids:
    """The ids of a column's values, by its distinct ones where it is coded so. Complexity: O(values)."""
    if isinstance(column, pa.DictionaryArray):
        distinct = column_ids(column.dictionary, domain, name, nulls_equal=nulls_equal)
        return Ids(spread(distinct.hi, column), spread(distinct.lo, column))
    values = encode(column, domain, name=name)
    hi, lo = np.empty(len(column), dtype=np.uint64), np.empty(len(column), dtype=np.uint64)
    hi[:], lo[:] = _start(name)
    values.extend(hi, lo, nulls_equal=nulls_equal)
    return Ids(hi, lo)


def key_ids(rows: pa.Table, key: tuple[str, ...], domains: Mapping[str, Domain]) -> Ids:
    """The ids of rows, by their key. Complexity: O(rows)."""
    columns = [encode(rows.column(name), domains[name], name=name) for name in key]
    hi, lo, _ = key_digest(columns, rows.num_rows, domains[key[0]].seed, nulls_equal=True)
    return Ids(hi, lo)


def in_order(ids: Ids) -> I32:
    """The permutation that sorts ids, the same at every site. Complexity: O(n)."""
    order = argsort(ids.lo.view(np.int64))
    lo = ids.lo[order]
    if lo.size and (lo[1:] == lo[:-1]).any():
        # equal lower lanes: a repeated key, or one chance in 2^64
        return np.lexsort((ids.hi, ids.lo.view(np.int64))).astype(np.int32)
    return order


def _start(name: str) -> tuple[np.uint64, np.uint64]:
    """Where the id of a column starts: columns with equal values have different ids."""
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return np.uint64(int.from_bytes(digest[:8], "little")), np.uint64(int.from_bytes(digest[8:], "little"))
