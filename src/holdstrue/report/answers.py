"""Answers that are more than what an engine gives back: what a state directory says, a line of a stream, a plan."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from holdstrue.detect.delta import Batched, Delta, Offender, RuleResult, Violation, plain
from holdstrue.monitor.report import Report
from holdstrue.report.lookup import ConflictingGroup, groups_of
from holdstrue.state.moment import Moment


@dataclass(frozen=True)
class OpenViolations:
    """The violations there are now, of one rule or of all, up to a limit; `report` is None before any data."""

    report: Report | None
    open: Mapping[str, int]
    rule: str | None = None
    limit: int | None = 1000
    moment: Moment | None = None
    """Which earlier version of the state they are of, where one was asked for."""

    def __iter__(self) -> Iterator[Violation]:
        return iter(()) if self.report is None else self.report.violations(self.rule, limit=self.limit)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data; `open` is exact, `violations` stops at the limit."""
        listed = [violation.to_dict() for violation in self]
        accepted = () if self.report is None else self.report.accepted
        return _when(self.moment) | {
            "violations": listed,
            "truncated": len(listed) < self.new,
            "open": dict(self.open),
            **({"accepted": [entry.to_dict() for entry in accepted]} if accepted else {}),
        }

    @property
    def new(self) -> int:
        """Violations that are not accepted, of the rules that are asked for."""
        results = () if self.report is None else self.report.results
        return sum(result.new for result in results if self.rule in (None, result.rule.name))


@dataclass(frozen=True)
class Groups:
    """The violating groups of keys, FDs and CFDs, up to a limit of groups and of keys in each."""

    report: Report | None
    rule: str | None = None
    limit: int | None = 1000
    moment: Moment | None = None

    @property
    def total(self) -> int:
        """How many groups there are."""
        return sum(result.counts.groups for result in self.results)

    @property
    def results(self) -> tuple[RuleResult, ...]:
        """The rules that are asked for."""
        results = () if self.report is None else self.report.results
        return tuple(result for result in results if self.rule in (None, result.rule.name))

    def __iter__(self) -> Iterator[ConflictingGroup]:
        if self.report is None:
            return iter(())
        with self.report.reading():
            # begun together, so that they are of one version
            lists = [groups_of(self.report, result, limit=self.limit, keys=self.limit) for result in self.results]
        return islice(chain.from_iterable(lists), self.limit)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        listed = [group.to_dict() for group in self]
        return _when(self.moment) | {"groups": listed, "truncated": len(listed) < self.total}


@dataclass(frozen=True)
class Worst:
    """The rows that are in most violations, worst first."""

    offenders: tuple[Offender, ...]
    moment: Moment | None = None

    def __iter__(self) -> Iterator[Offender]:
        return iter(self.offenders)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return _when(self.moment) | {"worst": [offender_dict(offender) for offender in self.offenders]}


@dataclass(frozen=True)
class Status:
    """How a state directory stands: its rules, tables and batches."""

    path: str
    version: int
    index: str
    batches: int
    last_batch: str | None
    rows: Mapping[str, int]
    keys: Mapping[str, tuple[str, ...]]
    results: tuple[RuleResult, ...]
    history: tuple[Batched, ...] | None = None
    notes: tuple[str, ...] = ()
    """What there is to know about how the first rows were read, when the state was made just now."""
    moment: Moment | None = None
    """Which earlier version it is of, where one was asked for."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data; `history` is there only when it was asked for."""
        history = {} if self.history is None else {"history": [vars(line) for line in self.history]}
        return {
            "path": self.path,
            "version": self.version,
            **_when(self.moment),
            "index": self.index,
            "batches": self.batches,
            "last_batch": self.last_batch,
            "tables": {name: {"rows": rows, "key": list(self.keys[name])} for name, rows in self.rows.items()},
            "rules": self.rules(),
            **history,
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def rules(self) -> list[dict[str, Any]]:
        """The rules with their counts, as plain JSON data."""
        return [result.to_dict() | {"open": result.counts.open} for result in self.results]


@dataclass(frozen=True)
class BatchLine:
    """What one batch of a stream did, in a line."""

    delta: Delta
    files: tuple[str, ...]
    """The names of the files that it was read from, if any."""
    time: dt.datetime

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data; the time is in UTC."""
        about = {
            name: value
            for name, value in self.delta.to_dict().items()
            if name in ("counts", "measured", "stopped_holding")
        }
        now = self.time.astimezone(dt.UTC).isoformat(timespec="milliseconds")
        return {"time": now, "batch": self.delta.batch, "files": list(self.files), **about}


@dataclass(frozen=True)
class Explanation:
    """How rules are checked: passes, groups, indexes and the order of predicates."""

    text: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {"plan": self.text.splitlines()}


def _when(moment: Moment | None) -> dict[str, Any]:
    return {} if moment is None else moment.to_dict()


def offender_dict(offender: Offender) -> dict[str, Any]:
    """A row and its violations as plain JSON data."""
    return {"key": plain(offender.key), "total": offender.total, "by_rule": dict(offender.by_rule)}
