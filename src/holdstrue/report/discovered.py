"""Discovered rules as a page shows them: the best that hold, those that nearly do and what breaks them, turnover."""

from __future__ import annotations

from typing import Any

from holdstrue.discovery.discovery import Discovery
from holdstrue.report.typeset import key_word, word

BEST = 50
"""Rules that a page lists."""
NEAR = 25
"""Nearly true rules that a page lists."""
BREAKERS = 5
"""Rows or values that break each of them."""
BATCHES = 50
"""Batches, the last ones, of which it is said how many rules they ended and made."""


def discovered_dict(found: Discovery) -> dict[str, Any]:
    """The discovery as plain JSON data; counts are whole, lists are cut. Complexity: that of `near_misses`."""
    telling, near = found.telling, found.near_misses()
    return {
        "tables": found.counts(),
        "complete": found.complete,
        "of_rules": len(telling),
        "rules": [
            {
                "score": round(rule.score, 2),
                "kind": rule.kind,
                "rule": _placed(rule.table, rule.text),
                "words": rule.body.words,
            }
            for rule in telling[:BEST]
        ],
        "of_near": len(near),
        "near": [
            {
                "rule": _placed(miss.table, miss.text),
                "words": miss.body.words,
                "violations": miss.violations,
                "by": _by(miss),
            }
            for miss in near[:NEAR]
        ],
        "unlooked": list(near.unlooked),
        "ended": [
            {"batch": one["batch"], "rule": _placed(one["table"], one["rule"]), "why": one["why"], "by": one["by"]}
            for one in reversed(found.ended())
        ],
        "turnover": [
            {"batch": line["batch"], "died": line["died"], "born": line["born"], "rules": line["rules"]}
            for line in found.history()[-BATCHES:]
        ],
    }


def _placed(table: str | None, text: str) -> str:
    return f"{table}: {text}" if table else text


def _by(miss: Any) -> list[str]:
    """What breaks a rule: rows or pairs by key, or values."""
    rows = [" and ".join(key_word(key) for key in row) for row in miss.rows[:BREAKERS]]
    return rows or [word(value) for value in miss.values[:BREAKERS]]
