"""Machine operations that Python has no word for: high halves of products, eight bytes as a word, places in memory.

Called from kernels only. `product_high(2**63, 6)` is 3, because 6 * 2^63 = 3 * 2^64; `eight_bytes` of the bytes
1, 0, 0, 0, 0, 0, 0, 2, 9 at 0 is 1 + 2 * 256^7, and at 1 it is 2 * 256^6 + 9 * 256^7.

>>> int(product_high(np.uint64(2**63), np.uint64(6)))
3
>>> int(eight_bytes(np.array([1, 0, 0, 0, 0, 0, 0, 2, 9], dtype=np.uint8), 1)) == 2 * 256**6 + 9 * 256**7
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdstrue.kernels.jit import Machine


def _product_high() -> Any:
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    def product_high(_: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            double = cgutils.ir.IntType(128)
            wide = builder.mul(builder.zext(args[0], double), builder.zext(args[1], double))
            return builder.trunc(builder.lshr(wide, double(64)), cgutils.ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    return intrinsic(product_high)


def _eight_bytes() -> Any:
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    def eight_bytes(_: Any, data: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, args[0])
            word = cgutils.ir.IntType(64)
            place = builder.gep(array.data, [args[1]])
            loaded = builder.load(builder.bitcast(place, word.as_pointer()))
            loaded.align = 1
            return loaded

        return types.uint64(types.Array(types.uint8, 1, "C"), types.int64), generate

    return intrinsic(eight_bytes)


def _pointer() -> Any:
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    def pointer(_: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], cgutils.voidptr_t)

        return types.voidptr(types.int64), generate

    return intrinsic(pointer)


product_high = Machine(_product_high, lambda a, b: np.uint64((int(a) * int(b)) >> 64))
"""The upper 64 bits of the 128-bit product of two words (the lower ones are `a * b`)."""

eight_bytes = Machine(_eight_bytes, lambda data, at: np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little")))
"""The bytes `data[at:at + 8]` as a little-endian word; the caller knows that all eight are there."""

pointer = Machine(_pointer)
"""A number as the place in memory that it names: of an array that the caller holds on to."""
