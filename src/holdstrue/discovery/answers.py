"""What a discovery can be asked: its rules, ranked; what nearly holds; what is probably wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

import pyarrow as pa

from holdstrue.discovery.column_kind import ColumnKind
from holdstrue.discovery.folding import meaning
from holdstrue.discovery.found import FoundRule, NearMiss, NearMisses
from holdstrue.discovery.held import Held
from holdstrue.discovery.kinds import Kind
from holdstrue.discovery.nearly import nearly_holding
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.suspects.answer import Suspects
from holdstrue.discovery.suspects.held import suspects_of
from holdstrue.discovery.work import Work
from holdstrue.errors import HoldstrueError
from holdstrue.monitor.check import check
from holdstrue.rules.model import Rule, RuleSet, Tolerance
from holdstrue.rules.types import Types
from holdstrue.state.moment import Moment
from holdstrue.tabular import PlanText, Tabular

HANDFUL = 10
"""Pairs, rows or values that break a near miss at most."""
NEAR_SECONDS = 10.0
"""Time for the near misses of a kind of rules, which nobody asked for by name. Chosen, not tuned."""
LATE = 0.03
"""The share of the budget that each look at what nearly holds may take when the search has used it up."""

F = TypeVar("F", bound=Callable[..., Any])


def alone(method: F) -> F:
    """A method during which other threads wait with theirs."""

    @wraps(method)
    def held(self: DiscoveryAnswers, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("F", held)


class DiscoveryAnswers(Tabular):
    """What can be asked of rules that were found; every answer is of one version."""

    _lock: RLock
    _held: Held
    _kinds: dict[str, Kind]
    options: DiscoveryOptions
    types: Types
    moment: Moment | None
    until: Work | None
    notes: tuple[str, ...]
    _found: list[FoundRule] | None
    _nearly: list[FoundRule] | None

    @property
    @alone
    def rules(self) -> list[FoundRule]:
        """The minimal rules now, best first, also those that others imply."""
        if self._found is None:
            everything = [found for kind in self._kinds.values() for found in kind.found()]
            # a key or an FD is a denial constraint too, and is said once, in the shorter form
            told: dict[tuple[str | None, Any], FoundRule] = {}
            for found in everything:
                told.setdefault((found.table, meaning(found.body)), found)
            self._found = sorted(told.values(), key=lambda found: (-found.score, len(found.text), found.text))
        return self._found

    @property
    def telling(self) -> list[FoundRule]:
        """The rules that no others imply, best first; of the kinds that were asked for.

        A column that has one value is said as a denial constraint, also where FDs are looked for.
        """
        kinds = set(self.options.kinds)
        return [found for found in self.rules if not found.implied and (found.kind != "dc" or "dc" in kinds)]

    @property
    @alone
    def best(self) -> list[FoundRule]:
        """One list, the best first: rules that no others imply, and FDs and orders that some rows break.

        The latter say their `error`, and are looked for where FDs are and no error is allowed anyway (see `nearly`).
        """
        return sorted([*self.telling, *self.nearly()], key=lambda found: (-found.score, len(found.text), found.text))

    @alone
    def nearly(self) -> list[FoundRule]:
        """FDs that errors alone seem to break, orders inside of their groups, and what few cells of a column break.

        They are looked for in all rows when they are first asked for, and again after a batch.
        """
        if self._nearly is None:
            wanted = "fd" in self.options.kinds and not self.options.error
            found: list[FoundRule] = []
            for name, schema in self._held.searched(self.options.columns).items() if wanted else ():
                rows, _ = self._held.table(name)
                work = self._patience(self.options.budget)
                found += nearly_holding(rows.select(schema.names), self._held.shown(name), work)
            columns = self._kinds.get("columns")
            found += columns.nearly() if isinstance(columns, ColumnKind) else []
            self._nearly = found if "dc" in self.options.kinds else [one for one in found if one.kind != "dc"]
        return self._nearly

    def __iter__(self) -> Iterator[FoundRule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    @alone
    def __repr__(self) -> str:
        rows = ", ".join(f"{name} {count:,} rows" for name, count in self._held.counts().items())
        partly = "" if self.complete else ", stopped before the end"
        return f"Discovery({len(self.rules)} rules in {rows}{partly})"

    @alone
    def to_arrow(self) -> pa.Table:
        """The rules as a table: table, kind, rule, score, words and whether others imply it."""
        found = self.rules
        return pa.table(
            {
                "table": pa.array([rule.table for rule in found], pa.string()),
                "kind": pa.array([rule.kind for rule in found], pa.string()),
                "rule": pa.array([rule.text for rule in found], pa.string()),
                "score": pa.array([rule.score for rule in found], pa.float64()),
                "words": pa.array([rule.body.words for rule in found], pa.string()),
                "implied": pa.array([rule.implied for rule in found], pa.bool_()),
            }
        )

    @property
    @alone
    def complete(self) -> bool:
        """Whether every rule was found; False where time or size was limited."""
        return all(kind.complete for kind in self._kinds.values())

    @property
    @alone
    def complete_up_to(self) -> dict[str, tuple[int, str]]:
        """By kinds of rules that were not all found: up to which length they were, and what that counts.

        `{"denial constraints": (3, "predicates")}` says that all of one, two and three predicates are there; longer
        ones may be among the rules too.
        """
        return {what: length for kind in self._kinds.values() for what, length in kind.up_to().items()}

    def _patience(self, seconds: float | None) -> Work:
        """Work of so many seconds; of what a search that has just ended left of its time, and a little more."""
        budget = self.options.budget
        if self.until is not None and budget is not None:
            left = max(self.until.left, LATE * budget)
            seconds = left if seconds is None else min(seconds, left)
        return Work.lasting(seconds, threads=self.options.threads)

    @alone
    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return self._held.counts()

    def columns(self) -> dict[str, list[str]]:
        """The columns of each table."""
        return {name: list(schema.names) for name, schema in self._held.schemas.items()}

    def ruleset(self, top: int | None = None, *, nearly: bool = False) -> RuleSet:
        """The best rules, none that others imply, for `check` and for a monitor to adopt.

        With `nearly` also those that some rows break. A rule that is broken has a tolerance of as many rows as break it
        now, so that a check of the same table passes.
        """
        chosen = self._tolerant((self.best if nearly else self.telling)[:top])
        tables = list(self._held.keys)
        main = tables[0] if len(tables) == 1 and tables[0] != "data" else None
        key = self._held.keys[tables[0]] if len(tables) == 1 else ()
        return RuleSet(tuple(chosen), table=main, key=key, types=self.types)

    @alone
    def _tolerant(self, found: Sequence[FoundRule]) -> list[Rule]:
        """Rules with the tolerance that the rows there are need."""
        rules = [one.rule for one in found]
        broken = [at for at, one in enumerate(found) if one.measures.get("error") and one.kind != "inclusion"]
        for name in self._held.keys if broken else ():
            mine = [at for at in broken if (rules[at].table or name) == name]
            if mine:
                rows, _ = self._held.table(name)
                checked = check(rows, [replace(rules[at], table=None, name=f"{at}") for at in mine], limit=0)
                for at, result in zip(mine, checked.results, strict=True):
                    if result.counts.rows:
                        rules[at] = replace(rules[at], tolerance=Tolerance(count=result.counts.rows))
        return rules

    @alone
    def near_misses(self, most: int = HANDFUL, kinds: Sequence[str] | None = None) -> NearMisses:
        """Rules that at most so many pairs, rows or values break, with these: likely errors in the data.

        Of all kinds of the discovery, or of these; keys and FDs of up to two columns on the left, inclusions of one
        column that look like foreign keys, and the best denial constraints. `unlooked` of the answer says what was
        not looked for.
        """
        found: list[NearMiss] = []
        unlooked: tuple[str, ...] = ()
        for kind in self._kinds.values():
            if kinds is not None and not set(kind.kinds) & set(kinds):
                continue
            near = kind.near(most, self._patience(NEAR_SECONDS))
            unlooked += near.unlooked
            for miss in near:
                table = miss.table or next(iter(self._held.keys))
                rows = tuple(self._held.named(table, slots) for slots in miss.rows)
                found.append(replace(miss, rows=rows, table=self._held.shown(table)))
        found.sort(key=lambda miss: (-miss.measures.get("score", 0.0), miss.violations, miss.text))
        return NearMisses(found, unlooked)

    @alone
    def suspects(self, *, table: str | None = None) -> Suspects:
        """Cells of a table that are probably wrong, by the rules that its rows speak for (see `holdstrue.suspects`).

        Nothing of it is kept current: every call looks at all rows, for as long as the discovery's budget.
        """
        names = list(self._held.keys)
        name = names[0] if table is None else table
        if name not in names:
            raise HoldstrueError(f"no table {table!r}", hint=f"the tables are {', '.join(names)}")
        rows, _ = self._held.table(name)
        work = Work.lasting(self.options.budget, threads=self.options.threads)
        columns = [column for column in self.options.columns if column in rows.column_names]
        return suspects_of(rows, None, self._held.keys[name], main=name, discover=True, columns=columns, work=work)

    @alone
    def explain(self) -> PlanText:
        """How each kind of rule is kept current."""
        return PlanText("\n".join(f"{name}: {kind.explain()}" for name, kind in self._kinds.items()))

    @alone
    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            **({} if self.moment is None else self.moment.to_dict()),
            "rows": self._held.counts(),
            "complete": self.complete,
            **(
                {"complete_up_to": {what: k for what, (k, _) in self.complete_up_to.items()}}
                if not self.complete
                else {}
            ),
            "rules": [found.to_dict() for found in self.rules[:top]],
            **({"notes": list(self.notes)} if self.notes else {}),
        }
