"""What people get back: violations by row key, what a batch added and removed, counts by rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from holdstrue.errors import HoldstrueError
from holdstrue.rules.model import Rule
from holdstrue.tabular import Tabular, key_array

if TYPE_CHECKING:
    import pyarrow as pa

Key: TypeAlias = Any


@dataclass(frozen=True)
class Violation:
    """A row, or an ordered pair of rows, that breaks a rule; rows are named by their key.

    A key of one column is its value, of several a tuple; without a key it is the row's number from 0. A rule about a
    whole table is broken by no row: t and s are None.
    For rules that are symmetric in their two rows the smaller key is t.
    """

    rule: str
    t: Key
    s: Key = None
    pair: bool = field(default=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data; a violation of one row has no `s`."""
        other = {"s": plain(self.s)} if self.pair else {}
        return {"rule": self.rule, "t": plain(self.t), **other}


def pair_violations(rule: str, pairs: Iterable[tuple[Key, Key]]) -> list[Violation]:
    """Violations of pairs of rows, (t, s), made in a quarter of the time that the class takes, which single rows feel.

    >>> pair_violations("r", [(1, 2)]) == [Violation("r", 1, 2, pair=True)]
    True
    """
    found = []
    for t, s in pairs:
        violation = object.__new__(Violation)
        # a frozen class takes nothing by its attributes, and a dictionary made for it takes longer than its own
        own = violation.__dict__
        own["rule"], own["t"], own["s"], own["pair"] = rule, t, s, True
        found.append(violation)
    return found


def require_limit(limit: Any) -> None:
    """Refuse what is no number of violations to list."""
    if limit is not None and (type(limit) is not int or limit < 0):
        raise HoldstrueError(f"limit is {limit!r}", hint="give how many violations to list, None for all")


@dataclass(frozen=True)
class RuleCounts:
    """How a rule stands: rows, pairs and groups in violation; `open` are its violations (rows or pairs)."""

    rows: int
    pairs: int
    groups: int
    open: int


@dataclass(frozen=True)
class Step:
    """What one batch did to one rule."""

    added: int
    removed: int
    open: int


@dataclass(frozen=True)
class Delta(Tabular):
    """What one batch added and removed: exact counts, and the violations themselves up to a limit.

    Where lists stop at the limit, every rule that has violations has its share of them.
    """

    batch: str
    added: tuple[Violation, ...]
    removed: tuple[Violation, ...]
    counts: Mapping[str, Step]
    duplicate: bool = False
    """The batch had been applied before, so nothing was done."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What there is to know about how the batch was read."""
    measured: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By rule about a whole table that the batch broke or mended what was measured after it, in words."""
    changed: Mapping[str, int] | None = field(default=None, compare=False)
    """How many rows were inserted, updated and deleted, where a snapshot was compared with the rows there were."""

    @property
    def truncated(self) -> bool:
        """Whether the lists stop before the counts do."""
        total = sum(step.added + step.removed for step in self.counts.values())
        return not self.duplicate and len(self.added) + len(self.removed) < total

    @property
    def stopped_holding(self) -> tuple[str, ...]:
        """The rules that held before the batch and do not hold after it."""
        return tuple(rule for rule, step in self.counts.items() if step.open and step.open == step.added - step.removed)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "batch": self.batch,
            "added": [violation.to_dict() for violation in self.added],
            "removed": [violation.to_dict() for violation in self.removed],
            "counts": {
                rule: {"added": step.added, "removed": step.removed, "open": step.open}
                for rule, step in self.counts.items()
            },
            **({"measured": dict(self.measured)} if self.measured else {}),
            "stopped_holding": list(self.stopped_holding),
            "truncated": self.truncated,
            "duplicate": self.duplicate,
            **({} if self.changed is None else {"changed": dict(self.changed)}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def to_arrow(self) -> pa.Table:
        """The listed violations as a table of change (added, removed), rule, t and s."""
        import pyarrow as pa

        changes = [("added", v) for v in self.added] + [("removed", v) for v in self.removed]
        return pa.table(
            {
                "change": pa.array([change for change, _ in changes], pa.string()),
                "rule": pa.array([v.rule for _, v in changes], pa.string()),
                "t": key_array([v.t for _, v in changes]),
                "s": key_array([v.s for _, v in changes]),
            }
        )

    def __repr__(self) -> str:
        added, removed = (
            sum(s.added for s in self.counts.values()),
            sum(s.removed for s in self.counts.values()),
        )
        now = sum(s.open for s in self.counts.values())
        return f"Delta(batch={self.batch!r}: +{added} new, -{removed} resolved, {now} open)"


@dataclass(frozen=True)
class RuleResult:
    """One rule and how the data stands to it."""

    rule: Rule
    text: str
    counts: RuleCounts
    status: str
    """`ok`, `violated`, `tolerated` when the violating rows stay within the rule's tolerance, or `accepted` when all
    violations are."""
    accepted: int | None = None
    """How many of the violations are accepted; None where nobody asked."""
    measured: str | None = None
    """Of a rule about a whole table what was measured, in words."""

    @property
    def new(self) -> int:
        """Violations that are not accepted."""
        return self.counts.open - (self.accepted or 0)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "name": self.rule.name,
            "kind": self.rule.kind,
            "text": self.text,
            "severity": self.rule.severity,
            "rows": self.counts.rows,
            "pairs": self.counts.pairs,
            "groups": self.counts.groups,
            "status": self.status,
            **({} if self.accepted is None else {"accepted": self.accepted}),
            **({} if self.measured is None else {"measured": self.measured}),
        }


@dataclass(frozen=True)
class Batched:
    """One line of a monitor's history."""

    batch: str
    time: str
    rule: str
    added: int
    removed: int
    open: int


@dataclass(frozen=True)
class Offender:
    """A row and how many violations it is in, in all and by rule."""

    key: Key
    total: int
    by_rule: Mapping[str, int] = field(default_factory=dict)


def shares(counts: Sequence[int], limit: int) -> list[int]:
    """How many violations of each rule a list of limited length has: what few rules leave, others take.

    >>> shares([1770, 3, 900], 10), shares([2, 0, 3], 10), shares([5, 5, 5], 2)
    ([4, 3, 3], [2, 0, 3], [1, 1, 0])
    """
    if sum(counts) <= limit:
        return list(counts)
    given, left = [0] * len(counts), limit
    while left > 0 and (wanting := [at for at, count in enumerate(counts) if given[at] < count]):
        each = max(left // len(wanting), 1)
        for at in wanting:
            more = min(each, counts[at] - given[at], left)
            given[at] += more
            left -= more
    return given


def plain(value: Key) -> Any:
    """A key as JSON data: numbers, texts and booleans as they are, tuples as lists, the rest as text."""
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
