"""What must hold: a rule is a body of one of the kinds with what people say about it; a rule set is those of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

from holdstrue.operators import Op
from holdstrue.rules.bodies import CFD, DC, FD, Body, Demand, Inclusion, Key, Kind, Measured, NotNull
from holdstrue.rules.terms import (
    All,
    Any,
    Column,
    Comparison,
    Condition,
    Constant,
    IsNull,
    Length,
    Matches,
    Not,
    Pattern,
    Predicate,
    Read,
    Scalar,
    Source,
    Var,
    columns_of,
    number_as_written,
    reads_of,
)

__all__ = [
    "CFD", "DC", "FD", "All", "Any", "Body", "Column", "Comparison", "Condition", "Constant", "Demand", "Inclusion",
    "IsNull", "Key", "Kind", "Length", "Matches", "Measured", "Not", "NotNull", "Op", "Pattern", "Predicate", "Rule",
    "RuleSet", "Scalar", "Severity",
    "Source", "Tolerance", "Var", "columns_of", "number_as_written",
]  # fmt: skip

Severity: TypeAlias = Literal["error", "warn"]


@dataclass(frozen=True)
class Tolerance:
    """How many violating rows are still accepted: a count, or a share of the table's rows."""

    count: int | None = None
    share: Decimal | None = None


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
        return self.body.kind

    @property
    def text(self) -> str:
        """The body as rule text, which parses back to the same body.

        Examples
        --------
        >>> Rule(FD(("zip",), ("city", "state")), "zips").text
        'zip -> city, state'
        """
        return self.body.text

    @property
    def own_table(self) -> str | None:
        """The table whose rows can violate the rule, where it names one."""
        return self.body.own_table or self.table

    def reads(self) -> Iterator[Read]:
        """The columns of its own table, with what they are compared with: those of the body, then of the filter."""
        yield from self.body.reads()
        yield from reads_of(self.where)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its own table, in order of appearance.

        Examples
        --------
        >>> Rule(FD(("zip",), ("city",)), "zips", where=IsNull("gone")).columns
        ('zip', 'city', 'gone')
        """
        return tuple(dict.fromkeys(name for read in self.reads() for name in read.columns))


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
