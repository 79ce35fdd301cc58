"""Rules that Catalyst checks: which they are, the passes that they take, and what these found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from holdstrue.detect.delta import RuleCounts, Violation
from holdstrue.monitor.sharded_check import ROW
from holdstrue.plan.checks import Check, GroupCheck, MeasureCheck, ReferenceCheck, RowCheck
from holdstrue.plan.compile import Plan
from holdstrue.plan.measures import Part
from holdstrue.spark.catalyst.detecting import Detection, Found, Tables, is_native
from holdstrue.spark.catalyst.implied import set_apart
from holdstrue.spark.catalyst.joint import JointGroupings, is_plain, lanes_of
from holdstrue.spark.catalyst.keyed import Keyed
from holdstrue.spark.catalyst.lanes import Inexpressible
from holdstrue.spark.catalyst.left_sides import SharedLeftSide
from holdstrue.spark.catalyst.naming import MOST_NAMED, Naming, groups_for, shares_of, violations_among
from holdstrue.spark.catalyst.pairing import Pairing
from holdstrue.spark.catalyst.references import Referring
from holdstrue.spark.catalyst.sampling import SampledLanes
from holdstrue.spark.footers import footer_rows

LOOKED_UP = 1000
"""Violating groups of a check of which only the rows are grouped when its pairs are counted; of more, all rows are."""
_ALL_LOOKED_UP = 10_000
"""The same of all checks: they are written into the query. Chosen, not tuned."""
GROUPED_FROM = 1_000_000
"""Rows of Parquet from which on keys and FDs are grouped one by one, in bundles, or by left side, and not all in one
scan: 20 rules on 1M rows took 7.0 s of CPU so, 9.3 s in one scan and one more for pairs, and 20 queries by hand 16.9 s;
on 10M rows 23.4 s so and the queries 63.6 s."""


@dataclass(frozen=True)
class Pass:
    """One job: what for, the tables that it reads, each once, and how often rows are shuffled."""

    what: str
    tables: tuple[str, ...]
    shuffles: int

    def __str__(self) -> str:
        scans = f"{len(self.tables)} scan{'s'[: len(self.tables) != 1]}"
        return f"{self.what}: {scans} ({', '.join(self.tables)}), {self.shuffles} shuffles"


@dataclass
class Native:
    """The rules of a plan that Catalyst checks, and what there is to say of each."""

    tables: Tables
    keys: Mapping[str, Sequence[str]]
    rules: list[int] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    counts: dict[int, RuleCounts] = field(default_factory=dict)
    """By rule."""
    parts: dict[int, tuple[Part, ...]] = field(default_factory=dict)
    """By rule about a whole table what is measured."""
    rows: dict[str, int] = field(default_factory=dict)
    named: dict[int, tuple[Violation, ...]] = field(default_factory=dict)
    shares_key: bool | None = None
    """Whether rows share the key that was asked about; None where that was not looked at."""

    @staticmethod
    def of(plan: Plan, frames: Mapping[str, DataFrame], keys: Mapping[str, Sequence[str]]) -> Native:
        """The rules all of whose checks Catalyst can run."""
        tables = Tables(plan, frames)
        able = [is_native(tables, check) for check in plan.checks]
        own = [
            number
            for number in range(len(plan.rules.rules))
            if all(able[at] for at, check in enumerate(plan.checks) if check.rule == number)
        ]
        return Native(tables, keys, own)

    @property
    def checks(self) -> dict[int, Check]:
        """By number the checks of its rules."""
        return {n: check for n, check in enumerate(self.tables.plan.checks) if check.rule in self.rules}

    def run(self, limit: int, key: Mapping[str, Sequence[str]]) -> None:
        """All passes; rules that turn out to need kernels are no longer among `rules`. `key` is to be unique."""
        named = min(limit, MOST_NAMED)
        checks = self.checks
        if len(checks) == 1 and not key:
            [(number, check)] = checks.items()
            if isinstance(check, ReferenceCheck):
                self._refer(number, check, limit)
                return
            if isinstance(check, GroupCheck) and len(check.rhs) <= 1:
                found = self._alone(number, check, named)
                self._count(found)
                self._name(found, limit)
                return
        found = {number: Found() for number in checks}
        first, implied = set_apart(checks, key)
        counted, seen = self._grouped(first, named)
        key = {} if self._is_key_counted(key) else key
        found |= counted | seen
        left = {n: check for n, check in first.items() if n not in counted and n not in seen}
        found |= self._detected(left, limit, key) if left or key else {}
        rest = {n: checks[n] for n, by in implied.items() if not self._holds(by, found)}
        if rest:
            found |= self._detected(rest, limit, {})
        found |= self._paired({n: check for n, check in checks.items() if n not in counted}, found, named)
        self._count(found)
        self._name(found, limit)

    # --- counting ------------------------------------------------------------------------------------------------

    def _holds(self, by: int | None, found: Mapping[int, Found]) -> bool:
        """Whether a key that others follow from holds: that of a check, or with None that of rows."""
        return self.shares_key is False if by is None else not found[by].groups

    def _grouped(self, checks: Mapping[int, Check], most: int) -> tuple[dict[int, Found], dict[int, Found]]:
        """What is found of keys and plain FDs of large tables that are cheaply read again, grouped apart.

        Of the FDs of the second part it is only known which groups violate them.
        """
        rules = {check.rule for check in checks.values() if isinstance(check, RowCheck)}
        own = {
            n: check
            for n, check in checks.items()
            if isinstance(check, GroupCheck) and check.member is None and check.rule not in rules
        }
        tables = dict.fromkeys(check.table for check in own.values())
        self._read_footers(tables)
        counted: dict[int, Found] = {}
        seen: dict[int, Found] = {}
        for table in tables:
            if self.rows.get(table, 0) < GROUPED_FROM:
                continue
            here = {n: check for n, check in own.items() if check.table == table}
            for number, check in here.items():
                if not check.rhs:
                    counted |= self._keyed(number, check, most)
            plain = {n: check for n, check in here.items() if is_plain(check)}
            if len(plain) > 1:
                found, others = self._bundled(table, plain, most)
                counted, seen = counted | found, seen | others
        return counted, seen

    def _bundled(
        self, table: str, checks: Mapping[int, GroupCheck], most: int
    ) -> tuple[dict[int, Found], dict[int, Found]]:
        """What is found of plain FDs: in groupings of several together, then by left side."""
        lanes = {lane for check in checks.values() for lane in lanes_of(self.tables, check)}
        sample = SampledLanes.of(self.tables, table, lanes, self.rows[table])
        joint = JointGroupings.of(self.tables, table, checks, sample, most)
        counted: dict[int, Found] = joint.run() if joint.bundles else {}
        seen: dict[int, Found] = {}
        if joint.bundles:
            said = f"pairs of FDs, in {len(joint.bundles)} grouping{'s'[: len(joint.bundles) != 1]}"
            self.passes.append(Pass(said, (table,) * len(joint.bundles), joint.shuffles))
        left = {n: check for n, check in checks.items() if not any(n in bundle for bundle in joint.bundles)}
        sides = SharedLeftSide.all_of(self.tables, table, left, sample, most, LOOKED_UP)
        for side in sides:
            found, others = side.run()
            counted, seen = counted | found, seen | others
        if sides:
            said = f"FDs by {len(sides)} left side{'s'[: len(sides) != 1]}"
            self.passes.append(Pass(said, (table,) * len(sides), sum(side.shuffles for side in sides)))
        return counted, seen

    def _is_key_counted(self, key: Mapping[str, Sequence[str]]) -> bool:
        """Whether the key of a large table was looked at in a grouping of its own."""
        self._read_footers(key)
        if not key or any(self.rows.get(table, 0) < GROUPED_FROM for table in key):
            return False
        found = []
        for table, columns in key.items():
            check = GroupCheck(-1, table, tuple(columns), (), nulls_equal=True)
            if not is_native(self.tables, check):
                return False
            found.append(self._keyed(-1, check, 0)[-1])
        self.shares_key = any(one.groups for one in found)
        return True

    def _keyed(self, number: int, check: GroupCheck, most: int) -> dict[int, Found]:
        """What is found of one key; the rows of the table are counted if they are not known."""
        keyed = Keyed(self.tables, check, most, self.rows.get(check.table))
        found, rows = keyed.run()
        self.passes.append(Pass("rows of each key", (check.table,), keyed.shuffles))
        self.rows.setdefault(check.table, rows)
        return {number: found}

    def _detected(self, checks: Mapping[int, Check], limit: int, key: Mapping[str, Sequence[str]]) -> dict[int, Found]:
        """What the first pass found of each check."""
        used = {table for check in checks.values() for table in _tables_of(check)} | {*key}
        tables = replace(self.tables, frames={n: f for n, f in self.tables.frames.items() if n in used})
        paired = any(isinstance(check, GroupCheck) and check.rhs for check in checks.values())
        most = min(max(limit, LOOKED_UP if paired else 0), MOST_NAMED)
        self._read_footers(tables.frames)
        try:
            detection = Detection.of(tables, checks, key, most, self.rows)
        except Inexpressible:  # of a key's type; of the checks it is known that Catalyst takes them
            key = {}
            detection = Detection.of(tables, checks, {}, most, self.rows)
        detected = detection.run()
        self.passes.append(
            Pass("which groups violate, rows, keys and references", (*tables.frames,), detection.shuffles)
        )
        self.rows |= {name: detected.rows(name) for name in tables.frames if name not in self.rows}
        if key:
            self.shares_key = any(detected.found(f"key {name}").groups for name in key)
        found = {number: detected.found(number) for number in checks}
        self.parts |= {c.rule: detected.parts(n) for n, c in checks.items() if isinstance(c, MeasureCheck)}
        for number in [n for n, one in found.items() if one.partial]:
            self._leave(checks[number].rule)
        return found

    def _read_footers(self, tables: Iterable[str]) -> None:
        """The rows of large Parquet tables: counted in a scan, all rows would have to leave it."""
        for table in tables:
            rows = None if table in self.rows else footer_rows(self.tables.frames[table])
            if rows is not None:
                self.rows[table] = rows

    def _alone(self, number: int, check: GroupCheck, most: int) -> dict[int, Found]:
        """The only check is a key or an FD with one right-hand column: grouped as in a query by hand."""
        self._read_footers([check.table])
        counted = check.table not in self.rows
        if check.rhs:
            return self._pairs({number: check}, {}, most, {}, counted=counted)
        return self._keyed(number, check, most)

    def _paired(self, checks: Mapping[int, Check], found: Mapping[int, Found], most: int) -> dict[int, Found]:
        """What the second pass finds of FDs that are violated."""
        alone = {checks[n].rule: c for n, c in checks.items() if isinstance(c, RowCheck)}
        open_ = {
            n: check
            for n, check in checks.items()
            if isinstance(check, GroupCheck) and check.rhs and found[n].groups and check.rule in self.rules
        }
        if not open_:
            return {}
        few: dict[int, list[int]] = {}
        left = _ALL_LOOKED_UP
        for n in sorted(open_, key=lambda n: found[n].groups):
            if found[n].groups <= min(LOOKED_UP, left, len(found[n].chosen)):
                few[n] = [group[0] for group in found[n].chosen]
                left -= len(few[n])
        both = {n: alone[check.rule] for n, check in open_.items() if check.rule in alone}
        return self._pairs(open_, both, most, few)

    def _pairs(
        self,
        checks: Mapping[int, GroupCheck],
        alone: Mapping[int, RowCheck],
        most: int,
        groups: Mapping[int, Sequence[int]],
        *,
        counted: bool = False,
    ) -> dict[int, Found]:
        pairing = Pairing(self.tables, checks, alone, most, groups, counted)
        found, rows = pairing.run()
        few, rest = sum(map(len, groups.values())), len(checks) - len(groups)
        of = [f"{few:,} groups that violate"] * bool(groups) + [f"all groups of {rest:,}"] * bool(rest)
        tables = tuple(dict.fromkeys(check.table for check in checks.values()))
        self.passes.append(Pass(f"pairs of FDs, in {' and '.join(of)}", tables, pairing.shuffles))
        if counted:
            self.rows[tables[0]] = rows
        return {number: found.get(number, Found()) for number in checks}

    def _refer(self, number: int, check: ReferenceCheck, limit: int) -> None:
        """The only rule is an inclusion."""
        self._read_footers((check.table, check.ref_table))
        referring = Referring(self.tables, check, self.rows)
        found, self.rows = referring.run()
        self.passes.append(Pass("rows whose value is missing", referring.scanned, 1))
        self._count({number: found})
        share = min(limit, found.rows)
        if share >= MOST_NAMED:
            self._leave(check.rule)
        elif share:
            rule = self.tables.plan.rules.rules[check.rule]
            key = self.keys[check.table]
            columns = [name for name in dict.fromkeys((*key, *rule.columns)) if name != ROW]
            self.passes.append(Pass("rows of violations that are listed", referring.scanned, 1))
            self._list(check.rule, {number: referring.named(columns, share)}, share)

    def _count(self, found: Mapping[int, Found]) -> None:
        checks = self.checks
        for rule in self.rules:
            own = {n: check for n, check in checks.items() if check.rule == rule}
            if any(isinstance(check, MeasureCheck) for check in own.values()):
                continue
            alone = sum(found[n].rows for n, check in own.items() if check.width == 1)
            paired = [found[n] for n, check in own.items() if check.width == 2]
            rows = alone + sum(one.rows - one.both for one in paired)
            pairs = sum(one.pairs for one in paired)
            self.counts[rule] = RuleCounts(rows, pairs, sum(one.groups for one in paired), pairs + alone)

    def _leave(self, rule: int) -> None:
        """Let kernels check a rule after all."""
        self.rules = [other for other in self.rules if other != rule]
        self.counts.pop(rule, None)

    # --- naming --------------------------------------------------------------------------------------------------

    def _name(self, found: Mapping[int, Found], limit: int) -> None:
        """The violations that are listed; rules of which more are asked for than can be chosen are left to kernels."""
        plan = self.tables.plan
        shares = shares_of({rule: counts.open for rule, counts in self.counts.items()}, limit) if limit else {}
        chosen: dict[str, list[tuple[int, int, int, int | None, int]]] = {}
        for rule, share in shares.items():
            own = {n: c for n, c in self.checks.items() if c.rule == rule and (found[n].groups or found[n].rows)}
            picked: list[tuple[int, int, int, int | None, int]] = []
            for number, check in own.items():
                groups = [(0, 0, None)] if isinstance(check, RowCheck) else groups_for(check, found[number], share)
                if groups is None or share >= MOST_NAMED:
                    self._leave(rule)
                    break
                picked += [(number, hi, lo, least, share + 1) for hi, lo, least in groups]
            else:
                chosen.setdefault(plan.checks[next(iter(own))].table, []).extend(picked)
        for table, wanted in chosen.items():
            rows = Naming(self.tables, table, self.keys[table], wanted).rows()
            self.passes.append(Pass("rows of violations that are listed", (table,), 1))
            for rule in dict.fromkeys(plan.checks[number].rule for number, *_ in wanted):
                self._list(rule, {n: t for n, t in rows.items() if plan.checks[n].rule == rule}, shares[rule])

    def _list(self, rule: int, rows: Mapping[int, pa.Table], share: int) -> None:
        plan = self.tables.plan
        [table] = {plan.checks[number].table for number in rows}
        alone = all(isinstance(plan.checks[number], RowCheck | ReferenceCheck) for number in rows)
        own = violations_among(plan, plan.rules.rules[rule], self.keys[table], list(rows.values()), alone, share)
        self.named[rule] = tuple(own)

    def explain(self) -> str:
        """The passes in words, and which rules they serve."""
        names = [repr(self.tables.plan.rules.rules[rule].name) for rule in self.rules]
        return "\n".join([f"Catalyst checks {', '.join(names)}", *(f"  {one}" for one in self.passes)])


def _tables_of(check: Check) -> tuple[str, ...]:
    match check:
        case ReferenceCheck():
            return check.table, check.ref_table
        case MeasureCheck():
            return tuple(measure.table for measure in check.measures)
    return (check.table,)
