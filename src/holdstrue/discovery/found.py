"""Discovered rules as people see them: ranked, with their measures, and near misses with the rows that break them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from holdstrue.discovery.folding import impliers
from holdstrue.rules.model import Body, Inclusion, Rule
from holdstrue.tabular import Tabular

if TYPE_CHECKING:
    import pyarrow as pa


class _Said:
    """A rule in words."""

    body: Body

    @property
    def text(self) -> str:
        """The rule as text that `check` accepts."""
        return self.body.text

    @property
    def kind(self) -> str:
        """key, fd, cfd, dc, inclusion, or column for what is demanded of one column."""
        kind = Rule(self.body, "").kind
        return "column" if kind in ("demand", "not_null") else kind


@dataclass(frozen=True)
class FoundRule(_Said):
    """A rule that holds (or nearly holds, where an error is allowed).

    `score` in [0, 1] ranks rules of all kinds; `measures` says what it is made of. An `implied` rule is minimal,
    but follows from others that were found: from a key, or by transitivity. Text and rule files leave it out.
    """

    body: Body
    score: float
    measures: Mapping[str, float] = field(default_factory=dict)
    table: str | None = None
    implied: bool = False

    @property
    def rule(self) -> Rule:
        """The rule itself, named by its text."""
        table = None if isinstance(self.body, Inclusion) else self.table
        return Rule(self.body, self.text, table=table)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        where = {"table": self.table} if self.table is not None else {}
        kind = "ind" if self.kind == "inclusion" else self.kind
        said = {"words": self.body.words, "implied": self.implied}
        return {"kind": kind, "text": self.text, **where, "score": round(self.score, 4), **said, **dict(self.measures)}


@dataclass(frozen=True)
class NearMiss(_Said):
    """A rule that a handful of rows break: likely errors in the data.

    `rows` are the offenders by key or number (inside of a discovery by slot): pairs for rules of two rows, single
    rows for others; `values` are offending values, for inclusions.
    """

    body: Body
    violations: int
    error: float
    rows: tuple[tuple[Any, ...], ...] = ()
    values: tuple[Any, ...] = ()
    table: str | None = None
    measures: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        found: dict[str, Any] = {"text": self.text, "violations": self.violations, "error": self.error}
        found |= self.measures
        if self.table is not None:
            found["table"] = self.table
        if self.rows:
            found["rows"] = [list(row) for row in self.rows]
        if self.values:
            found["values"] = list(self.values)
        return found


class NearMisses(list[NearMiss], Tabular):
    """Near misses, the best first; `unlooked` says for what they were not looked for, or not all, and why."""

    def __init__(self, misses: Iterable[NearMiss] = (), unlooked: tuple[str, ...] = ()) -> None:
        super().__init__(misses)
        self.unlooked = unlooked

    def to_arrow(self) -> pa.Table:
        """As a table: table, rule, violations, and the rows and values that break it as text."""
        import pyarrow as pa

        return pa.table(
            {
                "table": pa.array([miss.table for miss in self], pa.string()),
                "rule": pa.array([miss.text for miss in self], pa.string()),
                "violations": pa.array([miss.violations for miss in self], pa.int64()),
                "rows": pa.array([[str(row) for row in miss.rows] for miss in self], pa.list_(pa.string())),
                "values": pa.array([[str(value) for value in miss.values] for miss in self], pa.list_(pa.string())),
            }
        )


BROKEN = "broken"
SMALLER = "a smaller rule holds"
NO_VALUES = "no value is left in a column of it"
FEW_ROWS = "fewer than two rows are left"
STOPPED = "the search stopped before it was found again"
A_PART = "a part of it holds no longer"
SEARCHED_AGAIN = "a search of all rows does not find it any more"
TOO_LITTLE = "it holds, but too few rows speak for it, or other rules say more"


@dataclass(frozen=True)
class Died(_Said):
    """A rule that stopped being among the discovered ones, and why.

    A broken one has rows that break it, by key (inside of a discovery by slot). An inclusion has values that the
    other side lacks (a tuple for several columns), `missing` in all, and rows that have them. Without rows and values,
    `why` says what else it is: most often a smaller rule holds, which says more.
    """

    body: Body
    rows: tuple[Any, ...] = ()
    table: str | None = None
    values: tuple[Any, ...] = ()
    missing: int = 0
    why: str = BROKEN


@dataclass(frozen=True)
class RuleTurnover:
    """Rules that a batch ended and rules that it made, as a core says it."""

    died: tuple[Died, ...] = ()
    born: tuple[Body, ...] = ()


@dataclass(frozen=True)
class RuleChanges(Tabular):
    """What a batch did to the discovered rules."""

    batch: str
    died: tuple[Died, ...] = ()
    born: tuple[FoundRule, ...] = ()
    rules: int = 0
    """How many rules there are now."""
    duplicate: bool = False
    """Whether the batch had been applied before and so did nothing."""
    how: str = ""
    """How each kind of rule was followed, and why so."""
    notes: tuple[str, ...] = ()
    """What there is to know about how the batch was read."""
    nulls: Literal["unknown", "equal"] = "unknown"
    exact: bool = True
    """Whether no exceptions to rules are allowed."""

    @cached_property
    def died_from(self) -> tuple[tuple[int, ...], ...]:
        """For each rule that died, the positions of others that died for the same reason and imply it.

        Looked for when first asked, so that a batch does not pay for it. Complexity: that of `impliers`.
        """
        found: list[tuple[int, ...]] = [()] * len(self.died)
        for why in {one.why for one in self.died}:
            same = [at for at, one in enumerate(self.died) if one.why == why]
            placed = [(self.died[at].table, self.died[at].body) for at in same]
            for at, others in zip(same, impliers(placed, nulls=self.nulls, exact=self.exact), strict=True):
                found[at] = tuple(same[other] for other in others)
        return tuple(found)

    @cached_property
    def born_from(self) -> tuple[tuple[int, ...], ...]:
        """For each rule that was born, the positions of others that were born and imply it, as in `died_from`."""
        placed = [(one.table, one.body) for one in self.born]
        return tuple(impliers(placed, nulls=self.nulls, exact=self.exact))

    def to_arrow(self) -> pa.Table:
        """As a table: change (died, born), table, rule and why."""
        import pyarrow as pa

        lines = [("died", one.table, one.text, one.why) for one in self.died]
        lines += [("born", one.table, one.text, "") for one in self.born]
        names = ("change", "table", "rule", "why")
        return pa.table({name: pa.array([line[at] for line in lines], pa.string()) for at, name in enumerate(names)})

    def __repr__(self) -> str:
        return f"RuleChanges(batch={self.batch!r}: -{len(self.died)} died, +{len(self.born)} born, {self.rules} rules)"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data: all rules, with the texts of others of the batch that each follows from."""
        died = [
            {
                "text": one.text,
                **({"table": one.table} if one.table is not None else {}),
                "why": one.why,
                "witness": list(one.rows),
                **({"values": list(one.values), "missing": one.missing} if one.values else {}),
                "follows_from": [self.died[other].text for other in others],
            }
            for one, others in zip(self.died, self.died_from, strict=True)
        ]
        born = [
            found.to_dict() | {"follows_from": [self.born[other].text for other in others]}
            for found, others in zip(self.born, self.born_from, strict=True)
        ]
        return {
            "batch": self.batch,
            "duplicate": self.duplicate,
            "died": died,
            "born": born,
            "rules": self.rules,
            "how": self.how.splitlines(),
            **({"notes": list(self.notes)} if self.notes else {}),
        }
