"""The normal form of a rule, with the same violations; rules that no data can violate are rejected."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from holdstrue.errors import RuleError
from holdstrue.operators import ABOVE, BELOW, Op, Outcomes, op_of
from holdstrue.rules.order import Order, family, identity
from holdstrue.rules.terms import Column, Constant, Pattern, Predicate, Source
from holdstrue.rules.text import constant_text, pattern_text, predicate_text
from holdstrue.rules.tokens import DENIAL

if TYPE_CHECKING:
    from holdstrue.rules.model import Rule

Names: TypeAlias = tuple[str, ...]

MOST_COMPARISONS = 1000
"""Comparisons of one denial constraint; those that people write or that are found have up to a few dozen."""

_MOST_BLAMED = 100


def normalise(rule: Rule) -> Rule:
    """The same rule in normal form: equal violations on every table, NULLs included.

    A denial constraint has t on the left of every two-row comparison, no comparison twice or implied by
    another on the same columns, equalities first. `t.a = t.a` goes where another comparison already
    needs a known `a`, and stays where it is the only thing that does. Columns of FDs are sorted; a CFD
    whose only pattern is all `_` becomes an FD. The kind does not change otherwise.

    Raises
    ------
    RuleError
        When no data can violate the rule, or every row does.

    Examples
    --------
    >>> from holdstrue.rules.parser import parse_rule
    >>> normalise(parse_rule("not(s.a <= t.a and t.b = s.b and t.a != s.a and t.c > 3 and 5 < t.c)")).text
    'not(t.b = s.b and t.a > s.a and t.c > 5)'
    """
    return replace(rule, body=rule.body.normal(rule.source))


def reject(source: Source | None, message: str, name: str, hint: str) -> RuleError:
    """An error that underlines a name of the rule."""
    if source is None:
        return RuleError(message, hint=hint)
    start, end = source.span(name)
    return RuleError(message, text=source.text, start=start, end=end, hint=hint)


def check_once(columns: Iterable[str], source: Source | None) -> None:
    """Refuse a column that is named twice."""
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise reject(source, f"column {column!r} is named twice", column, "name each column once")
        seen.add(column)


def trivial(rhs: Names, source: Source | None) -> RuleError:
    """The error for a dependency that no rows can break."""
    names = " and ".join(map(repr, rhs))
    return reject(
        source,
        f"this rule can never be violated: {names} on the right is also on the left",
        rhs[0],
        "rows that agree on the left must agree on the right, so name other columns on the right",
    )


def normal_patterns(
    lhs: Names, rhs: Names, tableau: tuple[Pattern, ...], source: Source | None
) -> tuple[Names, Names, tuple[Pattern, ...]]:
    """The attributes of a conditional dependency, sorted, and its patterns, none of which another makes idle."""
    check_once(lhs, source)
    check_once(rhs, source)
    left = sorted(range(len(lhs)), key=lhs.__getitem__)
    place = {column: i for i, column in enumerate(lhs)}
    right = [
        i
        for i in sorted(range(len(rhs)), key=rhs.__getitem__)
        if rhs[i] not in place or not all(_repeats(row.rhs[i], row.lhs[place[rhs[i]]]) for row in tableau)
    ]
    if not right:
        raise trivial(rhs, source)
    _check_patterns(place, rhs, tableau, source)
    patterns = [Pattern(tuple(row.lhs[i] for i in left), tuple(row.rhs[i] for i in right)) for row in tableau]
    kept = _not_covered(list({pattern_text(pattern): pattern for pattern in patterns}.values()))
    return tuple(lhs[i] for i in left), tuple(rhs[i] for i in right), tuple(sorted(kept, key=pattern_text))


def _check_patterns(place: Mapping[str, int], rhs: Names, tableau: tuple[Pattern, ...], source: Source | None) -> None:
    """Refuse patterns that no row can keep: two values demanded of one column at once."""
    demands: dict[tuple[str, str], str] = {}
    for pattern in tableau:
        left = pattern_text(Pattern(pattern.lhs, ()))
        for column, cell in zip(rhs, pattern.rhs, strict=True):
            if cell is None:
                continue
            said = constant_text(cell)
            given = pattern.lhs[place[column]] if column in place else None
            other = constant_text(given) if given is not None else demands.setdefault((left, column), said)
            if other != said:
                raise reject(
                    source,
                    f"this rule contradicts itself: {column!r} cannot be {other} and {said} in one row",
                    column,
                    "every row that matches would violate it; correct one of the two values",
                )


def _repeats(wanted: Constant | None, given: Constant | None) -> bool:
    """Whether a pattern says nothing on the right that its left side does not say of the same column."""
    return wanted is None or (given is not None and constant_text(wanted) == constant_text(given))


def _not_covered(patterns: list[Pattern]) -> list[Pattern]:
    """The patterns of which no other one has every violation: none that matches more rows and asks the same.

    Complexity: O(n m) for n patterns with m different sets of places that hold a constant.
    """
    known: dict[tuple[str, tuple[int, ...]], set[tuple[str, ...]]] = {}
    shapes: dict[str, set[tuple[int, ...]]] = {}
    said = []
    for pattern in patterns:
        cells = [None if cell is None else constant_text(cell) for cell in pattern.lhs]
        asked = pattern_text(Pattern((), pattern.rhs))
        shape = tuple(i for i, cell in enumerate(cells) if cell is not None)
        known.setdefault((asked, shape), set()).add(_at(cells, shape))
        shapes.setdefault(asked, set()).add(shape)
        said.append((pattern, cells, asked, shape))
    return [
        pattern
        for pattern, cells, asked, shape in said
        if not any(
            wider != shape and set(wider) <= set(shape) and _at(cells, wider) in known[asked, wider]
            for wider in shapes[asked]
        )
    ]


def _at(cells: list[str | None], places: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(str(cells[i]) for i in places)


def normal_predicates(predicates: tuple[Predicate, ...], source: Source | None) -> tuple[Predicate, ...]:
    """The comparisons of a denial constraint in normal form (see `normalise`)."""
    if not predicates:
        raise RuleError("a denial constraint without comparisons", hint=DENIAL)
    if len(predicates) > MOST_COMPARISONS:
        raise RuleError(
            f"a denial constraint of {len(predicates):,} comparisons",
            hint=f"at most {MOST_COMPARISONS:,} are read",
        )
    if not Order(predicates).possible:
        raise _contradiction(predicates, source)
    # a rule that speaks of s alone speaks of one row: call it t
    two = any(column.var == "t" for predicate in predicates for column in predicate.columns)
    oriented = [_oriented(predicate if two else predicate.swapped) for predicate in predicates]
    known = {p.left: replace(p, op=Op.EQ) for p in oriented if p.left == p.right}
    merged = _merged([p for p in oriented if p.left != p.right])
    if not merged:
        first = predicate_text(predicates[0])
        raise reject(
            source,
            f"every row violates this rule: {first} always holds",
            first,
            f"{DENIAL}; compare different columns, or the same column of two rows t and s",
        )
    read = {column for predicate in merged for column in predicate.columns}
    merged += [predicate for column, predicate in known.items() if column not in read]
    return tuple(sorted(merged, key=_place))


def _oriented(predicate: Predicate) -> Predicate:
    """t on the left of a two-row comparison, the smaller name on the left of a one-row comparison."""
    left, right = predicate.left, predicate.right
    if isinstance(right, Constant):
        return predicate
    keep = left.var == "t" if left.var != right.var else left.name <= right.name
    return predicate if keep else Predicate(right, predicate.op.flipped, left)


def _merged(predicates: list[Predicate]) -> list[Predicate]:
    """One comparison for each pair of sides, and no bound that a tighter one makes idle. Complexity: O(n)."""
    groups: dict[tuple[Hashable, Hashable], tuple[Predicate, Outcomes]] = {}
    for predicate in predicates:
        outcomes = predicate.op.outcomes
        right = predicate.right
        # on a column of text 1.50 is not 1.5
        written = right.written if isinstance(right, Constant) else None
        sides = (identity(predicate.left), (identity(right), written))
        known, allowed = groups.get(sides, (predicate, outcomes))
        groups[sides] = (known, allowed & outcomes)
    merged = [replace(predicate, op=op_of(outcomes)) for predicate, outcomes in groups.values()]
    bounds = _bounds(merged)
    return [predicate for predicate in merged if not _is_idle(predicate, bounds)]


@dataclass
class _Bounds:
    """The constants nearest to a column from above and below, of one family of constants that compare."""

    high: Any = None
    low: Any = None


def _bounds(predicates: Iterable[Predicate]) -> dict[tuple[Column, str], _Bounds]:
    found: dict[tuple[Column, str], _Bounds] = {}
    for predicate in predicates:
        if not isinstance(predicate.right, Constant):
            continue
        value = predicate.right.value
        known = found.setdefault((predicate.left, family(value)), _Bounds())
        if ABOVE not in predicate.op.outcomes and (known.high is None or value < known.high):
            known.high = value
        if BELOW not in predicate.op.outcomes and (known.low is None or value > known.low):
            known.low = value
    return found


def _is_idle(predicate: Predicate, bounds: Mapping[tuple[Column, str], _Bounds]) -> bool:
    """Whether a bound of the same column says more; at the same constant there is one comparison only."""
    if not isinstance(predicate.right, Constant) or family(predicate.right.value) == "nan":
        return False
    value: Any = predicate.right.value
    known = bounds[predicate.left, family(value)]
    below = known.high is not None and known.high < value
    above = known.low is not None and known.low > value
    allowed = predicate.op.outcomes
    return (below and BELOW in allowed) or (above and ABOVE in allowed)


def _place(predicate: Predicate) -> tuple[bool, int, str]:
    """Comparisons of two rows before those of one, then by operator, then by text."""
    across = len({column.var for column in predicate.columns}) == 2
    return not across, predicate.op.code, predicate_text(predicate)


def _contradiction(predicates: tuple[Predicate, ...], source: Source | None) -> RuleError:
    core = list(predicates)
    # each is left out once, which is quadratic: of very many, all are blamed
    for predicate in predicates if len(predicates) <= _MOST_BLAMED else ():
        rest = [p for p in core if p is not predicate]
        if rest and not Order(rest).possible:
            core = rest
    listed = " and ".join(map(predicate_text, core[:_MOST_BLAMED]))
    verb = "hold together" if len(core) > 1 else "hold"
    return reject(
        source,
        f"this denial constraint can never be violated: {listed} cannot {verb}",
        predicate_text(core[-1]),
        f"{DENIAL}: describe a violation, not the healthy state",
    )
