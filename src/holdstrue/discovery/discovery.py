"""A discovery: the rules found in some tables, kept current for every batch of changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from threading import RLock
from typing import Any, TypeVar, cast

import pyarrow as pa

from holdstrue.closing import Closing
from holdstrue.data.notes import Notes
from holdstrue.detect.engine import Incoming
from holdstrue.detect.resolve import OnConflict
from holdstrue.discovery.column_kind import ColumnKind
from holdstrue.discovery.found import NO_VALUES, Died, FoundRule, NearMiss, NearMisses, RuleChanges
from holdstrue.discovery.held import Held
from holdstrue.discovery.kinds import Kind, families_of, load_kinds, restore_kinds
from holdstrue.discovery.nearly import nearly_holding
from holdstrue.discovery.options import OPTIONS, DiscoveryOptions
from holdstrue.discovery.state import HISTORY, batches_of, cores_of, restore_rows, write_all, write_line
from holdstrue.discovery.suspects.answer import Suspects
from holdstrue.discovery.suspects.held import suspects_of
from holdstrue.discovery.work import Work
from holdstrue.errors import DataError, HoldstrueError, StateError
from holdstrue.monitor.check import check
from holdstrue.monitor.format_1 import is_format_1, living_rows
from holdstrue.rules.model import DC, FD, Body, Column, Inclusion, Key, Op, Rule, RuleSet, Tolerance
from holdstrue.rules.types import Types
from holdstrue.shards.facts import batch_name, types_for_batch
from holdstrue.sources.feeds import read_changes
from holdstrue.state.journal import Journal
from holdstrue.state.moment import Given, Moment, at_of
from holdstrue.state.schema_text import schema_of, schema_text
from holdstrue.state.shape import DIGEST, require
from holdstrue.tabular import PlanText, Tabular

HANDFUL = 10
"""Pairs, rows or values that break a near miss at most."""
NEAR_SECONDS = 10.0
"""Time for the near misses of a kind of rules, which nobody asked for by name. Chosen, not tuned."""
LATE = 0.03
"""The share of the budget that each look at what nearly holds may take when the search has used it up."""
ENDED = 20
"""Rules that died last and are remembered by name, with what broke them; how many each batch ended is always known."""

F = TypeVar("F", bound=Callable[..., Any])


def _alone(method: F) -> F:
    """A method during which other threads wait with theirs."""

    @wraps(method)
    def held(self: Discovery, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("F", held)


class Discovery(Closing, Tabular):
    """Rules found by `discover`, ranked, and kept current by `apply`.

    Several threads may use one discovery: batches are applied one after the other, and every answer is of one version.

    Examples
    --------
    >>> import holdstrue, pyarrow as pa
    >>> zips = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "2"], "city": ["Bonn", "Bonn", "Ulm"]})
    >>> found = holdstrue.discover(zips, kinds=("fd",), key="id")
    >>> "zip -> city" in [rule.text for rule in found]
    True
    >>> changes = found.apply(pa.table({"id": [4], "zip": ["1"], "city": ["Köln"]}))
    >>> [(died.text, died.rows) for died in changes.died if died.text == "zip -> city"]
    [('zip -> city', (2, 4))]
    """

    def __init__(self, held: Held, kinds: Mapping[str, Kind], options: DiscoveryOptions) -> None:
        self._lock = RLock()
        self._held = held
        self._kinds = dict(kinds)
        self.options = options
        self._journal: Journal | None = None
        self._ids: set[str] = set()
        self._batches = 0
        self._past: list[dict[str, Any]] = []
        """The history of a state that was only read."""
        self._ended: list[dict[str, Any]] = []
        self._found: list[FoundRule] | None = None
        self._nearly: list[FoundRule] | None = None
        self._broken = False
        self.types: Types = ()
        """The declared types of columns, which batches are read with too."""
        self.moment: Moment | None = None
        """Which earlier version of its state was asked for, and of when it is."""
        self._read_only = False
        self._stale = False
        """It is kept in a format that only rows could be read of, so that the next batch must write everything."""
        self.until: float | None = None
        """When the time of the search ends, as `time.monotonic()` tells it; None once a batch was applied."""
        self.notes: tuple[str, ...] = ()
        """What there is to know about how the data was read."""

    # --- reading -------------------------------------------------------------------------------

    @property
    @_alone
    def rules(self) -> list[FoundRule]:
        """The minimal rules now, best first, also those that others imply."""
        if self._found is None:
            everything = [found for kind in self._kinds.values() for found in kind.found()]
            # a key or an FD is a denial constraint too, and is said once, in the shorter form
            told: dict[tuple[str | None, Any], FoundRule] = {}
            for found in everything:
                told.setdefault((found.table, _meaning(found.body)), found)
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
    @_alone
    def best(self) -> list[FoundRule]:
        """One list, the best first: rules that no others imply, and FDs and orders that some rows break.

        The latter say their `error`, and are looked for where FDs are and no error is allowed anyway (see `nearly`).
        """
        return sorted([*self.telling, *self.nearly()], key=lambda found: (-found.score, len(found.text), found.text))

    @_alone
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

    @_alone
    def __repr__(self) -> str:
        rows = ", ".join(f"{name} {count:,} rows" for name, count in self._held.counts().items())
        partly = "" if self.complete else ", stopped before the end"
        return f"Discovery({len(self.rules)} rules in {rows}{partly})"

    @_alone
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
    @_alone
    def complete(self) -> bool:
        """Whether every rule was found; False where time or size was limited."""
        return all(kind.complete for kind in self._kinds.values())

    @property
    @_alone
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
            left = max(self.until - time.monotonic(), LATE * budget)
            seconds = left if seconds is None else min(seconds, left)
        return Work.lasting(seconds, threads=self.options.threads)

    @_alone
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

    @_alone
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

    @_alone
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

    @_alone
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

    @_alone
    def explain(self) -> PlanText:
        """How each kind of rule is kept current."""
        return PlanText("\n".join(f"{name}: {kind.explain()}" for name, kind in self._kinds.items()))

    @_alone
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

    # --- changing ------------------------------------------------------------------------------

    @_alone
    def apply(
        self,
        changes: Any,
        *,
        batch_id: str | int | None = None,
        on_conflict: OnConflict = "error",
        feed: str = "auto",
        op_column: str | None = None,
        types: Mapping[str, str] | None = None,
        **read: Any,
    ) -> RuleChanges:
        """Apply one batch, whole or not at all, and say which rules died and which were born.

        Parameters
        ----------
        changes
            Rows, a file, or a change feed (see `read_changes`); a mapping from table name to such for
            several tables. Rows of a table without a key are deleted by giving all their values.
        batch_id
            Names the batch. A batch whose id was applied before changes nothing.
        types
            How this batch writes columns whose types are known.
        """
        if self._read_only:
            raise StateError(
                "the discovery was opened read-only", hint="open it without read_only=True and at= to apply changes"
            )
        if self._broken:
            raise StateError(
                "an earlier batch stopped half-way in memory",
                hint="discover anew"
                if self._journal is None
                else "open the state again: its history says whether that batch is in",
            )
        batch = batch_name(batch_id, self._batches)
        if batch_id is not None and self._seen(batch):
            return RuleChanges(batch, rules=len(self.rules), duplicate=True)
        tables = list(self._held.keys)
        named = isinstance(changes, Mapping) and not hasattr(changes, "__arrow_c_stream__")
        parts = changes if named else {tables[0]: changes}
        held, notes = self._held, Notes()
        _, declared = types_for_batch(RuleSet((), types=self.types), tables[0], held.keys, held.schemas, types)
        incoming = {}
        for name, part in parts.items():
            if name not in self._held.keys:
                raise HoldstrueError(f"no table {name!r} in this discovery", hint=f"it has {', '.join(tables)}")
            key, schema = self._held.keys[name], self._held.schemas[name]
            if not key and feed not in ("auto", "append", "ops"):
                raise HoldstrueError(f"a feed of {feed} for a table without a key", hint="discover with key=...")
            how: dict[str, Any] = {**read, "types": declared[name], "notes": notes}
            known = read_changes(part, key=key, schema=schema, feed=feed, op_column=op_column, extra="ignore", **how)
            incoming[name] = self._held.resolve(name, known, on_conflict)
        return replace(self._run(batch, incoming), notes=tuple(notes))

    def _run(self, batch: str, incoming: Mapping[str, Incoming]) -> RuleChanges:
        before = {(found.table, found.body): found for found in self.rules}
        self._broken = True
        ends = self._follow(self._held.apply(incoming))
        after = {(found.table, found.body): found for found in self.rules}
        died = tuple(
            # its core still has a rule that it does not say died: those on a column without any value are not shown
            self._named(ends.get((table, body), Died(body, (), table, why=NO_VALUES)))
            for table, body in before
            if (table, body) not in after
        )
        born = tuple(found for place, found in after.items() if place not in before)
        self._batches += 1
        self._ended = [*self._ended, *map(partial(_ending, batch), died)][-ENDED:]
        if self._journal is None:
            self._ids.add(batch)
        else:
            line = {"batch": batch, "died": len(died), "born": len(born), "rules": len(after)}
            if self._stale:
                self._write_all(self._journal, [line])
            else:
                facts = {"ended": self._ended} if died else {}
                write_line(self._journal, self._held, incoming, line, self._snapshots, facts)
        self._broken = False
        exact = not self.options.error and self.options.confidence == 1
        how = self.explain()
        return RuleChanges(batch, died, born, len(after), how=how, nulls=self.options.nulls, exact=exact)

    def _follow(self, batches: Any) -> dict[tuple[str | None, Body], Died]:
        self._found = self._nearly = self.until = None
        return {(died.table, died.body): died for kind in self._kinds.values() for died in kind.apply(batches)}

    def _named(self, died: Died) -> Died:
        """With the rows that break it as people know them."""
        table = died.body.table if isinstance(died.body, Inclusion) else died.table
        return replace(
            died, rows=self._held.named(table or next(iter(self._held.keys)), died.rows) if died.rows else ()
        )

    # --- keeping -------------------------------------------------------------------------------

    @_alone
    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep the discovery in a state directory, where every batch from now on is durable."""
        journal = Journal.create(path, "discovery", HISTORY)
        try:
            self._write_all(journal, [])
        except BaseException:
            journal.close()
            raise
        self._journal = journal

    @_alone
    def renew(self) -> None:
        """Write everything anew, where it is kept in an earlier format."""
        if self._journal is not None and self._stale:
            self._write_all(self._journal, [])

    def _write_all(self, journal: Journal, lines: Sequence[Mapping[str, Any]]) -> None:
        about = {
            "options": self.options.to_dict(),
            "schemas": {name: schema_text(schema) for name, schema in self._held.schemas.items()},
            "keys": {name: list(key) for name, key in self._held.keys.items()},
            "types": dict(self.types),
        }
        table = pa.Table.from_pylist([dict(line) for line in lines], schema=HISTORY.schema)
        write_all(journal, self._held, self._snapshots(), table, {"discovery": about, "ended": self._ended})
        self._stale = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False, at: Given | None = None) -> Discovery:
        """Go on with a discovery that was kept. Complexity: O(batches since the last checkpoint).

        Parameters
        ----------
        at
            An earlier version, as far as it is kept, which can only be read: as for `Monitor.open`.
        """
        read_only = read_only or at is not None
        journal = Journal.open(path, "discovery", HISTORY, read_only=read_only, at=None if at is None else at_of(at))
        try:
            held, options = journal.read(_told)
            about = journal.facts["discovery"]
            if is_format_1(journal.facts):
                # nothing but its rows can be read: the rules are searched anew
                held.load(living_rows(journal.files, journal.runs, held.engine))
                work = Work.lasting(options.budget, threads=options.threads)
                found = cls(held, load_kinds(held, options, work), options)
                found._stale = True
            else:
                found = cls._restored(journal, held, options)
            found.types = tuple(about.get("types", {}).items())
            found._batches = journal.committed
            found.moment = None if at is None else journal.moment
            found._read_only = read_only
            found._journal = None if read_only else journal
            found._past = journal.history().to_pylist() if read_only else []
            found._ended = list(journal.facts.get("ended", []))
        except BaseException:
            journal.close()
            raise
        if read_only:
            journal.close()
        return found

    @classmethod
    def _restored(cls, journal: Journal, held: Held, options: DiscoveryOptions) -> Discovery:
        restore_rows(journal, held)
        cores = cores_of(journal, families_of(options))
        found = cls(held, restore_kinds(held, options, cores), options)
        journal.files.verified()
        for file, incoming in batches_of(journal, held):
            try:
                found._follow(held.again(incoming))
            except (DataError, StateError) as error:
                raise journal.files.damaged(file, error.message) from error
        return found

    def _seen(self, batch: str) -> bool:
        return batch in self._ids if self._journal is None else self._journal.seen(batch)

    @_alone
    def history(self) -> list[dict[str, Any]]:
        """What each batch did to the rules, oldest first; of a discovery that is kept in a directory."""
        lines: list[dict[str, Any]] = self._past if self._journal is None else self._journal.history().to_pylist()
        return lines

    @property
    def batches(self) -> int:
        """How many batches there were."""
        return self._batches

    @_alone
    def ended(self) -> list[dict[str, Any]]:
        """The rules that died last, oldest first, up to `ENDED`: batch, table, rule, why, and some of what broke it."""
        return list(self._ended)

    @_alone
    def close(self) -> None:
        """Let go of the state directory."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _snapshots(self) -> dict[str, Any]:
        return {name: kind.snapshot() for name, kind in self._kinds.items()}


SHAPE = {
    "discovery": {
        "options": {**OPTIONS, "digest": DIGEST},
        "schemas": {str: str},
        "keys": {str: [str]},
        "types?": {str: str},
    },
    "ended?": [{"batch": str, "table": (str, None), "rule": str, "why": str, "by": [str]}],
}
"""The shape of a discovery's manifest."""


def _ending(batch: str, died: Died) -> dict[str, Any]:
    """A rule that died, as it is remembered."""
    by = [str(one) for one in (died.rows or died.values)[:2]]
    return {"batch": batch, "table": died.table, "rule": died.text, "why": died.why, "by": by}


def _told(facts: Mapping[str, Any]) -> tuple[Held, DiscoveryOptions]:
    """What a state says of its tables, as yet without rows, and of what is looked for."""
    require(facts, SHAPE)
    about = facts["discovery"]
    schemas = {name: schema_of(text) for name, text in about["schemas"].items()}
    options = DiscoveryOptions.of(about["options"])
    keys = {name: tuple(key) for name, key in about["keys"].items()}
    for name, key in keys.items():
        if not {*key} <= {*schemas[name].names}:
            raise ValueError(f"table {name!r} has no columns {', '.join(key)}")
    return Held(schemas, keys, options.seed), options


def _meaning(body: Body) -> Any:
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
