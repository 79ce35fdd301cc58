"""Arrays in as few bytes as tell them: an index counts in 32 and 64 bits, and holds mostly small numbers.

Packed arrays are widened when they are read, so they are copies and no mapped files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Packed: TypeAlias = Iterator[tuple[str, NDArray[Any]]]

COLUMN = "|"
"""Between the name of an array and the number of one of its columns, which are packed one by one."""
MOST_COLUMNS = 8
"""Arrays of more columns, and of fewer rows than columns, are packed as they are."""


def narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in the fewest bytes that hold all of them. Complexity: O(numbers).

    >>> narrow(np.array([-1, 100, 7])).dtype, narrow(np.array([2**40], dtype=np.uint64)).dtype
    (dtype('int8'), dtype('uint64'))
    """
    if array.dtype.kind not in "iu" or array.dtype.itemsize == 1 or not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    for bits in (8, 16, 32):
        found = np.iinfo(f"{array.dtype.kind}{bits // 8}")
        if found.bits < array.dtype.itemsize * 8 and found.min <= low and high <= found.max:
            return array.astype(found.dtype)
    return array


def packed(name: str, array: NDArray[Any]) -> Packed:
    """An array as narrow ones, a column each where it has some, whose names tell that.

    >>> [(name, part.dtype.name) for name, part in packed("kinds", np.array([[1, 70_000], [2, 5], [3, 6]]))]
    [('kinds|0', 'int8'), ('kinds|1', 'int32')]
    """
    if array.ndim == 2 and 1 < array.shape[1] <= MOST_COLUMNS and array.shape[0] > array.shape[1]:
        for at in range(array.shape[1]):
            yield f"{name}{COLUMN}{at}", narrow(array[:, at])
    else:
        yield name, narrow(array)


def joined(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Arrays whose columns were packed one by one as they were; a ValueError where columns do not belong together.

    >>> joined({"a": np.array([3]), "b|0": np.array([1, 2]), "b|1": np.array([7, 8])})["b"].tolist()
    [[1, 7], [2, 8]]
    """
    whole: dict[str, NDArray[Any]] = {}
    columns: dict[str, list[NDArray[Any]]] = {}
    for name, array in arrays.items():
        own, is_column, at = name.rpartition(COLUMN)
        if not is_column:
            whole[name] = array
        elif at != str(len(columns.setdefault(own, []))):
            raise ValueError(f"the columns of array {own!r} are not in their order")
        else:
            columns[own].append(array)
    return whole | {name: np.stack(parts, axis=1) for name, parts in columns.items()}
