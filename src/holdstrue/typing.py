"""The arrays that kernels, indexes and detectors hand to each other, by the type of their elements."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

I32: TypeAlias = NDArray[np.int32]
I64: TypeAlias = NDArray[np.int64]
U8: TypeAlias = NDArray[np.uint8]
U64: TypeAlias = NDArray[np.uint64]
F64: TypeAlias = NDArray[np.float64]
Lanes: TypeAlias = NDArray[Any]
"""Integers as narrow as the values allow: 16 or 32 bits."""
Mask: TypeAlias = NDArray[np.bool_]
"""One truth value a row."""
