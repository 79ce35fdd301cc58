"""The rule set that a command's options name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdstrue.errors import HoldstrueError
from holdstrue.rules import RuleSet, load_rules


def rules_of(
    file: str | None, texts: Sequence[str] | None, data: Sequence[str] = (), read: Mapping[str, Any] | None = None
) -> RuleSet:
    """Rules of a file and of texts, together; `data` names the columns of rules that count them."""
    if file is None and not texts:
        raise HoldstrueError("no rules are given", hint="name a file with --rules FILE, or write --rule 'zip -> city'")
    if file is None:
        return load_rules(list(texts or ()))
    rules = load_rules(Path(file), columns=_columns(file, data, read or {}))
    if texts:
        rules = load_rules(replace(rules, rules=(*rules.rules, *load_rules(list(texts)).rules)))
    return rules


def _columns(file: str, data: Sequence[str], read: Mapping[str, Any]) -> list[str] | None:
    """The columns of the data, where the rules are JSON, which speaks of columns by number."""
    try:
        with Path(file).open(encoding="utf-8-sig") as text:
            start = text.read(200).lstrip()[:1]
    except (OSError, UnicodeDecodeError):
        return None  # reading the rules will say what is wrong
    if not data or not (start in ("{", "[") or file.endswith(".json")):
        return None
    from holdstrue.io.read import schema_of

    names: list[str] = schema_of(list(data), **{k: v for k, v in read.items() if k != "null_values"}).names
    return names
