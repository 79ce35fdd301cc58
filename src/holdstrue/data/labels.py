"""A growing dictionary whose labels keep the order of the values: for text, bytes and long decimals under < and >.

Labels are 64-bit integers with gaps. Values that fall between two known ones share their gap evenly; values beyond
either end take steps outward. When a gap is used up all values are labelled anew and `epoch` grows, and whoever
stored labels must translate them with `translation`. Values are kept as bytes that order alike, in sorted runs of
geometrically growing size: their labels order as they do, so that runs are merged without comparing a value.
Memory: the bytes, and 16 bytes a distinct value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdstrue.data.buffers import arrow_of, lend, numbers
from holdstrue.data.values import Family
from holdstrue.kernels import sorted_bytes
from holdstrue.typing import I64, U8, Mask

STEP = 1 << 32
"""Room for 32 halvings between neighbours and 2^30 values beyond either end."""

RATIO = 4
"""A run is merged with the one before it unless that is this many times larger. Chosen, not tuned."""

_MOST = 2**62
_SCALE = 80
"""Decimal places of the whole numbers that stand for decimals; Arrow's have at most 76."""
_WIDTH = 104
"""Bytes of such a number: 76 digits, moved by 76 places to the left at most, and 80 to the right of the point."""


@dataclass(frozen=True)
class SortedValues:
    """Some values as ascending bytes, and their labels."""

    values: pa.Array
    labels: I64

    def places(self, wanted: pa.Array) -> I64:
        """For each value its place, or `~place` of the first above it."""
        out = np.empty(len(wanted), dtype=np.int64)
        sorted_bytes.places(*_buffers(self.values), *_buffers(wanted), out)
        return out


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
        self._runs: list[SortedValues] = []
        self.epoch = 0
        self.translation: tuple[I64, I64] | None = None

    def written(self) -> pa.Array:
        """The values in order as bytes that `restore` reads: text as UTF-8, numbers by their digits."""
        values = self._merged().values
        return _keys(map(_digits, values.to_pylist())) if self._family == "decimal" else values

    def restore(self, written: pa.Array | Sequence[bytes], labels: I64 | Sequence[int]) -> None:
        """Take over values and labels as they were; a ValueError says why they cannot be.

        >>> Labels("text").restore([b"b", b"a"], [0, 1])
        Traceback (most recent call last):
        ValueError: its values do not ascend with their labels
        """
        values = written if isinstance(written, pa.Array) else _keys(written)
        numbered = np.array(labels, dtype=np.int64)
        try:
            if self._family == "text":
                values.cast(pa.large_string())  # only text is UTF-8
            elif self._family == "decimal":
                values = _keys(_decimal_key(Decimal(digits.decode())) for digits in values.to_pylist())
        except (UnicodeDecodeError, InvalidOperation, OverflowError, pa.ArrowInvalid) as error:
            raise ValueError(f"a value is no {self._family}") from error
        ascend = bool((numbered[1:] > numbered[:-1]).all()) and sorted_bytes.first_unsorted(*_buffers(values)) < 0
        if not ascend or len(values) != numbered.size:
            raise ValueError("its values do not ascend with their labels")
        self._runs = [SortedValues(values, numbered)] if numbered.size else []

    def __len__(self) -> int:
        return sum(run.labels.size for run in self._runs)

    @property
    def span(self) -> tuple[int, int]:
        """The lowest and the highest label."""
        if not self._runs:
            return 0, 0
        return min(int(run.labels[0]) for run in self._runs), max(int(run.labels[-1]) for run in self._runs)

    @property
    def labels(self) -> I64:
        """The labels of all values, ascending."""
        return self._merged().labels

    def values(self) -> list[bytes]:
        """The known values in order, as bytes that order alike."""
        found: list[bytes] = self._merged().values.to_pylist()
        return found

    def assign(self, values: Iterable[Any]) -> list[int]:
        """Labels of Python values, giving new ones to the unknown."""
        coded = _keys(map(self._key, values)).dictionary_encode()
        found: list[int] = self._assign(coded.dictionary)[numbers(coded.indices, np.int32)].tolist()
        return found

    def assign_array(self, array: pa.Array) -> I64:
        """Labels of the values of a plain array without NULLs, giving new ones to the unknown.

        Complexity: O(values), O(log distinct) a distinct one, and a sort of those that are new.
        """
        if self._family == "decimal":
            # Arrow has no dictionaries of short decimals
            return np.array(self.assign(array.to_pylist()), dtype=np.int64)
        coded = array.dictionary_encode()
        return self._assign(coded.dictionary.cast(pa.large_binary()))[numbers(coded.indices, np.int32)]

    def take_translation(self) -> tuple[I64, I64] | None:
        """Old labels (ascending) and what each became, since the last call; None when nothing moved."""
        translation, self.translation = self.translation, None
        return translation

    def _key(self, value: Any) -> bytes:
        """The bytes that stand for a value, which order as values do (UTF-8 does by code point)."""
        if self._family == "decimal":
            return _decimal_key(Decimal(value))
        return value if isinstance(value, bytes) else str(value).encode()

    def _assign(self, keys: pa.Array) -> I64:
        """Labels of keys that are all different."""
        labels, gaps, known = self._find(keys)
        if known.all():
            return labels
        unknown = np.flatnonzero(~known)
        new = keys.take(arrow_of(unknown)) if known.any() else keys
        order = numbers(pc.sort_indices(new), np.uint64).astype(np.int64)
        epoch = self.epoch
        added = self._add(new.take(arrow_of(order)), gaps[:, unknown[order]])
        if self.epoch != epoch:
            labels = self._find(keys)[0]
        else:
            labels[unknown[order]] = added
        return labels

    def _find(self, keys: pa.Array) -> tuple[I64, I64, Mask]:
        """Labels of known keys, the labels next below and above of the others, and which are known."""
        labels = np.zeros(len(keys), dtype=np.int64)
        gaps = np.empty((2, len(keys)), dtype=np.int64)
        gaps[0], gaps[1] = _NONE_BELOW, _NONE_ABOVE
        known = np.zeros(len(keys), dtype=np.bool_)
        for run in self._runs:
            places = run.places(keys)
            hit = places >= 0
            labels[hit] = run.labels[places[hit]]
            known |= hit
            place, last = np.where(hit, places, ~places), run.labels.size - 1
            below = np.where(place > 0, run.labels[np.maximum(place - 1, 0)], _NONE_BELOW)
            above = np.where(place <= last, run.labels[np.minimum(place, last)], _NONE_ABOVE)
            np.maximum(gaps[0], below, out=gaps[0])
            np.minimum(gaps[1], above, out=gaps[1])
        return labels, gaps, known

    def _add(self, values: pa.Array, gaps: I64) -> I64:
        """Label new values, which ascend, inside their gaps; returns their labels."""
        below, above = gaps
        starts = np.flatnonzero(np.concatenate(([True], below[1:] != below[:-1])))
        sizes = np.diff(np.append(starts, below.size))
        size, within = np.repeat(sizes, sizes), np.arange(below.size) - np.repeat(starts, sizes)
        outward = max(int(sizes[0]), int(sizes[-1])) * STEP + max(map(abs, self.span))
        inside = (below > _NONE_BELOW) & (above < _NONE_ABOVE)
        step = np.where(inside, (np.where(inside, above - below, 0)) // (size + 1), STEP)
        if not self._runs or outward >= _MOST or not (step > 0).all():
            return self._relabel(values, below)
        labels = np.where(below > _NONE_BELOW, below + step * (within + 1), above - step * (size - within))
        self._append(SortedValues(values, labels))
        return labels

    def _append(self, run: SortedValues) -> None:
        """Add a run, and merge what is not much larger into it."""
        self._runs.append(run)
        first, size = len(self._runs) - 1, run.labels.size
        while first and self._runs[first - 1].labels.size < RATIO * size:
            first -= 1
            size += self._runs[first].labels.size
        self._runs[first:] = [_merge(self._runs[first:])]

    def _merged(self) -> SortedValues:
        """All values in one run."""
        if len(self._runs) != 1:
            self._runs = [_merge(self._runs)] if self._runs else []
        return self._runs[0] if self._runs else SortedValues(_keys(()), np.empty(0, dtype=np.int64))

    def _relabel(self, new: pa.Array, below: I64) -> I64:
        """Label all values anew, evenly; returns the labels of new ones, which lie above those that are labelled so."""
        old = self._merged()
        count = old.labels.size + len(new)
        step = min(STEP, _MOST // (count + 1))
        labels = (np.arange(count, dtype=np.int64) - count // 2) * step
        # a new value comes before the old one at its place, new ones of one place as they are
        place = np.searchsorted(old.labels, below, side="right")
        order = np.argsort(np.concatenate((2 * np.arange(old.labels.size) + 1, 2 * place)), kind="stable")
        moved = np.empty(count, dtype=np.int64)
        moved[order] = labels
        values = pa.concat_arrays([old.values, new]).take(arrow_of(order)) if old.labels.size else new
        self._runs = [SortedValues(values, labels)]
        if old.labels.size:
            self.epoch += 1
            self.translation = _compose(self.translation, old.labels, moved[: old.labels.size])
        return moved[old.labels.size :]


def ordered_bytes(array: pa.Array, family: Family) -> tuple[pa.Array, I64]:
    """Bytes that order as the values of a plain array without NULLs do, and for each value the place of its own.

    >>> keys, at = ordered_bytes(pa.array(["b", "a", "b"]), "text")
    >>> keys.to_pylist(), at.tolist()
    ([b'b', b'a'], [0, 1, 0])
    """
    if family == "decimal":
        # Arrow has no dictionaries of short decimals
        return _keys(map(_decimal_key, map(Decimal, array.to_pylist()))), np.arange(len(array), dtype=np.int64)
    coded = array.dictionary_encode()
    return coded.dictionary.cast(pa.large_binary()), numbers(coded.indices, np.int32).astype(np.int64)


_NONE_BELOW, _NONE_ABOVE = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _merge(runs: Sequence[SortedValues]) -> SortedValues:
    """One run of several. Complexity: one sort of their labels."""
    if len(runs) == 1:
        return runs[0]
    labels = np.concatenate([run.labels for run in runs])
    order = np.argsort(labels, kind="stable")
    values = pa.concat_arrays([run.values for run in runs]).take(arrow_of(order))
    return SortedValues(values, labels[order])


def _keys(values: Iterable[bytes]) -> pa.Array:
    return pa.array(list(values), type=pa.large_binary())


def _buffers(values: pa.Array) -> tuple[U8, I64]:
    """The bytes and the offsets of a large_binary array."""
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        return np.zeros(0, dtype=np.uint8), np.zeros(len(values) + 1, dtype=np.int64)
    ends = np.frombuffer(offsets, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    held: NDArray[np.uint8] = np.frombuffer(data or b"", dtype=np.uint8)
    return lend(held) if held.size else np.zeros(0, dtype=np.uint8), lend(ends)


def _decimal_key(value: Decimal) -> bytes:
    """A decimal as a whole number of fixed width, so that bytes order as numbers do."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -_SCALE <= exponent <= _SCALE:
        raise OverflowError(f"{value} is no decimal of up to 76 digits")
    number = int("".join(map(str, digits))) * 10 ** (exponent + _SCALE)
    return ((-number if sign else number) + (1 << 8 * _WIDTH - 1)).to_bytes(_WIDTH, "big")


def _digits(key: bytes) -> bytes:
    """A decimal by its digits, from its key.

    >>> _digits(_decimal_key(Decimal("-1.50"))), _digits(_decimal_key(Decimal("7E+3")))
    (b'-1.5', b'7E+3')
    """
    number = int.from_bytes(key, "big") - (1 << 8 * _WIDTH - 1)
    digits = str(abs(number)).rstrip("0")
    exponent = len(str(abs(number))) - len(digits) - _SCALE if digits else 0
    return str(Decimal((int(number < 0), tuple(map(int, digits or "0")), exponent))).encode()


def _compose(
    earlier: tuple[I64, I64] | None,
    old: I64,
    new: I64,
) -> tuple[I64, I64]:
    if earlier is None:
        return old, new
    first_old, first_new = earlier
    return first_old, new[np.searchsorted(old, first_new)]
