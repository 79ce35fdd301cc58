"""Rules that say nothing new: duplicates, and rules that hold whenever others do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from holdstrue.rules.fingerprint import canonical_text, fingerprint
from holdstrue.rules.model import (
    DC,
    FD,
    Body,
    Demand,
    Inclusion,
    Measured,
    NotNull,
    Rule,
    RuleSet,
)
from holdstrue.rules.order import Order


@dataclass(frozen=True)
class Finding:
    """A rule that adds nothing to the others it names."""

    rule: str
    others: tuple[str, ...]
    kind: Literal["duplicate", "implied"]
    message: str


def review(rules: RuleSet | Iterable[Rule], *, nulls: Literal["unknown", "equal"] | None = None) -> tuple[Finding, ...]:
    """Point out duplicates and rules implied by others; what is left always implies what is pointed out.

    Every rule between rows is spelled out as denials, sets of comparisons that must not all be true. A
    denial is implied by another whose comparisons all follow from its own: a violation of the first then
    is one of the second, and because all comparisons are true, none of the columns is NULL.

    Not claimed, because a NULL breaks it: a -> b and b -> c give a -> c only with `nulls: equal` (two rows
    with equal a, NULL in b and different c violate only the last), and a reference of two columns does not
    give one of each. A rule implies another only on the same table, with the same filter or none, and
    without a tolerance.

    Parameters
    ----------
    nulls
        How NULLs compare in FDs; by default what the rule set says.

    Runtime complexity: a rule is compared with those that have a rare column in common with it, at worst with all.

    Examples
    --------
    >>> from holdstrue.rules.parser import parse_rule
    >>> findings = review([parse_rule("key(id)"), parse_rule("id, zip -> city")])
    >>> print(findings[0].message)
    'id, zip -> city' holds whenever 'key(id)' does
    """
    nulls = nulls or (rules.nulls if isinstance(rules, RuleSet) else "unknown")
    ordered = tuple(rules)
    findings: dict[int, Finding] = {}
    first: dict[tuple[str, str], Rule] = {}
    for i, rule in enumerate(ordered):
        mark = (fingerprint(rule), _family(rule.body, nulls))
        original = first.setdefault(mark, rule)
        if original is not rule:
            message = f"{rule.name!r} says the same as {original.name!r}"
            findings[i] = Finding(rule.name, (original.name,), "duplicate", message)
    known = [_Known(rule, nulls) for rule in ordered]
    near = _Near(known)
    # From the last to the first, and never arguing from a rule already pointed out: so the later of two
    # equivalent rules is named, and dropping all that are named loses nothing.
    for i in reversed(range(len(ordered))):
        if i in findings:
            continue
        premises = [
            known[j]
            for j in (near.of(known[i]) if nulls == "unknown" else range(len(ordered)))
            if j != i and j not in findings and _eligible(ordered[j], ordered[i])
        ]
        reasons = _reasons(known[i], premises, nulls)
        if reasons:
            names = " and ".join(map(repr, reasons))
            message = f"{ordered[i].name!r} holds whenever {names} {'does' if len(reasons) == 1 else 'do'}"
            findings[i] = Finding(ordered[i].name, reasons, "implied", message)
    return tuple(findings[i] for i in sorted(findings))


class _Near:
    """For each rule those that may imply it, since a denial follows only from one whose columns it has.

    Every denial is filed under the rarest of its columns, so that a rule finds all that matter under its own.
    """

    def __init__(self, known: list[_Known]) -> None:
        names = [[columns for _, columns in rule.premises] for rule in known]
        often = Counter(name for rule in names for denial in rule for name in denial)
        self._filed: dict[str, list[int]] = {}
        self._unfiled: list[int] = []
        for at, rule in enumerate(names):
            for denial in rule:
                self._filed.setdefault(min(denial, key=lambda name: (often[name], name)), []).append(at)
            if not rule:
                self._unfiled.append(at)

    def of(self, rule: _Known) -> list[int]:
        """Positions, in the order of the rules."""
        if not rule.conclusions:  # it is no denial, and neither is what implies it
            return self._unfiled
        return sorted({at for _, _, names in rule.conclusions for name in names for at in self._filed.get(name, ())})


def _names(denial: DC) -> frozenset[str]:
    """The columns that a denial compares."""
    return frozenset(column.name for predicate in denial.predicates for column in predicate.columns)


def _family(body: Body, nulls: str) -> str:
    """Rules of different families are not compared: with `nulls: equal` FDs mean something else than DCs."""
    spelled_out = not isinstance(body, NotNull | Demand | Inclusion | Measured)
    return "pairs" if spelled_out and nulls == "unknown" else body.family


def _eligible(general: Rule, special: Rule) -> bool:
    same_filter = general.where is None or general.where == special.where
    return general.tolerance is None and general.own_table == special.own_table and same_filter


_Premise = tuple[DC, frozenset[str]]
"""A denial and the columns that it compares, by which most pairs of denials are told apart."""

_Conclusion = tuple[DC, Order, frozenset[str]]
"""A denial, the closure of its comparisons, and its columns."""


class _Known:
    """A rule with what its comparisons need: its denials as premise, and their closures as conclusion."""

    def __init__(self, rule: Rule, nulls: str) -> None:
        self.name = rule.name
        self.body = rule.body.normal()
        self.family = _family(self.body, nulls)
        self.premises: tuple[_Premise, ...] = tuple((dc, _names(dc)) for dc in self.body.denials(strict=True))
        self.conclusions: tuple[_Conclusion, ...] = tuple(
            (dc, Order(dc.predicates), _names(dc)) for dc in self.body.denials(strict=False)
        )


def _reasons(rule: _Known, premises: list[_Known], nulls: str) -> tuple[str, ...]:
    """Names of rules that together imply `rule`; none when they do not."""
    premises = [premise for premise in premises if premise.family == rule.family]
    match rule.body:
        case NotNull(columns):
            holders = [
                next((p.name for p in premises if isinstance(p.body, NotNull) and c in p.body.columns), None)
                for c in columns
            ]
            return _all_named(holders)
        case Inclusion():
            text = canonical_text(rule.body)
            return tuple(p.name for p in premises if canonical_text(p.body) == text)[:1]
        case FD(lhs, rhs) if nulls == "equal":
            return _closure_reasons(lhs, rhs, premises)
        case _:
            return _all_named(
                [
                    next((p.name for p in premises if any(_follows(one, denial) for one in p.premises)), None)
                    for denial in rule.conclusions
                ]
            )


def _all_named(names: list[str | None]) -> tuple[str, ...]:
    found = [name for name in names if name is not None]
    return tuple(dict.fromkeys(found)) if len(found) == len(names) else ()


def _closure_reasons(lhs: tuple[str, ...], rhs: tuple[str, ...], premises: list[_Known]) -> tuple[str, ...]:
    """Armstrong's closure; sound only where NULL equals NULL, so that equality is transitive."""
    dependencies = [(p.name, p.body) for p in premises if isinstance(p.body, FD)]
    reached, used = set(lhs), []
    while not set(rhs) <= reached:
        steps = (step for step in dependencies if set(step[1].lhs) <= reached and not set(step[1].rhs) <= reached)
        step = next(steps, None)
        if step is None:
            return ()
        used.append(step)
        reached |= set(step[1].rhs)
    return _needed(set(lhs), set(rhs), used)


def _needed(lhs: set[str], rhs: set[str], used: list[tuple[str, FD]]) -> tuple[str, ...]:
    """Drop steps of a derivation that it does without; the order of the others still works."""
    for step in used[::-1]:
        reached, rest = set(lhs), [other for other in used if other is not step]
        for _, dependency in rest:
            reached |= set(dependency.rhs) if set(dependency.lhs) <= reached else set()
        if rhs <= reached:
            used = rest
    return tuple(dict.fromkeys(name for name, _ in used))


def _follows(premise: _Premise, conclusion: _Conclusion) -> bool:
    """Whether every violation of the conclusion is one of the premise."""
    (general, needed), (special, order, names) = premise, conclusion
    if not needed <= names:
        return False
    if general.two_rows and not special.two_rows:
        return False
    if all(order.entails(predicate) for predicate in general.predicates):
        return True
    # The premise holds for both orders of the two rows, and a one-row premise for either row.
    return special.two_rows and all(order.entails(predicate.swapped) for predicate in general.predicates)
