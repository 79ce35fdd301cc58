"""Rules that died or were born with others that imply them are told under those."""

from __future__ import annotations

import pyarrow as pa
import pytest

import holdstrue as hs
from holdstrue.discovery.folding import impliers
from holdstrue.discovery.found import SMALLER, Died, RuleChanges
from holdstrue.report.discovery_text import rule_changes_text
from holdstrue.report.typeset import Ink, Style
from holdstrue.rules.parser import parse_rule

ROWS = {"id": [1, 2, 3, 4], "a": [1, 1, 2, 2], "b": [5, 5, 5, 6], "c": [7, 8, 7, 9]}


def placed(*texts: str) -> list[tuple[str | None, hs.Body]]:
    return [(None, parse_rule(text).body) for text in texts]


def said(changes: RuleChanges) -> list[str]:
    return "".join(rule_changes_text(changes, Style(ink=Ink(color=False)))).splitlines()


def test_rules_under_a_dead_key() -> None:
    """Every FD from a key that died is told with it; JSON keeps all, and says from what each follows."""
    found = hs.discover(pa.table(ROWS), kinds=("fd", "key"))
    changes = found.apply(pa.table({"id": [1], "a": [3], "b": [9], "c": [3]}))
    under = {one["text"]: one["follows_from"] for one in changes.to_dict()["died"]}
    assert under["key(id)"] == []
    assert {text for text, others in under.items() if others == ["key(id)"]} == {"id -> a", "id -> b", "id -> c"}
    lines = said(changes)
    at = next(i for i, line in enumerate(lines) if line.startswith("  - key(id): broken by rows"))
    assert lines[at + 1].startswith("      and 3 that follow from it: id -> ")
    assert not any(line.startswith("  - id ->") for line in lines)
    assert "(3 follow from 1 of them)" in lines[0] and f"-{len(under)} died" in lines[0]
    back = found.apply(pa.table({"op": ["delete"], "id": [1], "a": [3], "b": [9], "c": [3]}), op_column="op")
    born = {one["text"]: one["follows_from"] for one in back.to_dict()["born"]}
    assert born["key(id)"] == [] and born["id -> a"] == born["id -> b"] == born["id -> c"] == ["key(id)"]
    assert any(line.startswith("  + key(id)") for line in said(back))


def test_only_rules_that_died_for_the_same_reason() -> None:
    """A rule that gave way to a smaller one is not told under one that was broken."""
    died = tuple(Died(body, why=why) for (_, body), why in zip(
        placed("key(a)", "a -> b", "a -> c"), ("broken", SMALLER, "broken"), strict=True
    ))  # fmt: skip
    assert RuleChanges("1", died).died_from == ((), (), (0,))


def test_tables_are_apart() -> None:
    """A key of one table says nothing about another."""
    key, fd = (parse_rule(text).body for text in ("key(a)", "a -> b"))
    assert impliers([("r", key), ("s", fd), ("r", fd)]) == [(), (), (0,)]


def test_chains_end_at_what_follows_from_nothing() -> None:
    """An implier that is implied itself gives way, whatever the order."""
    assert impliers(placed("a, b -> c", "key(a)", "a, b, d -> c", "a -> c")) == [(1,), (), (1,), (1,)]


@pytest.mark.parametrize(("exact", "under"), [(True, (0, 1)), (False, ())])
def test_exceptions_add_up(exact: bool, under: tuple[int, ...]) -> None:
    """Two rules with few exceptions each may give a third more than is allowed, so it is told for itself."""
    assert impliers(placed("a -> b", "b -> c", "a -> c"), nulls="equal", exact=exact) == [(), (), under]


@pytest.mark.parametrize(("exact", "under"), [(True, (0,)), (False, ())])
def test_confidence_is_a_share_of_own_rows(exact: bool, under: tuple[int, ...]) -> None:
    """An FD with exceptions may be broken by most rows of a condition."""
    assert impliers(placed("a -> b", "[a, c=1] -> [b]"), exact=exact) == [(), under]


def test_denials_of_one_comparison_are_keys() -> None:
    """An FD follows from the denial that says what a key does; longer denials are told for themselves."""
    texts = ("not(t.a = s.a)", "a -> b", "not(t.a = s.a and t.b > s.b and t.c < s.c)")
    assert impliers(placed(*texts)) == [(), (0,), ()]
