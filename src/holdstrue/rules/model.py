"""What must hold: rules as frozen data, each able to print itself as the text it is parsed from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

from holdstrue.operators import Op

__all__ = [
    "CFD",
    "DC",
    "FD",
    "All",
    "Any",
    "Body",
    "Column",
    "Comparison",
    "Condition",
    "Constant",
    "Inclusion",
    "IsNull",
    "Key",
    "Kind",
    "Not",
    "NotNull",
    "Op",
    "Pattern",
    "Predicate",
    "Rule",
    "RuleSet",
    "Scalar",
    "Severity",
    "Source",
    "Tolerance",
    "Var",
    "columns_of",
    "number_as_written",
]

Scalar: TypeAlias = bool | int | float | Decimal | str | dt.date | dt.datetime
Severity: TypeAlias = Literal["error", "warn"]
Var: TypeAlias = Literal["t", "s"]
Kind: TypeAlias = Literal["key", "fd", "cfd", "dc", "not_null", "inclusion"]


@dataclass(frozen=True)
class Column:
    """A column of one of the rule's rows: `t.salary`."""

    var: Var
    name: str


@dataclass(frozen=True)
class Constant:
    """A literal value in a rule.

    `written` is how a number stands in the rule where that is not how it prints (01907, +5, 1.50): on a column of text
    it is that text.
    """

    value: Scalar
    written: str | None = None


def number_as_written(value: Scalar, text: str) -> Constant:
    """The constant of a number that stands so in a rule.

    >>> number_as_written(1907, "01907"), number_as_written(5, "5")
    (Constant(value=1907, written='01907'), Constant(value=5, written=None))
    """
    return Constant(value, None if text == str(value) else text)


@dataclass(frozen=True)
class Predicate:
    """One comparison of a denial constraint; the left side is always a column."""

    left: Column
    op: Op
    right: Column | Constant


@dataclass(frozen=True)
class Key:
    """No two rows agree on all of `columns`."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class FD:
    """Rows that agree on `lhs` agree on `rhs`."""

    lhs: tuple[str, ...]
    rhs: tuple[str, ...]


@dataclass(frozen=True)
class Pattern:
    """One row of a pattern tableau; None stands for the unnamed variable `_`."""

    lhs: tuple[Constant | None, ...]
    rhs: tuple[Constant | None, ...]


@dataclass(frozen=True)
class CFD:
    """An FD that holds on the rows that match a pattern, whose right side a pattern may fix."""

    lhs: tuple[str, ...]
    rhs: tuple[str, ...]
    tableau: tuple[Pattern, ...]


@dataclass(frozen=True)
class DC:
    """A denial constraint: what must never hold together, of one row t or of two distinct rows t and s."""

    predicates: tuple[Predicate, ...]

    @property
    def two_rows(self) -> bool:
        """Whether a violation is a pair of rows rather than one row."""
        return any(column.var == "s" for predicate in self.predicates for column in columns_of(predicate))


@dataclass(frozen=True)
class NotNull:
    """None of `columns` is NULL."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Inclusion:
    """Every (non-NULL) value of `columns` occurs in `ref_columns` of table `ref_table`."""

    table: str | None
    columns: tuple[str, ...]
    ref_table: str
    ref_columns: tuple[str, ...]


Body: TypeAlias = Key | FD | CFD | DC | NotNull | Inclusion

_KINDS: dict[type[Body], Kind] = {
    Key: "key", FD: "fd", CFD: "cfd", DC: "dc", NotNull: "not_null", Inclusion: "inclusion",
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """`column op constant` or `column op column` in a `where` filter."""

    column: str
    op: Op
    right: Constant | str


@dataclass(frozen=True)
class IsNull:
    """`column is null`, or with `negated` `column is not null`."""

    column: str
    negated: bool = False


@dataclass(frozen=True)
class Not:
    """Negation in a `where` filter (unknown stays unknown)."""

    operand: Condition


@dataclass(frozen=True)
class All:
    """Conjunction in a `where` filter."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True)
class Any:
    """Disjunction in a `where` filter."""

    operands: tuple[Condition, ...]


Condition: TypeAlias = Comparison | IsNull | Not | All | Any


@dataclass(frozen=True)
class Tolerance:
    """How many violating rows are still accepted: a count, or a share of the table's rows."""

    count: int | None = None
    share: Decimal | None = None


@dataclass(frozen=True)
class Source:
    """Where a rule came from, for messages that underline the place.

    `spans` maps a name as the rule uses it (a column, `t.column`, or a predicate's text form) to
    its first position in `text`.
    """

    text: str
    spans: tuple[tuple[str, int, int], ...] = ()

    def span(self, name: str) -> tuple[int, int]:
        """The place of `name`, or the whole text when it was not recorded."""
        for known, start, end in self.spans:
            if known == name:
                return start, end
        return 0, len(self.text)


@dataclass(frozen=True)
class Rule:
    """A rule body with what people say about it."""

    body: Body
    name: str
    description: str = ""
    severity: Severity = "error"
    where: Condition | None = None
    tolerance: Tolerance | None = None
    table: str | None = None
    source: Source | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> Kind:
        """Which sort of rule it is.

        Examples
        --------
        >>> Rule(Key(("id",)), "id").kind
        'key'
        """
        return _KINDS[type(self.body)]

    @property
    def text(self) -> str:
        """The body as rule text, which parses back to the same body.

        Examples
        --------
        >>> Rule(FD(("zip",), ("city", "state")), "zips").text
        'zip -> city, state'
        """
        from holdstrue.rules.text import text_of

        return text_of(self.body)


@dataclass(frozen=True)
class RuleSet:
    """The rules of one file: with the table they speak of, its key, how NULLs compare in FDs, and declared types."""

    rules: tuple[Rule, ...]
    table: str | None = None
    key: tuple[str, ...] = ()
    nulls: Literal["unknown", "equal"] = "unknown"
    types: tuple[tuple[str, str], ...] = ()
    """Declared types of columns as they are written: (column or `table.column`, TYPE)."""

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)


def columns_of(predicate: Predicate) -> tuple[Column, ...]:
    """The columns a predicate reads, left first."""
    right = predicate.right
    return (predicate.left, right) if isinstance(right, Column) else (predicate.left,)
