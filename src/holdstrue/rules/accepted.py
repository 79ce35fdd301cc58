"""Files of accepted violations: what is known to break a rule, why, and until when; to be reviewed like code."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from holdstrue.errors import HoldstrueError, brief
from holdstrue.location import local_path, nearby_hint
from holdstrue.rules.yaml_text import read_yaml

RowName: TypeAlias = "str | int | float | bool | dt.date | tuple[Any, ...] | None"
"""The key of a row as a file holds it; of several columns a tuple."""

MOST_ACCEPTED = 20_000
"""Rows that a file names at most: nobody reviews more, and YAML of as many takes a second to read."""
_FIELDS = ("rule", "text", "reason", "by", "since", "until", "rows", "conflicts")
_HEAD = "# Violations that are known and accepted: they do not fail a check. Remove an entry to see them again.\n"


@dataclass(frozen=True)
class Acceptance:
    """Violations of a rule that are accepted: single rows, and sets of rows that may conflict with each other."""

    rule: str
    reason: str
    rows: tuple[RowName, ...] = ()
    conflicts: tuple[tuple[RowName, ...], ...] = ()
    by: str | None = None
    since: dt.date | None = None
    until: dt.date | None = None
    """The last day on which it counts; None: for good."""
    text: str | None = None
    """What the rule said; where it says something else now, it no longer counts."""

    def expired(self, today: dt.date) -> bool:
        """Whether it no longer counts.

        >>> Acceptance("a", "b", until=dt.date(2026, 3, 1)).expired(dt.date(2026, 3, 2))
        True
        """
        return self.until is not None and today > self.until

    @property
    def names(self) -> int:
        """How many rows it names."""
        return len(self.rows) + sum(map(len, self.conflicts))


def load_accepted(path: str) -> tuple[Acceptance, ...]:
    """The entries of a file."""
    file = Path(local_path(path, "rules"))
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise HoldstrueError(f"cannot read {path}: {said}", hint=nearby_hint(file) or _MADE) from error
    return parse_accepted(text, path)


def parse_accepted(text: str, file: str = "") -> tuple[Acceptance, ...]:
    """The entries of a text; `file` starts every message.

    >>> [entry] = parse_accepted("accepted: [{rule: zip -> city, reason: merged towns, conflicts: [[1, 7]]}]")
    >>> entry.conflicts, entry.until
    (((1, 7),), None)
    """
    place = f"{file}: " if file else ""
    content = read_yaml(text, file, HoldstrueError)
    if content is None:
        return ()
    if not isinstance(content, Mapping) or set(content) != {"accepted"}:
        raise HoldstrueError(f"{place}not a file of accepted violations", hint=_MADE)
    entries = content["accepted"] or []
    if not isinstance(entries, list):
        raise HoldstrueError(f"{place}accepted must be a list, got {brief(entries)}", hint=_MADE)
    found = tuple(_entry(entry, f"{place}entry {number}") for number, entry in enumerate(entries, start=1))
    if sum(entry.names for entry in found) > MOST_ACCEPTED:
        raise HoldstrueError(f"{place}more than {MOST_ACCEPTED:,} rows are named", hint=TOO_MANY)
    return found


_MADE = "holdstrue accept makes such files"
TOO_MANY = "give the rule a tolerance, or a `where` that leaves out what is known, or mend some of it"


def _entry(entry: Any, place: str) -> Acceptance:
    if not isinstance(entry, Mapping):
        raise HoldstrueError(f"{place}: expected fields, got {brief(entry)}", hint=f"it has {', '.join(_FIELDS)}")
    for field in entry:
        if field not in _FIELDS:
            raise HoldstrueError(f"{place}: unknown field {brief(field)}", hint=f"it has {', '.join(_FIELDS)}")
    texts: dict[str, Any] = {}
    for field in ("rule", "text", "reason", "by"):
        value = entry.get(field)
        if (value is None and field not in ("text", "by")) or (
            value is not None and not (isinstance(value, str) and value.strip())
        ):
            raise HoldstrueError(f"{place}: {field} must be text, got {brief(value)}", hint=f"write {field}: some text")
        texts[field] = value
    days = {}
    for field in ("since", "until"):
        value = entry.get(field)
        if value is not None and (not isinstance(value, dt.date) or isinstance(value, dt.datetime)):
            raise HoldstrueError(f"{place}: {field} is {brief(value)}", hint=f"write a day: {field}: 2027-03-01")
        days[field] = value
    rows = _list(entry.get("rows"), f"{place}: rows")
    conflicts = [
        tuple(map(_name, _list(conflict, f"{place}: a conflict")))
        for conflict in _list(entry.get("conflicts"), f"{place}: conflicts")
    ]
    for conflict in conflicts:
        if len(set(conflict)) < max(len(conflict), 2):
            raise HoldstrueError(
                f"{place}: {brief(list(conflict))} is no conflict", hint="name two or more rows, each once"
            )
    if not rows and not conflicts:
        raise HoldstrueError(f"{place}: no violations", hint="name rows, or conflicts of rows, or remove the entry")
    return Acceptance(
        texts["rule"],
        texts["reason"],
        tuple(map(_name, rows)),
        tuple(conflicts),
        texts["by"],
        **days,
        text=texts["text"],
    )


def _list(value: Any, place: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise HoldstrueError(f"{place} must be a list, got {brief(value)}", hint="write [1, 2]")
    return value or []


def _name(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def dump_accepted(entries: Iterable[Acceptance]) -> str:
    """The entries as YAML that `parse_accepted` reads back, a violation a line.

    >>> print(dump_accepted([Acceptance("a", "b", rows=(7, "x"), conflicts=(((1, 2), (1, 3)),))]), end="")
    # Violations that are known and accepted: they do not fail a check. Remove an entry to see them again.
    accepted:
    - rule: "a"
      reason: "b"
      rows:
      - 7
      - "x"
      conflicts:
      - [[1, 2], [1, 3]]
    """
    lines = [_HEAD, "accepted:\n"]
    for entry in entries:
        lines.append(f"- rule: {_json(entry.rule)}\n")
        lines += [f"  text: {_json(entry.text)}\n"] if entry.text not in (None, entry.rule) else []
        lines.append(f"  reason: {_json(entry.reason)}\n")
        lines += [f"  by: {_json(entry.by)}\n"] if entry.by is not None else []
        lines += [f"  {f}: {day.isoformat()}\n" for f in ("since", "until") if (day := getattr(entry, f)) is not None]
        for field, items in (("rows", entry.rows), ("conflicts", entry.conflicts)):
            lines += [f"  {field}:\n", *(f"  - {_json(item)}\n" for item in items)] if items else []
    return "".join(lines) if len(lines) > 2 else _HEAD + "accepted: []\n"


def _json(value: Any) -> str:
    """JSON, which is YAML; what YAML might take for a line break or refuse is written as its escapes."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\U{ord(c):08x}" for c in text
    )
