"""A file elsewhere of which only some ranges are fetched, for formats that say where their columns lie (Parquet)."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdstrue.errors import DataError

WHOLE_BELOW = 1 << 20
"""Bytes up to which a file is fetched whole, by one request instead of some. Chosen, not tuned."""
END = 1 << 16
"""Bytes at the end that are fetched first: there Parquet says what it holds, and Arrow asks for as many."""
PIECE = 8 << 20
LANES = 8
"""Bytes of one request, and such requests at once: stores bound what one brings. Chosen, not tuned."""

Fetch = Callable[[int, int], bytes]
"""The bytes from a place on, so many of them; an error of ours where they do not come, or are of another file."""


def changed(name: str) -> DataError:
    """The error for a file that is replaced or removed while it is read."""
    error = DataError(f"{name} was replaced while it was read", hint="read it again")
    error.passing = True
    return error


class RangeFile(io.RawIOBase):
    """Reads like a file that is open, and fetches what is read.

    Parameters
    ----------
    size
        Of the file.
    end
        Its last bytes, where they are there already.

    Examples
    --------
    >>> file = RangeFile(10, lambda start, size: b"0123456789"[start : start + size])
    >>> file.seek(-3, io.SEEK_END), file.read(2), file.tell(), file.fetched
    (7, b'78', 9, 2)
    """

    def __init__(self, size: int, fetch: Fetch, end: bytes = b"") -> None:
        super().__init__()
        self._size, self._fetch, self._end = size, fetch, end
        self._at = 0
        self.fetched = 0
        """Bytes that came so far, beside those at the end."""

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def size(self) -> int:
        """Of the file."""
        return self._size

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer, as far as the file goes."""
        view = memoryview(buffer).cast("B")
        start, stop = self._at, min(self._at + len(view), self._size)
        if stop <= start:
            return 0
        known = self._size - len(self._end)
        if start >= known:
            view[: stop - start] = self._end[start - known : stop - known]
        else:
            self._bring(view, start, stop)
        self._at = stop
        return stop - start

    def _bring(self, view: memoryview, start: int, stop: int) -> None:
        """Fetch a range, a large one by several requests at once."""
        parts = [(at, min(PIECE, stop - at)) for at in range(start, stop, PIECE)]

        def one(part: tuple[int, int]) -> None:
            at, size = part
            view[at - start : at - start + size] = self._fetch(at, size)

        if len(parts) == 1:
            one(parts[0])
        else:
            with ThreadPoolExecutor(min(LANES, len(parts)), thread_name_prefix="holdstrue-ranges") as pool:
                list(pool.map(one, parts))
        self.fetched += stop - start
