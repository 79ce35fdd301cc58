"""The digest of values: no two small values share a lane, and what a seed does."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from holdstrue.data.digests import digests
from holdstrue.data.seed import NAME, Seed
from holdstrue.errors import StateError
from holdstrue.kernels import digest

U64 = NDArray[np.uint64]
SEEDS = [Seed(bytes(16)), Seed(bytes(range(16))), Seed.new()]


def assert_apart(hi: U64, lo: U64) -> None:
    """All different, in each lane apart."""
    assert np.unique(hi).size == hi.size
    assert np.unique(lo).size == lo.size


def of_bytes(values: list[bytes], seed: Seed) -> tuple[U64, U64]:
    return digests(pa.array(values, pa.binary()), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_strings_of_up_to_two_bytes(seed: Seed) -> None:
    every = [b"", *(bytes([a]) for a in range(256)), *(bytes([a, b]) for a in range(256) for b in range(256))]
    assert len(every) == 65_793
    assert_apart(*of_bytes(every, seed))
    text = [value.decode() for value in every if value.isascii()]
    assert_apart(*digests(pa.array(text), seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_zero_bytes_at_the_end_and_every_length(seed: Seed) -> None:
    """Lengths around every step of the loop, with zeros in front, behind and alone."""
    values = [bytes(n) for n in range(130)]
    values += [b"a" + bytes(n) for n in range(130)] + [bytes(n) + b"a" for n in range(1, 130)]
    assert_apart(*of_bytes(values, seed))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", [1, 6, 7, 8, 13, 14, 15, 64])
def test_strings_that_differ_in_one_bit_or_two(seed: Seed, size: int) -> None:
    base = bytes(range(100, 100 + size))
    number = int.from_bytes(base, "little")
    flips = [0, *(1 << i for i in range(8 * size))]
    flips += [1 << i | 1 << j for i, j in itertools.combinations(range(8 * size), 2) if size <= 15]
    assert_apart(*of_bytes([(number ^ flip).to_bytes(size, "little") for flip in flips], seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_of_small_integers_in_keys_of_two_columns(seed: Seed) -> None:
    """Each pair of a thousand numbers: small numbers, negative ones, powers of two."""
    some = np.unique(np.concatenate((np.arange(-480, 480), 2 ** np.arange(62), -(2 ** np.arange(62)))))
    one, two = np.repeat(some, some.size), np.tile(some, some.size)
    hi, lo = (np.full(one.size, lane) for lane in seed.start)
    for column in (one, two):
        digest.extend_key_by_words(hi, lo, column.view(np.uint64), seed.keys)
    assert_apart(hi, lo)


@pytest.mark.parametrize("seed", SEEDS)
def test_tuples_of_text(seed: Seed) -> None:
    """What one column ends with and the next begins with cannot trade places."""
    words = ["", "a", "b", "ab", "ba", "a\0", "\0a", "\0"]
    one, two = zip(*itertools.product(words, words), strict=True)
    hi, lo = (np.full(len(one), lane) for lane in seed.start)
    for column in (one, two):
        digest.extend_key(hi, lo, *digests(pa.array(column), seed), seed.keys)
    assert_apart(hi, lo)


def test_a_null_is_no_number() -> None:
    seed = Seed.new()
    assert seed.null[0] != seed.null[1] and seed.null != seed.start
    assert seed.null != Seed.new().null


def test_digests_follow_from_the_seed_alone() -> None:
    seed, other = Seed.new(), Seed.new()
    text = pa.array(["a", "b"])
    assert all((a == b).all() for a, b in zip(digests(text, seed), digests(text, Seed(seed.value)), strict=True))
    assert not any((a == b).any() for a, b in zip(digests(text, seed), digests(text, other), strict=True))
    # the digest of a version that wrote states must not change under its name
    [hi], [lo] = digests(pa.array(["holdstrue"]), Seed(bytes(range(16))))
    assert (NAME, f"{hi:016x}", f"{lo:016x}") == ("poly61", "14d4e14c7fa97c77", "c77eec1b996fd1eb")


@pytest.mark.parametrize("array", [pa.array([5, -3] * 3000), pa.array(["é", ""] * 3000), pa.array([1.5, 2.0] * 3000)])
def test_large_columns_are_digested_as_small_ones(array: pa.Array) -> None:
    seed = Seed.new()
    for large, small in zip(digests(array, seed), digests(array[:2], seed), strict=True):
        assert (large.reshape(-1, 2) == small).all()


def test_a_state_says_which_digest_it_has() -> None:
    seed = Seed.new()
    assert Seed.of(seed.to_dict()) == seed
    with pytest.raises(StateError, match="'other'"):
        Seed.of(seed.to_dict() | {"name": "other"})
    with pytest.raises(StateError, match="3 bytes"):
        Seed.of({"name": NAME, "seed": "000000"})


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["integers", "text", "pairs"])
def test_a_hundred_million_random_values(kind: str) -> None:
    """In two lanes no two of 10^8 agree; in a lane of 61 bits one pair in a thousand runs may."""
    seed, dice, count = Seed.new(), np.random.default_rng(7), 100_000_000
    values = np.unique(dice.integers(0, 2**63, count, dtype=np.int64))
    lanes: list[Any] = [np.full(values.size, lane) for lane in seed.start]
    for start in range(0, values.size, 1 << 22):
        part = values[start : start + (1 << 22)]
        lane = [some[start : start + part.size] for some in lanes]
        if kind == "text":
            lane[0][:], lane[1][:] = digests(pa.array(part.view(np.uint64)).view(pa.binary(8)).cast(pa.binary()), seed)
            continue
        words = [part] if kind == "integers" else [part >> 32, part & 0xFFFFFFFF]
        for word in words:
            digest.extend_key_by_words(lane[0], lane[1], np.ascontiguousarray(word).view(np.uint64), seed.keys)
    for some in lanes:
        some.sort()
        assert np.count_nonzero(some[1:] == some[:-1]) == 0
