"""Inclusions ranked by how much they look like foreign keys.

Each gets a score in [0, 1]:

    score = fit * (0.1 + 0.9 * key) * (0.5 + 0.5 * rest)
    rest  = 0.40 * names + 0.25 * coverage + 0.15 * in_range + 0.20 * evidence

| part | is 1 when | is less by |
|---|---|---|
| fit | every row of the left side refers to a value that is there | the share of rows that do not |
| key | the right side's values are unique | fifty times the share of right rows that repeat one; 0 from 2% on |
| names | the columns are called alike, or as table and column: `customer_id`, `customers.id` | the share of letters |
| coverage | every value of the right side is referred to | the share that is not |
| in_range | the right side's values lie between the least and the largest of the left's | the share outside |
| evidence | the left side has many distinct values, so that they are not there by chance | 4 / (4 + values) |

The parts follow what is known to tell foreign keys from accidents (Rostin et al., 2009; Zhang et al., 2010);
the weights are chosen, not tuned. Where one inclusion that refers to a key is a part of another, the better
one is kept: at scores that agree to 0.01 that of more columns if all are called alike, else that of fewer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.buffers import known, numbers, plain
from holdstrue.data.digests import doubles, limbs, whole_numbers
from holdstrue.data.values import CLOCKS, PER_SECOND, family_of
from holdstrue.discovery.inclusions.attributes import Attribute
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from holdstrue.discovery.inclusions.unary import FoundInclusion
from holdstrue.errors import DataError
from holdstrue.rules.model import Inclusion
from holdstrue.typing import F64

NEARLY_A_KEY = 0.5
"""From this `key` on a right side counts as one that can be referred to."""


@dataclass(frozen=True)
class ForeignKey:
    """An inclusion with what speaks for its being a foreign key."""

    found: FoundInclusion
    rows: int
    missing_rows: int
    key: float
    names: float
    coverage: float
    in_range: float
    evidence: float

    @property
    def fit(self) -> float:
        """The share of the left side's rows whose reference is there."""
        return 1.0 if not self.rows else 1 - self.missing_rows / self.rows

    @property
    def score(self) -> float:
        """How much it looks like a foreign key, from 0 to 1; see the module."""
        rest = 0.4 * self.names + 0.25 * self.coverage + 0.15 * self.in_range + 0.2 * self.evidence
        return self.fit * (0.1 + 0.9 * self.key) * (0.5 + 0.5 * rest)


def foreign_keys(core: InclusionCore, tables: Mapping[str, pa.Table] | ValueRanges) -> tuple[ForeignKey, ...]:
    """What looks like foreign keys, best first: of those that are parts of one another only the best.

    Columns without values refer to nothing. `tables` are those of the core, as they are now.
    Complexity: O(rows + values + inclusions).
    """
    chosen = _without_parts([one for one in ranked(core, tables) if one.found.values])
    return tuple(sorted(chosen, key=_by_score))


class ValueRanges(Protocol):
    """Who looks how far columns reach."""

    def inside(self, table: str, column: str, ref_table: str, ref_column: str) -> float:
        """The share of the right column's rows with a value that lie in the left column's range."""


def ranked(core: InclusionCore, tables: Mapping[str, pa.Table] | ValueRanges) -> tuple[ForeignKey, ...]:
    """All found inclusions, best first; of tables, or of what is known of their columns.

    Complexity: O(rows + values + inclusions).
    """
    counted = _Counted(core)
    ranges = _Ranges(tables) if isinstance(tables, Mapping) else tables
    found = []
    for rule in core.rules():
        left, right = _sides(rule.body)
        rows, missing_rows = counted.rows(left, right)
        columns = list(zip(left.columns, right.columns, strict=True))
        found.append(
            ForeignKey(
                rule,
                rows,
                missing_rows,
                counted.key(right),
                float(np.mean([alike(a, right.table, b) for a, b in columns])),
                (rule.values - rule.missing) / max(1, counted.values(right)),
                float(np.mean([ranges.inside(left.table, a, right.table, b) for a, b in columns])),
                rule.values / (rule.values + 4),
            )
        )
    return tuple(sorted(found, key=_by_score))


def _by_score(one: ForeignKey) -> float:
    return -one.score


def _without_parts(found: list[ForeignKey]) -> list[ForeignKey]:
    """Of those that refer to keys and are parts of one another only the best."""
    kept: list[ForeignKey] = []
    chosen: defaultdict[tuple[str | None, str], list[frozenset[tuple[str, str]]]] = defaultdict(list)
    for one in sorted(found, key=_preference):
        body = one.found.body
        columns = frozenset(zip(body.columns, body.ref_columns, strict=True))
        others = chosen[body.table, body.ref_table]
        if one.key >= NEARLY_A_KEY:
            if any(columns < other or other < columns for other in others):
                continue
            others.append(columns)
        kept.append(one)
    return kept


def _preference(one: ForeignKey) -> tuple[float, int]:
    size = len(one.found.body.columns)
    return -round(one.score, 2), -size if one.names == 1 else size


class _Counted:
    """Values and rows of the attributes, from the counters of their arity."""

    def __init__(self, core: InclusionCore) -> None:
        self._numbers = [core.unary.numbers, *(level.attributes for level in core.levels)]
        self._shared = [core.unary.structure.shared(), *(level.shared() for level in core.levels)]
        self._rows = [core.unary.structure.shared_rows(), *(level.shared_rows() for level in core.levels)]

    def values(self, attribute: Attribute) -> int:
        """Distinct values."""
        at = self._numbers[len(attribute.columns) - 1][attribute]
        return int(self._shared[len(attribute.columns) - 1][at, at])

    def rows(self, left: Attribute, right: Attribute) -> tuple[int, int]:
        """Rows of the left side, and those whose value the right side lacks."""
        size = len(left.columns) - 1
        a, b = self._numbers[size][left], self._numbers[size][right]
        own = int(self._rows[size][a, a])
        return own, own - int(self._rows[size][a, b])

    def key(self, attribute: Attribute) -> float:
        """1 for unique values, 0 where one row in fifty repeats another's."""
        size = len(attribute.columns) - 1
        at = self._numbers[size][attribute]
        rows = int(self._rows[size][at, at])
        return 0.0 if not rows else max(0.0, 1 - 50 * (rows - self.values(attribute)) / rows)


class _Ranges:
    """Least and largest values of columns."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = tables
        self._inside = cache(self._look)

    def inside(self, table: str, column: str, ref_table: str, ref_column: str) -> float:
        """The share of the right column's rows with a value that lie in the left column's range."""
        return self._inside(table, column, ref_table, ref_column)

    def _look(self, table: str, column: str, ref_table: str, ref_column: str) -> float:
        left, right = plain(self._column(table, column)), plain(self._column(ref_table, ref_column))
        if left.null_count == len(left) or right.null_count == len(right):
            return 0.0
        sizes = _sizes(left), _sizes(right)
        if sizes[0] is not None and sizes[1] is not None:
            low, high = sizes[0].min(), sizes[0].max()
            return float(np.mean((sizes[1] >= low) & (sizes[1] <= high)))
        left, right = _as_bytes(left), _as_bytes(right)
        bounds = pc.min_max(left)
        within = pc.and_(pc.greater_equal(right, bounds["min"]), pc.less_equal(right, bounds["max"]))
        return float(pc.mean(within).as_py())

    def _column(self, table: str, column: str) -> pa.ChunkedArray:
        if table not in self._tables:
            raise DataError(
                f"no table {table!r} was given to rank inclusions", hint="give the tables that were searched"
            )
        return self._tables[table].column(column)


def _sizes(array: pa.Array) -> F64 | None:
    """The known values as doubles, which is near enough: a range is a hint, not a proof. None for text and bytes."""
    match family_of(array.type):
        case "text" | "bytes":
            return None
        case "float":
            sizes = doubles(array)
        case "decimal":
            words = limbs(array)
            weights = 2.0 ** (64 * np.arange(words.shape[1]))
            lower = words[:, :-1].astype(np.float64) @ weights[:-1]
            sizes = (lower + words[:, -1].view(np.int64) * weights[-1]) * 10.0**-array.type.scale
        case family:
            unit = PER_SECOND[array.type.unit] if family in CLOCKS else 1
            large = pa.types.is_uint64(array.type)
            sizes = (numbers(array, np.uint64) if large else whole_numbers(array)).astype(np.float64) / unit
    return sizes[known(array)]


def _as_bytes(array: pa.Array) -> pa.Array:
    if family_of(array.type) not in ("text", "bytes"):
        array = (array.cast(pa.int64()) if pa.types.is_duration(array.type) else array).cast(pa.large_string())
    return array.cast(pa.large_binary())


def alike(column: str, ref_table: str, ref_column: str) -> float:
    """How alike names are: of the columns, or of a column and the other table with or without its column.

    Examples
    --------
    >>> alike("carrier", "airlines", "carrier"), alike("customer_id", "customers", "id")
    (1.0, 1.0)
    >>> alike("l_orderkey", "orders", "o_orderkey"), round(alike("dest", "airports", "faa"), 2)
    (1.0, 0.18)
    """
    own, other, table = _plain(column), _plain(ref_column), _plain(ref_table).removesuffix("s")
    return max(SequenceMatcher(None, own, name, autojunk=False).ratio() for name in (other, table + other, table))


def _plain(name: str) -> str:
    """Letters and digits only, without a prefix of one letter as in `l_orderkey`."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"^[a-z]_", "", name.lower()))


def _sides(body: Inclusion) -> tuple[Attribute, Attribute]:
    return Attribute(str(body.table), body.columns), Attribute(body.ref_table, body.ref_columns)
