"""Inverted indexes of a column: from a value to the set of rows that have it, or that have a smaller one.

Section 4 of Kaminsky, Pena, Naumann: Incremental Detection of Denial Constraint Violations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from holdstrue.errors import HoldstrueError

if TYPE_CHECKING:
    from pyroaring import BitMap

REBUILD_SHARE = 0.25
"""Batches with at least this many values per value of the tree are applied by building it anew.

Measured with 200K values of one row each: building takes 3.3 us a value, inserting 13 us.
"""


def bitmap_type() -> type[BitMap]:
    """The compressed bitmap class, which comes with an optional dependency."""
    try:
        from pyroaring import BitMap
    except ImportError as error:
        raise HoldstrueError(
            "the lt_tree index needs the package pyroaring, which is not installed",
            hint="pip install 'holdstrue[lt-tree]'",
        ) from error
    return BitMap


class HashColumn:
    """An inverted index for equality only: value -> rows."""

    def __init__(self) -> None:
        self._sets: dict[int, BitMap] = {}
        self._none = bitmap_type()()

    def __len__(self) -> int:
        """The number of distinct values."""
        return len(self._sets)

    def equal(self, value: int) -> BitMap:
        """Rows with this value (not to be changed). Runtime complexity: O(1)."""
        return self._sets.get(value, self._none)

    def insert_many(self, groups: Sequence[tuple[int, BitMap]]) -> None:
        """Add rows by value; the index owns the sets from now on."""
        for value, tuples in groups:
            known = self._sets.setdefault(value, tuples)
            if known is not tuples:
                known |= tuples

    def remove(self, value: int, tuples: BitMap) -> None:
        """Take out rows that have this value."""
        known = self._sets[value]
        known -= tuples
        if not known:
            del self._sets[value]

    def items(self) -> Iterator[tuple[int, BitMap]]:
        """Values with their rows."""
        return iter(self._sets.items())

    def bitmaps(self) -> Iterator[BitMap]:
        """Every set the index holds."""
        return iter(self._sets.values())


class Node:
    """A distinct value with its tuple set and its LT-set, the rows of the left subtree."""

    __slots__ = ("left", "lt", "parent", "red", "right", "tuples", "value")

    def __init__(self, value: int, tuples: BitMap, lt: BitMap, nil: Node | None, red: bool) -> None:
        self.value = value
        self.tuples = tuples
        self.lt = lt
        self.left: Node = nil or self
        self.right: Node = nil or self
        self.parent: Node = nil or self
        self.red = red


class LTTree:
    """A red-black tree of values whose nodes also hold the rows of everything below to the left.

    Sets that are returned belong to the tree unless said otherwise: do not change them.

    Examples
    --------
    >>> from pyroaring import BitMap
    >>> postage = LTTree()
    >>> for row, value in enumerate([100, 50, 25, 200, 50, 10]):
    ...     postage.insert(value, BitMap([row]))
    >>> sorted(postage.smaller(50)), sorted(postage.equal(50)), len(postage)
    ([2, 5], [1, 4], 5)
    """

    def __init__(self) -> None:
        self._bitmap = bitmap_type()
        self._nil = Node(0, self._bitmap(), self._bitmap(), None, red=False)
        self._root = self._nil
        self._size = 0

    def __len__(self) -> int:
        """The number of distinct values."""
        return self._size

    def equal(self, value: int) -> BitMap:
        """Rows with this value. Runtime complexity: O(log d)."""
        x, nil = self._root, self._nil
        while x is not nil and x.value != value:
            x = x.right if value > x.value else x.left
        return x.tuples

    def smaller(self, value: int) -> BitMap:
        """Rows with a smaller value, as a new set (Algorithm 1). Runtime complexity: O(log d) unions."""
        return self._union(self._below(self._root, value))

    def between(self, low: int, high: int) -> BitMap:
        """Rows with low <= value < high, as a new set. Runtime complexity: O(log^2 d) unions.

        Section 5.5 turns the rows below `low` into the rows below `high` with this set.
        """
        x, nil = self._root, self._nil
        while x is not nil and not low <= x.value < high:
            x = x.right if x.value < low else x.left
        if x is nil:
            return self._bitmap()
        parts = [x.tuples, *self._below(x.right, high)]
        y = x.left
        while y is not nil:
            if y.value < low:
                y = y.right
                continue
            parts.append(y.tuples)
            z = y.right  # all of it lies between; only left subtrees have their rows at hand
            while z is not nil:
                parts += (z.lt, z.tuples)
                z = z.right
            y = y.left
        return self._union(parts)

    def _below(self, x: Node, value: int) -> list[BitMap]:
        """The disjoint sets that make up the rows below `value` in the subtree of x."""
        nil = self._nil
        parts: list[BitMap] = []
        while x is not nil:  # Algorithm 1, ended by a missing child as well
            if value > x.value:
                parts += (x.lt, x.tuples)
                x = x.right
            elif value < x.value:
                x = x.left
            else:  # the paper's loop ends here without the LT-set; its proof adds it
                parts.append(x.lt)
                break
        return parts

    def _union(self, parts: Sequence[BitMap]) -> BitMap:
        return self._bitmap.union(*parts) if parts else self._bitmap()

    def insert(self, value: int, tuples: BitMap) -> None:
        """Add rows with one value; the tree owns `tuples` from now on.

        Runtime complexity: O(log d) set changes.
        """
        parent, x, nil = self._nil, self._root, self._nil
        while x is not nil:
            if value == x.value:
                x.tuples |= tuples
                return
            parent = x
            if value < x.value:
                x.lt |= tuples
                x = x.left
            else:
                x = x.right
        node = Node(value, tuples, self._bitmap(), nil, red=True)
        node.parent = parent
        if parent is nil:
            self._root = node
        elif value < parent.value:
            parent.left = node
        else:
            parent.right = node
        self._size += 1
        self._fix_insert(node)

    def insert_many(self, groups: Sequence[tuple[int, BitMap]]) -> None:
        """Add rows of many values (in ascending order, each once)."""
        if len(groups) < max(2, REBUILD_SHARE * self._size):
            for value, tuples in groups:
                self.insert(value, tuples)
            return
        merged = dict(self.items())
        for value, tuples in groups:
            if value in merged:
                merged[value] |= tuples
            else:
                merged[value] = tuples
        items = sorted(merged.items())
        self._size = len(items)
        red_depth = (len(items) + 1).bit_length() - 1
        self._root = self._build(items, 0, len(items), red_depth)[0]
        self._root.parent = self._nil

    def _build(self, items: list[tuple[int, BitMap]], low: int, high: int, red_depth: int) -> tuple[Node, BitMap]:
        """A balanced subtree of items[low:high] and all its rows; only an incomplete last level is red."""
        if low >= high:
            return self._nil, self._bitmap()
        middle = (low + high - 1) // 2
        left, left_rows = self._build(items, low, middle, red_depth - 1)
        right, right_rows = self._build(items, middle + 1, high, red_depth - 1)
        value, tuples = items[middle]
        node = Node(value, tuples, left_rows, self._nil, red=red_depth == 0)
        node.left, node.right = left, right
        left.parent = right.parent = node
        return node, left_rows | tuples | right_rows

    def remove(self, value: int, tuples: BitMap) -> None:
        """Take out rows that have this value. Runtime complexity: O(log d) set changes."""
        x, nil = self._root, self._nil
        while x is not nil and x.value != value:
            if value < x.value:
                x.lt -= tuples
                x = x.left
            else:
                x = x.right
        if x is nil:
            raise KeyError(value)
        x.tuples -= tuples
        if not x.tuples:
            self._unlink(x)

    def items(self) -> Iterator[tuple[int, BitMap]]:
        """Values in ascending order with their rows."""
        for node in self._nodes():
            yield node.value, node.tuples

    def bitmaps(self) -> Iterator[BitMap]:
        """Every set the tree holds."""
        for node in self._nodes():
            yield node.tuples
            yield node.lt

    def _nodes(self) -> Iterator[Node]:
        path: list[Node] = []
        x, nil = self._root, self._nil
        while path or x is not nil:
            while x is not nil:
                path.append(x)
                x = x.left
            x = path.pop()
            yield x
            x = x.right

    def _rotate_left(self, x: Node) -> None:
        y = x.right
        x.right = y.left
        if y.left is not self._nil:
            y.left.parent = x
        self._replace(x, y)
        y.left = x
        x.parent = y
        y.lt |= x.lt  # x and what is left of it now lie left of y
        y.lt |= x.tuples

    def _rotate_right(self, y: Node) -> None:
        x = y.left
        y.left = x.right
        if x.right is not self._nil:
            x.right.parent = y
        self._replace(y, x)
        x.right = y
        y.parent = x
        y.lt -= x.lt  # only what was right of x stays left of y
        y.lt -= x.tuples

    def _replace(self, old: Node, new: Node) -> None:
        """Hang `new` where `old` hangs."""
        parent = old.parent
        if parent is self._nil:
            self._root = new
        elif old is parent.left:
            parent.left = new
        else:
            parent.right = new
        new.parent = parent

    def _fix_insert(self, z: Node) -> None:
        while z.parent.red:
            grand = z.parent.parent
            left = z.parent is grand.left
            uncle = grand.right if left else grand.left
            if uncle.red:
                z.parent.red = uncle.red = False
                grand.red = True
                z = grand
                continue
            if z is (z.parent.right if left else z.parent.left):
                z = z.parent
                self._rotate(z, left)
            z.parent.red = False
            grand.red = True
            self._rotate(grand, not left)
        self._root.red = False

    def _rotate(self, x: Node, left: bool) -> None:
        if left:
            self._rotate_left(x)
        else:
            self._rotate_right(x)

    def _unlink(self, z: Node) -> None:
        """Remove a node without rows; the LT-sets above no longer hold any."""
        nil = self._nil
        y = z
        if z.left is not nil and z.right is not nil:
            y = z.right
            while y.left is not nil:
                y = y.left
            x = z.right
            while x is not y:  # the successor leaves the left subtrees it was in
                x.lt -= y.tuples
                x = x.left
            z.value, z.tuples = y.value, y.tuples  # z keeps its LT-set: its left subtree stays
        child = y.left if y.left is not nil else y.right
        self._replace(y, child)  # sets nil.parent too, which the repair needs
        self._size -= 1
        if not y.red:
            self._fix_remove(child)
        nil.parent = nil

    def _fix_remove(self, x: Node) -> None:
        while x is not self._root and not x.red:
            parent = x.parent
            left = x is parent.left
            sibling = parent.right if left else parent.left
            if sibling.red:
                sibling.red, parent.red = False, True
                self._rotate(parent, left)
                sibling = parent.right if left else parent.left
            if not sibling.left.red and not sibling.right.red:
                sibling.red = True
                x = parent
                continue
            if not (sibling.right if left else sibling.left).red:
                (sibling.left if left else sibling.right).red = False
                sibling.red = True
                self._rotate(sibling, not left)
                sibling = parent.right if left else parent.left
            sibling.red, parent.red = parent.red, False
            (sibling.right if left else sibling.left).red = False
            self._rotate(parent, left)
            x = self._root
        x.red = False

    def _check(self) -> None:
        """Assert order, parents, colours, black heights, LT-sets and the size."""
        assert not self._root.red and not self._nil.red, "root and leaves are black"
        assert not self._nil.tuples and not self._nil.lt, "leaves hold nothing"
        values = [value for value, _ in self.items()]
        assert values == sorted(set(values)), "values ascend"
        assert len(values) == self._size

        def visit(x: Node) -> tuple[int, BitMap]:
            if x is self._nil:
                return 1, self._bitmap()
            assert x.tuples, "a node has rows"
            assert not (x.red and (x.left.red or x.right.red)), "no two reds in a row"
            assert all(c is self._nil or c.parent is x for c in (x.left, x.right)), "parents"
            height, left_rows = visit(x.left)
            right_height, right_rows = visit(x.right)
            assert height == right_height, "equal black heights"
            assert x.lt == left_rows, "LT-set = rows of the left subtree"
            return height + (not x.red), left_rows | x.tuples | right_rows

        visit(self._root)


InvertedColumn: TypeAlias = HashColumn | LTTree
