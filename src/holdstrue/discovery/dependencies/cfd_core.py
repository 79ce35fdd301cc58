"""Conditional FDs of a table: what depends on what where a column has a certain value, as few useful rules.

Patterns that differ in the value alone make one rule with a tableau. Left out are

- patterns that random values would also show: at least `support` rows could have broken one,
- patterns that luck explains: the FD without the constant is broken elsewhere, and if it were broken as
  often here, at least `EXPECTED` rows would have to go,
- rules with more than `MOST_PATTERNS` patterns, which say that an FD nearly holds (see near misses),
- conditions on columns with many values, on fractions and on times of day.

Under changes the search is done again on the coded rows: a batch costs what it does from scratch.

Memory: that of `Codes`, and the values of columns with few of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

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
from holdstrue.kernels.partitions import GATHERED, SUPPORT, SURPLUS
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

MOST_CONDITIONS = 2000
"""Conditions looked at; where there are more, as in very wide tables, the search says that it is not complete."""

MOST_PATTERNS = 12
"""A rule that needs more patterns is nearly an FD. Chosen, not tuned."""

EXPECTED = 10
"""An FD that is broken by chance is not broken here with probability e^-10. Chosen, not tuned."""

_FAMILIES = ("text", "integer", "bool", "date")


@dataclass(frozen=True)
class ConditionalRule:
    """A conditional FD: rows that match it, those with a partner, and the share that keeps to it.

    It is `implied` where another column selects the same rows and says the same of them: from `[b=1] -> [a=1]` and
    `[a=1, c] -> [d]` follows `[b=1, c] -> [d]`. Of such columns the first by name speaks for all.
    """

    body: CFD
    score: float
    rows: int
    support: int
    confidence: float
    implied: bool = False


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

    def _find(self, work: Work) -> None:
        columns, rows = profiles(self.codes, self._schema), self.codes.rows
        conditions = self._conditions(columns)
        found, complete = conditional(self.codes, conditions[:MOST_CONDITIONS], self.options, work)
        self.complete = complete and len(conditions) <= MOST_CONDITIONS and not self._forgotten(columns)
        kept = [one for one in found if self._chance(one, columns) >= self.options.support]
        self._rules = self._together(self._not_luck(kept), columns, rows)

    def _forgotten(self, columns: list[Profile]) -> bool:
        """Whether a column has few values again, of which none are known: it had too many in between."""
        return any(
            0 < column.distinct <= MOST_VALUES and not known and self._may_be_constant(column.name)
            for column, known in zip(columns, self._values, strict=True)
        )

    def _conditions(self, columns: list[Profile]) -> list[tuple[int, int]]:
        """Columns and values that enough rows have, by column; those that most rows have where there are too many."""
        members = self.codes.members()
        found = []
        for number, known in enumerate(self._values):
            if not known or columns[number].distinct > MOST_VALUES:
                continue
            column = self.codes.matrix[number][members]
            counts = np.bincount(column[column >= 0], minlength=len(known))
            found += [
                (int(counts[value]), number, value)
                for value, said in enumerate(known)
                if said is not None and counts[value] >= self.options.support
            ]
        if len(found) > MOST_CONDITIONS:
            found.sort(reverse=True)
        return [(number, value) for _, number, value in found]

    def _not_luck(self, found: list[Conditional]) -> list[Conditional]:
        """Patterns that keep to the FD far better than the whole table does."""
        kept = []
        for one in found:
            share = int(one.counts[SUPPORT]) / max(1, int(one.everywhere[SUPPORT]))
            if share * int(one.everywhere[SURPLUS]) >= EXPECTED + 3 * int(one.counts[SURPLUS]):
                kept.append(one)
        return kept

    def _chance(self, one: Conditional, columns: list[Profile]) -> float:
        """Rows that would break the pattern if the right side were drawn at random."""
        if not one.line.any():
            few = columns[one.target].distinct <= MOST_VALUES
            if not few or one.commonest < 0 or self._constant(one.target, one.commonest) is None:
                return 0.0
            column = self.codes.matrix[one.target][self.codes.members()]
            everywhere = float(np.mean(column[column >= 0] == one.commonest))
            return int(one.counts[SUPPORT]) * (1 - everywhere)
        target = columns[one.target]
        inside = Profile(target.name, target.quality, target.distinct, one.rows, one.share)
        return surprise(int(one.counts[SUPPORT]), int(one.counts[GATHERED]), inside)

    def _constant(self, column: int, code: int) -> Any:
        values = self._values[column]
        return values[code] if code < len(values) else None

    def _together(self, found: list[Conditional], columns: list[Profile], rows: int) -> tuple[ConditionalRule, ...]:
        """Patterns that differ in values alone as one rule, the best rules first."""
        tableaux: dict[tuple[int, bytes, int], list[Conditional]] = {}
        for one in found:
            tableaux.setdefault((one.column, one.line.tobytes(), one.target), []).append(one)
        kept = [same for same in tableaux.values() if len(same) <= MOST_PATTERNS]
        said = {(one.selection, one.column, one.line.tobytes(), one.target): one for same in kept for one in same}
        rules = [
            replace(self._rule(same, columns, rows), implied=all(self._repeats(one, said) for one in same))
            for same in kept
        ]
        return tuple(sorted(rules, key=lambda rule: (-rule.score, str(rule.body))))

    def _repeats(self, one: Conditional, said: Mapping[tuple[int, int, bytes, int], Conditional]) -> bool:
        """Whether the pattern follows from one on the same rows, whose column comes before by name."""
        nothing = np.zeros_like(one.line).tobytes()
        return any(
            self.names[column] < self.names[one.column]
            and (one.selection, column, one.line.tobytes(), one.target) in said
            and (one.selection, one.column, nothing, column) in said
            for column in range(len(self.names))
        )

    def _rule(self, same: list[Conditional], columns: list[Profile], rows: int) -> ConditionalRule:
        # sums of floats depend on the order, and that of the codes on which rows came first
        same = sorted(same, key=lambda one: constant_text(Constant(self._constant(one.column, one.value))))
        first = same[0]
        others = members(first.line)
        free = (None,) * len(others)
        patterns = []
        for one in same:
            right = None if others else Constant(self._constant(one.target, one.commonest))
            patterns.append(Pattern((Constant(self._constant(one.column, one.value)), *free), (right,)))
        body = CFD(
            (self.names[first.column], *(self.names[i] for i in others)),
            (self.names[first.target],),
            tuple(sorted(patterns, key=pattern_text)),
        )
        matching, support = sum(one.rows for one in same), sum(int(one.counts[SUPPORT]) for one in same)
        confidence = 1 - sum(int(one.counts[SURPLUS]) for one in same) / matching
        expected = sum(self._chance(one, columns) for one in same)
        score = float(np.sqrt(support / rows)) * expected / (expected + 10) * confidence / (1 + len(others) / 4)
        return ConditionalRule(body, score, matching, support, confidence)

    def rules(self) -> tuple[ConditionalRule, ...]:
        """The rules, the best first: sqrt(support / rows) * e / (e + 10) * confidence / (1 + other columns / 4),
        where e rows would break it by chance."""
        return self._rules

    def bodies(self) -> tuple[CFD, ...]:
        """The rules alone."""
        return tuple(rule.body for rule in self._rules)

    def _witness(self, body: CFD) -> tuple[int, ...]:
        """Slots of the row, or the two rows, that break a rule too often; none where it says too little now."""
        column, *others = (self.names.index(name) for name in body.lhs)
        target = self.names.index(body.rhs[0])
        everyone = self.codes.members()
        for pattern in body.tableau:
            (given, *_), (wanted,) = pattern.lhs, pattern.rhs
            assert given is not None
            members = everyone[self.codes.matrix[column][everyone] == self._code(column, given)]
            right = self.codes.matrix[target]
            most = allowed(1 - exact(self.options.confidence), members.size)
            if wanted is not None:
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
        said = json.dumps({"rules": rules, "values": values, "complete": self.complete}).encode()
        return nested("codes", self.codes.snapshot()) | {"said": np.frombuffer(said, dtype=np.uint8)}

    @classmethod
    def restore(cls, schema: pa.Schema, options: DiscoveryOptions, arrays: Checked) -> CfdCore:
        """A core as it was left (the arrays will be written to)."""
        core = cls(schema, options)
        core.codes.restore(arrays.part("codes"))
        text = arrays.array("said", np.uint8, (0,), grows=0).tobytes()
        try:
            said = json.loads(text)
            core.complete = bool(said["complete"])
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
        if any(pattern.lhs[0] is None or any(pattern.lhs[1:]) for pattern in body.tableau):
            raise ValueError(f"{text!r} has other conditions than are looked for")
        return ConditionalRule(body, float(score), int(rows), int(support), float(confidence), bool(implied))
