"""Minimal denial constraints of a data frame: candidates of a sample, verified by a check on Spark.

The hybrid of Hydra and of paper 001: evidences of sampled pairs give a cover, candidates of it are verified on the
sample and then on all rows, and two rows that break a candidate extend the cover, until nothing changes. The driver
holds the sample, the cover and the rows that broke candidates; measures are those of the sample.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from holdstrue.discovery.bitsets import keys, without
from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.cover import Cover, CoverSearch, minimal_among
from holdstrue.discovery.denials.denial_core import MOST_RULES
from holdstrue.discovery.denials.evidence import evidence_within
from holdstrue.discovery.denials.measures import ColumnFacts, DenialRule, Measures
from holdstrue.discovery.denials.pair_words import PairWords
from holdstrue.discovery.denials.space import Space, canonical, canonical_each, shown
from holdstrue.discovery.inclusions.attributes import Attribute
from holdstrue.discovery.options import DiscoveryOptions, exact
from holdstrue.discovery.per_table import MOST_COLUMNS, DenialKind
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.errors import DataError, StateError
from holdstrue.monitor.check import check as check_here
from holdstrue.rules.model import DC, Rule, RuleSet
from holdstrue.spark.checking import check
from holdstrue.spark.discovering.bounded_jobs import ANSWER, collected, in_time, most_bytes
from holdstrue.spark.discovering.frame_inclusions import ValueJobs
from holdstrue.spark.runner import SparkRunner
from holdstrue.spark.tables import rows_with_keys
from holdstrue.typing import I64, U64

COMPARED = 2000
"""Rows of the sample of which all pairs are compared, as in one process (`probing_way.SAMPLE_ROWS`)."""

SAMPLED = 1 << 15
"""Rows of the sample on which candidates are verified first. Chosen, not tuned."""

ROUND = 64
"""Candidates that one check on Spark verifies. Chosen, not tuned."""


class FrameDenials:
    """All minimal denial constraints of a data frame."""

    def __init__(self, runner: SparkRunner, frame: DataFrame, rows: int, options: DiscoveryOptions, work: Work) -> None:
        if options.error:
            raise DataError(
                "denial constraints with exceptions need the counts of all pairs, and the rows stay on Spark",
                hint="look for those without exception, or for FDs: kinds='fd'; or give whole= for a table that fits",
            )
        self._runner, self._frame, self._rows, self.options = runner, frame, rows, options
        self.complete = False
        self.jobs = self.verified = 0
        self._cover = Cover(np.zeros((0, 1), dtype=np.uint64), complete=False)
        self._weights: tuple[U64, I64] = np.zeros((0, 1), dtype=np.uint64), np.zeros(0, dtype=np.int64)
        self.space: Space | None = None
        try:
            self.space = self._chosen_space(work)
            self._found = _Evidences(self.space)
            self._find(rows, work)
        except OutOfTimeError:
            self.complete = False

    @property
    def length(self) -> int | None:
        """Up to which length all rules were found, as far as is known; None: all there are."""
        return None if self.complete else 0

    def _chosen_space(self, work: Work) -> Space:
        """The space of one process: columns are compared across that share enough values in all rows."""
        options = self.options
        if len(self._frame.columns) > MOST_COLUMNS:
            options = replace(options, cross=False)
        schema = self._runner.schema(self._frame)
        jobs = ValueJobs(self._runner, {"": self._frame}, {"": self._rows}, "types", options.seed)

        def sharing(names: list[str]) -> list[tuple[str, str]]:
            if len(names) < 2:
                return []
            counted = jobs.shared([Attribute("", (name,)) for name in names], work)
            totals = np.diagonal(counted.rows)
            least = exact(options.shared)
            maxima = totals[:, None] + totals[None, :] - counted.least
            return [
                (names[i], names[j])
                for i in range(len(names))
                for j in range(i + 1, len(names))
                if maxima[i, j] and int(counted.least[i, j]) >= least * int(maxima[i, j])
            ]

        return choose_space(schema.empty_table(), options, empty=True, sharing=sharing)

    def _find(self, rows: int, work: Work) -> None:
        frame = self._runner.select(self._frame, list(self._found.space.columns))
        a_row = 16 * len(frame.columns) + 1
        most = min(self.options.sample or SAMPLED, max(2, most_bytes(self._runner, ANSWER) // a_row))
        drawn = frame if rows <= most else frame.sample(fraction=min(1.0, 1.1 * most / rows), seed=0).limit(most)
        table = collected(self._runner, drawn, "a sample of rows", work)
        words, counts = self._found.load(table, min(self.options.sample or COMPARED, COMPARED), work)
        self._weights = words, counts
        search = CoverSearch(self._found.space, self.options.max_predicates, MOST_RULES)
        cover = search.search(self._found.words, work)
        # a small table is its own sample
        settled = self._settled(search, cover, table, rows == table.num_rows, work)
        self._cover, self.complete = settled, settled.complete

    def _settled(self, search: CoverSearch, cover: Cover, table: pa.Table, all_here: bool, work: Work) -> Cover:
        """Verify until every rule holds. Rules that are not verified in time are dropped."""
        found = self._found
        held: U64 = np.zeros((0, found.space.width), dtype=np.uint64)
        while True:
            sets = canonical(found.space, cover.sets)
            pending = without(sets[(sets != 0).any(axis=1)], held)
            if not pending.shape[0]:
                return cover if cover.complete else minimal_among(cover, found.words)
            sizes = np.bitwise_count(pending).sum(axis=1)
            part = np.ascontiguousarray(pending[np.argsort(sizes, kind="stable")[:ROUND]])
            work.tell(held.shape[0] / (held.shape[0] + pending.shape[0]), "verifying rules")
            try:
                broken = self._verify(part, table, all_here, work)
            except OutOfTimeError:
                kept = np.isin(keys(canonical_each(found.space, cover.sets)), keys(held))
                return minimal_among(Cover(cover.sets[kept], complete=False), found.words)
            fell = part[sorted(broken)]
            if not fell.size:
                # those of a round that others broke on the sample have not been verified on all rows
                held = np.concatenate([held, part])
            else:
                cover = search.extended(cover, found.add(np.array(list(broken.values()), dtype=np.int64)))
                if np.isin(keys(fell), keys(canonical(found.space, cover.sets))).any():
                    # such rows cannot be: they would be found again, for ever
                    raise StateError(
                        "rows that break a rule on Spark do not break it here",
                        hint="read the data frame from files that do not change",
                    )

    def _verify(self, sets: U64, table: pa.Table, all_here: bool, work: Work) -> dict[int, tuple[int, int]]:
        """By place the slots of two rows for each set that is broken: of the sample, if it breaks any, else of all."""
        self.verified += len(sets)
        rules = RuleSet(
            tuple(Rule(self._found.space.body(mask), str(i)) for i, mask in enumerate(sets)), nulls=self.options.nulls
        )
        broken: dict[int, tuple[int, int]] = {}
        for i, rule in enumerate(rules):
            work.require_time()
            for violation in check_here(table, replace(rules, rules=(rule,)), limit=1):
                broken[i] = int(violation.t), int(violation.s)
        return broken if broken or all_here else self._verify_on_spark(rules, work)

    def _verify_on_spark(self, rules: RuleSet, work: Work) -> dict[int, tuple[int, int]]:
        """One check of all candidates, and one look at the rows that broke some."""
        frame = self._runner.select(self._frame, list(self._found.space.columns))
        with in_time(self._runner, work), self._runner.about(f"{len(rules)} candidates verified"):
            report = check(frame, rules, limit=1)
            self.jobs += 1
            pairs: dict[int, tuple[Any, Any]] = {}
            for violation in report.found():
                pairs.setdefault(int(violation.rule), (violation.t, violation.s))
            lost = [r.rule.name for r in report.results if r.counts.open and int(r.rule.name) not in pairs]
            for name in lost:
                # what was listed of other rules left no room
                [one] = report.violations(name).limit(1).collect()
                pairs[int(name)] = one["t"], one["s"]
            if not pairs:
                return {}
            [numbered], [key] = report.given.sources.values(), report.given.keys.values()
            wanted = {name for pair in pairs.values() for name in pair}
            rows = rows_with_keys(numbered, key, frame.columns, wanted)
        numbers = rows.column(key[0]).to_pylist()
        slots = dict(zip(numbers, self._found.rows.insert(rows).tolist(), strict=True))
        return {i: (slots[t], slots[s]) for i, (t, s) in pairs.items()}

    # --- what was found --------------------------------------------------------------------------

    def bodies(self) -> tuple[DC, ...]:
        """The rules without measures."""
        return tuple(rule.body for rule in self.rules())

    def rules(self) -> tuple[DenialRule, ...]:
        """The rules, the most interesting first, with the measures of the sample."""
        if self.space is None or not self._cover.sets.size:
            return ()
        sets = shown(self.space, self._cover.sets)
        measures = Measures(self.space, *self._weights, self._found.facts(), sampled=True)
        rules = measures.rules(sets, [0] * len(sets))
        return tuple(sorted(rules, key=lambda rule: (-rule.score, len(rule.body.predicates))))

    def explain(self) -> list[str]:
        """How the rules were found."""
        return [f"candidates of a sample, {self.verified} verified, in {self.jobs} checks on Spark"]


class _Evidences:
    """The sample, and the evidences of its pairs and of those that broke candidates."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.rows = CodedRows(space)
        self.words: U64 = np.zeros((0, space.width), dtype=np.uint64)

    def load(self, table: pa.Table, compared: int, work: Work) -> tuple[U64, I64]:
        """Compare all pairs of some rows, and of others those that are neighbours by a column."""
        slots = self.rows.insert(table)
        chosen = slots[:: max(1, -(-slots.size // compared))]
        found = evidence_within(self.space, self.rows.codes, self.rows.known, chosen, work)
        if not found.complete:
            raise OutOfTimeError
        orders = [slots[np.argsort(codes[slots], kind="stable")] for codes in self.rows.codes] if slots.size > 1 else []
        near = [np.stack([order[:-1], order[1:]], axis=1) for order in orders]
        self.words = found.words
        if near:
            self.add(np.concatenate(near))
        return found.words, found.counts

    def add(self, pairs: I64) -> U64:
        """Take in pairs of slots; their different evidences, in both orders."""
        pairs = np.ascontiguousarray(pairs)
        words, _ = PairWords(self.rows).distinct(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))
        words = np.unique(words, axis=0)
        self.words = np.concatenate([self.words, without(words, self.words)])
        return words

    def facts(self) -> ColumnFacts:
        """What measures have to know of columns, as the sample has it."""
        spread = []
        for i, domain in enumerate(self.space.domains):
            codes = self.rows.codes[i, : self.rows.size][self.rows.known[i, : self.rows.size]]
            whole = domain.kind == "int" and codes.size
            spread.append(float(codes.max()) - float(codes.min()) + 1 if whole else 1.0)
        return ColumnFacts(tuple(domain.kind == "float" for domain in self.space.domains), tuple(spread))


class FrameDenialKind(DenialKind):
    """Minimal denial constraints of data frames."""

    def unlooked(self, core: Any) -> str | None:
        """Exceptions are counted where pairs are."""
        return "not all pairs of rows are counted"
