"""The kinds of rules: what one is, reads and says, its normal form, and the denials that it stands for.

A kind is one class here, one line in `Body`, a syntax in `rules/parser.py`, and what it becomes in `plan/compile.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, TypeAlias

from holdstrue.operators import Op
from holdstrue.rules.measure import Amount, Bound, Measure, bounds_text, empty, idle, with_constant
from holdstrue.rules.normal import check_once, normal_patterns, normal_predicates, reject, trivial
from holdstrue.rules.terms import (
    All,
    Column,
    Condition,
    Constant,
    IsNull,
    Pattern,
    Predicate,
    Read,
    Source,
    across,
    reads_of,
    with_constants,
)
from holdstrue.rules.text import (
    canonical_condition,
    constant_text,
    demand_text,
    denial_words,
    listed,
    names_text,
    pattern_text,
    pattern_words,
    predicate_text,
)
from holdstrue.rules.tokens import name_text

Kind: TypeAlias = Literal["key", "fd", "cfd", "dc", "not_null", "demand", "inclusion", "measure"]


class RuleBody(ABC):
    """What every kind answers; the defaults are those of a kind that has nothing to say to it."""

    kind: ClassVar[Kind]
    family: ClassVar[str]
    """Rules of one family compare NULLs alike, so that one may follow from another."""

    @abstractmethod
    def reads(self) -> Iterator[Read]:
        """The columns of the rule's own table, with what they are compared with."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The text it is parsed from; awkward names come in backticks, strings in single quotes."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What it says, for people who do not read logic."""

    @abstractmethod
    def normal(self, source: Source | None = None) -> Body:
        """The normal form, with the same violations; `source` is what errors underline."""

    @property
    def own_table(self) -> str | None:
        """The table it speaks of, where the body itself names one."""
        return None

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        """By other table the columns that its own columns refer to, in their order."""
        return {}

    @property
    def compared(self) -> frozenset[str]:
        """The columns in which a difference between two rows is what the rule is about."""
        return frozenset()

    def denials(self, *, strict: bool) -> Iterator[DC]:
        """What a normal body forbids, one denial for each attribute on the right.

        Whether a constant pattern applies to a row with NULL under `_` is left open: with `strict` the denial
        asks for a known value (safe for a premise), without it does not (safe for a conclusion).
        """
        yield from ()

    @abstractmethod
    def canonical(self) -> Body:
        """Of a normal body the one that all ways of saying the same share."""

    def with_constants(self, change: Callable[[Constant], Constant]) -> Self:
        """The body with every constant changed."""
        return self


@dataclass(frozen=True)
class Key(RuleBody):
    """No two rows agree on all of `columns`."""

    kind = "key"
    family = "key"

    columns: tuple[str, ...]

    def reads(self) -> Iterator[Read]:
        return map(Read, self.columns)

    @property
    def text(self) -> str:
        return f"key({names_text(self.columns)})"

    @property
    def words(self) -> str:
        return f"no two rows have the same {listed(self.columns)}"

    def normal(self, source: Source | None = None) -> Key:
        check_once(self.columns, source)
        return self

    def denials(self, *, strict: bool) -> Iterator[DC]:
        yield DC(tuple(across(column, Op.EQ) for column in self.columns))

    def canonical(self) -> DC:
        [denial] = self.denials(strict=True)
        return denial.canonical()


@dataclass(frozen=True)
class FD(RuleBody):
    """Rows that agree on `lhs` agree on `rhs`."""

    kind = "fd"
    family = "fd"

    lhs: tuple[str, ...]
    rhs: tuple[str, ...]

    def reads(self) -> Iterator[Read]:
        return map(Read, (*self.lhs, *self.rhs))

    @property
    def text(self) -> str:
        return f"{names_text(self.lhs)} -> {names_text(self.rhs)}"

    @property
    def words(self) -> str:
        return f"rows with the same {listed(self.lhs)} have the same {listed(self.rhs)}"

    def normal(self, source: Source | None = None) -> FD:
        check_once(self.lhs, source)
        check_once(self.rhs, source)
        rhs = sorted(set(self.rhs) - set(self.lhs))
        if not rhs:
            raise trivial(self.rhs, source)
        return FD(tuple(sorted(self.lhs)), tuple(rhs))

    @property
    def compared(self) -> frozenset[str]:
        return frozenset(self.rhs)

    def denials(self, *, strict: bool) -> Iterator[DC]:
        for column in self.rhs:
            yield DC((*(across(name, Op.EQ) for name in self.lhs), across(column, Op.NE)))

    def canonical(self) -> FD | DC:
        if len(self.rhs) > 1:
            return self
        [denial] = self.denials(strict=True)
        return denial.canonical()


@dataclass(frozen=True)
class CFD(RuleBody):
    """An FD that holds on the rows that match a pattern, whose right side a pattern may fix."""

    kind = "cfd"
    family = "fd"

    lhs: tuple[str, ...]
    rhs: tuple[str, ...]
    tableau: tuple[Pattern, ...]

    def reads(self) -> Iterator[Read]:
        for pattern in self.tableau:
            for column, cell in self.cells(pattern):
                yield Read(column, Op.EQ, cell)

    def cells(self, pattern: Pattern) -> Iterator[tuple[str, Constant | None]]:
        """The attributes with what a pattern asks of each."""
        return zip((*self.lhs, *self.rhs), (*pattern.lhs, *pattern.rhs), strict=True)

    @property
    def text(self) -> str:
        if len(self.tableau) == 1 and any(cell is not None for _, cell in self.cells(self.tableau[0])):
            [pattern] = self.tableau
            return f"[{_attributes(self.lhs, pattern.lhs)}] -> [{_attributes(self.rhs, pattern.rhs)}]"
        rows = ", ".join(pattern_text(pattern) for pattern in self.tableau)
        return f"[{names_text(self.lhs)}] -> [{names_text(self.rhs)}] with {rows}"

    @property
    def words(self) -> str:
        return "; ".join(pattern_words(self.lhs, self.rhs, pattern) for pattern in self.tableau)

    def normal(self, source: Source | None = None) -> FD | CFD:
        lhs, rhs, patterns = normal_patterns(self.lhs, self.rhs, self.tableau, source)
        if len(patterns) == 1 and all(cell is None for cell in patterns[0].lhs + patterns[0].rhs):
            return FD(lhs, rhs)
        return CFD(lhs, rhs, patterns)

    @property
    def compared(self) -> frozenset[str]:
        return frozenset(self.rhs)

    def denials(self, *, strict: bool) -> Iterator[DC]:
        for pattern in self.tableau:
            row, pair = [], []
            for name, cell in zip(self.lhs, pattern.lhs, strict=True):
                t, s = Column("t", name), Column("s", name)
                pair.append(across(name, Op.EQ))
                if cell is not None:
                    row.append(Predicate(t, Op.EQ, cell))
                    pair += [Predicate(t, Op.EQ, cell), Predicate(s, Op.EQ, cell)]
                elif strict:
                    row.append(Predicate(t, Op.EQ, t))
            for name, cell in zip(self.rhs, pattern.rhs, strict=True):
                if cell is None:
                    yield DC((*pair, across(name, Op.NE)))
                else:
                    yield DC((*row, Predicate(Column("t", name), Op.NE, cell)))

    def canonical(self) -> CFD:
        return self

    def with_constants(self, change: Callable[[Constant], Constant]) -> Self:
        def changed(cells: tuple[Constant | None, ...]) -> tuple[Constant | None, ...]:
            return tuple(None if cell is None else change(cell) for cell in cells)

        return replace(self, tableau=tuple(Pattern(changed(row.lhs), changed(row.rhs)) for row in self.tableau))


@dataclass(frozen=True)
class DC(RuleBody):
    """A denial constraint: what must never hold together, of one row t or of two distinct rows t and s."""

    kind = "dc"
    family = "dc"

    predicates: tuple[Predicate, ...]

    @property
    def two_rows(self) -> bool:
        """Whether a violation is a pair of rows rather than one row."""
        return any(column.var == "s" for predicate in self.predicates for column in predicate.columns)

    def reads(self) -> Iterator[Read]:
        for predicate in self.predicates:
            right = predicate.right
            yield Read(predicate.left.name, predicate.op, right.name if isinstance(right, Column) else right)

    @property
    def text(self) -> str:
        return f"not({' and '.join(map(predicate_text, self.predicates))})"

    @property
    def words(self) -> str:
        return denial_words(self.predicates, two_rows=self.two_rows)

    def normal(self, source: Source | None = None) -> DC:
        return DC(normal_predicates(self.predicates, source))

    @property
    def compared(self) -> frozenset[str]:
        return frozenset(
            p.left.name for p in self.predicates if isinstance(p.right, Column) and p.left == p.right.other_row
        )

    def denials(self, *, strict: bool) -> Iterator[DC]:
        yield self

    def canonical(self) -> DC:
        exchanged = DC(tuple(predicate.swapped for predicate in self.predicates))
        return min(self.normal(), exchanged.normal(), key=lambda body: body.text)

    def with_constants(self, change: Callable[[Constant], Constant]) -> Self:
        rights = (change(p.right) if isinstance(p.right, Constant) else p.right for p in self.predicates)
        changed = (replace(p, right=right) for p, right in zip(self.predicates, rights, strict=True))
        return replace(self, predicates=tuple(changed))


@dataclass(frozen=True)
class NotNull(RuleBody):
    """None of `columns` is NULL."""

    kind = "not_null"
    family = "not null"

    columns: tuple[str, ...]

    def reads(self) -> Iterator[Read]:
        return map(Read, self.columns)

    @property
    def text(self) -> str:
        return f"not null({names_text(self.columns)})"

    @property
    def words(self) -> str:
        return f"{listed(self.columns)} {'is' if len(self.columns) == 1 else 'are'} never empty"

    def normal(self, source: Source | None = None) -> NotNull:
        check_once(self.columns, source)
        return self

    def canonical(self) -> NotNull:
        return NotNull(tuple(sorted(self.columns)))


@dataclass(frozen=True)
class Demand(RuleBody):
    """A condition is never false of a row: `age between 0 and 120`, `zip matches '^[0-9]{5}$'`; it may be unknown."""

    kind = "demand"
    family = "demand"

    condition: Condition

    def reads(self) -> Iterator[Read]:
        return reads_of(self.condition)

    @property
    def text(self) -> str:
        return demand_text(self.condition)

    @property
    def words(self) -> str:
        return f"in every row {self.text}"

    def normal(self, source: Source | None = None) -> Demand | NotNull:
        match self.condition:
            case IsNull(column, negated=True):
                return NotNull((column,))
            case All(operands) if all(isinstance(part, IsNull) and part.negated for part in operands):
                return NotNull(tuple(dict.fromkeys(part.column for part in operands if isinstance(part, IsNull))))
        return self

    def canonical(self) -> Demand:
        return Demand(canonical_condition(self.condition))

    def with_constants(self, change: Callable[[Constant], Constant]) -> Self:
        return replace(self, condition=with_constants(self.condition, change))


@dataclass(frozen=True)
class Inclusion(RuleBody):
    """Every (non-NULL) value of `columns` occurs in `ref_columns` of table `ref_table`."""

    kind = "inclusion"
    family = "inclusion"

    table: str | None
    columns: tuple[str, ...]
    ref_table: str
    ref_columns: tuple[str, ...]

    def reads(self) -> Iterator[Read]:
        return map(Read, self.columns)

    @property
    def own_table(self) -> str | None:
        return self.table

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        return {self.ref_table: self.ref_columns}

    @property
    def text(self) -> str:
        return f"{_place(self.table, self.columns)} in {_place(self.ref_table, self.ref_columns)}"

    @property
    def words(self) -> str:
        of = f" of {self.table}" if self.table else ""
        return f"every {listed(self.columns)}{of} occurs in {listed(self.ref_columns)} of {self.ref_table}"

    def normal(self, source: Source | None = None) -> Inclusion:
        pairs = sorted(set(zip(self.columns, self.ref_columns, strict=True)))
        if self.table == self.ref_table and all(column == ref for column, ref in pairs):
            raise reject(
                source,
                "this rule can never be violated: the columns refer to themselves",
                self.columns[0],
                "name another table or other columns on the right",
            )
        return Inclusion(self.table, tuple(c for c, _ in pairs), self.ref_table, tuple(r for _, r in pairs))

    def canonical(self) -> Inclusion:
        return replace(self, table=None)


@dataclass(frozen=True)
class Measured(RuleBody):
    """A measure of a table lies within bounds: `count() > 1000`, `sum(total) = lines.sum(amount)`.

    A violation is of the table as a whole. A measure that nothing is known of (the sum of no values) violates nothing.
    """

    kind = "measure"
    family = "measure"

    left: Measure
    bounds: tuple[Bound, ...]
    """One comparison, or the two of `between`."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measure, and those that it is compared with."""
        return (self.left, *(bound.right for bound in self.bounds if isinstance(bound.right, Measure)))

    def reads(self) -> Iterator[Read]:
        for measure in self.measures:
            if measure.column is not None and measure.table in (None, self.left.table):
                yield Read(measure.column)

    @property
    def own_table(self) -> str | None:
        return self.left.table

    @property
    def references(self) -> dict[str, tuple[str, ...]]:
        return {
            measure.table: () if measure.column is None else (measure.column,)
            for measure in self.measures
            if measure.table not in (None, self.left.table)
        }

    @property
    def text(self) -> str:
        return f"{self.left.text} {bounds_text(self.bounds)}"

    @property
    def words(self) -> str:
        return f"{self.left.words} {listed([f'{bound.op.says} {bound.right.words}' for bound in self.bounds])}"

    def normal(self, source: Source | None = None) -> Measured:
        if all(idle(self.left, bound) for bound in self.bounds):
            raise reject(
                source, "this rule can never be violated", self.left.text, "hold the measure against another number"
            )
        if empty(self.bounds):
            raise reject(
                source, "nothing lies between these two", self.left.text, "write the smaller of the two numbers first"
            )
        return self

    def canonical(self) -> Measured:
        rights = (b.right.in_seconds() if isinstance(b.right, Amount) else b.right for b in self.bounds)
        left, bounds = self.left, tuple(replace(b, right=r) for b, r in zip(self.bounds, rights, strict=True))
        [first, *_] = bounds
        if isinstance(first.right, Measure) and left.table == first.right.table and first.right.text < left.text:
            # of two measures of one table either may stand first
            return Measured(first.right, (Bound(first.op.flipped, left),))._of_its_table()
        return Measured(left, bounds)._of_its_table()

    def _of_its_table(self) -> Measured:
        """The same without the name of its own table, which the rule has beside it."""

        def short(measure: Measure) -> Measure:
            return replace(measure, table=None) if measure.table == self.left.table else measure

        bounds = (replace(b, right=short(b.right)) if isinstance(b.right, Measure) else b for b in self.bounds)
        return Measured(short(self.left), tuple(bounds))

    def with_constants(self, change: Callable[[Constant], Constant]) -> Self:
        bounds = (
            b if isinstance(b.right, Measure) else with_constant(b, change(b.right.constant)) for b in self.bounds
        )
        return replace(self, bounds=tuple(bounds))


Body: TypeAlias = Key | FD | CFD | DC | NotNull | Demand | Inclusion | Measured


def _attributes(names: tuple[str, ...], cells: tuple[Constant | None, ...]) -> str:
    return ", ".join(
        name_text(name) if cell is None else f"{name_text(name)}={constant_text(cell)}"
        for name, cell in zip(names, cells, strict=True)
    )


def _place(table: str | None, columns: tuple[str, ...]) -> str:
    names = name_text(columns[0]) if len(columns) == 1 else f"({names_text(columns)})"
    return names if table is None else f"{name_text(table)}.{names}"
