"""The secret of a digest: what makes the digests of one state its own."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from holdstrue.errors import StateError
from holdstrue.kernels.digest import FIRST, KEYS, NULL, POINT, SECOND, START, STEP
from holdstrue.typing import U64

NAME = "poly61"
"""What manifests call the digest of `kernels/digest.py`: another digest gets another name."""

_BYTES = 16
_POINTS = 2**61 - 1


@dataclass(frozen=True)
class Seed:
    """Sixteen bytes from which the keys of both lanes follow.

    A state keeps its seed, and whoever compares digests has the same one. Values that somebody chose without knowing
    it cannot be made to collide.

    Examples
    --------
    >>> seed = Seed.new()
    >>> Seed.of(seed.to_dict()) == seed
    True
    """

    value: bytes

    @staticmethod
    def new() -> Seed:
        """One that nobody knows."""
        return Seed(secrets.token_bytes(_BYTES))

    @cached_property
    def keys(self) -> U64:
        """The keys of the upper and of the lower lane, as `kernels/digest.py` numbers them."""
        keys = np.empty((2, KEYS), dtype=np.uint64)
        for lane in range(2):
            said = (
                hashlib.blake2b(bytes([lane, number]), key=self.value, digest_size=16).digest()
                for number in range(KEYS)
            )
            drawn = [int.from_bytes(word, "little") % 2**64 for word in said]
            # a point of the field other than zero, and multipliers that lose nothing
            drawn[POINT] = 1 + drawn[POINT] % (_POINTS - 1)
            for number in (STEP, FIRST, SECOND):
                drawn[number] |= 1
            keys[lane] = drawn
        return keys

    @cached_property
    def start(self) -> tuple[np.uint64, np.uint64]:
        """The digest of the empty tuple, from which longer ones are extended."""
        keys = self.keys
        return keys[0, START], keys[1, START]

    @property
    def null(self) -> tuple[np.uint64, np.uint64]:
        """Stands for NULL in the digest of a tuple where NULLs are equal."""
        keys = self.keys
        return keys[0, NULL], keys[1, NULL]

    def to_dict(self) -> dict[str, str]:
        """As plain JSON data, with the name of the digest."""
        return {"name": NAME, "seed": self.value.hex()}

    @staticmethod
    def of(data: Mapping[str, Any]) -> Seed:
        """From plain JSON data."""
        if data.get("name") != NAME:
            raise StateError(
                f"the state's digests are {data.get('name')!r}, this version makes {NAME!r}",
                hint="use the version of holdstrue that wrote it, or make the state anew",
            )
        try:
            value = bytes.fromhex(str(data["seed"]))
        except ValueError as error:
            raise StateError(f"the seed of the state's digests is {data['seed']!r}, not hexadecimal") from error
        if len(value) != _BYTES:
            raise StateError(f"the seed of the state's digests has {len(value)} bytes, not {_BYTES}")
        return Seed(value)


PROCESS = Seed.new()
"""For what no other process reads."""

OPEN = Seed(bytes(_BYTES))
"""For words that are not values of somebody's data, such as sets of comparisons."""
