"""A site's state directory: a journal whose batches are committed in two steps.

`prepare` writes a batch's run, which nothing names yet; `commit` creates the manifest that names it. A crash
between the two leaves the site before the batch, one after it leaves the site after it, with the batch's
messages and findings on record: other sites that missed the commit get them again when the batch is repeated.
The columns of sites and their types are known before anything is loaded.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from holdstrue.data.seed import Seed
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.fragments.batch_record import BatchRecord
from holdstrue.fragments.fragment_layout import FragmentLayout, Site
from holdstrue.fragments.indexed_rows import IndexedRows
from holdstrue.fragments.shipping_plan import ShippingPlan
from holdstrue.fragments.site_checkpoint import BESIDE_FROM, PATIENCE, SiteCheckpoint
from holdstrue.fragments.site_runs import record_of, restored, write_record, write_rows
from holdstrue.fragments.site_spec import SHAPE, SiteSpec
from holdstrue.sources.read import schema_of as source_schema
from holdstrue.state.journal import (
    BATCHES,
    COLLECT_EVERY,
    Journal,
    Written,
    facts_of,
    has_state,
)
from holdstrue.state.manifest import RunFile
from holdstrue.state.schema_text import schema_of, schema_text

StatePath = str | os.PathLike[str]


class SiteState:
    """Writes and reads the state directory of one site."""

    def __init__(self, journal: Journal, spec: SiteSpec) -> None:
        self._journal = journal
        self._spec = spec
        self._beside: SiteCheckpoint | None = None
        self._in_place = False
        """Whether a checkpoint could not be written beside the work: the next one says why, or is written."""

    @staticmethod
    def at(path: StatePath, spec: SiteSpec) -> SiteState:
        """The state at a place, which must be for the same part of the same relation; a new one where there is none."""
        if not SiteState.exists(path):
            return SiteState(Journal.create(path, "site"), spec)
        journal = Journal.open(path, "site")
        if journal.facts.get("shape") != SHAPE:
            shape = journal.facts.get("shape", 1)
            journal.close()
            raise StateError(
                f"{path} is the state of a site in shape {shape} of another version; this one reads {SHAPE}",
                hint="load the relation anew into empty directories: holdstrue fragments init FILE",
            )
        if journal.facts.get("site") != spec.fingerprint():
            journal.close()
            raise StateError(
                f"{path} is the state of another site, or was made for other rules, columns or sites",
                hint="open it with the declaration it was made with, or load the relation anew elsewhere",
            )
        return SiteState(journal, spec)

    @staticmethod
    def exists(path: StatePath) -> bool:
        """Whether there is a state that a batch was committed to."""
        return has_state(path)

    @staticmethod
    def declared(path: StatePath) -> pa.Schema:
        """The columns that the site's source had when the state was made."""
        return facts_of(path, "site", lambda facts: schema_of(str(facts["schema"])))

    def restore(self, indexed: IndexedRows) -> BatchRecord | None:
        """Bring what is held to the state on disk; returns the last batch. Complexity: O(rows since the checkpoint)."""
        return restored(self._journal.files, self._journal.runs, indexed)

    @property
    def journal(self) -> Journal:
        """The versions of the state."""
        return self._journal

    @property
    def last(self) -> str | None:
        """The last batch that was committed."""
        runs = self._journal.runs
        if not runs.log and not runs.base:
            return None
        told = self._journal.facts.get("last")
        if told is not None:
            return str(told)
        return record_of(self._journal.files, runs.log[-1] if runs.log else runs.base["last"], self._spec).batch

    @property
    def count(self) -> int:
        """How many batches were committed."""
        return self._journal.committed

    def seen(self, batch: str) -> bool:
        """Whether a batch was committed."""
        return self._journal.seen(batch)

    def prepare(self, record: BatchRecord) -> Written:
        """Write a batch. Complexity: O(batch)."""
        journal, line = self._journal, self._journal.line(record.batch)
        written = journal.write_batch(record.tables(), record.ids.size, line, self._facts(record.batch), apart=True)
        # now and then, what batches that were given up have written is removed; nobody names a checkpoint under way yet
        return replace(written, frees=self._beside is None and written.version % COLLECT_EVERY == 0)

    def prepare_load(self, record: BatchRecord, indexed: IndexedRows) -> Written:
        """Write what a first load, or a batch that starts over, made, and what there is to say of it.

        Complexity: O(rows).
        """
        if self._beside is not None:
            self._beside.wait()  # nobody will name its files
            self._beside = None
        files, version = self._journal.files, self._journal.version + 1
        base = write_rows(files, version, indexed)
        return self.prepared(record.batch, write_record(files, version, record), indexed.rows.living, base)

    def prepared(self, batch: str, run: RunFile, rows: int, base: Mapping[str, RunFile]) -> Written:
        """A batch that a task has written, or a checkpoint after it (`base`)."""
        journal, facts = self._journal, self._facts(batch)
        if base:
            return journal.write_checkpoint({**base, "last": run}, journal.line(batch), facts)
        written = journal.write_batch([], rows, journal.line(batch), facts, run=run)
        return replace(written, frees=written.version % COLLECT_EVERY == 0)

    def _facts(self, batch: str) -> dict[str, Any]:
        spec = self._spec
        facts: dict[str, Any] = {
            "digest": spec.seed.to_dict(),
            "site": spec.fingerprint(),
            "shape": SHAPE,
            "schema": schema_text(spec.declared or spec.schema),
            "last": batch,
        }
        if "plan" not in self._journal.facts:
            # a solver with a time limit may find another one next time
            facts["plan"] = {"how": spec.how, **(spec.whole or spec.plan).to_fact()}
            facts["parts"] = spec.plan.parts
        return facts

    def commit(self, prepared: Written) -> None:
        """Name what was written, in one step."""
        self._journal.commit(prepared)

    def tidy(self, indexed: IndexedRows) -> None:
        """Have a checkpoint written when the batches since the last one are many. Complexity: O(1), seldom O(rows)."""
        journal, rows = self._journal, indexed.rows.living
        if self._beside is not None:
            if self._beside.running and not journal.runs.due(0, rows, patience=PATIENCE):
                return
            self._finish(self._beside)
        elif journal.runs.due(0, rows) and (rows < BESIDE_FROM or self._in_place or not self._start()):
            self._write(indexed)

    def _start(self) -> bool:
        """Begin a checkpoint of this version; whether there is a thread for it."""
        journal = self._journal
        try:
            self._beside = SiteCheckpoint(journal.files.place, self._spec, journal.mark(), journal.runs.log[-1])
        except RuntimeError:
            return False
        return True

    def _finish(self, beside: SiteCheckpoint) -> None:
        """Take over a checkpoint that is written, or soon will be."""
        beside.wait()
        self._beside = None
        self._in_place = beside.base is None
        if beside.base is not None:
            self._journal.commit(self._journal.rebase(beside.base, beside.mark, {}))

    def _write(self, indexed: IndexedRows) -> None:
        journal = self._journal
        # the last batch stays readable: another site may still have to ask for it
        base = {**write_rows(journal.files, journal.version + 1, indexed), "last": journal.runs.log[-1]}
        journal.commit(journal.write_checkpoint(base, BATCHES.schema.empty_table(), {}))
        self._in_place = False

    def close(self) -> None:
        """Let go of the directory, when a checkpoint that is being written is done."""
        try:
            if self._beside is not None:
                self._finish(self._beside)
        except (OSError, StateError) as error:
            # every batch is committed: whoever applied the last one must not take this for an error of its
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        finally:
            self._journal.close()


def shared_seed(paths: Iterable[StatePath]) -> Seed:
    """The seed of the ids in the states of a relation's sites; a new one where none has a state yet."""
    seeds = {
        path: facts_of(path, "site", lambda facts: Seed.of(facts["digest"])) for path in paths if SiteState.exists(path)
    }
    if len(set(seeds.values())) > 1:
        raise StateError(
            f"the states {', '.join(str(path) for path in seeds)} were not made together: their ids differ",
            hint="bring back the states that belong together, or load the relation anew into empty directories",
        )
    return next(iter(seeds.values()), Seed.new())


def kept_plan(paths: Iterable[StatePath], how: str) -> ShippingPlan | None:
    """The plan that the states of a relation's sites were made with, if it was asked for in the same way."""

    def read(facts: Mapping[str, Any]) -> ShippingPlan | None:
        fact = facts.get("plan")
        return None if fact is None or fact["how"] != how else ShippingPlan.of_fact(fact)

    found = (facts_of(path, "site", read) for path in paths if SiteState.exists(path))
    return next((plan for plan in found if plan is not None), None)


def site_schema(site: Site, given: pa.Schema | Mapping[str, pa.Schema] | None) -> pa.Schema:
    """The columns of a site: as they are given, as its state or its source has them."""
    if isinstance(given, Mapping):
        return given[site.name]
    if site.state is not None and SiteState.exists(site.state):
        return SiteState.declared(site.state)
    if site.source is not None:
        return source_schema(site.source, **{name: value for name, value in site.read.items() if name != "null_values"})
    if given is not None:
        return given
    raise HoldstrueError(
        f"the types of the columns of site {site.name!r} are not known",
        hint="name its source in the file (source: s1.csv), in Python also schema=",
    )


def widest(types: Sequence[pa.DataType]) -> pa.DataType:
    """A type that holds the values of all sites, which are known to compare."""
    try:
        schemas = [pa.schema([("column", data_type)]) for data_type in types]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return types[0]


def column_types(layout: FragmentLayout, schemas: Mapping[str, pa.Schema]) -> dict[str, list[pa.DataType]]:
    """By column its types at the sites that hold it."""
    found: dict[str, list[pa.DataType]] = {}
    for site in layout.sites:
        for name in site.columns or ():
            if name not in schemas[site.name].names:
                raise HoldstrueError(
                    f"site {site.name!r} has no column {name!r}",
                    hint=f"its columns are {', '.join(schemas[site.name].names)}",
                )
            found.setdefault(name, []).append(schemas[site.name].field(name).type)
    return found
