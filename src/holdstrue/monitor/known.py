"""Violations that are known and accepted: which they are, and what entries of files stand for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdstrue.detect.delta import Key, Violation, plain
from holdstrue.rules.accepted import Acceptance

SHARED_KEY = "the key is not unique"
"""Starts the note about a key that several rows have."""


@dataclass(frozen=True)
class AcceptedEntry:
    """An entry of a file, and how many violations it stands for now."""

    acceptance: Acceptance
    violations: int
    expired: bool
    changed: bool = False
    """Whether the rule says something else than when they were accepted, so that it no longer counts."""

    @property
    def lapsed(self) -> bool:
        """Whether what it names counts again."""
        return self.expired or self.changed

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        entry = self.acceptance
        return {
            "rule": entry.rule,
            "reason": entry.reason,
            **({} if entry.by is None else {"by": entry.by}),
            **({} if entry.since is None else {"since": entry.since.isoformat()}),
            **({} if entry.until is None else {"until": entry.until.isoformat()}),
            "violations": self.violations,
            "expired": self.expired,
            "changed": self.changed,
        }


@dataclass(frozen=True)
class KnownViolations:
    """Which violations of one rule are accepted, by the keys of their rows."""

    rows: frozenset[Any] = frozenset()
    sets: Mapping[Any, frozenset[int]] = field(default_factory=dict)
    """By row the numbers of the sets it is in; rows that share one may conflict."""

    @staticmethod
    def of(entries: Iterable[Acceptance]) -> KnownViolations:
        """Those of some entries of one rule."""
        rows: set[Any] = set()
        sets: dict[Any, set[int]] = {}
        number = 0
        for entry in entries:
            rows.update(map(comparable, entry.rows))
            for conflict in entry.conflicts:
                number += 1
                for name in conflict:
                    sets.setdefault(comparable(name), set()).add(number)
        return KnownViolations(frozenset(rows), {name: frozenset(numbers) for name, numbers in sets.items()})

    def holds(self, violation: Violation) -> bool:
        """Whether a violation is one of them."""
        if not violation.pair:
            return comparable(plain(violation.t)) in self.rows
        return self.together((violation.t, violation.s))

    def together(self, keys: Sequence[Key]) -> bool:
        """Whether all rows are in one set."""
        shared = [self.sets.get(comparable(plain(key)), frozenset()) for key in keys]
        return bool(frozenset.intersection(*shared)) if shared else False


def is_known(violation: Violation, known: Mapping[str, KnownViolations]) -> bool:
    """Whether a violation is accepted, by rule."""
    accepted = known.get(violation.rule)
    return accepted is not None and accepted.holds(violation)


@dataclass(frozen=True)
class WrittenReport:
    """What a check wrote as JSON: by rule the columns of its rows' key, and the violations."""

    keys: Mapping[str, tuple[str, ...]]
    texts: Mapping[str, str]
    """What each rule says."""
    grouped: frozenset[str]
    """The rules whose pairs lie in groups."""
    violations: tuple[Violation, ...]
    truncated: bool
    shared: bool
    """Whether several rows have one key."""
    measured: frozenset[str] = frozenset()
    """The rules about whole tables."""

    @staticmethod
    def of(data: Any) -> WrittenReport:
        """From plain JSON data; anything else raises a KeyError, a TypeError or a ValueError."""
        found = []
        for item in data["violations"]:
            t, s = (tuple(side) if isinstance(side := item.get(name), list) else side for name in ("t", "s"))
            found.append(Violation(str(item["rule"]), t, s, pair="s" in item))
        keys = {str(rule["name"]): tuple(map(str, rule["key"])) for rule in data["rules"]}
        grouped = frozenset(str(rule["name"]) for rule in data["rules"] if rule["groups"])
        texts = {str(rule["name"]): str(rule["text"]) for rule in data["rules"]}
        shared = any(str(note).startswith(SHARED_KEY) for note in data.get("notes", ()))
        measured = frozenset(str(rule["name"]) for rule in data["rules"] if rule.get("kind") == "measure")
        return WrittenReport(keys, texts, grouped, tuple(found), bool(data["truncated"]), shared, measured)


def comparable(name: Any) -> Any:
    """A key as it is compared: lists and tuples alike, days as their text."""
    if isinstance(name, list | tuple):
        return tuple(map(comparable, name))
    return str(name) if isinstance(name, dt.date) else name
