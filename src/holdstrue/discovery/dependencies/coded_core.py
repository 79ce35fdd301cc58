"""What the cores of keys, FDs and conditional FDs have in common: a table as codes, searched anew after a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import pyarrow as pa

from holdstrue.discovery.bitsets import set_of
from holdstrue.discovery.dependencies.codes import Codes
from holdstrue.discovery.dependencies.ranking import body_of, columns_of, near_misses, profiles
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.found import Died, NearMiss, RuleTurnover
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.rules.model import Body
from holdstrue.typing import I32, I64, U64


class CodedCore(ABC):
    """Finds rules among the codes of a table."""

    def __init__(self, schema: pa.Schema, options: DiscoveryOptions) -> None:
        self.options, self._schema = options, schema
        self.codes = Codes(schema, options.nulls, options.seed)
        self.names = self.codes.names
        many = len(self.names)
        # a key is a dependency of one more target, in which any two rows differ
        self._targets = [many] * ("key" in options.kinds) + list(range(many)) * ("fd" in options.kinds)
        self._longest = many if options.max_lhs is None else min(many, options.max_lhs)
        self._work = Work(threads=options.threads)
        self.complete = False
        """Whether all rules were found."""

    @property
    def length(self) -> int | None:
        """Up to how many columns on the left all rules were found; None: all there are."""
        return None if self.complete else 0

    @classmethod
    def load(cls, table: pa.Table, options: DiscoveryOptions | None = None, work: Work | None = None) -> Self:
        """Find all rules of a table; at the deadline it ends with what was found, and `complete` is False."""
        core = cls(table.schema, options or DiscoveryOptions())
        work = work or core._work
        core._take(table, core.codes.encode(table, work))
        work.tell(0.05, "columns coded")
        core._find(work.part(0.05, 0.95))
        return core

    def apply(self, removed: I64, added: pa.Table, work: Work | None = None) -> RuleTurnover:
        """Take rows out by slot, add others; what became of the rules. Complexity: that of the search."""
        work, before = work or self._work, self.bodies()
        codes, places = self.codes.encode(added, work), self.codes.places(removed)
        self.codes.remove(places)
        self.codes.compact()
        self._take(added, codes)
        self._find(work)
        after = self.bodies()
        were, are = frozenset(before), frozenset(after)
        died = tuple(Died(body, self._witness(body)) for body in before if body not in are)
        return RuleTurnover(died, tuple(body for body in after if body not in were))

    @property
    def slots(self) -> int:
        """How many slots were given out: the next row gets this one."""
        return self.codes.next_slot

    def living(self) -> I64:
        """The slots of the rows that are there, ascending."""
        found: I64 = self.codes.slots[self.codes.members()]
        return found

    def _take(self, table: pa.Table, codes: I32) -> None:
        """Take in rows that were coded."""
        self.codes.append(codes)

    @abstractmethod
    def _find(self, work: Work) -> None:
        """Search the rows there are."""

    @abstractmethod
    def bodies(self) -> tuple[Any, ...]:
        """The rules without measures."""

    @abstractmethod
    def _witness(self, body: Any) -> tuple[int, ...]:
        """Slots of rows that break a rule which died; none where it still holds."""

    def near_misses(
        self, most: int, work: Work | None = None, *, max_lhs: int = 2
    ) -> tuple[tuple[NearMiss, ...], bool]:
        """Keys and FDs that at most `most` rows break, with these rows; only where chance would break them more.

        And whether there was time and room to look for all of up to `max_lhs` columns.
        Complexity: O(rows) for each set of up to `max_lhs` columns, less where it is soon broken too often.
        """
        validator = Validator(Partitions(self.codes), work or self._work)
        columns = profiles(self.codes, self._schema)
        return near_misses(self.codes, validator, self._targets, self._body, columns, most, max_lhs)

    def _body(self, target: int, line: U64) -> Body:
        return body_of(target, line, self.names)

    def _target_and_line(self, body: Body) -> tuple[int, U64]:
        """The target and the left side of a key or an FD."""
        left, right = columns_of(body)
        many = len(self.names)
        return many if right is None else self.names.index(right), set_of(map(self.names.index, left), many // 64 + 1)
