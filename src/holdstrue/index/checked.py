"""Arrays that come from a state, each looked at before compiled code may use it.

Kernels check nothing: an index beyond its array reads or ends the process, a circle of links never ends, a count of
2^40 asks for all memory. So every `restore` takes its arrays out of a `Checked`, which makes sure of what the kernels
rely on, and of whatever else is cheap to tell. Measured on a million rows and four rules: see `kernels/bounds.py`;
in all 5 ms, beside 12 for the checksums of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from holdstrue.errors import StateError
from holdstrue.kernels import bounds

Refuse: TypeAlias = Callable[[str], StateError]
"""The error for arrays of which something is wrong; whoever knows the file names it."""


def _in_memory(why: str) -> StateError:
    return StateError(f"the arrays are damaged: {why}")


class Checked:
    """The arrays of a structure, or of a part of it, by name.

    Examples
    --------
    >>> arrays = Checked({"rows.current": np.array([1, 7, 0], dtype=np.int32)}).part("rows")
    >>> arrays.index("current", -1, 7, used=3).tolist()
    [1, 7, 0]
    >>> arrays.index("current", -1, 4, used=3)
    Traceback (most recent call last):
    holdstrue.errors.StateError: the arrays are damaged: 'rows.current' holds 7 at 1, which is not from -1 to 4
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], refuse: Refuse = _in_memory, prefix: str = "") -> None:
        self._arrays = arrays
        self._refuse = refuse
        self._prefix = prefix

    def part(self, name: str) -> Checked:
        """The arrays that `nested` put under a name."""
        return Checked(self._arrays, self._refuse, f"{self._prefix}{name}.")

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._arrays

    def require(self, condition: bool | np.bool_, why: str) -> None:
        """Refuse the arrays unless the condition holds."""
        if not condition:
            raise self.damaged(why)

    def damaged(self, why: str) -> StateError:
        """The error that says what is wrong, and where."""
        return self._refuse(f"{self._prefix.rstrip('.')}: {why}" if self._prefix else why)

    def array(
        self, name: str, dtype: DTypeLike, shape: tuple[int, ...], *, grows: int | None = None, fill: int | None = None
    ) -> NDArray[Any]:
        """An array of this type and shape; along the axis `grows` it may be longer, and holds `fill` from there on."""
        full = self._prefix + name
        found = self._arrays.get(full)
        if found is None:
            raise self._refuse(f"it has no array {full!r}")
        fits = found.dtype == dtype and found.ndim == len(shape) and found.flags.c_contiguous and found.flags.aligned
        if fits:
            fits = all(
                have >= want if axis == grows else have == want
                for axis, (have, want) in enumerate(zip(found.shape, shape, strict=True))
            )
        if not fits:
            wanted = ", ".join(f"{size}{' or more' if axis == grows else ''}" for axis, size in enumerate(shape))
            raise self._refuse(
                f"{full!r} holds {found.dtype} in the shape {found.shape}, not {np.dtype(dtype)} in ({wanted})"
            )
        if found.dtype == np.bool_:
            # another byte than 0 or 1 in the place of a truth value counts as it likes; what is spare was never set
            used = found if grows is None else found[(slice(None),) * grows + (slice(0, shape[grows]),)]
            self._within(full, np.ascontiguousarray(used).view(np.uint8).reshape(-1), 0, 1)
        if fill is not None and grows is not None:
            spare = found[(slice(None),) * grows + (slice(shape[grows], None),)]
            self._within(full, np.ascontiguousarray(spare).reshape(-1), fill, fill, shape[grows])
        return found

    def index(
        self, name: str, low: int, high: int, used: int, *, dtype: DTypeLike = np.int32, fill: int | None = None
    ) -> NDArray[Any]:
        """A list of at least `used` numbers, those from `low` to `high`, and `fill` (if given) in the rest of it."""
        found = self.array(name, dtype, (used,), grows=0, fill=fill)
        self._within(self._prefix + name, found[:used], low, high)
        return found

    def few(self, name: str, low: int, high: int, size: int) -> list[int]:
        """Exactly so many numbers, from `low` to `high`, as Python has them."""
        found = self.array(name, np.int64, (size,))
        self._within(self._prefix + name, found, low, high)
        numbers: list[int] = found.tolist()
        return numbers

    def flags(self, name: str, size: int) -> NDArray[np.bool_]:
        """Exactly so many truth values, a copy; some states hold them as numbers."""
        found = self._arrays.get(self._prefix + name)
        dtype = np.uint8 if found is not None and found.dtype == np.uint8 else np.bool_
        flat = self.array(name, dtype, (size,)).view(np.uint8)
        self._within(self._prefix + name, flat, 0, 1)
        return flat.astype(np.bool_)

    def sets(self, name: str, allowed: NDArray[np.uint64], used: int | None = None) -> NDArray[np.uint64]:
        """Sets of numbers, a line of words each, within the allowed ones; of at least `used` only those."""
        found = self.array(name, np.uint64, (used or 0, allowed.size), grows=0)
        self.require(not (found[:used] & ~allowed).any(), f"{name!r} has members that there are not")
        return found

    def within(self, name: str, array: NDArray[Any], low: int, high: int) -> None:
        """All numbers of an array are from `low` to `high`."""
        self._within(self._prefix + name, array.reshape(-1), low, high)

    def _within(self, full: str, flat: NDArray[Any], low: int, high: int, first: int = 0) -> None:
        at = bounds.outside(flat, low, high)
        if at >= 0:
            raise self._refuse(f"{full!r} holds {flat[at]} at {at + first}, which is not from {low} to {high}")
