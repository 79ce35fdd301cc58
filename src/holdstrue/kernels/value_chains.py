"""Counted values: which attributes hold a value, how often, and how many values two attributes share.

A value's attributes are a chain of nodes `(attribute, count, next node)`; `head[value]` is its first
node, -1 for none. A batch gives *net* changes, grouped by value: group g is
`attributes[offsets[g]:offsets[g + 1]]` with the same slice of `nets`, none of them zero.

Attribute 0 holds the values x, x, y, attribute 1 y, z, numbered 0, 1, 2. Each has two distinct values, and they share
one; of three rows of attribute 0 one has a value that attribute 1 holds.

>>> head, nodes, scratch = np.full(3, -1, dtype=np.int32), np.empty((4, 3), dtype=np.int32), np.empty(2, dtype=np.int32)
>>> used = append_attribute(head, nodes, 0, np.array([0, 1], dtype=np.int32), np.array([2, 1], dtype=np.int32), 0)
>>> used = append_attribute(head, nodes, used, np.array([1, 2], dtype=np.int32), np.array([1, 1], dtype=np.int32), 1)
>>> values, rows = np.zeros((2, 2), dtype=np.int64), np.zeros((2, 2), dtype=np.int64)
>>> count_shared(head, nodes, 3, False, values, scratch)
>>> count_shared(head, nodes, 3, True, rows, scratch)
>>> values.tolist(), rows.tolist()
([[2, 1], [1, 2]], [[3, 1], [1, 2]])
"""

from __future__ import annotations

import numpy as np

from holdstrue.kernels.jit import inline, kernel
from holdstrue.typing import I32, I64, U64, Mask

GONE, CAME, KEPT = 0, 1, 2
"""Rows of the buffer that `_step` fills with attributes, and of the sizes it returns."""


@kernel
def net_changes(groups: I32, attributes: I32, steps: I32, starts: I64, delta: I32, offsets: I64, out: I32) -> int:
    """Sum the steps of each (group, attribute); `out[0], out[1]` receive what is not zero.

    `groups` numbers the value of every entry, `starts` (zeros, one more than groups) receives where
    the entries of a group lie, `delta` is scratch of one zero an attribute. Groups without net change
    get empty ranges of `offsets`. Returns the number of net changes.
    Complexity: O(entries).
    """
    n = groups.size
    count = starts.size - 1
    for i in range(n):
        if groups[i] >= 0:
            starts[groups[i] + 1] += 1
    for g in range(count):
        starts[g + 1] += starts[g]
    order = np.empty(starts[count], dtype=np.int32)
    place = starts[:count].copy()
    for i in range(n):
        if groups[i] >= 0:
            order[place[groups[i]]] = i
            place[groups[i]] += 1
    used = 0
    for g in range(count):
        offsets[g] = used
        for k in range(starts[g], starts[g + 1]):
            delta[attributes[order[k]]] += steps[order[k]]
        for k in range(starts[g], starts[g + 1]):
            attribute = attributes[order[k]]
            if delta[attribute] != 0:
                out[0, used] = attribute
                out[1, used] = delta[attribute]
                delta[attribute] = 0
                used += 1
    offsets[count] = used
    return used


@kernel
def count_numbers(numbers: I32, counts: I32) -> None:
    """Count how often each number occurs; -1 is none. Complexity: O(n)."""
    for i in range(numbers.size):
        if numbers[i] >= 0:
            counts[numbers[i]] += 1


@kernel
def append_attribute(head: I32, nodes: I32, used: int, numbers: I32, counts: I32, attribute: int) -> int:
    """Give distinct values a node of an attribute that none of them has yet; returns the nodes in use.

    Complexity: O(values).
    """
    for i in range(numbers.size):
        value = numbers[i]
        nodes[used, 0] = attribute
        nodes[used, 1] = counts[i]
        nodes[used, 2] = head[value]
        head[value] = used
        used += 1
    return used


@kernel
def count_shared(head: I32, nodes: I32, values: int, weighted: bool, shared: I64, scratch: I32) -> None:
    """Add to `shared[a, b]` the values that a and b both hold; `weighted` counts a's rows instead of values.

    Complexity: O(sum over values of the square of their number of attributes).
    """
    for value in range(values):
        size = 0
        at = head[value]
        while at >= 0:
            scratch[size] = at
            size += 1
            at = nodes[at, 2]
        for i in range(size):
            a = nodes[scratch[i], 0]
            weight = np.int64(nodes[scratch[i], 1]) if weighted else np.int64(1)
            for j in range(size):
                shared[a, nodes[scratch[j], 0]] += weight


@kernel
def lacking(head: I32, nodes: I32, numbers: I32, offsets: I64, attributes: I32, nets: I32, delta: I32) -> int:
    """The first net change that would take a count below zero, or -1. Complexity: O(attributes of the values)."""
    for g in range(numbers.size):
        start = offsets[g]
        end = offsets[g + 1]
        negative = 0
        for k in range(start, end):
            if nets[k] < 0:
                delta[attributes[k]] = nets[k]
                negative += 1
        if negative == 0:
            continue
        at = head[numbers[g]]
        while at >= 0:
            attribute = nodes[at, 0]
            if delta[attribute] != 0 and nodes[at, 1] + delta[attribute] >= 0:
                delta[attribute] = 0
            at = nodes[at, 2]
        bad = -1
        for k in range(start, end):
            if delta[attributes[k]] != 0:
                bad = k
                delta[attributes[k]] = 0
        if bad >= 0:
            return bad
    return -1


@inline
def _step(
    head: I32, nodes: I32, ends: I64, value: int, attributes: I32, nets: I32, delta: I32, sets: I32
) -> tuple[int, int, int]:
    """Apply the net changes of one value to its chain; `sets` receives its attributes by what became of them.

    `ends` holds the nodes in use and the first free node. There is room for one new node a change.
    """
    for k in range(attributes.size):
        delta[attributes[k]] = nets[k]
    gone = 0
    came = 0
    kept = 0
    before = -1
    at = head[value]
    while at >= 0:
        attribute = nodes[at, 0]
        after = nodes[at, 2]
        if delta[attribute] != 0:
            nodes[at, 1] += delta[attribute]
            delta[attribute] = 0
        if nodes[at, 1] == 0:
            sets[0, gone] = attribute
            gone += 1
            if before < 0:
                head[value] = after
            else:
                nodes[before, 2] = after
            nodes[at, 2] = np.int32(ends[1])
            ends[1] = at
        else:
            sets[2, kept] = attribute
            kept += 1
            before = at
        at = after
    for k in range(attributes.size):
        attribute = attributes[k]
        if delta[attribute] != 0:
            node = ends[1]
            if node >= 0:
                ends[1] = nodes[node, 2]
            else:
                node = ends[0]
                ends[0] += 1
            nodes[node, 0] = attribute
            nodes[node, 1] = delta[attribute]
            nodes[node, 2] = head[value]
            head[value] = node
            delta[attribute] = 0
            sets[1, came] = attribute
            came += 1
    return gone, came, kept


@kernel
def shift(
    head: I32, nodes: I32, ends: I64, numbers: I32, offsets: I64, attributes: I32, nets: I32, delta: I32, sets: I32,
    shared: I64,
) -> int:  # fmt: skip
    """Apply net changes to the chains and to `shared`; returns by how much the number of living values grew.

    Complexity: O(attributes of the changed values), and for each value that an attribute gained or
    lost, the attributes that hold it.
    """
    grown = 0
    for g in range(numbers.size):
        start = offsets[g]
        end = offsets[g + 1]
        gone, came, kept = _step(head, nodes, ends, numbers[g], attributes[start:end], nets[start:end], delta, sets)
        if gone == 0 and came == 0:
            continue
        if kept == 0:
            if gone == 0:
                grown += 1
            elif came == 0:
                grown -= 1
        for i in range(gone):
            a = sets[0, i]
            for j in range(kept):
                shared[a, sets[2, j]] -= 1
                shared[sets[2, j], a] -= 1
            for j in range(gone):
                shared[a, sets[0, j]] -= 1
        for i in range(came):
            a = sets[1, i]
            for j in range(kept):
                shared[a, sets[2, j]] += 1
                shared[sets[2, j], a] += 1
            for j in range(came):
                shared[a, sets[1, j]] += 1
    return grown


@kernel
def reassign(
    head: I32, nodes: I32, ends: I64, numbers: I32, offsets: I64, attributes: I32, nets: I32, delta: I32, sets: I32,
    moved: I32, words: U64,
) -> tuple[int, int]:  # fmt: skip
    """Apply net changes to the chains; `moved` receives the groups whose attribute set changed, `words` the new sets.

    Returns how many moved, and by how much the number of living values grew.
    Complexity: O(attributes of the changed values).
    """
    grown = 0
    count = 0
    one = np.uint64(1)
    for g in range(numbers.size):
        start = offsets[g]
        end = offsets[g + 1]
        gone, came, kept = _step(head, nodes, ends, numbers[g], attributes[start:end], nets[start:end], delta, sets)
        if gone == 0 and came == 0:
            continue
        if kept == 0:
            if gone == 0:
                grown += 1
            elif came == 0:
                grown -= 1
        row = words[count]
        row[:] = np.uint64(0)
        for i in range(kept):
            row[sets[2, i] >> 6] |= one << np.uint64(sets[2, i] & 63)
        for i in range(came):
            row[sets[1, i] >> 6] |= one << np.uint64(sets[1, i] & 63)
        moved[count] = g
        count += 1
    return count, grown


@kernel
def repack(head: I32, nodes: I32, out: I32) -> int:
    """Write the chains one after the other into `out`, leaving free nodes behind; returns the nodes in use.

    Complexity: O(nodes in use).
    """
    used = 0
    for value in range(head.size):
        at = head[value]
        if at >= 0:
            head[value] = used
        while at >= 0:
            out[used, 0] = nodes[at, 0]
            out[used, 1] = nodes[at, 1]
            at = nodes[at, 2]
            out[used, 2] = used + 1 if at >= 0 else -1
            used += 1
    return used


@kernel
def sound(head: I32, nodes: I32, used: int, free: int, attributes: int) -> int:
    """How many values have a chain, or -1 where chains are not what the others here rely on.

    They must lie within the nodes in use, meet neither each other nor the free nodes, and have each attribute once, so
    that none is longer than there are attributes. Complexity: O(nodes in use).

    >>> head, nodes = np.array([0, -1], dtype=np.int32), np.array([[1, 5, 1], [0, 2, -1]], dtype=np.int32)
    >>> sound(head, nodes, 2, -1, 2), sound(np.array([0, 1], dtype=np.int32), nodes, 2, -1, 2)
    (1, -1)
    """
    met = np.zeros(used, dtype=np.bool_)
    holds = np.full(attributes, -1, dtype=np.int64)
    living = 0
    for value in range(head.size):
        at = head[value]
        living += at >= 0
        while at >= 0:
            if at >= used or met[at]:
                return -1
            met[at] = True
            attribute = nodes[at, 0]
            if attribute < 0 or attribute >= attributes or holds[attribute] == value or nodes[at, 1] <= 0:
                return -1
            holds[attribute] = value
            at = nodes[at, 2]
    at = free
    while at >= 0:
        if at >= used or met[at]:
            return -1
        met[at] = True
        at = nodes[at, 2]
    return living


@kernel
def attribute_sets(head: I32, nodes: I32, start: int, end: int, words: U64) -> None:
    """The attributes of the values `start` to `end` as bits. Complexity: O(nodes of the values)."""
    one = np.uint64(1)
    words[:] = np.uint64(0)
    for value in range(start, end):
        at = head[value]
        while at >= 0:
            attribute = nodes[at, 0]
            words[value - start, attribute >> 6] |= one << np.uint64(attribute & 63)
            at = nodes[at, 2]


@kernel
def intersections(words: U64, living: Mask, out: U64) -> None:
    """`out[a]` = attributes in every living cluster that holds a (paper 004, Lemma 4.2); all where none holds it.

    Complexity: O(clusters * attributes of a cluster * words).
    """
    out[:] = ~np.uint64(0)
    width = words.shape[1]
    one = np.uint64(1)
    for c in range(words.shape[0]):
        if not living[c]:
            continue
        row = words[c]
        for w in range(width):
            left = row[w]
            bit = 0
            while left != 0:
                if left & one:
                    target = out[64 * w + bit]
                    for k in range(width):
                        target[k] &= row[k]
                left >>= one
                bit += 1


@kernel
def cluster_shares(words: U64, sizes: I64, shared: I64, scratch: I32) -> None:
    """Add to `shared[a, b]` the values of the clusters that hold both.

    Complexity: O(sum over clusters of the square of their number of attributes).
    """
    one = np.uint64(1)
    for c in range(words.shape[0]):
        if sizes[c] == 0:
            continue
        count = 0
        for w in range(words.shape[1]):
            left = words[c, w]
            bit = 0
            while left != 0:
                if left & one:
                    scratch[count] = 64 * w + bit
                    count += 1
                left >>= one
                bit += 1
        for i in range(count):
            for j in range(count):
                shared[scratch[i], scratch[j]] += sizes[c]
