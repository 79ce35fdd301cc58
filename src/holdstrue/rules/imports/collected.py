"""What is gathered while a file of another tool is read: rules, types, what did not map, and what maps nearly."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from holdstrue.errors import HoldstrueError, RuleError, brief
from holdstrue.operators import Op
from holdstrue.rules.bodies import DC, Body, Demand, NotNull
from holdstrue.rules.condition import parse_condition
from holdstrue.rules.model import Rule, RuleSet, Severity, Tolerance
from holdstrue.rules.parser import parse_rule
from holdstrue.rules.shapes import ShapeError, translated
from holdstrue.rules.terms import (
    All,
    Column,
    Comparison,
    Condition,
    Constant,
    IsNull,
    Matches,
    Not,
    Predicate,
)
from holdstrue.rules.terms import Any as AnyOf
from holdstrue.rules.tokens import name_text

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Unmapped:
    """A test of another tool that is no rule here: where it stands, what it is, and why."""

    place: str
    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}: {self.reason}"


class UnmappedError(HoldstrueError):
    """Raised while one test is read; its message is the reason why it does not map."""


@dataclass
class Collected:
    """The rules of a file so far. Every test is added whole or not at all."""

    tool: str
    rules: list[Rule] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    unmapped: list[Unmapped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What maps, but not to the letter."""
    qualified: frozenset[str] = frozenset()
    """Names that tables of several schemas have, so that those are named with their schema."""

    def miss(self, place: str, what: str, reason: str) -> None:
        """Say that a test does not map."""
        self.unmapped.append(Unmapped(place, what, reason))

    def note(self, place: str, said: str) -> None:
        """Say what a rule that was taken over does otherwise."""
        line = f"{place}: {said}"
        if line not in self.notes:
            self.notes.append(line)

    def ruleset(self) -> RuleSet:
        """The rules as one file: the first table is the main one, rules of others name theirs."""
        tables = list(dict.fromkeys(rule.own_table for rule in self.rules))
        main = tables[0] if tables else None
        rules: list[Rule] = []
        names: dict[str, int] = {}
        for rule in self.rules:
            names[rule.name] = names.get(rule.name, 0) + 1
            name = rule.name if names[rule.name] == 1 else f"{rule.name} #{names[rule.name]}"
            own = None if rule.table == main else rule.table
            rules.append(
                Rule(rule.body, name, rule.description, rule.severity, rule.where, rule.tolerance, own, rule.source)
            )
        types = ((name.removeprefix(f"{main}.") if main else name, text) for name, text in self.types.items())
        return RuleSet(tuple(rules), main, types=tuple(types))


@dataclass(frozen=True)
class ForeignTest:
    """One test of another tool: where it stands, what it is called there, and what is said about all that it makes."""

    into: Collected
    place: str
    table: str | None
    what: str
    severity: Severity = "error"
    where: Condition | None = None
    tolerance: Tolerance | None = None
    description: str = ""
    name: str | None = None

    def add(self, *bodies: Body) -> None:
        """The rules that together say what the test says."""
        rules = []
        for number, body in enumerate(bodies):
            name = self.name or f"{self.place}: {self.what}"
            if len(bodies) > 1:
                name += f" ({number + 1} of {len(bodies)})"
            rule = Rule(body, name, self.description, self.severity, self.where, self.tolerance, self.table)
            try:
                body.normal(None)
            except RuleError as error:
                raise UnmappedError(error.message.splitlines()[0]) from None
            rules.append(rule)
        if len(bodies) > 1 and self.tolerance is not None:
            self.into.note(self.place, f"{self.what} is {len(bodies)} rules here, each with the whole tolerance")
        self.into.rules.extend(rules)

    def add_text(self, *texts: str) -> None:
        """The same of rules that are written in our language; what it has not is listed."""
        bodies = []
        for text in texts:
            try:
                bodies.append(parse_rule(text).body)
            except RuleError as error:
                raise UnmappedError(f"{text} is no rule here: {error.message.splitlines()[0]}") from None
        self.add(*bodies)

    def add_count(self, low: Any, high: Any) -> None:
        """That the table has so many rows at least, and so many at most."""
        bounds = [(">=", low), ("<=", high)] if low != high else [("=", low)]
        texts = [f"count() {op} {need(value, int, 'a number of rows')}" for op, value in bounds if value is not None]
        if not texts:
            raise UnmappedError("it has no bound")
        self.add_text(*texts)

    def add_fresh(self, column: str, op: str, number: int, unit: str) -> None:
        """That the newest value of a column is no older."""
        self.add_text(f"fresh({name_text(column)}) {op} {number} {unit}s")


def taken(test: ForeignTest, add: Any, *given: Any) -> None:
    """Let a function add a test's rules; what it cannot take over is listed with the reason."""
    before = len(test.into.rules)
    try:
        add(test, *given)
    except UnmappedError as error:
        del test.into.rules[before:]
        test.into.miss(test.place, test.what, error.message)


# --- values of foreign files -----------------------------------------------------------------------


def need(value: Any, kind: type[Kind], what: str) -> Kind:
    """A value of this kind, or the reason why the test cannot be read."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise UnmappedError(f"{what} is {brief(value)}")
    return value


def names_of(value: Any, what: str) -> tuple[str, ...]:
    """A column, or a list of different ones."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed or not all(isinstance(one, str) and one for one in listed):
        raise UnmappedError(f"{what} is {brief(value)}, and not the names of columns")
    if len(set(listed)) < len(listed):
        raise UnmappedError(f"{what} names a column twice")
    return tuple(listed)


def constant_of(value: Any) -> Constant:
    """A constant of a rule; NULL and lists are none."""
    if isinstance(value, bool | int | float | str | Decimal | dt.date):
        return Constant(value)
    raise UnmappedError(f"{brief(value)} is no value that rules compare with")


def one_of(column: str, values: Any) -> DC:
    """That a column has one of these values, where it has one."""
    if not isinstance(values, list) or not values:
        raise UnmappedError(f"the values are {brief(values)}")
    return DC(tuple(Predicate(Column("t", column), Op.NE, constant_of(value)) for value in values))


def none_of(column: str, values: Any) -> list[Body]:
    """That a column has none of these values."""
    if not isinstance(values, list) or not values:
        raise UnmappedError(f"the values are {brief(values)}")
    return [compared(column, Op.EQ, value) for value in values]


def compared(column: str, op: Op, value: Any) -> DC:
    """That a column never stands so to a value."""
    return DC((Predicate(Column("t", column), op, constant_of(value)),))


def between(column: str, low: Any, high: Any, *, low_too: bool = True, high_too: bool = True) -> list[Body]:
    """That a column lies between two bounds, of which one may be None."""
    if low is None and high is None:
        raise UnmappedError("it has no bound")
    found: list[Body] = []
    if low is not None:
        found.append(compared(column, Op.LT if low_too else Op.LE, low))
    if high is not None:
        found.append(compared(column, Op.GT if high_too else Op.GE, high))
    return found


def condition_of(text: Any, what: str = "where") -> Condition:
    """A filter that another tool gives to a database, where it is one of ours."""
    said = need(text, str, what)
    if "{{" in said or "{%" in said:
        raise UnmappedError(f"{what} has a template in it: {brief(said)}")
    try:
        return parse_condition(said)
    except RuleError as error:
        raise UnmappedError(f"{what} {brief(said)} is no filter here: {error.message.splitlines()[0]}") from None


def demanded(condition: Condition) -> list[Body]:
    """Rules that together demand a condition of every row; it may also be unknown."""
    match condition:
        case All(operands):
            return [body for operand in operands for body in demanded(operand)]
        case IsNull(column, negated=True):
            return [NotNull((column,))]
    parts = [_opposite(part) for part in (condition.operands if isinstance(condition, AnyOf) else (condition,))]
    known = tuple(part for part in parts if part is not None)
    return [DC(known) if len(known) == len(parts) else Demand(condition)]


def _opposite(condition: Condition) -> Predicate | None:
    match condition:
        case Not(Comparison() as inner):
            return _predicate(inner, inner.op)
        case Comparison():
            return _predicate(condition, condition.op.negated)
    return None


def _predicate(condition: Comparison, op: Op) -> Predicate:
    right = condition.right
    return Predicate(Column("t", condition.column), op, Column("t", right) if isinstance(right, str) else right)


def demanded_shape(column: str, expression: Any) -> Matches:
    """That a regular expression occurs in a column, where engines agree on what it means."""
    shape = need(expression, str, "the regular expression")
    try:
        translated(shape, "re2")
    except ShapeError as error:
        raise UnmappedError(f"in {brief(shape)} {error.message}: {error.hint}") from None
    return Matches(column, shape)


def share_of(mostly: Any) -> Tolerance | None:
    """The share of rows that may be wrong where this share must be right."""
    if mostly is None or mostly == 1:
        return None
    if isinstance(mostly, bool) or not isinstance(mostly, int | float | Decimal) or not 0 <= mostly < 1:
        raise UnmappedError(f"mostly is {brief(mostly)}")
    return Tolerance(share=1 - Decimal(repr(mostly)))


def unread(fields: Mapping[str, Any], known: Iterable[str]) -> str | None:
    """The first field that nobody looked at."""
    seen = set(known)
    return next((str(name) for name in fields if name not in seen), None)


_DECLARED = {
    "integer": ("int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "integer", "bigint",
                "smallint", "tinyint", "longtype", "integertype", "shorttype", "long"),
    "number": ("float", "float16", "float32", "float64", "double", "doubletype", "floattype", "real", "number"),
    "text": ("str", "string", "text", "varchar", "char", "stringtype", "object", "string[python]", "string[pyarrow]"),
    "boolean": ("bool", "boolean", "booleantype"),
    "date": ("date", "datetype"),
    "timestamp": ("datetime64[ns]", "datetime64[us]", "datetime", "timestamp", "timestamptype", "datetime64"),
}  # fmt: skip
"""By declared type what other tools call it."""


def declared_of(name: Any) -> str:
    """The type to declare for what another tool calls a type."""
    word = need(name, str, "the type").strip().lower().removeprefix("pandas.").removesuffix("dtype()")
    found = next((own for own, names in _DECLARED.items() if word in names), None)
    if found is None:
        raise UnmappedError(f"no type here is called {brief(name)}")
    return found
