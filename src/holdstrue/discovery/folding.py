"""What rules say, and which of one batch follow from others of it: a dead key is told once, not with every FD of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from holdstrue.rules.implication import Finding, review
from holdstrue.rules.model import DC, FD, Body, Column, Inclusion, Key, Op, Rule

Placed = tuple[str | None, Body]
"""A rule and its table."""


def impliers(
    rules: Sequence[Placed], *, nulls: Literal["unknown", "equal"] = "unknown", exact: bool = True
) -> list[tuple[int, ...]]:
    """For each rule the positions of those that it follows from, and that follow from no others; most often none.

    Of rules that say the same, the first is the one that others follow from. Where exceptions are allowed (not
    `exact`), a rule has at most as many as one other that implies it, but not as two that do so together, and the
    confidence of a conditional FD is a share of its own rows: neither is folded then.

    Denial constraints that one search finds do not follow from each other, and can be tens of thousands: only those
    of one comparison, which say what a key does, are looked at.

    Runtime complexity: that of `review` for the others.

    Examples
    --------
    >>> from holdstrue.rules.parser import parse_rule
    >>> texts = ("zip -> city", "key(id)", "id -> zip", "id -> city")
    >>> impliers([(None, parse_rule(text).body) for text in texts])
    [(), (), (1,), (1,)]
    """
    named = [
        Rule(body, str(at), table=None if isinstance(body, Inclusion) else table)
        for at, (table, body) in enumerate(rules)
    ]
    findings = review((rule for rule in named if _looked_at(rule.body)), nulls=nulls)
    if not exact:
        findings = tuple(one for one in findings if len(one.others) == 1 and named[int(one.rule)].kind != "cfd")
    return _roots(len(rules), findings)


def _looked_at(body: Body) -> bool:
    return not isinstance(body, DC) or len(body.predicates) == 1


def _roots(count: int, findings: Iterable[Finding]) -> list[tuple[int, ...]]:
    """Impliers that are implied themselves give way to what implies them; `review` argues in no circles."""
    direct = {int(one.rule): tuple(map(int, one.others)) for one in findings}
    found: list[tuple[int, ...]] = []
    for at in range(count):
        roots: set[int] = set()
        seen: set[int] = set()
        ahead = list(direct.get(at, ()))
        while ahead:
            other = ahead.pop()
            if other not in seen:
                seen.add(other)
                ahead += direct.get(other, ())
                roots |= set() if other in direct else {other}
        found.append(tuple(sorted(roots)))
    return found


def meaning(body: Body) -> Any:
    """What a rule says, the same for a key or an FD and the denial constraint that spells it out."""
    match body:
        case Key(columns):
            return frozenset(columns), frozenset()
        case FD(lhs, rhs):
            return frozenset(lhs), frozenset(rhs)
        case DC(predicates):
            sides: dict[Op, list[str]] = {Op.EQ: [], Op.NE: []}
            for p in predicates:
                own = isinstance(p.right, Column) and p.right.name == p.left.name and p.right.var != p.left.var
                if p.op not in sides or not own:
                    return body
                sides[p.op].append(p.left.name)
            return body if len(sides[Op.NE]) > 1 else (frozenset(sides[Op.EQ]), frozenset(sides[Op.NE]))
    return body
