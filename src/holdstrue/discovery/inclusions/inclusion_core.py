"""Inclusions of tuples of columns up to a given arity, found level by level and kept current.

An inclusion of n columns is reported when it and all its parts hold; since NULLs are ignored on the left, a
tuple may hold where a part of it does not, and such ones are not looked for. Tuples of the candidates are
counted by their digests as single values are, so that a batch costs its changed tuples only. A batch that makes
new candidates has their columns counted in the whole tables. Columns without values are left out from two
columns on.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from holdstrue.discovery.found import Died, RuleTurnover
from holdstrue.discovery.inclusions.attributes import Changes, inclusion
from holdstrue.discovery.inclusions.candidates import candidates
from holdstrue.discovery.inclusions.counted_values import LackingError
from holdstrue.discovery.inclusions.level import Level, Tables
from holdstrue.discovery.inclusions.net_changes import NetChanges
from holdstrue.discovery.inclusions.unary import FoundInclusion, UnaryInclusions, ValueLayout
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.errors import ChangeError
from holdstrue.index.arrays import MOST_SLOTS, Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.typing import Mask

LEVEL_SHARDS = 1
"""Tuples lie in one shard: a level is counted in one process."""


MOST_CANDIDATES = 2000
"""Candidates of a level: constant or copied columns have exponentially many inclusions. Up to 4,000 tuples of columns
may then be counted, and their counters take 128 MB."""


class InclusionCore:
    """All inclusions of up to `options.arity` columns between the given tables, whole or partial.

    Examples
    --------
    >>> weather = pa.table({"day": [1, 1, 2], "hour": [0, 1, 0]})
    >>> flights = pa.table({"on": [1, 2], "at": [1, 0], "n": [7, 8]})
    >>> tables = {"flights": flights, "weather": weather}
    >>> found = InclusionCore.load(tables, DiscoveryOptions(arity=2))
    >>> [rule.body.columns for rule in found.rules() if len(rule.body.columns) == 2 and rule.body.table == "flights"]
    [('on', 'at')]
    """

    def __init__(self, unary: UnaryInclusions, options: DiscoveryOptions, *, most: int = MOST_CANDIDATES) -> None:
        self.unary = unary
        self.options = options
        self._most = most
        self._arity = options.arity
        self.levels: list[Level] = []
        self._columns = {name: schema.names for name, schema in unary.schemas.items()}
        self._places = {name: {column: i for i, column in enumerate(names)} for name, names in self._columns.items()}
        self._held: Mask | None = None
        self._in_time = True

    @staticmethod
    def load(
        tables: Mapping[str, pa.Table],
        options: DiscoveryOptions | None = None,
        work: Work | None = None,
        *,
        most: int = MOST_CANDIDATES,
    ) -> InclusionCore:
        """Find all inclusions. Past the deadline no further level is begun, and `complete` says so."""
        options, work = options or DiscoveryOptions(), work or Work()
        first = work.part(0.0, 1.0 if options.arity < 2 else 0.5)
        core = InclusionCore(UnaryInclusions.load(tables, layout_of(options), first), options, most=most)
        core._search(tables.__getitem__, work.part(0.5, 0.5))
        return core

    def _search(self, tables: Tables, work: Work) -> None:
        """Walk up the levels: each decides about the candidates that the one below makes.

        Below a level of which nothing changed, candidates are as they were.
        """
        if self._arity < 2:
            return
        held = self.unary.held(self.options.error, self.options.measure) & self.unary.with_values()[:, None]
        same = self._held is not None and np.array_equal(held, self._held)
        self._held = held
        below = [] if same else self.unary.pairs(held)
        for at in range(self._arity - 1):
            if not same:
                pairs, whole = candidates(below, self._places, self._most)
                if not pairs:
                    del self.levels[at:]
                    return
                if at == len(self.levels):
                    self.levels.append(self._level())
                try:
                    self.levels[at].consider(pairs, whole, tables, work)
                except OutOfTimeError:
                    del self.levels[at:]
                    self._arity = at + 1
                    self._in_time = False
                    return
            if at == len(self.levels):
                return
            same &= not self.levels[at].decide(self.options.error, self.options.measure)
            below = self.levels[at].held()
            work.tell((at + 1) / (self._arity - 1), f"{at + 2} columns")

    def _level(self) -> Level:
        return Level(self.unary.layout.compare, LEVEL_SHARDS, self.unary.layout.seed)

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for was looked at."""
        return self._in_time and self.unary.complete and all(level.whole for level in self.levels)

    def apply(self, changes: Changes, tables: Tables | None = None) -> RuleTurnover:
        """Take in the rows that go and come, of any tables, together; all or none.

        `tables` gives a table as it is after the batch, whole. It is needed from two columns on, and
        asked only when the batch makes a candidate whose columns were not counted yet.
        Complexity: O(cells of the batch * counted tuples of columns); O(table) for each new one of these.
        """
        if tables is None and self._arity > 1:
            raise ChangeError(
                "inclusions of several columns need the tables as they are after the batch",
                hint="pass a function that gives a table by its name",
            )
        unary = self.unary.tally(changes)
        counted = [self._counted(level, changes) for level in self.levels]
        old = [pair for level in self.levels for pair in level.held()]
        turnover = self.unary.apply_tally(unary, self.options.error, self.options.measure)
        for level, part in zip(self.levels, counted, strict=True):
            level.apply(part)
        self._search(tables or _no_tables, Work())
        new = [pair for level in self.levels for pair in level.held()]
        were, are = frozenset(old), frozenset(new)
        return RuleTurnover(
            turnover.died + tuple(Died(inclusion(*pair)) for pair in old if pair not in are),
            turnover.born + tuple(inclusion(*pair) for pair in new if pair not in were),
        )

    @staticmethod
    def _counted(level: Level, changes: Changes) -> NetChanges:
        try:
            return level.tally(changes)
        except LackingError as error:
            attribute = list(level.attributes)[error.attribute]
            raise ChangeError(
                f"the batch removes rows of {attribute.table} that are not there: their values of "
                f"{', '.join(attribute.columns)} never occur together",
                hint="remove only rows that are in the table, with the values they have there",
            ) from error

    def rules(self) -> tuple[FoundInclusion, ...]:
        """The inclusions, those of fewer columns first. Complexity: O(attributes squared + result)."""
        more = [
            FoundInclusion(inclusion(*pair), *counts)
            for level in self.levels
            for pair, counts in level.measured().items()
        ]
        return self.unary.rules(self.options.error, self.options.measure) + tuple(more)

    def size_bytes(self) -> int:
        """Memory held."""
        return self.unary.size_bytes() + sum(level.size_bytes() for level in self.levels)

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state."""
        arrays = self.unary.snapshot() | {"searched": np.array([self._arity, self._in_time], dtype=np.int64)}
        for i, level in enumerate(self.levels):
            arrays |= nested(f"level{i}", level.snapshot(self._places))
        return arrays

    @staticmethod
    def restore(schemas: Mapping[str, pa.Schema], options: DiscoveryOptions, arrays: Checked) -> InclusionCore:
        """The core as it was left; the arrays will be written to, unless they are mapped copy-on-write."""
        core = InclusionCore(UnaryInclusions.restore(schemas, layout_of(options), arrays), options)
        # a search that the deadline ended goes on with the columns it came to
        arity, in_time = arrays.few("searched", 0, MOST_SLOTS, 2)
        core._arity, core._in_time = min(options.arity, arity), bool(in_time)
        while "attributes" in (part := arrays.part(f"level{len(core.levels)}")):
            level = core._level()
            level.restore(part, core._columns, len(core.levels) + 2)
            core.levels.append(level)
        try:
            core._search(_no_tables, Work())
        except LookupError as error:
            raise arrays.damaged("its levels do not count what follows from those below") from error
        return core


def layout_of(options: DiscoveryOptions) -> ValueLayout:
    """How the values of a discovery are compared and counted."""
    return ValueLayout("text" if options.as_text else "types", seed=options.seed)


def _no_tables(name: str) -> pa.Table:
    raise LookupError(f"table {name!r} was asked for where nothing new is counted")
