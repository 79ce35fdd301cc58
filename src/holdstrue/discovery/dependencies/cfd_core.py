"""Conditional FDs of a table: what depends on what where columns have certain values, as few useful rules.

Patterns that differ in values alone make one rule with a tableau. Left out are

- patterns that random values would also show: at least `support` rows could have broken one,
- patterns that luck explains: with any value in the place of a constant it is broken elsewhere, and if it were broken
  as often here, at least `EXPECTED` rows would have to go,
- rules with more than `MOST_PATTERNS` patterns, which say that an FD nearly holds (see near misses),
- conditions on columns with many values, on fractions and on times of day.

Under changes the search is done again on the coded rows: a batch costs what it does from scratch.

Memory: that of `Codes`, and the values of columns with few of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from holdstrue.data.values import family_of
from holdstrue.discovery.bitsets import members, set_of
from holdstrue.discovery.dependencies.coded_core import CodedCore
from holdstrue.discovery.dependencies.patterns import Conditional, conditional
from holdstrue.discovery.dependencies.ranking import Profile, profiles, surprise, suspects
from holdstrue.discovery.dependencies.validation import Partitions, Validator
from holdstrue.discovery.found import NearMiss
from holdstrue.discovery.options import DiscoveryOptions, allowed, exact
from holdstrue.discovery.work import Work
from holdstrue.errors import HoldstrueError
from holdstrue.index.arrays import Snapshot, nested
from holdstrue.index.checked import Checked
from holdstrue.rules.model import CFD, Constant, Pattern
from holdstrue.rules.parser import parse_body
from holdstrue.rules.text import constant_text, pattern_text
from holdstrue.rules.tokens import Cursor
from holdstrue.typing import I32

MOST_VALUES = 64
"""Conditions are put on columns of up to this many distinct values. Chosen, not tuned."""

KEPT_VALUES = 4096
"""Of columns that ever had more distinct values none is kept. Where such a column has few again, the search says
that it is not complete: conditions on it are not known."""

MOST_PATTERNS = 12
"""A rule that needs more patterns is nearly an FD. Chosen, not tuned."""

EXPECTED = 10
"""An FD that is broken by chance is not broken here with probability e^-10. Chosen, not tuned."""

Share: TypeAlias = Callable[[Conditional], float]
Selection: TypeAlias = Callable[[Conditional], int]

_FAMILIES = ("text", "integer", "bool", "date")


@dataclass(frozen=True)
class ConditionalRule:
    """A conditional FD: rows that match it, those with a partner, and the share that keeps to it.

    It is `implied` where other columns select the same rows and say the same of them: from `[b=1] -> [a=1]` and
    `[a=1, c] -> [d]` follows `[b=1, c] -> [d]`. Of such columns the first by name speak for all.
    """

    body: CFD
    score: float
    rows: int
    support: int
    confidence: float
    implied: bool = False


def not_luck(one: Conditional) -> bool:
    """Whether a pattern is kept to far better than one with any value in the place of a constant."""
    return one.expected >= EXPECTED + 3 * one.surplus


class SaidPatterns:
    """Patterns that are told, and which of them others make superfluous."""

    def __init__(self, names: tuple[str, ...], patterns: list[Conditional], selection: Selection) -> None:
        self._names, self._selection = names, selection
        self._conditions: dict[tuple[int, bytes, int], list[Conditional]] = {}
        self._constants: dict[int, list[Conditional]] = {}
        for one in patterns:
            self._conditions.setdefault((selection(one), one.line.tobytes(), one.target), []).append(one)
            if not one.line.any():
                self._constants.setdefault(one.target, []).append(one)

    def repeats(self, one: Conditional) -> bool:
        """Whether a pattern follows from one on the same rows, whose columns come before by name."""
        same = self._conditions[self._selection(one), one.line.tobytes(), one.target]
        return any(self._named(other) < self._named(one) and self._leads_to(one, other) for other in same)

    def _named(self, one: Conditional) -> list[str]:
        return sorted(self._names[column] for column in one.columns)

    def _leads_to(self, one: Conditional, other: Conditional) -> bool:
        """Whether the condition of one says, by patterns that are told, that of the other holds."""
        given = dict(zip(one.columns, one.values, strict=True))
        return all(
            given.get(column) == value
            or any(
                told.commonest == value and dict(zip(told.columns, told.values, strict=True)).items() <= given.items()
                for told in self._constants.get(column, [])
            )
            for column, value in zip(other.columns, other.values, strict=True)
        )


class CfdCore(CodedCore):
    """The conditional FDs of a table.

    Examples
    --------
    >>> land = ["UK"] * 99 + ["US"] * 99
    >>> zips = [i % 6 for i in range(198)]
    >>> street = [f"S{z // 2}" for z in zips[:99]] + [f"S{i % 7}" for i in range(99)]
    >>> core = CfdCore.load(pa.table({"land": land, "zip": zips, "street": street}))
    >>> [rule.body.text for rule in core.rules()]
    ["[land='UK', zip] -> [street]"]
    """

    def __init__(self, schema: pa.Schema, options: DiscoveryOptions) -> None:
        super().__init__(schema, options)
        self._values: list[list[Any]] = [[] for _ in self.names]
        self._rules: tuple[ConditionalRule, ...] = ()
        self._reached = 0

    def _take(self, table: pa.Table, codes: I32) -> None:
        self.codes.append(codes)
        for number, name in enumerate(self.names):
            values = self._values[number]
            if len(self.codes.numberings[number]) > KEPT_VALUES or not self._may_be_constant(name):
                values.clear()
                continue
            found, first = np.unique(codes[number], return_index=True)
            # codes are given in the order of appearance, so new ones follow those known
            fresh = [int(row) for code, row in zip(found, first, strict=True) if code >= len(values)]
            values += [table.column(name)[row].as_py() for row in fresh]

    def _may_be_constant(self, name: str) -> bool:
        return family_of(self._schema.field(name).type) in _FAMILIES

    @property
    def length(self) -> int | None:
        """Up to how many columns on the left all patterns were looked at; None: all there are."""
        return None if self.complete else self._reached

    def _find(self, work: Work) -> None:
        columns, rows = profiles(self.codes, self._schema), self.codes.rows
        found, reached = conditional(self.codes, self._constants(columns), self.options, work)
        forgotten = self._forgotten(columns)
        self.complete, self._reached = reached is None and not forgotten, 0 if forgotten else reached or 0
        members = self.codes.members()
        shares = self._shares(members)
        kept = [one for one in found if not_luck(one) and self._chance(one, columns, shares) >= self.options.support]
        self._rules = self._together(kept, columns, rows, shares, self._selections(members))

    def _forgotten(self, columns: list[Profile]) -> bool:
        """Whether a column has few values again, of which none are known: it had too many in between."""
        return any(
            0 < column.distinct <= MOST_VALUES and not known and self._may_be_constant(column.name)
            for column, known in zip(columns, self._values, strict=True)
        )

    def _constants(self, columns: list[Profile]) -> dict[int, list[int]]:
        """By column of few values the codes that conditions may name."""
        return {
            number: [value for value, said in enumerate(known) if said is not None]
            for number, known in enumerate(self._values)
            if known and columns[number].distinct <= MOST_VALUES
        }

    def _under(self, one: Conditional, members: I32) -> I32:
        """The rows that a pattern speaks of."""
        for column, value in zip(one.columns, one.values, strict=True):
            members = members[self.codes.matrix[column][members] == value]
        return members

    def _shares(self, members: I32) -> Share:
        """Tells which share of the rows under a condition, where it is known, the commonest value of the target has."""
        told: dict[tuple[object, ...], float] = {}

        def share(one: Conditional) -> float:
            place = one.columns, one.values, one.target
            if place not in told:
                values = self.codes.matrix[one.target][self._under(one, members)]
                counts = np.bincount(values[values >= 0], minlength=1)
                told[place] = int(counts.max()) / max(1, int(counts.sum()))
            return told[place]

        return share

    def _selections(self, members: I32) -> Selection:
        """Tells conditions that select the same rows by the same number."""
        told: dict[tuple[object, ...], int] = {}
        numbers: dict[bytes, int] = {}

        def selection(one: Conditional) -> int:
            place = one.columns, one.values
            if place not in told:
                digest = blake2b(self._under(one, members).tobytes()).digest()
                told[place] = numbers.setdefault(digest, len(numbers))
            return told[place]

        return selection

    def _chance(self, one: Conditional, columns: list[Profile], share: Share) -> float:
        """Rows that would break the pattern if the right side were drawn at random."""
        if not one.line.any():
            few = columns[one.target].distinct <= MOST_VALUES
            if not few or one.commonest < 0 or self._constant(one.target, one.commonest) is None:
                return 0.0
            return one.support * (1 - self._everywhere(one))
        target = columns[one.target]
        # no share would make it worth telling
        if one.support - one.groups < self.options.support:
            return 0.0
        inside = Profile(target.name, target.quality, target.distinct, one.rows, share(one))
        return surprise(one.support, one.groups, inside)

    def _everywhere(self, one: Conditional) -> float:
        """Which share of all rows, where it is known, has what a pattern says of its target."""
        column = self.codes.matrix[one.target][self.codes.members()]
        return float(np.mean(column[column >= 0] == one.commonest))

    def _constant(self, column: int, code: int) -> Any:
        values = self._values[column]
        return values[code] if code < len(values) else None

    def _together(
        self, found: list[Conditional], columns: list[Profile], rows: int, share: Share, selection: Selection
    ) -> tuple[ConditionalRule, ...]:
        """Patterns that differ in values alone as one rule, the best rules first."""
        tableaux: dict[tuple[tuple[int, ...], bytes, int], list[Conditional]] = {}
        for one in found:
            tableaux.setdefault((one.columns, one.line.tobytes(), one.target), []).append(one)
        kept = [same for same in tableaux.values() if len(same) <= MOST_PATTERNS]
        said = SaidPatterns(self.names, [one for same in kept for one in same], selection)
        rules = [replace(self._rule(same, columns, rows, share), implied=all(map(said.repeats, same))) for same in kept]
        return tuple(sorted(rules, key=lambda rule: (-rule.score, str(rule.body))))

    def _rule(self, same: list[Conditional], columns: list[Profile], rows: int, share: Share) -> ConditionalRule:
        # sums of floats depend on the order, and that of the codes on which rows came first
        same = sorted(same, key=lambda one: [constant_text(constant) for constant in self._left(one)])
        first = same[0]
        others = members(first.line)
        free = (None,) * len(others)
        patterns = []
        for one in same:
            right = None if others else Constant(self._constant(one.target, one.commonest))
            patterns.append(Pattern((*self._left(one), *free), (right,)))
        body = CFD(
            tuple(self.names[i] for i in (*first.columns, *others)),
            (self.names[first.target],),
            tuple(sorted(patterns, key=pattern_text)),
        )
        matching, support = sum(one.rows for one in same), sum(one.support for one in same)
        confidence = 1 - sum(one.surplus for one in same) / matching
        expected = sum(self._chance(one, columns, share) for one in same)
        further = len(others) + len(first.columns) - 1
        score = float(np.sqrt(support / rows)) * expected / (expected + 10) * confidence / (1 + further / 4)
        return ConditionalRule(body, score, matching, support, confidence)

    def _left(self, one: Conditional) -> list[Constant]:
        """The constants of a pattern."""
        return [Constant(self._constant(*place)) for place in zip(one.columns, one.values, strict=True)]

    def rules(self) -> tuple[ConditionalRule, ...]:
        """The rules, the best first: sqrt(support / rows) * e / (e + 10) * confidence / (1 + further columns / 4),
        where e rows would break it by chance, and columns beyond the first on the left are further ones."""
        return self._rules

    def bodies(self) -> tuple[CFD, ...]:
        """The rules alone."""
        return tuple(rule.body for rule in self._rules)

    def _witness(self, body: CFD) -> tuple[int, ...]:
        """Slots of the row, or the two rows, that break a rule too often; none where it says too little now."""
        columns = [self.names.index(name) for name in body.lhs]
        target = self.names.index(body.rhs[0])
        right = self.codes.matrix[target]
        for pattern in body.tableau:
            members, others = self.codes.members(), []
            for column, given in zip(columns, pattern.lhs, strict=True):
                if given is None:
                    others.append(column)
                else:
                    members = members[self.codes.matrix[column][members] == self._code(column, given)]
            most = allowed(1 - exact(self.options.confidence), members.size)
            if (wanted := pattern.rhs[0]) is not None:
                broken = members[(right[members] >= 0) & (right[members] != self._code(target, wanted))]
                if broken.size > most:
                    return (int(self.codes.slots[broken[0]]),)
                continue
            line = set_of(others, len(self.names) // 64 + 1)
            validator = Validator(Partitions(self.codes, members=members), self._work)
            pairs = suspects(right, *validator.rows_of(line))
            if len(pairs) > most:
                return tuple(sorted(int(self.codes.slots[place]) for place in pairs[0]))
        return ()

    def near_misses(
        self, most: int, work: Work | None = None, *, max_lhs: int = 2
    ) -> tuple[tuple[NearMiss, ...], bool]:
        """None: patterns with exceptions are found with a confidence below 1."""
        return (), True

    def _code(self, column: int, constant: Constant) -> int:
        """The code of a value; none that occurs where the values of the column became too many."""
        values = self._values[column]
        return values.index(constant.value) if constant.value in values else -2

    def size_bytes(self) -> int:
        """Memory held."""
        return self.codes.size_bytes()

    def snapshot(self) -> Snapshot:
        """The arrays that make up the state; rules and values as text."""
        rules = [
            (rule.body.text, rule.score, rule.rows, rule.support, rule.confidence, rule.implied) for rule in self._rules
        ]
        values = [[None if v is None else constant_text(Constant(v)) for v in known] for known in self._values]
        said = json.dumps(
            {"rules": rules, "values": values, "complete": self.complete, "length": self._reached}
        ).encode()
        return nested("codes", self.codes.snapshot()) | {"said": np.frombuffer(said, dtype=np.uint8)}

    @classmethod
    def restore(cls, schema: pa.Schema, options: DiscoveryOptions, arrays: Checked) -> CfdCore:
        """A core as it was left (the arrays will be written to)."""
        core = cls(schema, options)
        core.codes.restore(arrays.part("codes"))
        text = arrays.array("said", np.uint8, (0,), grows=0).tobytes()
        try:
            said = json.loads(text)
            core.complete, core._reached = bool(said["complete"]), int(said.get("length", 0))
            core._values = [
                [None if text is None else Cursor(text).constant("").value for text in known]
                for known in said["values"]
            ]
            core._rules = tuple(core._told(*rule) for rule in said["rules"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, HoldstrueError) as error:
            raise arrays.damaged(f"what it says of its rules cannot be read: {error}") from error
        known = [len(numbering) for numbering in core.codes.numberings]
        fits = len(core._values) == len(known) and all(
            len(values) in (0, size) for values, size in zip(core._values, known, strict=True)
        )
        arrays.require(fits, "it says other values than its columns have")
        return core

    def _told(
        self, text: str, score: float, rows: int, support: int, confidence: float, implied: bool
    ) -> ConditionalRule:
        """A rule as it was written; a ValueError where it cannot have been."""
        body = parse_body(text).body
        if not isinstance(body, CFD) or len(body.rhs) != 1 or not {*body.lhs, *body.rhs} <= {*self.names}:
            raise ValueError(f"{text!r} is no conditional FD of this table")
        if any(pattern.lhs[0] is None for pattern in body.tableau):
            raise ValueError(f"{text!r} has other conditions than are looked for")
        return ConditionalRule(body, float(score), int(rows), int(support), float(confidence), bool(implied))
