"""Verifies denial constraints on all rows: for each set of atoms one pair that breaks it, or none.

Rules share what they need: the groups of a set of equalities, and their rows in the order of a column. After that a
rule of up to two orders and one inequality is a sweep of its rows (`kernels/refute.py`), one of three, or of four
with few values, a sweep with a tree (`kernels/tree_sweep.py`), any other a search by boxes; where few rows agree on
the equalities, all pairs that do are looked at, and where all but two orders are on columns of few values, pairs of
classes are (`class_search.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from threading import Lock, local
from typing import TypeVar

import numpy as np

from holdstrue.discovery.denials.class_search import ClassSearch
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.column_terms import CODE, STRICT, ColumnTerm, Equalities, Pair, driven, equalities
from holdstrue.discovery.denials.select_index import terms_of
from holdstrue.discovery.denials.verdicts import PairVerdicts
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.kernels import refute as kernels
from holdstrue.kernels import tree_sweep
from holdstrue.rules.model import Op
from holdstrue.typing import I32, I64, U64, Mask

KEPT_BYTES = 256 << 20
"""Groups and orders that are kept for the rules to come."""

STEPS = 1 << 16
"""Pairs of boxes looked at between two looks at the clock: some milliseconds."""

SCANNED = 300
"""Pairs a row up to which all that agree on equalities are looked at: a microsecond a row, where boxes take ten."""

SCANNED_FOR_SWEEP = 5
"""The same where sweeps with a tree would do, for each of them: some 30 ns a row on generated taxes, a pair takes 6."""

MOST_CELLS = 1 << 16
"""Cells of a tree over two columns up to which four orders are swept: it fits a cache of a megabyte."""

CLASSED_ROWS = 4096
"""Rows from which classes are thought of. Chosen, not tuned."""

CLASSED_PAIRS = 8
"""Pairs of classes for each row up to which rules are settled by classes: a sweep takes as long."""

SWEEP_SECONDS = 8.0e-9
"""A row of a sweep, on generated taxes of 300,000 rows, one core."""

TREE_SECONDS = 5.0e-8
"""A row of a sweep with a tree, likewise."""

BOX_SECONDS = 1.0e-6
"""A row of a search by boxes, likewise."""

CLASS_SECONDS = 5.0e-9
"""A pair of classes, likewise."""

HALVED = 2
"""Inequalities that are told apart as less and greater, each of which doubles the sweeps of four orders."""

SHARES = 8
"""Parts for each thread that rules are divided into, so that all end at about the same time."""

T = TypeVar("T")


@dataclass(frozen=True)
class EqualGroups:
    """Rows by group, as t and as s (-1: in none that matters), and how many groups there are."""

    t: I32
    s: I32
    count: int


@dataclass(frozen=True)
class Boxes:
    """A k-d tree over some rows."""

    rows: I32
    spans: I64
    low: I32
    high: I32
    places: dict[int, int]


class Refuter:
    """Pairs that break rules, on the rows as they are now.

    Memory: 8 bytes a row and column, and at most `KEPT_BYTES` of groups and orders.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from holdstrue.discovery.denials.choose_space import choose_space
    >>> from holdstrue.discovery.options import DiscoveryOptions
    >>> table = pa.table({"zip": [1, 1, 2], "pay": [10, 20, 30], "tax": [3, 2, 4]})
    >>> rows = CodedRows(choose_space(table, DiscoveryOptions()))
    >>> _ = rows.insert(table)
    >>> refuter = Refuter(rows)
    >>> terms = [(0, Op.EQ), (1, Op.GT), (2, Op.LT)], [(1, Op.EQ)]
    >>> refuter.verify(np.stack([rows.space.terms_mask(one) for one in terms]), Work()).pairs.tolist()
    [[1, 0], [-1, -1]]
    """

    def __init__(self, rows: CodedRows, work: Work | None = None, fresh: I64 | None = None) -> None:
        self._space = rows.space
        self._live = rows.live()
        self._fresh: I32 | None = None
        """Where rows are that came last: rules that held before are broken by pairs with one of them alone."""
        if fresh is not None:
            self._fresh = np.searchsorted(self._live, fresh).astype(np.int32)
        self._ranks = rows.ranks(self._live, work or Work(threads=1))
        self._kept: OrderedDict[object, tuple[object, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()
        self._own = local()

    def verify(self, sets: U64, work: Work, held: Mask | None = None) -> PairVerdicts:
        """By set of atoms two slots (t, s) that satisfy it, if any; as many of them as there is time for.

        `held` tells sets that no two rows satisfied before the fresh ones came.
        """
        looked = np.zeros(sets.shape[0], dtype=np.bool_)
        pairs = np.full((sets.shape[0], 2), -1, dtype=np.int64)
        asked = [self.terms(mask) for mask in sets]
        # rules on the same equalities follow each other: these are found once, and may go when room is needed
        order = sorted(range(len(asked)), key=lambda i: _leading(asked[i]))

        def run(places: list[int]) -> None:
            try:
                for at in places:
                    work.require_time()
                    pair = self._pair(asked[at], work, fresh=held is not None and bool(held[at]))
                    looked[at] = True
                    if pair is not None:
                        pairs[at] = self._live[list(pair)]
            except OutOfTimeError:
                return

        step = max(1, -(-len(order) // (SHARES * work.workers)))
        work.each(run, [order[start : start + step] for start in range(0, len(order), step)])
        return PairVerdicts(looked, pairs)

    @property
    def live(self) -> I64:
        """The slots of the rows; everything else here names rows by their place among these."""
        return self._live

    @property
    def ranks(self) -> I32:
        """The ranks of the rows by column, -1 where a value is unknown."""
        return self._ranks

    @property
    def fresh(self) -> I32:
        """The rows that came last."""
        return np.zeros(0, dtype=np.int32) if self._fresh is None else self._fresh

    def terms(self, mask: U64) -> tuple[ColumnTerm, ...]:
        """A set of atoms as comparisons of columns."""
        return tuple(self._term(i, op) for i, op in terms_of(self._space, mask))

    def _term(self, comparison: int, op: Op) -> ColumnTerm:
        compared = self._space.comparisons[comparison]
        return ColumnTerm(compared.left, op, compared.right)

    def _pair(self, terms: Sequence[ColumnTerm], work: Work, *, fresh: bool) -> Pair | None:
        split = self._by_class.split(terms) if self._classed else None
        if split is not None:
            sure, pair = self._by_class.pair(split)
            if sure:
                return pair
        equal = equalities(terms)
        orders = [term for term in terms if term.op not in (Op.EQ, Op.NE)]
        unlike = [term for term in terms if term.op is Op.NE]
        aligned = all(term.left == term.right for term in terms)
        deep = len(orders) + max(0, len(unlike) - 1)
        sweeps = 1 << max(0, len(unlike) - 1)
        few = sweeps * SCANNED_FOR_SWEEP * self._live.size
        if equal and deep > 2 and self._paired(equal) <= few:
            return self._by_scan(equal, orders + unlike)
        if deep > 4 or (deep == 4 and not self._narrow(orders, unlike)):
            return self._by_boxes(terms, work, fresh=fresh)
        if len(unlike) > 1 or (unlike and not orders):
            # different is less or greater; where nothing tells the rows apart less will do
            one = unlike.pop()
            ways = [Op.GT] if aligned and not orders else [Op.GT, Op.LT]
            rest = [ColumnTerm(left, Op.EQ, right) for left, right in equal] + orders + unlike
            tries = (self._pair([*rest, ColumnTerm(one.left, way, one.right)], work, fresh=fresh) for way in ways)
            return next((pair for pair in tries if pair is not None), None)
        distinct = orders + unlike
        if unlike and not any(term.apart for term in distinct):
            return self._by_boxes(terms, work, fresh=fresh)
        return self._by_sweep(equal, orders, unlike)

    def _by_sweep(self, equal: Equalities, orders: list[ColumnTerm], unlike: list[ColumnTerm]) -> Pair | None:
        # the driving order is t.x > s.x: where it is the other way round, the rows change roles
        orders = self._arranged_orders(orders)
        exchanged = bool(orders) and orders[0].op in (Op.LT, Op.LE)
        if exchanged:
            equal = tuple(sorted((right, left) for left, right in equal))
            orders, unlike = [term.flipped for term in orders], [term.flipped for term in unlike]
        first = orders[0] if orders else None
        grouped = self.grouped(equal)
        columns = (-1, -1) if first is None else (first.left, first.right)
        t_order = self.ordered(equal, grouped, columns[0], as_t=True)
        aligned = columns[0] == columns[1] and grouped.t is grouped.s
        s_order = t_order if aligned else self.ordered(equal, grouped, columns[1], as_t=False)
        x = [0, 0, 0] if first is None else [first.left, first.right, int(first.op in STRICT)]
        y = [-1, -1, 0, 1] if len(orders) < 2 else driven(orders[1])
        z = [unlike[0].left, unlike[0].right] if unlike else [-1, -1]
        out = np.empty(2, dtype=np.int64)
        ranks = self._ranks
        if first is None:
            # any two rows of a group: a column of equal values stands for the order
            ranks = self._level
        if len(orders) > 2:
            v = driven(orders[3]) if len(orders) > 3 else [-1, -1, 0, 1]
            terms = np.array([*driven(orders[0]), *y, *driven(orders[2]), *z, *v], dtype=np.int64)
            tree = self._tree(orders[1], orders[3] if len(orders) > 3 else None)
            found = tree_sweep.sweep_tree(ranks, t_order, grouped.t, s_order, grouped.s, terms, tree, out)
        else:
            terms = np.array([*x, *y, *z], dtype=np.int64)
            found = kernels.sweep(ranks, t_order, grouped.t, s_order, grouped.s, terms, out)
        if not found:
            return None
        t, s = out.tolist()
        return (s, t) if exchanged else (t, s)

    def _narrow(self, orders: list[ColumnTerm], unlike: list[ColumnTerm]) -> bool:
        """Whether a tree over two columns serves four orders, of which some are inequalities still."""
        if len(unlike) - 1 > HALVED:
            return False
        # one of the inequalities may stay
        least = sorted(self._values(term) for term in orders) if len(unlike) < 2 else [
            self._values(term) for term in sorted([*orders, *unlike], key=self._values)[1:]
        ]  # fmt: skip
        return least[0] * least[1] <= MOST_CELLS

    def _arranged_orders(self, orders: list[ColumnTerm]) -> list[ColumnTerm]:
        """The order to sweep along first, then that of the tree, which has the fewest values."""
        orders = sorted(orders, key=lambda term: (term.left, term.right))
        if len(orders) < 3:
            return orders
        by_values = sorted(orders, key=self._values)
        tree = by_values[: len(orders) - 2]
        first, third = (term for term in orders if term not in tree)
        return [first, tree[0], third, *tree[1:]]

    def _values(self, term: ColumnTerm) -> int:
        """Places that a tree over the values of two columns has."""
        return max(self._tops[term.left], self._tops[term.right]) + 2

    def seconds(self, terms: Sequence[ColumnTerm]) -> float:
        """About how long a rule takes that holds."""
        if self._classed and self._by_class.split(terms) is not None:
            return CLASS_SECONDS * len(self._by_class.classes) ** 2
        orders = sum(term.op not in (Op.EQ, Op.NE) for term in terms)
        unlike = sum(term.op is Op.NE for term in terms)
        deep, sweeps = orders + max(0, unlike - 1), 1 << max(0, unlike - 1)
        a_row = BOX_SECONDS if deep > 4 else sweeps * (SWEEP_SECONDS if deep < 3 else TREE_SECONDS)
        return a_row * self._live.size

    @cached_property
    def _by_class(self) -> ClassSearch:
        return ClassSearch(self._ranks, self.arranged, self._keep)

    @cached_property
    def _classed(self) -> bool:
        """Whether a look at every pair of classes is less than one at all rows."""
        return self._live.size >= CLASSED_ROWS and len(self._by_class.classes) ** 2 <= CLASSED_PAIRS * self._live.size

    @cached_property
    def _tops(self) -> list[int]:
        tops: list[int] = self._ranks.max(axis=1, initial=0).tolist()
        return tops

    def _tree(self, one: ColumnTerm, other: ColumnTerm | None) -> I32:
        """An empty tree over the values of a column, or of two; threads have their own."""
        wide = 2 if other is None else self._values(other)
        needed = self._values(one) * wide * 5
        tree: I32 | None = getattr(self._own, "tree", None)
        if tree is None or tree.size < needed:
            tree = self._own.tree = np.full(needed, -1, dtype=np.int32)
        return tree[:needed].reshape(-1, wide, 5)

    @cached_property
    def _level(self) -> I32:
        return np.zeros((1, self._live.size), dtype=np.int32)

    def grouped(self, equal: Equalities) -> EqualGroups:
        """Rows by what they have in the columns of equalities; only groups with two rows, or rows in both roles."""
        if not equal:
            return self._whole
        return self._keep(("groups", equal), lambda: self._refined(equal))

    @cached_property
    def _whole(self) -> EqualGroups:
        every = np.zeros(self._live.size, dtype=np.int32)
        return EqualGroups(every, every, 1)

    def _refined(self, equal: Equalities) -> tuple[EqualGroups, int]:
        before, (left, right) = self.grouped(equal[:-1]), equal[-1]
        t = np.full(self._live.size, -1, dtype=np.int32)
        t_order = self.arranged(before.t, before.count, left)
        if left == right and before.t is before.s:
            count = kernels.number_within(t_order, before.t, self._ranks[left], t)
            return EqualGroups(t, t, count), t.nbytes
        s, s_order = t.copy(), self.arranged(before.s, before.count, right)
        count = kernels.number_across(t_order, before.t, self._ranks[left], t, s_order, before.s, self._ranks[right], s)
        return EqualGroups(t, s, count), 2 * t.nbytes

    def ordered(self, equal: Equalities, grouped: EqualGroups, column: int, *, as_t: bool) -> I32:
        """The rows of groups in the order of a column (-1: in any order)."""

        def made() -> tuple[I32, int]:
            order = self.arranged(grouped.t if as_t else grouped.s, grouped.count, column)
            return order, order.nbytes

        return self._keep(("order", equal, column, as_t or grouped.t is grouped.s), made)

    def arranged(self, group: I32, count: int, column: int) -> I32:
        """Rows that have a value in a column by group, then in the order of the column."""
        by = self._by(column)
        out = np.empty(by.size, dtype=np.int32)
        used = kernels.arrange(by, group, count, out)
        return out[:used].copy()

    def _by(self, column: int) -> I32:
        """The rows that have a value in a column, ascending; all of them for -1."""

        def made() -> tuple[I32, int]:
            order = np.arange(self._live.size, dtype=np.int32)
            if column >= 0:
                ranks, every = self._ranks[column], order
                order = np.empty_like(every)
                order = order[: kernels.arrange(every, ranks, int(ranks.max(initial=0)) + 1, order)].copy()
            return order, order.nbytes

        return self._keep(("by", column), made)

    def _by_boxes(self, terms: Sequence[ColumnTerm], work: Work, *, fresh: bool) -> Pair | None:
        equal = equalities(terms)
        if equal and self._paired(equal) <= SCANNED * self._live.size:
            return self._by_scan(equal, [term for term in terms if term.op is not Op.EQ])
        lefts, rights = ({*map(attrgetter(side), terms)} for side in ("left", "right"))
        left, right = tuple(sorted(lefts)), tuple(sorted(rights))
        if not fresh or self._fresh is None:
            return self._between(terms, self._boxes(left), self._boxes(right), work)
        found = self._between(terms, self._boxes(left, fresh=True), self._boxes(right), work)
        return found or self._between(terms, self._boxes(left), self._boxes(right, fresh=True), work)

    def _paired(self, equal: Equalities) -> int:
        """How many pairs of rows agree on equalities."""

        def made() -> tuple[int, int]:
            grouped = self.grouped(equal)
            t, s = (np.bincount(side[side >= 0], minlength=grouped.count) for side in (grouped.t, grouped.s))
            return int(t.astype(np.float64) @ s), 0

        return self._keep(("pairs", equal), made)

    def _by_scan(self, equal: Equalities, terms: list[ColumnTerm]) -> Pair | None:
        """Every pair of rows that agree is looked at: there are few."""
        grouped = self.grouped(equal)
        t_order = self.ordered(equal, grouped, -1, as_t=True)
        s_order = t_order if grouped.t is grouped.s else self.ordered(equal, grouped, -1, as_t=False)
        asked = np.array([(CODE[term.op], term.left, term.right) for term in terms], dtype=np.int64).reshape(-1, 3)
        out = np.empty(2, dtype=np.int64)
        if kernels.scan_groups(self._ranks, asked, t_order, grouped.t, s_order, grouped.s, out):
            return int(out[0]), int(out[1])
        return None

    def _between(self, terms: Sequence[ColumnTerm], t: Boxes, s: Boxes, work: Work) -> Pair | None:
        asked = np.array(
            [(CODE[term.op], term.left, term.right, t.places[term.left], s.places[term.right]) for term in terms],
            dtype=np.int64,
        )
        deep = t.spans.shape[0].bit_length() + s.spans.shape[0].bit_length() + 4
        stack = np.zeros((2 * deep, 2), dtype=np.int64)
        state, out = np.array([1, 0], dtype=np.int64), np.empty(2, dtype=np.int64)
        while state[0]:
            work.require_time()
            state[1] = STEPS
            if kernels.search_boxes(
                self._ranks, asked, t.rows, t.spans, t.low, t.high, s.rows, s.spans, s.low, s.high, stack, state, out
            ):
                return int(out[0]), int(out[1])
        return None

    def _boxes(self, columns: tuple[int, ...], *, fresh: bool = False) -> Boxes:
        def made() -> tuple[Boxes, int]:
            known: Mask = np.all(self._ranks[list(columns)] >= 0, axis=0)
            if fresh and self._fresh is not None:
                rows = self._fresh[known[self._fresh]]
            else:
                rows = np.flatnonzero(known).astype(np.int32)
            levels = max(0, (max(1, rows.size) // kernels.LEAF).bit_length())
            nodes = (2 << levels) - 1
            spans = np.zeros((nodes, 2), dtype=np.int64)
            low, high = np.zeros((2, nodes, len(columns)), dtype=np.int32)
            widths = self._ranks[list(columns)].max(axis=1, initial=0).astype(np.int64) + 1
            kernels.grow_boxes(rows, self._ranks, np.array(columns, dtype=np.int64), widths, spans, low, high)
            boxes = Boxes(rows, spans, low, high, {column: place for place, column in enumerate(columns)})
            return boxes, rows.nbytes + spans.nbytes + low.nbytes + high.nbytes

        return self._keep(("boxes", columns, fresh), made)

    def _keep(self, name: object, make: Callable[[], tuple[T, int]]) -> T:
        """What was made before under a name, or is made now; what was asked for longest ago goes first."""
        with self._lock:
            known = self._kept.get(name)
            if known is not None:
                self._kept.move_to_end(name)
                return known[0]  # type: ignore[return-value]
        made, size = make()
        with self._lock:
            self._kept[name] = made, size
            self._bytes += size
            while self._bytes > KEPT_BYTES and len(self._kept) > 1:
                _, (_, gone) = self._kept.popitem(last=False)
                self._bytes -= gone
        return made


def _leading(terms: Sequence[ColumnTerm]) -> tuple[Equalities, Equalities]:
    """Rules by their equalities, then by their orders."""
    orders = sorted((term.left, term.right) for term in terms if term.op is not Op.EQ)
    return equalities(terms), tuple(orders)
