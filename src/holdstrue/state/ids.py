"""Which batches a state has: digests of their ids, so that the same batch twice is noticed, and memory stays bounded.

A million ids take 16 MB of sorted digests, mapped from files of 65,536 each; those of the last files fill up as
checkpoints are written, and the oldest file goes when there are more than sixteen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from holdstrue.state.files import StateFiles
from holdstrue.state.manifest import RunFile
from holdstrue.typing import U64

FILE_IDS = 65_536
MOST_FILES = 16
"""So many full files are kept: the last million batches. A batch that comes again later than that is applied again."""

_KEY = "ids."


class BatchIds:
    """The ids of batches that were committed, exact for the last million."""

    def __init__(self, files: StateFiles, base: Mapping[str, RunFile], recent: Iterable[str]) -> None:
        self._files = files
        self._kept = {key: base[key] for key in sorted(base) if key.startswith(_KEY)}
        self._sorted: dict[str, tuple[U64, U64]] = {}
        self._recent = {_digest(batch) for batch in recent if _given(batch)}

    def __contains__(self, batch: str) -> bool:
        """Whether a batch was committed. Complexity: O(log ids)."""
        wanted = _digest(batch)
        if wanted in self._recent:
            return True
        hi, lo = np.uint64(wanted[0]), np.uint64(wanted[1])
        for key in self._kept:
            his, los = self._mapped(key)
            start, end = np.searchsorted(his, hi, "left"), np.searchsorted(his, hi, "right")
            if (los[start:end] == lo).any():
                return True
        return False

    def add(self, batches: Iterable[str]) -> None:
        """Remember batches."""
        self._recent |= {_digest(batch) for batch in batches if _given(batch)}

    def write(self, version: int, more: Iterable[str] = ()) -> dict[str, RunFile]:
        """The files of a checkpoint, with some more batches. Complexity: O(ids of one file)."""
        recent = sorted(self._recent | {_digest(batch) for batch in more if _given(batch)})
        if not recent:
            return dict(self._kept)
        hi, lo = (np.array([digest[at] for digest in recent], dtype=np.uint64) for at in (0, 1))
        last = next(reversed(self._kept), None)
        if last is not None and self._mapped(last)[0].size < FILE_IDS:
            hi, lo = np.concatenate((hi, self._mapped(last)[0])), np.concatenate((lo, self._mapped(last)[1]))
        else:
            last = f"{_KEY}{version:012d}"
        order = np.argsort(hi)
        file = self._files.write_arrays("ids", version, {"hi": hi[order], "lo": lo[order]})
        kept = {**self._kept, last: file}
        return dict(list(kept.items())[-MOST_FILES - 1 :])

    def _mapped(self, key: str) -> tuple[U64, U64]:
        if key not in self._sorted:
            file = self._kept[key]
            arrays = self._files.map_arrays(file)
            hi, lo = arrays.get("hi"), arrays.get("lo")
            if hi is None or lo is None or hi.dtype != np.uint64 or lo.dtype != np.uint64 or hi.shape != lo.shape:
                raise self._files.damaged(file, "it does not hold digests of ids")
            self._sorted[key] = hi.astype(np.uint64, copy=False), lo.astype(np.uint64, copy=False)
        return self._sorted[key]


def _given(batch: str) -> bool:
    """Whether a batch was named by its sender; others have numbers, which come once."""
    return not batch.startswith("#")


def _digest(batch: str) -> tuple[int, int]:
    digest = hashlib.blake2b(batch.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
