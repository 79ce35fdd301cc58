"""Machine operations that Python has no word for: high halves of products, eight bytes as a word, places in memory.

Called from kernels only. `product_high(2**63, 6)` is 3, because 6 * 2^63 = 3 * 2^64; `eight_bytes` of the bytes
1, 0, 0, 0, 0, 0, 0, 2, 9 at 0 is 1 + 2 * 256^7, and at 1 it is 2 * 256^6 + 9 * 256^7.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def product_high(_: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the 128-bit product of two words (the lower ones are `a * b`)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        double = cgutils.ir.IntType(128)
        wide = builder.mul(builder.zext(args[0], double), builder.zext(args[1], double))
        return builder.trunc(builder.lshr(wide, double(64)), cgutils.ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def eight_bytes(_: Any, data: Any, at: Any) -> Any:
    """The bytes `data[at:at + 8]` as a little-endian word; the caller knows that all eight are there."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        word = cgutils.ir.IntType(64)
        place = builder.gep(array.data, [args[1]])
        loaded = builder.load(builder.bitcast(place, word.as_pointer()))
        loaded.align = 1
        return loaded

    return types.uint64(types.Array(types.uint8, 1, "C"), types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def pointer(_: Any, address: Any) -> Any:
    """A number as the place in memory that it names: of an array that the caller holds on to."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate
