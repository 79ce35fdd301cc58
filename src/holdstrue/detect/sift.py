"""The rows of a whole table that may violate a key or an FD: few where the data is clean, found in two quick passes.

Of paper 002's steps this is GROUP and MATCH without the groups: rows that no bucket puts beside another with a
different right side are out (`kernels/sift.py`), and only what is left is coded, grouped and counted exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from threading import Lock
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import known, plain, spread
from holdstrue.data.coding import Domain, encode
from holdstrue.data.digests import lower_lane
from holdstrue.data.distinct import rows_at
from holdstrue.detect.by_value import ConstantRows
from holdstrue.kernels import sift as kernels
from holdstrue.plan.checks import GroupCheck
from holdstrue.plan.filter import holds
from holdstrue.rules.model import Condition
from holdstrue.threads import each
from holdstrue.typing import I32, U64, Mask

PIECE = 1 << 16
"""Rows that are coded and sifted at a time: what is written of them stays in the caches until it is read."""

FACTORS = tuple(np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xBF58476D1CE4E5B9))
"""What words are multiplied by to find their buckets: rows that met by chance in one round part in the next."""

_BUCKETS, _RIGHT_BUCKETS = 8, 32
"""Buckets a row of a key, which take two bits each, and a group of an FD, which take a word: 11 and 3 percent of rows
meet others by chance in the first round."""
_SAMPLE = 1 << 11
"""Rows from which it is guessed how many groups there are."""

_ALL_KNOWN = np.empty(0, dtype=np.bool_)

Words: TypeAlias = tuple[U64, Mask | None]
"""By row a word that stands for its value, and which values are known (None: all)."""


class Pieces:
    """A whole table in pieces of equally cut columns, and the words of its columns, made once for all rules."""

    def __init__(
        self,
        values: pa.Table,
        domains: dict[str, tuple[int, Domain]],
        threads: int,
        conditions: Iterable[Condition | None] = (),
        sharing: int | None = None,
    ) -> None:
        self.values = values
        self.rows = values.num_rows
        self.threads = threads
        self.sharing = threads if sharing is None else sharing
        """How many threads share the rows of one sieve: each fills one of its own, which then are joined."""
        self._domains = domains
        self.batches: list[pa.RecordBatch] = values.to_batches(max_chunksize=PIECE)
        self.starts = [0, *accumulate(batch.num_rows for batch in self.batches)]
        self._words: dict[str, Words] = {}
        self._lookup = ConstantRows(values, conditions)
        self._wanted: Counter[str] = Counter()
        self._lock = Lock()

    def satisfying(self, condition: Condition) -> I32:
        """Slots of the rows that are known to satisfy a condition, ascending. Complexity: O(rows).

        O(rows that have one of its constants) where rules compare its columns with many.
        """
        looked_up = self._lookup.satisfying(condition)
        if looked_up is not None:
            return looked_up

        def found(at: int) -> I32:
            batch = self.batches[at]
            passed = np.flatnonzero(holds(condition, batch.column, batch.num_rows))
            return (passed + self.starts[at]).astype(np.int32)

        parts = each(found, range(len(self.batches)), self.threads)
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)

    def only(self, slots: I32, columns: Sequence[str]) -> Pieces:
        """The same of some columns of some rows. Complexity: O(rows taken)."""
        return Pieces(
            rows_at(self.values.select(list(columns)), slots), self._domains, self.threads, sharing=self.sharing
        )

    def is_digested(self, column: str) -> bool:
        """Whether a column's words are digests."""
        return exact_domain(self._domains[column][1]).kind == "digest"

    def words(self, column: str) -> Words:
        """A column's words: equal exactly where the values are."""
        with self._lock:
            if column not in self._words:
                self._words[column] = self._made(column)
            return self._words[column]

    def expect(self, columns: Iterable[str]) -> None:
        """Say that a rule will need the words of some columns."""
        self._wanted.update(columns)

    def release(self, columns: Iterable[str]) -> None:
        """Say that a rule is done: words that no other needs are let go."""
        with self._lock:
            for column in columns:
                self._wanted[column] -= 1
                if self._wanted[column] <= 0:
                    self._words.pop(column, None)

    def _made(self, column: str) -> Words:
        words = np.empty(self.rows, dtype=np.uint64)
        domain = exact_domain(self._domains[column][1])

        def make(at: int) -> Mask | None:
            start, end = self.starts[at], self.starts[at + 1]
            part, valid = words_of(self.batches[at].column(column), domain, column)
            words[start:end] = part
            return valid

        masks = each(make, range(len(self.batches)), self.threads)
        if all(mask is None for mask in masks):
            return words, None
        whole = [
            np.ones(batch.num_rows, dtype=np.bool_) if mask is None else mask
            for batch, mask in zip(self.batches, masks, strict=True)
        ]
        return words, np.concatenate(whole)


def exact_domain(domain: Domain) -> Domain:
    """The domain where only equality counts: values that are ordered by labels have digests."""
    return Domain("digest", domain.family, domain.seed) if domain.kind == "label" else domain


def words_of(array: pa.Array, domain: Domain, name: str) -> Words:
    """The words of some values, of a dictionary once for each value that it holds."""
    if pa.types.is_dictionary(array.type):
        words, _ = words_of(plain(array.dictionary), domain, name)
        sure = not (array.indices.null_count or array.dictionary.null_count)
        return spread(words, array), None if sure else known(array)
    if domain.kind == "digest":
        array = plain(array)
        return lower_lane(array, domain.seed), known(array) if array.null_count else None
    coded = encode(array, domain, name=name)
    return coded.identity.view(np.uint64), coded.valid


@dataclass(frozen=True)
class _Right:
    """Right sides of some rows."""

    values: U64
    known: Mask


def sifted(check: GroupCheck, pieces: Pieces) -> I32:
    """Slots of all rows that are in a violation of the check, ascending, and of few others. Complexity: O(rows)."""
    slots: I32 | None = None
    if check.member is not None:
        slots = pieces.satisfying(check.member)
    if slots is not None and slots.size < pieces.rows // 4:
        # few rows: only these are coded
        pieces = pieces.only(slots, check.columns(check.table))
        return slots[_sift(check, pieces, None)]
    return _sift(check, pieces, slots)


def _sift(check: GroupCheck, pieces: Pieces, slots: I32 | None) -> I32:
    # digests are as well spread as words of several columns
    spread_out = len(check.lhs) == 1 and pieces.is_digested(check.lhs[0])
    words, usable = np.zeros(0 if spread_out else pieces.rows, dtype=np.uint64), None
    for column in check.lhs:
        values, valid = pieces.words(column)
        if valid is not None:
            if check.nulls_equal:
                values = np.where(valid, values, np.uint64(0))
            else:
                usable = valid if usable is None else usable & valid
        if spread_out:
            words = values
        else:
            _in_parts(partial(_extend, words, values), pieces.rows, pieces.threads)
    if usable is not None:
        slots = np.flatnonzero(usable).astype(np.int32) if slots is None else slots[usable[slots]]
    rights = list(_rights(check, pieces))
    if slots is not None:
        words, rights = words[slots], [_chosen(right, slots) for right in rights]
    if _mostly_left(words, rights):
        return np.arange(pieces.rows, dtype=np.int32) if slots is None else slots
    for number, factor in enumerate(FACTORS):
        before = words.size
        if before < 2:
            break
        left = np.flatnonzero(_round(words, rights, factor, pieces.sharing)).astype(np.int32)
        slots = left if slots is None else slots[left]
        if number + 1 < len(FACTORS):
            # another round pays where chance brought many together, and not where most rows do violate the rule
            if not before // 50 < left.size < before // 2:
                break
            words, rights = words[left], [_chosen(right, left) for right in rights]
    return np.arange(words.size, dtype=np.int32) if slots is None else slots


def _mostly_left(words: U64, rights: Sequence[_Right]) -> bool:
    """Whether most rows violate the rule with others of the first ones already, so that sifting would be in vain."""
    if words.size < 2 * PIECE:
        return False
    first = slice(0, max(PIECE // 4, 2))
    some = [_Right(right.values[first], right.known[first]) for right in rights]
    left = _round(words[first], some, FACTORS[0], 1)
    return bool(2 * np.count_nonzero(left) > left.size)


def _extend(words: U64, values: U64, rows: slice) -> None:
    kernels.extend_words(words[rows], values[rows])


def _rights(check: GroupCheck, pieces: Pieces) -> Iterator[_Right]:
    """What must not differ; that a column is asked for by some patterns only is left to the exact pass."""
    for column in check.rhs:
        values, valid = pieces.words(column)
        yield _Right(values, _ALL_KNOWN if valid is None else valid)
        if valid is not None and check.nulls_equal:
            # NULL is a value here, other than all others
            yield _Right(valid.astype(np.uint64), _ALL_KNOWN)


def _chosen(right: _Right, rows: I32) -> _Right:
    return _Right(right.values[rows], right.known[rows] if right.known.size else right.known)


def _round(words: U64, rights: Sequence[_Right], factor: np.uint64, threads: int) -> Mask:
    """Which rows are left by one sieve for each right side, or by one for the key."""
    out = np.zeros(words.size, dtype=np.bool_)
    if not rights:
        cells = np.zeros(_power(_BUCKETS * words.size) // 32, dtype=np.uint64)
        _note(
            lambda rows, own: kernels.note_repeats(words[rows], factor, own), cells, kernels.join_repeats, out, threads
        )
        _in_parts(lambda rows: kernels.repeated(words[rows], factor, cells, out[rows]), out.size, threads)
        return out
    buckets = _power(min(_RIGHT_BUCKETS * _groups_about(words), 4 * words.size))
    for right in rights:
        cells = np.zeros(buckets, dtype=np.uint64)
        _note(partial(_note_right, words, right, factor), cells, kernels.join_differing, out, threads)
        _in_parts(partial(_left_by, words, factor, cells, out), out.size, threads)
    return out


def _note_row(words: U64, factor: np.uint64, rows: slice, cells: U64) -> None:
    kernels.note_repeats(words[rows], factor, cells)


def _note_right(words: U64, right: _Right, factor: np.uint64, rows: slice, cells: U64) -> None:
    kernels.note_differing(words[rows], right.values[rows], right.known[rows], factor, cells)


def _left_by(words: U64, factor: np.uint64, cells: U64, out: Mask, rows: slice) -> None:
    kernels.differing(words[rows], factor, cells, out[rows])


def _note(
    note: Callable[[slice, U64], None], cells: U64, join: Callable[[U64, U64], None], rows: Mask, threads: int
) -> None:
    """Let all rows note what they have, each thread in a table of its own."""
    parts = _parts(rows.size, threads)
    others = [cells, *(np.zeros_like(cells) for _ in parts[1:])]
    each(lambda at: note(parts[at], others[at]), range(len(parts)), len(parts))
    for other in others[1:]:
        _in_parts(lambda some, other=other: join(cells[some], other[some]), cells.size, threads)  # type: ignore[misc]


def _in_parts(work: Callable[[slice], None], size: int, threads: int) -> None:
    """Do work over as many rows, a part of them in each thread."""
    parts = _parts(size, threads)
    each(work, parts, len(parts))


def _parts(size: int, threads: int) -> list[slice]:
    count = threads if size >= 4 * PIECE else 1
    ends = [size * part // count for part in range(count + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]


def _groups_about(words: U64) -> int:
    """About how many distinct words there are: from those of a sample, as if all were equally frequent."""
    sample = words[:: max(1, words.size // _SAMPLE)]
    distinct, size = np.unique(sample).size, sample.size
    if distinct > 0.9 * size:
        return int(words.size)
    # of g groups a sample of m rows meets about g (1 - e^(-m/g))
    groups = float(distinct)
    for _ in range(30):
        groups = distinct / -np.expm1(-size / groups)
    return int(min(groups, words.size)) + 1


def _power(size: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(6, int(size - 1).bit_length())
