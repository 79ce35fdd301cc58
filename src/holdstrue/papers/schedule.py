"""In which order to evaluate the predicates of many rules, and which partial results rules can share.

Sections 5.2 and 5.3 of Kaminsky, Pena, Naumann: Incremental Detection of Denial Constraint
Violations. Predicates and rules are any hashable names, so nothing here knows of an index.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import Generic, TypeVar

from holdstrue.operators import Op

P = TypeVar("P", bound=Hashable)
R = TypeVar("R", bound=Hashable)


class PredicateClass(IntEnum):
    """The six classes of Section 5.2, cheapest and most selective first."""

    UNI_EQUAL = 1
    BI_EQUAL = 2
    UNI_NOT_EQUAL = 3
    BI_NOT_EQUAL = 4
    UNI_ORDER = 5
    BI_ORDER = 6

    @property
    def is_order(self) -> bool:
        """Whether the predicate is an inequality, which needs an LT-tree."""
        return self >= PredicateClass.UNI_ORDER


def classify(op: Op, one_column: bool) -> PredicateClass:
    """The class of a predicate by its operator and whether both sides are the same column.

    Examples
    --------
    >>> classify(Op.LE, one_column=False).name
    'BI_ORDER'
    """
    base = PredicateClass.UNI_ORDER
    if op is Op.EQ:
        base = PredicateClass.UNI_EQUAL
    elif op is Op.NE:
        base = PredicateClass.UNI_NOT_EQUAL
    return base if one_column else PredicateClass(base + 1)


@dataclass(frozen=True)
class PredicateStat(Generic[P]):
    """A predicate with what its place depends on: its class and its columns' distinct values."""

    id: P
    kind: PredicateClass
    cardinality: int

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key: class, then most selective first.

        Many distinct values make `=` selective and `!=` unselective; an inequality keeps half the
        rows whatever the cardinality, but a small tree is searched sooner.
        """
        falling = self.kind <= PredicateClass.BI_EQUAL
        return self.kind, -self.cardinality if falling else self.cardinality


def order_predicates(stats: Sequence[PredicateStat[P]]) -> tuple[PredicateStat[P], ...]:
    """Predicates in the order of Section 5.2; ties keep the given order.

    Runtime complexity: O(p log p).

    Examples
    --------
    >>> state = PredicateStat("state=", PredicateClass.UNI_EQUAL, 50)
    >>> zipcode = PredicateStat("zip=", PredicateClass.UNI_EQUAL, 4000)
    >>> salary = PredicateStat("salary<", PredicateClass.UNI_ORDER, 9)
    >>> [p.id for p in order_predicates([salary, state, zipcode])]
    ['zip=', 'state=', 'salary<']
    """
    return tuple(sorted(stats, key=lambda stat: stat.rank))


def in_order(stats: Sequence[PredicateStat[P]]) -> bool:
    """Whether the predicates already stand in an order that `order_predicates` would keep."""
    return all(before.rank <= after.rank for before, after in pairwise(stats))


def slack(ordered: Sequence[PredicateStat[P]]) -> int | None:
    """How many rows may come or go before the order could change; None if it never can.

    A row moves a cardinality by one at most, all in the same direction, so the smallest gap
    between neighbours of one class is a safe number of rows.

    Examples
    --------
    >>> cards = [5, 9, 20]
    >>> slack([PredicateStat(c, PredicateClass.UNI_ORDER, c) for c in cards])
    4
    """
    gaps = [
        abs(after.cardinality - before.cardinality) for before, after in pairwise(ordered) if before.kind == after.kind
    ]
    return min(gaps, default=None)


@dataclass(frozen=True)
class Prefix(Generic[R, P]):
    """The first predicates of `owner` that are also predicates of each of `targets`.

    `benefit` counts the refinements that copying the owner's intermediate saves; the first
    predicate of an intermediate costs nothing (its operand is copied), so it never counts.
    `potential` counts the refinements of the owner that other prefixes could save, which it gives
    up by being shared, because a shared intermediate holds its prefix and nothing else.
    """

    owner: R
    predicates: tuple[P, ...]
    targets: tuple[R, ...]
    benefit: int
    potential: int
    shared: bool


@dataclass(frozen=True)
class Refine(Generic[R, P]):
    """Evaluate `predicate` for rule `leader` (if it still has candidates) and refine `followers` too."""

    leader: R
    predicate: P
    followers: tuple[R, ...]


@dataclass(frozen=True)
class Share(Generic[R, P]):
    """Copy the candidates of `owner`, refined by exactly `predicates`, to `targets`."""

    owner: R
    predicates: tuple[P, ...]
    targets: tuple[R, ...]


@dataclass(frozen=True)
class Schedule(Generic[R, P]):
    """What Section 5.3 decides: predicates, rules in execution order, prefixes and who shares them."""

    predicates: tuple[PredicateStat[P], ...]
    rules: tuple[tuple[R, tuple[P, ...]], ...]
    prefixes: tuple[Prefix[R, P], ...]

    @property
    def shared(self) -> tuple[Prefix[R, P], ...]:
        """The prefixes that are computed once and copied."""
        return tuple(prefix for prefix in self.prefixes if prefix.shared)

    def steps(self) -> tuple[Refine[R, P] | Share[R, P], ...]:
        """The schedule as straight-line steps: shared prefixes first, then rule by rule (Algorithm 2)."""
        return tuple(_steps(self))

    def of(self, rule: R) -> Schedule[R, P]:
        """The part that concerns one rule."""
        path = dict(self.rules)[rule]
        return Schedule(
            predicates=tuple(stat for stat in self.predicates if stat.id in path),
            rules=((rule, path),),
            prefixes=tuple(p for p in self.prefixes if rule == p.owner or rule in p.targets),
        )

    def explain(self, name: Callable[[P], str] = str) -> list[str]:
        """The schedule as text lines, with predicates called what `name` says."""
        lines = [f"predicate {name(p.id)}: {p.kind.name}, {p.cardinality} values" for p in self.predicates]
        lines += [f"rule {rule}: {' -> '.join(map(name, path))}" for rule, path in self.rules]
        lines += [
            f"prefix {', '.join(map(name, p.predicates))} of rule {p.owner} for rule "
            f"{', '.join(map(str, p.targets))}: benefit {p.benefit}, potential {p.potential}, "
            f"{'shared' if p.shared else 'not shared'}"
            for p in self.prefixes
        ]
        return lines


def schedule(rules: Mapping[R, Sequence[P]], stats: Sequence[PredicateStat[P]]) -> Schedule[R, P]:
    """Order the predicates of each rule, then the rules, then decide which prefixes are shared.

    Parameters
    ----------
    rules
        Each rule's predicates, in any order.
    stats
        Every predicate once.

    Runtime complexity: O(c^2 p) for c rules of p predicates.

    Examples
    --------
    Two FDs with the same left side: the first computes it, the second copies it.

    >>> stats = [PredicateStat("a=", PredicateClass.UNI_EQUAL, 9),
    ...          PredicateStat("b=", PredicateClass.UNI_EQUAL, 5),
    ...          PredicateStat("c!=", PredicateClass.UNI_NOT_EQUAL, 3),
    ...          PredicateStat("d!=", PredicateClass.UNI_NOT_EQUAL, 2)]
    >>> plan = schedule({"fd1": ["c!=", "b=", "a="], "fd2": ["d!=", "a=", "b="]}, stats)
    >>> for line in plan.explain()[4:]:
    ...     print(line)
    rule fd1: a= -> b= -> c!=
    rule fd2: a= -> b= -> d!=
    prefix a=, b= of rule fd1 for rule fd2: benefit 1, potential 1, shared
    """
    ordered = order_predicates(stats)
    place = {stat.id: i for i, stat in enumerate(ordered)}
    paths = {
        rule: tuple(sorted(dict.fromkeys(predicates), key=place.__getitem__)) for rule, predicates in rules.items()
    }

    def start(rule: R) -> int:
        return place[paths[rule][0]] if paths[rule] else -1

    # A rule that starts late in the global order goes first: its predicates may finish the others.
    execution = sorted(paths, key=start, reverse=True)
    by_start = sorted(execution, key=start)
    return Schedule(
        predicates=ordered,
        rules=tuple((rule, paths[rule]) for rule in execution),
        prefixes=tuple(_decide(by_start, paths)),
    )


def _decide(by_start: Sequence[R], paths: Mapping[R, tuple[P, ...]]) -> list[Prefix[R, P]]:
    """Step 4 of Section 5.3: walk the candidate prefixes by start position, share or drop each."""
    decided: list[Prefix[R, P]] = []
    undecided = list(by_start)
    while undecided:
        owner = undecided.pop(0)
        mine = _candidate(owner, paths, decided)
        if mine is None:
            continue
        others = [prefix for prefix in decided if prefix.shared]
        for rule in undecided:
            theirs = _candidate(rule, paths, decided)
            if theirs is not None:
                others.append(theirs)
        saved = {p for other in others if owner in other.targets for p in other.predicates[1:]}
        share = mine.benefit >= len(saved)
        if share:  # what is copied from the owner must hold its own prefix only
            decided = [_without(prefix, owner) for prefix in decided]
        decided.append(replace(mine, potential=len(saved), shared=share))
    return decided


def _without(prefix: Prefix[R, P], rule: R) -> Prefix[R, P]:
    if not prefix.shared or rule not in prefix.targets:
        return prefix
    targets = tuple(target for target in prefix.targets if target != rule)
    return replace(prefix, targets=targets, shared=bool(targets))


def _candidate(owner: R, paths: Mapping[R, tuple[P, ...]], decided: Sequence[Prefix[R, P]]) -> Prefix[R, P] | None:
    """The prefix of `owner` that saves most now (the longest of equals), or None if none saves."""
    owners = {prefix.owner for prefix in decided if prefix.shared}
    best: Prefix[R, P] | None = None
    for length in range(len(paths[owner]), 1, -1):
        head = paths[owner][:length]
        targets = tuple(r for r in paths if r != owner and r not in owners and set(head) <= set(paths[r]))
        benefit = sum(_saving(head, rule, decided) for rule in targets)
        if benefit > (best.benefit if best else 0):
            best = Prefix(owner, head, targets, benefit, potential=0, shared=False)
    return best


def _saving(head: Sequence[P], rule: R, decided: Sequence[Prefix[R, P]]) -> int:
    """Refinements of `rule` that a copy of `head` replaces and no copy replaces yet."""
    covered = _covered(rule, decided)
    return sum(predicate not in covered for predicate in head[1:])


def _covered(rule: R, prefixes: Sequence[Prefix[R, P]]) -> set[P]:
    """Predicates that reach `rule` by copying."""
    return {p for prefix in prefixes if prefix.shared and rule in prefix.targets for p in prefix.predicates}


def _steps(plan: Schedule[R, P]) -> Iterator[Refine[R, P] | Share[R, P]]:
    waiting = [prefix.owner for prefix in plan.shared]
    for prefix in plan.shared:
        waiting.remove(prefix.owner)
        for predicate in prefix.predicates:
            # Other rules profit from the operand too, unless they wait for a copy that holds it
            # or must keep their own prefix pure.
            followers = tuple(
                rule
                for rule, path in plan.rules
                if predicate in path
                and rule != prefix.owner
                and rule not in waiting
                and predicate not in _covered(rule, plan.prefixes)
            )
            yield Refine(prefix.owner, predicate, followers)
        yield Share(prefix.owner, prefix.predicates, prefix.targets)
    for leader, path in plan.rules:
        for predicate in path:
            followers = tuple(rule for rule, other in plan.rules if rule != leader and predicate in other)
            yield Refine(leader, predicate, followers)
